"""The web page, driven as a person would, over a real server with real browsers as devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from conftest import Edit, off_by_one, serving
from pages import PLAIN, VIEWPORT, Opened


def test_a_validation_fills_the_matrix_while_it_runs(
    opened: Opened, suite: Path, edit: Callable[[str, Edit], None], tmp_path: Path
) -> None:
    edit("layer_norm", off_by_one)
    with serving(suite) as url, opened(PLAIN, viewport=VIEWPORT) as page:
        page.goto(f"{url}/")
        expect(page.get_by_text("edited: layer_norm")).to_be_visible()
        page.get_by_role("link", name="minilm", exact=True).click()
        expect(page).to_have_url(f"{url}/suites/minilm")
        page.get_by_label("firefox").check()
        page.get_by_label("chromium").uncheck()
        page.get_by_role("button", name="Validate").click()
        matrix = page.get_by_label("Operators by device")
        softmax = matrix.locator("tr", has_text="softmax").first
        expect(softmax.get_by_text("6/6")).to_be_visible(timeout=60_000)
        broken = matrix.locator("tr", has_text="layer_norm").first
        expect(broken.get_by_text("12/12")).to_be_visible(timeout=60_000)
        broken.get_by_text("12/12").click()
        details = page.get_by_label("Node n", exact=False)
        expect(details.get_by_text("elements differ beyond tolerance").first).to_be_visible()
        details.get_by_role("tab", name="Kernel").click()
        expect(page.get_by_label("WGSL", exact=True).get_by_text("+ 65i").first).to_be_visible()
        details.get_by_role("tab", name="Tensors").click()
        expect(details.get_by_text("mean").first).to_be_visible()
        page.screenshot(path=tmp_path / "suite.png")
        page.reload()
        expect(matrix.locator("tr", has_text="softmax").first.get_by_text("6/6")).to_be_visible(timeout=20_000)


def test_the_device_page_says_what_it_is(opened: Opened, suite: Path) -> None:
    """This Chromium runs without the WebGPU flag: the page must say what to switch on."""
    with serving(suite) as url, opened(PLAIN, viewport=VIEWPORT) as page:
        page.goto(f"{url}/runner")
        page.wait_for_selector("body[data-state=unavailable], body[data-state=ready]", timeout=30_000)
        if page.locator("body").get_attribute("data-state") == "unavailable":
            expect(page.get_by_role("alert")).to_contain_text("enable-unsafe-webgpu")
        else:
            expect(page.locator("#adapter")).not_to_be_empty()
