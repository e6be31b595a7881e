"""What the page says of texts that are gone, and the editor: driven as a person would."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from conftest import serving
from pages import PLAIN, VIEWPORT, Opened


@pytest.mark.slow
def test_nothing_is_green_for_a_text_that_is_gone(opened: Opened, small: Path) -> None:
    file = small / "kernels" / "softmax.wgsl"
    generated = file.read_text()
    with serving(small) as url, opened(PLAIN, viewport=VIEWPORT) as page:
        page.goto(f"{url}/suites/small")
        page.get_by_role("checkbox", name="node-dawn").first.check()
        page.get_by_role("checkbox", name="chromium").uncheck()
        header, row = page.get_by_role("banner").or_(page.locator("main")), page.locator("tr", has_text="softmax").first
        page.get_by_role("button", name="Validate").click()
        expect(page.get_by_text("Validation done")).to_be_visible()
        page.get_by_role("button", name="Locate").click()
        expect(page.get_by_text("Search for faulty kernels done")).to_be_visible()
        found = page.get_by_label("Faulty kernels", exact=True)
        expect(found.get_by_text("All is well")).to_be_visible()
        page.get_by_role("button", name="Offload").click()
        expect(page.get_by_text("Offload done")).to_be_visible()
        trace = page.get_by_label("Offload trace", exact=True)
        expect(trace.locator(".is-pass").first).to_be_visible()

        file.write_text(generated.replace("exp(", "exp(0.5f + ", 1))
        expect(trace.get_by_text("softmax was changed since")).to_be_visible()
        expect(trace.get_by_text("pass, for older WGSL")).to_be_visible()
        expect(header.get_by_text("edited: softmax")).to_be_visible()
        expect(page.get_by_label("Nodes by state").get_by_text("for older WGSL")).to_be_visible()
        page.get_by_role("tab", name="Faulty kernels").click()
        expect(found.get_by_text("softmax was changed since")).to_be_visible()
        expect(found.locator(".is-pass")).to_have_count(0)
        found.get_by_role("button", name="Locate again").click()
        expect(found.get_by_role("heading", name="softmax")).to_be_visible()
        expect(found.get_by_text("1 faulty kernel")).to_be_visible()

        # A failure of an edit that is undone is none of the kernel's.
        page.get_by_role("tab", name="Operators").click()
        page.get_by_role("button", name="Validate").click()
        expect(row.get_by_text("new failure")).to_have_count(1)
        file.write_text(generated)
        expect(row.get_by_text("new failure")).to_have_count(0)
        expect(row.locator(".is-pass").first).to_be_visible()
        expect(header.get_by_text("edited: softmax")).to_have_count(0)
        page.get_by_role("tab", name="Faulty kernels").click()
        expect(found.get_by_text("fail, for older WGSL").first).to_be_visible()


def test_a_launch_is_edited_tried_compared_and_saved(opened: Opened, small: Path) -> None:
    file, document = small / "kernels" / "softmax.wgsl", small / "kernels" / "softmax.json"
    generated, launches = file.read_text(), document.read_text()
    with serving(small) as url, opened(PLAIN, viewport=VIEWPORT) as page:
        page.goto(f"{url}/suites/small")
        page.get_by_role("checkbox", name="node-dawn").first.check()
        page.get_by_role("checkbox", name="chromium").uncheck()
        page.get_by_role("button", name="softmax", exact=True).first.click()
        details = page.locator("#details")
        details.get_by_role("tab", name="Kernel").click()
        details.get_by_role("button", name="Edit").click()
        text = page.get_by_label("Edit softmax.wgsl")
        expect(text).to_be_visible()
        details.locator("summary", has_text="Launch").click()
        grid = details.get_by_label("workgroups and uniforms: x")
        was = grid.input_value()
        grid.fill("-1")
        expect(details.get_by_role("alert").get_by_text("must be at least")).to_be_visible()
        grid.fill(was)
        expect(details.get_by_role("alert")).to_have_count(0)
        size = details.get_by_label("workgroup size: y")
        size.fill("2")
        expect(text.get_by_text(", 2, 1)")).to_be_visible()
        size.fill("1")

        # A verdict stands while its text does, and is back when the text is.
        came = details.get_by_label("What the last run came to")
        text.click()
        page.keyboard.press("ControlOrMeta+Home")
        page.keyboard.type("// mine\n")
        page.keyboard.press("ControlOrMeta+Enter")
        expect(came.get_by_text("pass")).to_be_visible()
        expect(came).to_be_in_viewport()
        page.keyboard.type("//!")
        expect(came.get_by_text("pass")).to_have_count(0)
        for _ in range(3):
            page.keyboard.press("Backspace")
        expect(came.get_by_text("pass")).to_be_visible()
        assert (file.read_text(), document.read_text()) == (generated, launches)

        details.get_by_role("button", name="Save").click()
        # Save cannot be pressed while it saves, either.
        expect(details.get_by_role("button", name="Discard")).to_be_disabled()
        assert file.read_text() == f"// mine\n{generated}"
        details.get_by_label("Compare with").select_option("generated")
        expect(details.locator(".cm-changedLine").first).to_contain_text("mine")


def test_a_tried_text_tells_why_it_fails_and_where(opened: Opened, small: Path) -> None:
    file = small / "kernels" / "softmax.wgsl"
    generated = file.read_text()
    with serving(small) as url, opened(PLAIN, viewport={"width": 1280, "height": 800}) as page:
        page.goto(f"{url}/suites/small?kernel=softmax&tab=kernel&max=detail")
        # One pane has all the room, beside others or not.
        details = page.locator("#details")
        expect(details).to_be_visible()
        box = details.bounding_box()
        assert box is not None
        assert box["width"] > 1200
        details.get_by_role("button", name="Only the details").click()
        page.get_by_role("checkbox", name="node-dawn").first.check()
        page.get_by_role("checkbox", name="chromium").uncheck()
        details.get_by_role("button", name="Edit").click()
        text, came = page.get_by_label("Edit softmax.wgsl"), details.get_by_label("What the last run came to")

        def tries(wgsl: str) -> None:
            text.click()
            page.keyboard.press("ControlOrMeta+a")
            page.keyboard.insert_text(wgsl)
            page.keyboard.press("ControlOrMeta+Enter")

        # The compiler's words are beside the button that runs it, and lead to their line.
        tries(generated.replace("max(", "mx(", 1))
        line = 1 + generated[: generated.index("max(")].count("\n")
        place = came.get_by_role("button", name=f"softmax.wgsl:{line}:")
        expect(place).to_be_in_viewport()
        expect(came).to_contain_text("mx")
        place.click()
        expect(text.locator(".cm-activeLine")).to_contain_text("mx(")
        # So are the elements that are wrong, of what is on no disk.
        tries(generated.replace("exp(", "exp(0.5f + ", 1))
        expect(came).to_contain_text("elements differ beyond tolerance")
        came.get_by_role("button", name="which elements").click()
        own = details.locator("article", has_text="of what is not saved")
        expect(own).to_contain_text("× its bound")
        own.get_by_role("button", name="Show every element").click()
        expect(own.locator(".all-elements .is-fail")).to_be_visible()
        assert file.read_text() == generated
        # Whoever closes the editor is told of it, everywhere.
        details.get_by_role("button", name="draft").click()
        details.get_by_role("button", name="Close", exact=True).click()
        expect(details.get_by_text("Not saved: softmax.wgsl")).to_be_visible()
        details.get_by_role("button", name="Discard").click()
        expect(details.get_by_role("button", name="draft")).to_have_count(0)
