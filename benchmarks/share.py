"""How fast a stranger is at a verdict, and how large files are (`make bench-share`).

For a test of about 1 MB, in fresh browsers as a stranger's is: seconds from following a link to the verdict
(target: 3), the same for the HTML file from disk, and the bytes that the file adds to its tensors (target: 300 kB, for
every kernel). Prints one JSON line a measurement; exits with 1 where a target is missed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from benchmarks.measured import exit_code, report
from tapml.browsers import options
from tapml.carving.carve import carve
from tapml.importing import import_model
from tapml.server import Server
from tapml.sharing import Repro, export, links, of_suite
from tapml.suite import Suite

TEXT = "A stranger opens a link, and one operator runs once more."
ROUNDS = 5


def nbytes(repro: Repro) -> int:
    """Of all tensors, each once."""
    return sum(len(repro.read(digest)) for digest in repro.digests)


@contextmanager
def fresh_page(name: str) -> Iterator[Page]:
    """A browser that has cached nothing."""
    with sync_playwright() as playwright:
        if name == "chromium":
            arguments = [*options.chromium_arguments(), "--no-sandbox"]
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        else:
            browser = playwright.firefox.launch(
                channel="moz-firefox",
                executable_path="/usr/bin/firefox-esr",
                firefox_user_prefs=options.FIREFOX_PREFERENCES,
            )
        yield browser.new_page()
        browser.close()


def seconds_to_verdict(name: str, url: str) -> float:
    with fresh_page(name) as page:
        started = time.perf_counter()
        page.goto(url)
        page.wait_for_selector("body[data-state=done]", timeout=60_000)
        seconds = time.perf_counter() - started
        if page.locator("body").get_attribute("data-verdict") != "pass":
            raise SystemExit(f"{url} did not pass in {name}")
        return seconds


def measure_files(suite: Suite, folder: Path) -> None:
    first = {test.kernel: test.id for test in reversed(suite.tests)}
    added, slowest = 0, 0.0
    for kernel, test in first.items():
        repro = of_suite(suite, test)
        started = time.perf_counter()
        (path,) = export(repro, "html", folder / f"{kernel}.html")
        slowest = max(slowest, time.perf_counter() - started)
        added = max(added, path.stat().st_size - nbytes(repro))
    report(
        "most bytes beyond the tensors", added / 1000, "kB", 300, kernels=len(first), slowest_export=round(slowest, 2)
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        suite = carve(import_model("minilm", texts=[TEXT]), folder / "minilm.suite", name="minilm")
        measure_files(suite, folder)
        # The one nearest to 1 MB.
        tests = (of_suite(suite, test.id) for test in suite.tests)
        repro = min(tests, key=lambda found: abs(nbytes(found) - 1_000_000))
        (file,) = export(repro, "html", folder / "one.html")
        with Server([suite.path]) as server:
            link = f"{server.url}/s/{links.create(suite.path, repro)[0]}"
            for browser in ("chromium", "firefox"):
                for what, url in (("link", link), ("file", file.as_uri())):
                    seconds = [seconds_to_verdict(browser, url) for _ in range(ROUNDS)]
                    report(
                        f"{what} to verdict in {browser}", statistics.median(seconds), "s", 3,
                        slowest=round(max(seconds), 3), tensors=nbytes(repro), kernel=repro.document.test.kernel,
                    )  # fmt: skip
    return exit_code()


if __name__ == "__main__":
    sys.exit(main())
