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
        expect(found.get_by_text("1 faulty kernel on chromium")).to_be_visible()

        suspect = found.get_by_role("article", name="softmax")
        expect(suspect.get_by_text("were never written").first).to_be_visible()
        expect(suspect.get_by_text("6 of 6")).to_be_visible()
        expect(suspect.get_by_text("runs, identical")).to_be_visible()
        expect(found.get_by_role("article")).to_have_count(1)

        heat = suspect.get_by_role("application")
        expect(heat).to_be_visible()
        box = heat.bounding_box()
        assert box is not None
        # `hover` waits until the picture stands still: what is drawn above it moves it.
        heat.hover(position={"x": box["width"] - 2, "y": box["height"] / 2})
        expect(suspect.get_by_text("infinite or NaN").first).to_contain_text("the worst is")
        heat.hover(position={"x": 2, "y": box["height"] / 2})
        expect(suspect.locator("output")).to_contain_text("within the bound")
        page.mouse.move(0, 0)
        heat.press("ArrowRight")
        expect(suspect.locator("output")).to_contain_text(", 1]: within the bound")

        suspected = re.compile("^softmax .*, fail, suspect 1")
        marked = page.get_by_role("button", name=suspected)
        expect(marked).to_have_count(6)
        node = suspect.get_by_role("button", name="n0").first
        node.click()
        expect(node).to_have_attribute("aria-pressed", "true")
        expect(page.get_by_role("button", name=suspected, pressed=True)).to_have_count(1)
        page.screenshot(path=tmp_path / "locate.png")

        page.get_by_role("button", name="Show every element").click()
        everything = page.locator(".all-elements")
        expect(everything.get_by_text("Wrong elements are only in column ")).to_be_visible()
        expect(everything.locator("output")).to_contain_text("got NaN")
        picture = everything.get_by_role("application")
        picture.press("ArrowLeft")
        expect(everything.locator("output")).not_to_contain_text("NaN")
        expect(everything.get_by_text("as measured on the device")).to_be_visible()
        expect(everything.locator("output")).to_contain_text("workgroup x = ")
        everything.get_by_role("combobox").select_option("got")
        expect(everything.get_by_text("NaN and infinities are red")).to_be_visible()

        graph = page.get_by_label("Graph", exact=True)
        graph.get_by_role("button", name="Fit").click()
        expect(graph.locator(".picture > svg").first).to_have_class("tiny")
        find = graph.get_by_label("Find a node")
        find.fill("softmax")
        expect(graph.locator("output")).to_have_text("1 of 6")
        find.press("Enter")
        expect(graph.locator("output")).to_have_text("2 of 6")
        expect(graph.locator(".box.selected")).to_have_attribute("aria-label", re.compile("^softmax .*, n028, fail"))
        graph.get_by_role("button", name="Fold", exact=True).click()
        folded = graph.get_by_role("button", name="15 calls each, folded blocks, 5 fail, 70 pass")
        folded.press("Enter")
        graph.get_by_role("button", name="layer.1 15 calls").press("Enter")
        expect(graph.get_by_role("button", name="Fold layer.1")).to_be_visible()
        expect(graph.locator(".box.selected")).to_be_visible()

        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Nodes, kernels").fill("kernel softmax")
        expect(page.get_by_role("dialog").get_by_role("option")).to_have_count(1)
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(graph.locator(".box.selected")).to_have_attribute("aria-label", re.compile(", n013, "))

        page.reload()
        expect(page.get_by_role("article", name="softmax").get_by_role("application")).to_be_visible()
