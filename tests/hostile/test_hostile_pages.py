"""Names and messages of strangers on every page: text, and nothing else."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hostile_suites import hostile_suites
from playwright.sync_api import Page, sync_playwright

from made_runs import bad, document
from repro_helpers import keep_result
from tapml.browsers.find import find
from tapml.errors import InputError
from tapml.history import open_history
from tapml.locating import Locate
from tapml.locating.locate import save_locate
from tapml.reports.html import html
from tapml.server import Server
from tapml.sharing import export, links, of_suite
from tapml.suite import Suite
from tapml.validation.context import JobContext

HARM = (
    "<img src=x onerror=canary()><script>canary()</script>\"'><svg onload=canary()>javascript:canary() "
    "{{document}} </style></script></title>&lt;b&gt; url(http://evil.invalid/x) \u202eEVIL `|` \\"
)
_WORDS = {
    "name", "title", "source", "device", "notes", "description", "message", "reasons", "reason", "text", "user_agent",
    "vendor", "architecture", "gpu_message", "stack", "version", "oracle_missing", "suite_name", "runtime", "platform",
}  # fmt: skip
_OF_EACH_KIND = 2
_TABS = 8
"""A page counts as loaded half a second after its last request: as many as these wait for that at once."""
_WATCH = """
  window.harm = [];
  window.canary = () => window.harm.push("a script ran");
  for (const name of ["alert", "confirm", "prompt", "open"]) window[name] = () => window.harm.push(name);
  document.addEventListener("securitypolicyviolation", (event) =>
    window.harm.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


def poisoned(found: Any, key: str = "") -> Any:
    """The document with harm in every text that people read."""
    if isinstance(found, dict):
        return {name: poisoned(value, name) for name, value in found.items()}
    if isinstance(found, list):
        return [poisoned(value, key) for value in found]
    return HARM if isinstance(found, str) and key in _WORDS else found


def poison(path: Path) -> None:
    found = json.loads(path.read_text())
    # What an entry point is called stands in the WGSL, and a variant's name is no free text.
    path.write_text(json.dumps({**poisoned(found), **{key: found[key] for key in ("variants",) if key in found}}))


@pytest.fixture
def harmful(suite: Suite) -> Suite:
    """Results, history and what `locate` found, all with names that mean harm."""
    path = suite.path
    kernel = next((path / "kernels").glob("softmax*.wgsl"))
    kernel.write_text(kernel.read_text().replace("exp(", "1.5f*exp(0.5f*", 1) + f"\n// {HARM}\n")
    for name in ("suite.json", "program.json", "tests.json", "kernels/softmax.json"):
        poison(path / name)
    suite = Suite(path)
    with Server([path]) as server:
        device = server.state.device("node-dawn")
        save_locate(suite, Locate(JobContext(suite, [device], server.state.blobs), model=False).run())
    test = next(test for test in suite.tests if test.kernel == "softmax").id
    diagnostic = {"severity": "error", "line": 3, "column": 5, "message": HARM, "source": HARM, "file": "softmax.wgsl"}
    keep_result(
        suite, test, verdict="error", device=HARM, message=HARM, diagnostics=[diagnostic],
        error={"kind": "compile", "gpu_message": HARM, "lost_reason": None, "arguments": None, "stack": HARM},
    )  # fmt: skip
    open_history(suite, None).record(suite.results("validation")[0], source="validate")
    for result in (path / "results").glob("*.json"):
        poison(result)
    return Suite(path)


@contextmanager
def watched(origin: str, count: int = 1) -> Iterator[list[tuple[Page, list[str]]]]:
    """Pages, and what went wrong on each: scripts, requests elsewhere, errors."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find("chromium").program, args=["--no-sandbox"])
        yield [_watched(browser.new_page(viewport={"width": 1400, "height": 1000}), origin) for _ in range(count)]
        browser.close()


def _watched(page: Page, origin: str) -> tuple[Page, list[str]]:
    problems: list[str] = []
    page.add_init_script(_WATCH)
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    page.on("popup", lambda popup: problems.append(f"popup: {popup.url}"))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    own = (origin, "file:///", "data:", "blob:")
    page.on("request", lambda asked: None if asked.url.startswith(own) else problems.append(asked.url))
    return page, problems


def look(page: Page, problems: list[str], url: str, *wanted: str) -> None:
    """Open a page, then everything that opens on it; nothing may come of the names. `wanted`: what must have shown."""
    page.goto(url)
    page.wait_for_load_state("networkidle")
    shown = page.locator("body").inner_text()
    for selector in ("[role=tab]", "summary", "[aria-expanded=false]", "[role=tab]"):
        for place in page.locator(selector).all():
            if place.is_visible() and place.is_enabled():
                place.click()
                page.wait_for_timeout(50)
                shown += page.locator("body").inner_text()
    problems += page.evaluate("window.harm")
    assert problems == [], url
    for text in wanted:
        assert text in shown, f"{url} does not show {text}"
    assert page.evaluate("getComputedStyle(document.querySelector('h1') ?? document.body).unicodeBidi") == "isolate"


@pytest.mark.slow
def test_names_are_text_on_every_page(harmful: Suite, tmp_path: Path) -> None:
    test = next(test for test in harmful.tests if test.kernel == "softmax")
    repro = of_suite(harmful, test.id)
    export(repro, "html", tmp_path / "repro.html")
    located = harmful.results("locate")[0]
    (tmp_path / "locate.html").write_text(html(located))
    run = document([bad(kernel=HARM, message=HARM, node=HARM)])
    run["suites"][0].update(name=HARM, path=HARM)
    run["devices"][0].update(name=HARM, requested=HARM, user_agent=HARM)
    (tmp_path / "report.html").write_text(html(run))
    share, _ = links.create(harmful.path, repro)
    with Server([harmful.path]) as server, watched(server.url) as ((page, problems),):
        suite = f"{server.url}/suites/{server.suite_ids[0]}"
        script = "<script>canary()</script>"
        look(page, problems, f"{server.url}/", script)
        look(page, problems, suite, script)
        look(page, problems, f"{suite}?node={test.node}", script, "url(http://evil.invalid/x)")
        look(page, problems, f"{server.url}/runner")
        look(page, problems, f"{server.url}/s/{share}", script)
        for name in ("repro.html", "report.html", "locate.html"):
            look(page, problems, (tmp_path / name).as_uri(), script)


def kind_of(case: str) -> str:
    """What of a suite is spoiled: however that is done, the page gets the server's refusal (test_hostile_suites.py)."""
    way, _, place = case.partition(" for ")
    return place or way.partition(":")[0]


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder for what is nested deeper than pytest can remove; it goes when the test fails, too."""
    folder = tmp_path / "deep"
    folder.mkdir()
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.mark.slow
def test_no_hostile_suite_breaks_the_page(suite: Suite, deep: Path) -> None:
    """All that open: the page stands, shows what it can, and says what it cannot."""
    outside = deep / "outside"
    with Server([suite.path]) as server, watched(server.url, _TABS) as tabs:
        opened = {server.suite_ids[0]: "a good one"}
        kinds: Counter[str] = Counter()
        for number, (name, case) in enumerate(hostile_suites().items()):
            kinds[kind := kind_of(name)] += 1
            if kinds[kind] > _OF_EACH_KIND:
                continue
            path = deep / f"case-{number}.suite"
            shutil.copytree(suite.path, path)
            shutil.rmtree(outside, ignore_errors=True)
            outside.mkdir()
            case.spoil(path, outside)
            with contextlib.suppress(InputError):
                opened[server.state.suites.add(path)] = name
        assert len(opened) > 40
        cases = list(opened.items())
        for start in range(0, len(cases), _TABS):
            shown = cases[start : start + _TABS]
            for (page, _), (suite_id, _) in zip(tabs, shown, strict=False):
                page.goto(f"{server.url}/suites/{suite_id}?node=n000", wait_until="commit")
            for (page, problems), (_, name) in zip(tabs, shown, strict=False):
                page.wait_for_load_state("networkidle")
                # What the server refuses is on the console, too, and that is no error of the page.
                problems[:] = [found for found in problems if not found.startswith("Failed to load resource")]
                assert problems + page.evaluate("window.harm") == [], name
                assert page.locator(".topbar").is_visible(), name
                assert page.locator("body").inner_text().strip(), name
        page, _ = tabs[0]
        page.goto(f"{server.url}/")
        page.wait_for_load_state("networkidle")
        assert page.get_by_role("link", name="small", exact=True).first.is_visible()
