"""A kernel breaks between two runs: the history says when and why, on the command line and on the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from conftest import Edit, off_by_one, read_json, serving, tapml
from pages import PLAIN, VIEWPORT, Opened


@pytest.mark.slow
def test_history_tells_since_when_a_kernel_fails(
    opened: Opened, suite: Path, edit: Callable[[str, Edit], None], tmp_path: Path
) -> None:
    only = ("--device", "chromium", "--kernel", "layer_norm")
    assert tapml("validate", suite, *only).code == 0
    edit("layer_norm", off_by_one)
    second = tmp_path / "second.json"
    assert tapml("validate", suite, *only, "--json", second).code == 1
    run = read_json(second)

    out = tmp_path / "history.json"
    assert tapml("history", suite, "--json", out).code == 0
    found = read_json(out)
    assert (found["format"], found["runs"]) == ("tapml.history/1", 2)
    assert {trend["test"] for trend in found["trends"]} == {test["id"] for test in run["tests"]}
    for trend in found["trends"]:
        assert (trend["kernel"], trend["device"], trend["state"]) == ("layer_norm", "Chromium", "failing")
        assert trend["since"]["run"] == trend["first_failing"]["run"] == run["run"]
        assert (trend["since"]["kernel_changed"], trend["since"]["device_changed"]) == (True, False)
        assert trend["new_failure"]
        assert trend["flaky_runs"] == 0, "another kernel may give another verdict"

    test = run["tests"][0]
    shown = tapml("history", suite, "--test", test["id"])
    assert shown.code == 0
    assert shown.out.index("✗ fail") < shown.out.index("✓ pass"), "newest first"
    assert "kernel changed" in shown.out

    with serving(suite) as url, opened(PLAIN, viewport=VIEWPORT) as page:
        page.goto(f"{url}/suites/minilm?node={test['node']}")
        row = page.get_by_label("Operators by device").locator("tr", has_text="layer_norm").first
        expect(row.get_by_text("new failure: passed before")).to_be_attached()
        page.get_by_role("tab", name="History").click()
        strip = page.get_by_role("toolbar", name="Runs, oldest first")
        expect(strip.get_by_role("button")).to_have_count(2)
        first, last = strip.get_by_role("button").all()
        passed = r"Chromium \d+: pass, (for older WGSL, )?\S+ % of its bound, max abs error"
        expect(first).to_have_accessible_name(re.compile(passed))
        expect(last).to_have_accessible_name(re.compile(r"Chromium \d+: fail, the kernel changed"))
        expect(strip.get_by_text("kernel changed")).to_be_attached()
        details = page.get_by_role("tabpanel")
        expect(details.get_by_text("the kernel changed there")).to_be_visible()
        expect(details.get_by_text("elements differ beyond tolerance")).to_be_visible()
        last.focus()
        page.keyboard.press("ArrowLeft")
        expect(first).to_be_focused()
        expect(details.get_by_text("elements differ beyond tolerance")).to_have_count(0)
        page.screenshot(path=tmp_path / "history.png")
