"""A phone becomes a device by the link that the page shows, once, and its features stand beside another device's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from pages import PLAIN, VIEWPORT, Opened, People
from tapml.server import Server


def test_a_link_pairs_one_browser_once(
    people: People, opened: Opened, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It listens here alone, and asks for its token all the same, as one does that others reach.
    for module in ("pairing", "security"):
        monkeypatch.setattr(f"tapml.server.{module}.is_loopback", lambda host: False)
    with (
        Server([small]) as server,
        opened(PLAIN, viewport=VIEWPORT) as page,
        people.context("chromium") as phone,
        people.context(PLAIN) as stranger,
    ):
        page.goto(f"{server.url}/suites/{server.suite_ids[0]}?token={server.state.security.token}")
        page.get_by_role("button", name="Devices…").click()
        devices = page.get_by_role("dialog", name="Devices")
        devices.get_by_role("button", name="A phone or another machine").click()
        expect(devices.get_by_role("img", name="QR code of the pairing link")).to_be_visible()
        expect(devices.get_by_text("pairs one browser, once, within 10 minutes")).to_be_visible()
        link = devices.locator(".pairing code").inner_text()

        tab = phone.new_page()
        tab.goto(link)
        # The code is in neither address bar nor history.
        expect(tab).to_have_url(f"{server.url}/runner")
        paired = devices.get_by_role("listitem").filter(has_text=re.compile(r"Chromium \d+ ?● ready"))
        expect(paired).to_be_visible()
        answer = stranger.new_page().goto(link)
        assert answer is not None
        assert answer.status == 403

        # It runs kernels; what differs between it and another device is marked, and comes first.
        devices.get_by_role("checkbox", name="chromium", exact=True).uncheck()
        paired.get_by_role("checkbox").check()
        devices.get_by_role("checkbox", name="node-dawn").check()
        devices.get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Validate").click()
        expect(page.get_by_label("Job")).to_contain_text("Validation done")
        matrix = page.get_by_label("Operators by device")
        expect(matrix.locator("tr", has_text="softmax").first.get_by_text("2 pass", exact=True)).to_have_count(2)
        page.get_by_role("button", name="Devices…").click()
        expect(devices.get_by_text(re.compile(r"\d+ of \d+ differ"))).to_be_visible()
        expect(devices.get_by_role("row").nth(1)).to_contain_text("differs:")
        tab.close()
        expect(devices.get_by_role("listitem").filter(has_text=re.compile(r"Chromium \d+ ?○ gone"))).to_be_visible()
