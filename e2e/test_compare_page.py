"""What an edit changed, run beside run, on the page: verdict, error over bound and time, in history and comparison."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from conftest import rewrite
from pages import PLAIN, VIEWPORT, Opened, choose
from tapml.server import Server


def test_an_edit_is_held_against_the_run_before_and_a_device_against_another(opened: Opened, small: Path) -> None:
    with Server([small]) as server, opened(PLAIN, viewport=VIEWPORT) as page:
        page.goto(f"{server.url}/suites/{server.suite_ids[0]}")
        job = page.get_by_label("Job")
        choose(page, "node-dawn")
        page.get_by_role("button", name="Validate").click()
        expect(job).to_contain_text("Validation done")
        rewrite(small, "softmax", lambda text: text.replace("exp(", "exp(0.5f + ", 1))
        row = page.get_by_label("Operators by device").locator("tr", has_text="softmax").first
        expect(row.get_by_text("was pass")).to_be_visible()
        page.get_by_role("button", name="Validate").click()
        expect(row.get_by_text("2 fail", exact=True)).to_be_visible()
        expect(job).to_contain_text("Validation done")
        # Error over bound comes first: in the matrix, and before the absolute error in the verdict; time is the GPU's.
        expect(row.locator(".figure").first).to_have_text(re.compile(r"^(> )?[\d.]+ ×$"))
        row.get_by_role("button", name="softmax", exact=True).click()
        details = page.locator("#details")
        facts = details.locator("dl.numbers").first.locator("dt")
        expect(facts.first).to_have_text("worst element")
        assert facts.all_inner_texts()[:3] == ["worst element", "GPU time", "max abs error"]
        expect(details.locator("dl.numbers").first.locator("dd").first).to_contain_text("× its bound")
        expect(details.get_by_text("mean of its batch")).to_have_count(0)

        details.get_by_role("tab", name="History").click()
        chosen = details.locator(".chosen")
        expect(chosen).to_contain_text(re.compile("fail, the kernel changed.* × its bound, max abs error"))
        details.get_by_role("toolbar", name="Runs").locator("[tabindex='0']").press("ArrowLeft")
        expect(chosen).to_contain_text(re.compile("pass, for older WGSL, .* % of its bound, max abs error"))
        expect(details.get_by_role("img", name=re.compile("^Of its bound"))).to_be_visible()
        page.keyboard.press("Escape")

        # The last two runs of one device, which the address keeps in the order that was chosen.
        page.get_by_role("tab", name="Compare").click()
        found = page.locator(".compare")
        expect(found).to_contain_text(
            re.compile(r"\d tests?: \d worse, \d with the same verdict; other WGSL of softmax")
        )
        changed = found.get_by_role("row", name=re.compile("softmax"))
        expect(changed.first).to_contain_text(re.compile("other WGSL.*pass.*fail.* % → .* ×"))
        found.get_by_role("button", name="Swap").click()
        expect(found).to_contain_text(re.compile(r"\d better"))
        expect(page).to_have_url(re.compile("view=compare&before=.*&after="))
        page.reload()
        expect(changed.first).to_contain_text(re.compile("fail.*pass.* × → .* %"))
        changed.first.get_by_role("button").click()
        expect(details.get_by_text("worst element").first).to_be_visible()
        page.go_back()
        expect(details).to_have_count(0)

        # Another device against it.
        choose(page, "deno", instead_of="node-dawn")
        page.get_by_role("button", name="Validate").click()
        expect(job).to_contain_text("Validation done")
        page.get_by_role("tab", name="Compare").click()
        for name, device in (("Before", "node-dawn"), ("After", "deno")):
            side = found.get_by_label(name)
            side.select_option(label=side.get_by_role("option").filter(has_text=device).first.inner_text())
        expect(found).to_contain_text(re.compile(r"\d tests: \d with the same verdict[^;]*;"))
        expect(page).to_have_url(re.compile("node-dawn.*after=.*deno"))
