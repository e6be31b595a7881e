"""A run that is cancelled on the page."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from conftest import serving
from pages import PLAIN, VIEWPORT, Opened


def choose(page: Page, *names: str) -> None:
    """In the list of devices, which stays open."""
    page.get_by_role("button", name="Devices…").click()
    devices = page.get_by_role("dialog", name="Devices")
    for name in names:
        devices.get_by_role("checkbox", name=name).check()
    devices.get_by_role("checkbox", name="chromium").uncheck()


def close(page: Page) -> None:
    page.get_by_role("dialog", name="Devices").get_by_role("button", name="Close").click()


def test_a_run_that_is_cancelled_keeps_what_it_found(opened: Opened, suite: Path) -> None:
    with serving(suite) as url, opened(PLAIN, viewport=VIEWPORT) as page:
        page.goto(f"{url}/suites/minilm")
        choose(page, "node-dawn")
        close(page)
        page.get_by_role("button", name="Validate").click()
        passed = page.get_by_label("Operators by device").locator(".cell .is-pass")
        job = page.get_by_label("Job")
        # The first verdicts come while other kernels are yet to be compiled.
        passed.first.wait_for()
        page.get_by_role("button", name="Cancel").click()
        expect(job).to_contain_text("Validation cancelled")
        expect(job).to_contain_text("these are kept")
        expect(passed.first).to_be_visible()
        page.reload()
        expect(passed.first).to_be_visible()
        expect(page.get_by_label("Nodes by state").get_by_text("not run")).to_be_visible()
