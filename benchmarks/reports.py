"""Reports of 10,000 tests: seconds to write them, their sizes, and until the page can be used (`make bench-reports`).

A real suite is validated once, one kernel of it broken; its results are copied, with ids of their own, until there are
enough. Prints one JSON line a measurement; exits with 1 where a target of the project is missed.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.measured import exit_code, report
from tapml.browsers.find import find
from tapml.ci.baseline import Judge
from tapml.ci.document import document, json_text, write_report
from tapml.ci.places import find_places, screenshots
from tapml.ci.plan import plan
from tapml.ci.run import CiRun
from tapml.cli.main import main as tapml
from tapml.reports.html import html
from tapml.reports.junit import junit
from tapml.server import Server
from tapml.validation.events import now

_SECONDS = 5.0


def real_run(folder: Path, devices: list[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The sentence encoder's tests with a wrong layer_norm, judged, and pictures of the devices' pages."""
    path = folder / "minilm.suite"
    if tapml(["carve", "minilm", "--text", "The reports of ten thousand tests.", "-o", str(path)]) != 0:
        sys.exit("the suite could not be carved")
    kernel = path / "kernels" / "layer_norm.wgsl"
    kernel.write_text(kernel.read_text().replace(" + 64i)]", " + 65i)]", 1))
    with Server() as server:
        found = find_places(devices, server.state.device, server.state.blobs, lambda name: None)
        run = CiRun(plan([path]), found, save=False)
        run.run()
        return document(run, Judge(None, datetime.date.today())), screenshots(server.state.processes, found)


def enlarged(found: dict[str, Any], count: int) -> dict[str, Any]:
    """The document with `count` tests: copies in suites of their own."""
    tests: list[dict[str, Any]] = []
    suites: list[dict[str, Any]] = []
    while len(tests) < count:
        suite = {**found["suites"][0], "id": f"suite-{len(suites) + 1}"}
        suites.append(suite)
        for test in found["tests"][: count - len(tests)]:
            tests.append({**test, "suite": suite["id"], "id": f"{suite['id']}.{test['id']}"})
    bad = sum(test["fails_run"] for test in tests)
    summary = {**found["summary"], "total": len(tests), "fails_run": bad, "fail": bad, "pass": len(tests) - bad}
    return {**found, "created": now(), "suites": suites, "tests": tests, "summary": summary}


def timed(name: str, path: Path, make: Callable[[], str | bytes]) -> float:
    started = time.perf_counter()
    write_report(path, make())
    seconds = time.perf_counter() - started
    report(f"{name}: written", seconds, "s", _SECONDS, megabytes=round(path.stat().st_size / 1e6, 2))
    return seconds


def opened(path: Path) -> None:
    """Seconds from the address to a page with its matrix and its list, and to what a click shows."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find("chromium").program, args=["--no-sandbox"])
        seconds = []
        for _ in range(3):
            page = browser.new_page()
            started = time.perf_counter()
            page.goto(path.as_uri())
            page.wait_for_selector("body[data-state=ready]")
            seconds.append(time.perf_counter() - started)
            if len(seconds) < 3:
                page.close()
        report("html: usable in headless Chromium, median of 3", sorted(seconds)[1], "s", _SECONDS)
        started = time.perf_counter()
        page.locator("#choice").select_option("all")
        page.locator("#words").fill("softmax")
        page.locator("details.test").first.locator("summary").click()
        page.wait_for_selector(".detail")
        report("html: narrow to a word and open a test", time.perf_counter() - started, "s", 1.0)
        browser.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, default=10_000)
    parser.add_argument("--device", action="append", help="default: chromium and firefox")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found, pictures = real_run(folder, options.device or ["chromium", "firefox"])
        large = enlarged(found, options.tests)
        report("tests", len(large["tests"]), "", failing=large["summary"]["fails_run"], suites=len(large["suites"]))
        total = timed("junit", folder / "junit.xml", lambda: junit(large))
        total += timed("html", folder / "report.html", lambda: html(large, pictures))
        total += timed("json", folder / "run.json", lambda: json_text(large))
        report("all three: written", total, "s", _SECONDS)
        opened(folder / "report.html")
    return exit_code()


if __name__ == "__main__":
    sys.exit(main())
