"""A run that is cancelled on the page."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from conftest import serving
from pages import PLAIN, VIEWPORT, Opened, choose, eventually

KERNELS = 22
COMPILED = re.compile(rf"(\d+) of {KERNELS}\b")


WATCH = """
window.seen = [];
new MutationObserver(() => {
  const job = document.querySelector("[aria-label=Job]")?.textContent ?? "";
  const verdicts = document.querySelectorAll(".cell .is-pass").length;
  if (job !== window.seen.at(-1)?.job) window.seen.push({ job, verdicts });
}).observe(document, { childList: true, subtree: true, characterData: true });
"""
"""What the job said, word for word, and whether there were verdicts then."""


def test_a_run_says_how_far_it_is_and_one_that_is_cancelled_keeps_what_it_found(opened: Opened, suite: Path) -> None:
    with serving(suite) as url, opened(PLAIN, viewport=VIEWPORT) as page:
        page.add_init_script(WATCH)
        page.goto(f"{url}/suites/minilm")
        choose(page, "node-dawn")
        page.get_by_role("button", name="Validate").click()
        passed = page.get_by_label("Operators by device").locator(".cell .is-pass")
        job = page.get_by_label("Job")
        passed.first.wait_for()
        eventually(page, lambda: page.evaluate("seen.some(({ job }) => / left/.test(job))"), "nobody says how long")
        page.get_by_role("button", name="Cancel").click()
        expect(job).to_contain_text("Validation cancelled")
        expect(job).to_contain_text("these are kept")
        expect(passed.first).to_be_visible()
        seen = page.evaluate("seen")
        # Compiling counts; the first verdicts come while other kernels are yet to be compiled.
        counts = [(int(found[1]), said["verdicts"]) for said in seen if (found := COMPILED.search(said["job"]))]
        assert counts, seen
        assert counts[0][1] == 0, seen
        assert any(compiled < KERNELS and verdicts > 0 for compiled, verdicts in counts), seen

        page.reload()
        expect(passed.first).to_be_visible()
        expect(page.get_by_label("Nodes by state").get_by_text("not run")).to_be_visible()
