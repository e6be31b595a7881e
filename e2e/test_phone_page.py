"""At a phone's width: devices, a verdict and a shared test are read without scrolling sideways."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.studio import views
from playwright.sync_api import Page, expect

from conftest import rewrite
from pages import PLAIN, Opened
from tapml.server import Server

PHONE = {"width": 390, "height": 844}


def fits(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], page.url


def test_devices_verdicts_and_shared_tests_fit_a_phone(
    opened: Opened, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAPML_DATA", str(tmp_path / "data"))
    rewrite(small, "softmax", lambda text: text.replace("exp(", "exp(0.5f + ", 1))
    with Server([small]) as server, opened(PLAIN, viewport=PHONE) as page:
        views.run(server, "validation")
        page.goto(server.url)
        fits(page)
        page.get_by_role("link", name="small", exact=True).click()
        matrix = page.get_by_label("Operators by device")
        matrix.locator(".cell").get_by_role("button", name="2 fail").click()
        details = page.locator("#details")
        headline = details.get_by_text("× its bound").first
        expect(headline).to_be_in_viewport()
        fits(page)
        for tab in ("Tensors", "Kernel", "History"):
            details.get_by_role("tab", name=tab).click()
            expect(details.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
            fits(page)
        details.get_by_role("tab", name="Verdict").click()
        details.get_by_role("button", name="Share…").click()
        page.get_by_role("button", name="Create link").click()
        link = page.get_by_label("Link", exact=True).input_value()
        fits(page)
        page.keyboard.press("Escape")
        details.get_by_role("button", name=re.compile("^Close")).click()
        page.get_by_role("button", name="Devices…").click()
        devices = page.get_by_role("dialog", name="Devices").get_by_role("listitem")
        expect(devices.filter(has_text="node-dawn")).to_be_in_viewport()
        fits(page)

        page.goto(link)
        page.wait_for_selector("body[data-state=done], body[data-state=failed], body[data-state=unavailable]")
        expect(page.get_by_text("softmax").first).to_be_visible()
        fits(page)
        page.goto(f"{server.url}/runner")
        page.wait_for_selector("body[data-state=unavailable], body[data-state=ready]")
        fits(page)
