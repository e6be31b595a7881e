"""The web page, driven as a person would, over a real server with real browsers as devices."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
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
        expect(softmax.get_by_text("6 pass", exact=True)).to_be_visible()
        broken = matrix.locator("tr", has_text="layer_norm").first
        expect(broken.get_by_text("12 fail", exact=True)).to_be_visible()
        broken.get_by_text("12 fail", exact=True).click()
        details = page.get_by_label("Node n", exact=False)
        expect(details.get_by_text("elements differ beyond tolerance").first).to_be_visible()
        details.get_by_role("tab", name="Kernel").click()
        expect(page.get_by_label("WGSL", exact=True).get_by_text("+ 65i").first).to_be_visible()
        details.get_by_role("tab", name="Tensors").click()
        expect(details.get_by_text("mean").first).to_be_visible()
        page.screenshot(path=tmp_path / "suite.png")

        # Failures first; what it is sorted and grouped by is in the address.
        expect(matrix.locator("tbody").first).to_contain_text("layer_norm")
        matrix.get_by_role("button", name="Operator").click()
        expect(matrix.locator("tbody").first).to_contain_text("cast")
        page.get_by_label("problems only").check()
        expect(matrix.locator("tbody")).to_have_count(1)
        page.get_by_label("problems only").uncheck()
        matrix.get_by_role("button", name="of bound").click()
        page.get_by_label("One row for each").select_option("kind")
        expect(page).to_have_url(re.compile("sort=bound&group=kind$"))
        page.reload()
        expect(matrix.get_by_role("columnheader", name="of bound")).to_have_attribute("aria-sort", "descending")
        expect(matrix.locator("tbody").first).to_contain_text("layer_norm")
        expect(matrix.locator("tr", has_text="softmax").first.get_by_text("6 pass", exact=True)).to_be_visible()


@pytest.mark.slow
def test_an_edit_is_grey_until_it_has_run_and_one_in_the_page_is_tried_and_saved(
    opened: Opened, suite: Path, edit: Callable[[str, Edit], None]
) -> None:
    file = suite / "kernels" / "softmax.wgsl"
    generated = file.read_text()
    with serving(suite) as url, opened("firefox", viewport=VIEWPORT) as page:
        page.goto(f"{url}/suites/minilm?node=n013")
        page.get_by_role("checkbox", name="node-dawn").check()
        page.get_by_role("checkbox", name="chromium").uncheck()
        row = page.get_by_label("Operators by device").locator("tr", has_text="softmax").first
        page.get_by_role("button", name="Validate").click()
        expect(page.get_by_text("Validation done")).to_be_visible()
        expect(row.get_by_text("6 pass", exact=True)).to_be_visible()

        # On disk: grey, and by Run what the new text is.
        edit("softmax", lambda text: text.replace("exp(", "exp(0.5f + ", 1))
        expect(row.get_by_text("was pass")).to_be_visible()
        details = page.get_by_label("Node n013")
        expect(details.get_by_text("pass, for older WGSL").first).to_be_visible()
        row.get_by_role("button", name="Run softmax again").click()
        expect(row.get_by_text("6 fail", exact=True)).to_be_visible()
        file.write_text(generated)
        expect(row.locator(".is-pass").first).to_be_visible()

        # In the page: tried first, and nothing is written.
        details.get_by_role("tab", name="Kernel").click()
        details.get_by_role("button", name="Edit").click()
        page.get_by_label("Edit softmax.wgsl").click()
        page.keyboard.press("ControlOrMeta+End")
        page.keyboard.type("fn unfinished() -> i32 { return 0.5f; }")
        page.keyboard.press("ControlOrMeta+Enter")
        came = details.get_by_label("What the last run came to")
        expect(came.get_by_text("6 error")).to_be_visible()
        expect(details.locator(".cm-lint-marker")).to_have_count(1)
        page.keyboard.press("ControlOrMeta+z")
        page.keyboard.type("// mine")
        assert file.read_text() == generated
        page.keyboard.press("ControlOrMeta+Enter")
        expect(came.get_by_text("6 pass")).to_be_visible()

        # Two writers are told, and the second one decides.
        file.write_text(f"{generated}// theirs\n")
        expect(details.get_by_role("alert").get_by_text("somebody else")).to_be_visible()
        details.get_by_role("button", name="Keep mine").click()
        assert "theirs" in file.read_text()
        details.get_by_role("button", name="Save").click()
        expect(details.get_by_text("not saved")).to_have_count(0)
        assert file.read_text().endswith("// mine")
        # What was tried is what the file is now.
        expect(row.locator(".is-pass").first).to_be_visible()


def test_the_device_page_says_what_it_is(opened: Opened, suite: Path) -> None:
    """This Chromium runs without the WebGPU flag: the page must say what to switch on."""
    with serving(suite) as url, opened(PLAIN, viewport=VIEWPORT) as page:
        page.goto(f"{url}/runner")
        page.wait_for_selector("body[data-state=unavailable], body[data-state=ready]")
        if page.locator("body").get_attribute("data-state") == "unavailable":
            expect(page.get_by_role("alert")).to_contain_text("enable-unsafe-webgpu")
        else:
            expect(page.locator("#adapter")).not_to_be_empty()
