"""What is seen has an address, and devices are told apart, over a real server in Chromium."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from pages import PLAIN, VIEWPORT, Opened, eventually
from tapml.server import Server


def apart(first: Locator, second: Locator) -> bool:
    one, other = first.bounding_box(), second.bounding_box()
    if one is None or other is None:
        return False
    sides = (("x", "width"), ("y", "height"))
    return any(one[a] + one[s] <= other[a] or other[a] + other[s] <= one[a] for a, s in sides)


def test_back_undoes_steps_and_an_address_shows_what_was_seen(opened: Opened, suite: Path) -> None:
    with Server([suite]) as server, opened(PLAIN, viewport=VIEWPORT) as page:
        address = f"{server.url}/suites/{server.suite_ids[0]}"
        page.goto(address)
        page.get_by_label("Filter operators").press_sequentially("norm")
        graph = page.get_by_label("Graph", exact=True)
        graph.get_by_role("button", name=re.compile("^embeddings.LayerNorm")).click()
        details = page.get_by_role("complementary")
        details.get_by_role("tab", name="Tensors").click()
        graph.get_by_role("button", name="Zoom in").click()
        expect(page).to_have_url(re.compile(r"filter=norm&node=n004&tab=tensors&at=[\d,%C.]+$"))
        picture = graph.locator(".picture > svg > g")

        # The address is written, and rounded, when the picture rests: the one of before the zoom may be there first.
        def rests() -> bool:
            (drawn,) = re.findall(r"scale\(([\d.e-]+)\)", picture.get_attribute("transform") or "")
            return float(page.url.rpartition("%2C")[2]) == pytest.approx(float(drawn), rel=0.01)

        eventually(page, rests, "the address has another scale than the picture")
        scale = page.url.rpartition("%2C")[2]
        assert float(scale) > 0.5
        page.reload()
        expect(details.get_by_role("tab", name="Tensors")).to_have_attribute("aria-selected", "true")
        expect(picture).to_have_attribute("transform", re.compile(rf"scale\({re.escape(scale)}\)"))
        page.go_back()
        expect(details.get_by_role("tab", name="Verdict")).to_have_attribute("aria-selected", "true")
        page.go_back()
        expect(details).to_have_count(0)
        expect(page.get_by_label("Filter operators")).to_have_value("norm")
        page.go_back()
        expect(page.get_by_label("Filter operators")).to_have_value("")
        expect(page).to_have_url(address)

        page.goto(f"{address}?kernel=old_layer_norm")
        page.get_by_role("alert").get_by_role("button", name="Show layer_norm").click()
        expect(page).to_have_url(f"{address}?node=n004")
        page.set_viewport_size({"width": 1024, "height": 700})
        panes = [graph, details, page.get_by_label("Results").first]
        eventually(page, lambda: all(apart(one, other) for one, other in combinations(panes, 2)), "panes overlap")


def test_tabs_of_one_browser_are_numbered_and_told_apart(opened: Opened, suite: Path) -> None:
    with (
        Server([suite]) as server,
        opened(PLAIN) as first,
        opened(PLAIN) as second,
        opened(PLAIN, viewport=VIEWPORT) as page,
    ):
        for tab in (first, second):
            tab.goto(f"{server.url}/runner")
            tab.wait_for_selector("body[data-state=unavailable]")
        page.goto(f"{server.url}/suites/{server.suite_ids[0]}")
        page.get_by_role("button", name="Devices…").click()
        devices = page.get_by_role("dialog", name="Devices").get_by_role("listitem")
        expect(devices.filter(has_text=re.compile(r"Chromium \d+ ?✗ cannot run"))).to_have_count(1)
        expect(devices.filter(has_text=re.compile(r"Chromium \d+ \(2\)"))).to_have_count(1)
        second.close()
        expect(devices.filter(has_text=re.compile(r"Chromium \d+ \(2\).*gone"))).to_contain_text("its page was closed")
        page.get_by_role("button", name="A phone or another machine").click()
        expect(page.get_by_role("dialog")).to_contain_text("--host 0.0.0.0")
