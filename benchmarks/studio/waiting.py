"""How long a first validation lets one wait."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser

from benchmarks.studio.graph import SIZE
from benchmarks.studio.suites import copied
from tapml.server import Server

WAIT = 900_000
"""In ms. The whole of a validation, with a software GPU."""


def first_verdicts(browser: Browser, suite: Path, rounds: int) -> tuple[float, ...]:
    """Seconds from the click to the first verdict that the page shows, the server and the device fresh each time."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=suite.parent) as folder, Server([copied(suite, Path(folder))]) as server:
            page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
            page.goto(f"{server.url}/suites/{server.suite_ids[0]}")
            page.get_by_label("chromium", exact=False).first.check()
            began = time.perf_counter()
            page.get_by_role("button", name="Validate").click()
            page.locator(".cell .is-pass, .cell .is-fail").first.wait_for(timeout=WAIT)
            found.append(time.perf_counter() - began)
            page.close()
    return tuple(found)
