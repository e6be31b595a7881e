"""Every page and tab of the studio in both themes, as axe sees it."""

from __future__ import annotations

import json
import re
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from benchmarks.studio.graph import SIZE
from benchmarks.studio.suites import copied
from tapml.errors import TapmlError
from tapml.jobs.job import JobSpecification
from tapml.server import Server

AXE = Path(__file__).parents[2] / "webui/node_modules/axe-core/axe.min.js"

WAIT = 900_000
"""In ms. The whole of a validation or a search, with a software GPU, beside whatever else the machine does."""

FAULT = (" + 64i)]", " + 65i)]")
"""In layer_norm: one read of the row takes the neighbour's element, so that the pages have something to show."""

DEVICE = "node-dawn"


@dataclass(frozen=True)
class Violation:
    view: str
    theme: str
    rule: str
    impact: str
    help: str
    where: str
    """The first element, as a selector."""


def violations(browser: Browser, suite: Path, model: Path) -> list[Violation]:
    """`suite` validated, one of its kernels broken, validated again, searched and offloaded; a text written with the
    suite of a language model."""
    found: list[Violation] = []
    with tempfile.TemporaryDirectory(dir=suite.parent) as folder:
        path, writer = copied(suite, Path(folder)), copied(model, Path(folder))
        with Server([path, writer]) as server:
            run(server, "validation")
            broken(path)
            for kind in ("validation", "locate", "offload"):
                run(server, kind)
            page = browser.new_page(viewport=SIZE, bypass_csp=True)  # type: ignore[arg-type]
            for view in (*views(page, server), generation(page, server, server.suite_ids[1])):
                found += asked(page, view())
            page.close()
    return found


def broken(suite: Path) -> None:
    kernel = suite / "kernels" / "layer_norm.wgsl"
    kernel.write_text(kernel.read_text().replace(*FAULT, 1))


def views(page: Page, server: Server) -> Iterator[Callable[[], str]]:
    """Each brings the page to a view of the server's first suite, and tells its name."""
    suite = f"{server.url}/suites/{server.suite_ids[0]}"
    test = _failing(server)
    node = f"{suite}?node={test['node']}"
    shared = _sent(server, f"/api/suites/{server.suite_ids[0]}/tests/{test['id']}/shares", {"device": None, "days": 1})
    addresses = {
        "suites": (f"{server.url}/", ".page article, .page li"),
        "operators": (suite, ".picture .box"),
        "operators by block": (f"{suite}?group=block&sort=bound", ".matrix tbody"),
        "offload trace": (f"{suite}?view=offload", "table.trace tbody"),
        "faulty kernels": (f"{suite}?view=locate", ".suspect"),
        "compare": (f"{suite}?view=compare", ".compare table.trace tbody"),
        "runner": (f"{server.url}/runner", "h1"),
        "shared link": (f"{server.url}{shared['path']}", "body[data-state=done], body[data-state=failed]"),
        "unknown suite": (f"{server.url}/suites/nothing", ".problem"),
        "unknown page": (f"{server.url}/nothing", "h1"),
        "unknown node": (f"{suite}?node=nothing", "[role=alert]"),
        "verdict": (node, ".device-verdict"),
    }

    def there(name: str, address: str, shown: str) -> Callable[[], str]:
        def go() -> str:
            page.goto(address)
            page.locator(shown).first.wait_for(timeout=60_000)
            return name

        return go

    yield from (there(name, *found) for name, found in addresses.items())
    for name, open_ in _PARTS.items():

        def part(name: str = name, open_: Callable[[Page], None] = open_) -> str:
            page.goto(node)
            page.locator(".device-verdict").first.wait_for(timeout=60_000)
            open_(page)
            return name

        yield part


def _elements(page: Page) -> None:
    page.get_by_role("button", name="Show every element").first.click()
    page.get_by_role("application").first.wait_for(timeout=WAIT)


def _tab(name: str, shown: str) -> Callable[[Page], None]:
    def open_(page: Page) -> None:
        page.get_by_role("tab", name=name, exact=True).click()
        page.locator(shown).first.wait_for(timeout=60_000)

    return open_


def _tensor(page: Page) -> None:
    _tab("Tensors", ".tensor")(page)
    _elements(page)


def _numbers(page: Page) -> None:
    _tensor(page)
    page.get_by_role("button", name="Numbers", exact=True).first.click()


def _editor(page: Page) -> None:
    _tab("Kernel", ".tabs, [role=tabpanel] button")(page)
    page.get_by_role("button", name=re.compile("^Edit")).first.click()
    page.locator(".cm-content").wait_for()


def _dialog(button: re.Pattern[str]) -> Callable[[Page], None]:
    def open_(page: Page) -> None:
        page.get_by_role("button", name=button).first.click()
        page.locator("dialog[open]").wait_for()

    return open_


_PARTS: dict[str, Callable[[Page], None]] = {
    "elements": _elements,
    "tensors": _tab("Tensors", ".tensor"),
    "tensor": _tensor,
    "tensor in numbers": _numbers,
    "kernel": _tab("Kernel", "[role=tabpanel] select, [role=tabpanel] button"),
    "editor": _editor,
    "history": _tab("History", ".history"),
    "go to": _dialog(re.compile("^Go to")),
    "share": _dialog(re.compile("^Share")),
    "devices": _dialog(re.compile("device", re.IGNORECASE)),
}


def generation(page: Page, server: Server, suite: str) -> Callable[[], str]:
    """Writes three tokens and opens the second one's step."""

    def go() -> str:
        page.goto(f"{server.url}/suites/{suite}?view=generation&tokens=3")
        page.evaluate(f"localStorage.setItem('tapml.devices', JSON.stringify(['{DEVICE}']))")
        page.reload()
        page.get_by_role("button", name=f"Write on {DEVICE}").click()
        page.get_by_text("in all 3 steps").wait_for(timeout=WAIT)
        page.get_by_role("group", name="Tokens, each with its step").get_by_role("button").nth(1).click()
        page.get_by_role("article", name=re.compile("^Step of position")).wait_for()
        return "generation"

    return go


def asked(page: Page, view: str) -> list[Violation]:
    """What axe finds in what the page shows now, in both themes."""
    found = []
    if not page.evaluate("'axe' in window"):
        page.add_script_tag(path=AXE)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        found += [
            Violation(view, theme, one["id"], one["impact"], one["help"], " ".join(map(str, one["nodes"][0]["target"])))
            for one in page.evaluate("async () => (await axe.run(document)).violations")
        ]
    page.emulate_media(color_scheme="light")
    return found


def _failing(server: Server) -> Any:
    results = _sent(server, f"/api/suites/{server.suite_ids[0]}/results")
    return next(test for test in results["validations"][0]["tests"] if test["verdict"] == "fail")


def run(server: Server, kind: str) -> None:
    """A job of the server's first suite, to its end. Not by polling: on a busy machine a request may come too late."""
    asked, suite = JobSpecification(kind=kind, devices=[DEVICE]), server.suite_ids[0]
    state = server.state
    job = state.jobs.start(asked, suite, state.suites.require(suite), state.device)
    job.done.wait()
    if job.error:
        raise TapmlError(f"{kind}: {job.error}")


def _sent(server: Server, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"X-Tapml": "1", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(server.url + path, data, headers)) as answer:
        return json.load(answer)
