"""Faulty kernels on the web page: searched for with a button, named with the reason, shown as a picture."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from conftest import Edit, serving
from pages import PLAIN, VIEWPORT, Opened


def forgets_the_last_column(text: str) -> str:
    """softmax writes its rows but for their last elements."""
    rest, guard, width, writes = re.split(r"(.*if \(i32\(threadIdx\.x\) < )(\d+)(?=i\))", text, flags=re.DOTALL)
    return f"{rest}{guard}{int(width) - 1}{writes}"


def test_the_page_shows_the_suspects_of_a_broken_kernel(
    opened: Opened, suite: Path, edit: Callable[[str, Edit], None], tmp_path: Path
) -> None:
    edit("softmax", forgets_the_last_column)
    with serving(suite) as url, opened(PLAIN, viewport=VIEWPORT) as page:
        page.goto(f"{url}/suites/minilm")
        page.get_by_label("chromium", exact=False).first.check()
        page.get_by_role("button", name="Locate").click()
        expect(page.get_by_role("tab", name="Faulty kernels")).to_have_attribute("aria-selected", "true")
        found = page.get_by_label("Faulty kernels", exact=True)
        expect(found.get_by_text("1 faulty kernel on chromium")).to_be_visible(timeout=60_000)

        suspect = found.get_by_role("article", name="softmax")
        expect(suspect.get_by_text("were never written").first).to_be_visible()
        expect(suspect.get_by_text("6 of 6")).to_be_visible()
        expect(suspect.get_by_text("runs, identical")).to_be_visible()
        expect(found.get_by_role("article")).to_have_count(1)

        heat = suspect.get_by_role("application")
        expect(heat).to_be_visible()
        box = heat.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
        expect(suspect.get_by_text("infinite or NaN").first).to_contain_text("the worst is")
        page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2)
        expect(suspect.locator("output")).to_contain_text("within the bound")
        page.mouse.move(0, 0)
        heat.press("ArrowRight")
        expect(suspect.locator("output")).to_contain_text(", 1]: within the bound")

        marked = page.get_by_role("button", name="softmax, fail, suspect 1")
        expect(marked).to_have_count(6)
        node = suspect.get_by_role("button", name="n0").first
        node.click()
        expect(node).to_have_attribute("aria-pressed", "true")
        expect(page.get_by_role("button", name="softmax, fail, suspect 1", pressed=True)).to_have_count(1)
        page.screenshot(path=tmp_path / "locate.png")

        page.reload()
        expect(page.get_by_role("article", name="softmax").get_by_role("application")).to_be_visible(timeout=20_000)
