"""`tapml test` and pytest's plugin on the real MiniLM, with a kernel broken on purpose."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from conftest import Edit, off_by_one, read_json, tapml
from pages import PLAIN, Opened

DEVICES = ("--device", "chromium", "--device", "firefox")
KERNELS = ("--kernel", "layer_norm", "--kernel", "softmax", "--kernel", "cast")
BROKEN = 12  # nodes of layer_norm


def test_every_report_of_a_broken_kernel_at_once(
    suite: Path,
    edit: Callable[[str, Edit], None],
    opened: Opened,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edit("layer_norm", off_by_one)
    edit("softmax", lambda text: text.replace("workgroupBarrier();", "workgroupBarrier(nonsense);", 1))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(suite.parent))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    names = {name: tmp_path / name for name in ("run.json", "junit.xml", "report.html")}
    ran = tapml(
        "test", suite, *DEVICES, *KERNELS, "--retries", "1",
        "--json", names["run.json"], "--junit", names["junit.xml"], "--html", names["report.html"],
    )  # fmt: skip
    assert ran.code == 1, ran.out + ran.err

    document = read_json(names["run.json"])
    bad = [test for test in document["tests"] if test["fails_run"]]
    assert {test["kernel"] for test in bad} == {"layer_norm", "softmax"}
    assert {tuple(test["attempts"]) for test in bad} == {("fail", "fail"), ("error", "error")}
    assert len({test["device"] for test in bad}) == 2
    assert document["summary"]["pass"] == document["summary"]["total"] - len(bad) > 0

    root = ET.parse(names["junit.xml"]).getroot()
    assert [entry.get("name") for entry in root] == ["minilm on chromium", "minilm on firefox"]
    for entry in root:
        assert entry.get("failures") == str(BROKEN)
        cases = [case for case in entry.iter("testcase") if case.find("failure") is not None]
        assert {case.get("classname") for case in cases} == {"minilm.layer_norm"}

    commands = [line for line in ran.out.splitlines() if line.startswith("::error ")]
    assert len(commands) == 4, "a kernel and a device each"
    assert sum("file=minilm.suite/kernels/layer_norm.wgsl" in line for line in commands) == 2
    line = next(
        number
        for number, text in enumerate((suite / "kernels" / "softmax.wgsl").read_text().splitlines(), 1)
        if "nonsense" in text
    )
    assert sum(f"file=minilm.suite/kernels/softmax.wgsl,line={line}," in command for command in commands) == 2
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("## ❌ tapml test")
    assert "layer&#95;norm" in summary

    with opened(PLAIN, viewport={"width": 1280, "height": 900}) as page:
        look_at_report(page, names["report.html"])
        page.screenshot(path=tmp_path / "report.png", full_page=True)


def look_at_report(page: Page, path: Path) -> None:
    """As a person would: the matrix, a failing kernel, its evidence, the devices with pictures of their pages."""
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-state=ready]")
    row = page.locator(".matrix tbody tr", has_text="layer_norm").filter(has_text="✗ 12/12").first
    expect(row.get_by_role("button")).to_have_count(2)
    row.get_by_role("button").nth(1).click()
    tests = page.locator("details.test")
    expect(tests).to_have_count(BROKEN)
    tests.first.locator("summary").first.click()
    for words in (
        "out of tolerance",
        "Elements by ULP distance",
        "Tolerance",
        "largest partial sum",
        "Attempts",
        "tapml export",
    ):
        expect(tests.first.get_by_text(words).first).to_be_visible()
    page.get_by_role("button", name="layer_norm on firefox").click()
    page.get_by_label("with").fill("softmax firefox")
    tests.first.locator("summary").first.click()
    expect(tests.first.get_by_text("workgroupBarrier(nonsense)").first).to_be_visible()
    expect(page.locator(".device")).to_have_count(2)
    expect(page.locator(".device img")).to_have_count(2)
    for number in (0, 1):
        assert page.locator(".device img").nth(number).evaluate("img => img.naturalWidth") > 100
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []


def test_a_baseline_from_recording_to_expiry(suite: Path, edit: Callable[[str, Edit], None], tmp_path: Path) -> None:
    baseline, out = tmp_path / "baseline.json", tmp_path / "run.json"
    # Two kernels of the small ones: the rest is tests/ci's.
    run = ("test", suite, "--device", "deno", "--kernel", "layer_norm", "--kernel", "softmax", "--json", out)
    whole = (suite / "kernels" / "layer_norm.wgsl").read_text()
    edit("layer_norm", off_by_one)
    assert tapml(*run).code == 1
    ran = tapml(*run, "--baseline", baseline, "--update-baseline", "--reason", "issue 7")
    assert ran.code == 0, ran.err
    entries = read_json(baseline)["expected"]
    assert [entry["reason"] for entry in entries] == ["issue 7"] * BROKEN

    assert tapml(*run, "--baseline", baseline).code == 0
    assert read_json(out)["summary"]["expected"] == BROKEN

    edit("softmax", lambda text: text.replace("workgroupBarrier();", "workgroupBarrier(nonsense);", 1))
    assert tapml(*run, "--baseline", baseline).code == 1, "worse"
    assert read_json(out)["summary"]["failing_kernels"] == ["softmax"]
    edit("softmax", lambda text: text.replace("workgroupBarrier(nonsense);", "workgroupBarrier();", 1))

    for entry in entries:
        entry["expires"] = "2020-01-01"
    expired = tmp_path / "expired.json"
    expired.write_text(json.dumps({**read_json(baseline), "expected": entries}))
    ran = tapml(*run, "--baseline", expired)
    assert ran.code == 1
    assert "expired on 2020-01-01" in ran.out

    (suite / "kernels" / "layer_norm.wgsl").write_text(whole)
    ran = tapml(*run, "--baseline", baseline)
    assert ran.code == 0
    assert read_json(out)["summary"]["fixed"] == BROKEN
    assert "--update-baseline" in ran.out
    assert tapml(*run, "--baseline", baseline, "--update-baseline").code == 0
    assert read_json(baseline)["expected"] == []


def test_shards_together_are_the_whole_suite(suite: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    for index in (1, 2, 3):
        out = tmp_path / f"{index}.json"
        ran = tapml("test", suite, "--device", "deno", "--shard", f"{index}/3", "--json", out)
        assert ran.code == 0, ran.err
        seen += [test["id"] for test in read_json(out)["tests"]]
    shown = tmp_path / "show.json"
    assert tapml("show", suite, "--json", shown).code == 0
    assert sorted(seen) == sorted(test["id"] for test in read_json(shown)["tests"])


@pytest.mark.slow
def test_pytest_collects_and_runs_carved_tests(suite: Path, edit: Callable[[str, Edit], None], tmp_path: Path) -> None:
    edit("layer_norm", off_by_one)
    (tmp_path / "test_ordinary.py").write_text("def test_ordinary():\n    pass\n")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "--tapml", str(suite), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=tmp_path)

    listed = run("--collect-only", "-q", "--tapml-device", "chromium", "--tapml-device", "firefox")
    assert listed.returncode == 0, listed.stdout
    assert listed.stdout.count("[chromium]") == listed.stdout.count("[firefox]") > 90
    devices = ("--tapml-device", "node-dawn", "--tapml-device", "deno")
    options = ("-k", "layer_norm or softmax or test_ordinary", "test_ordinary.py")
    ran = run(*devices, *options)
    assert ran.returncode == 1, ran.stdout
    # fused_layer_norm_multiply2 and six of softmax pass.
    assert f"{2 * BROKEN} failed, {1 + 2 * 7} passed" in ran.stdout
    assert "elements differ beyond tolerance" in ran.stdout
    assert "tolerance: |got - expected| <=" in ran.stdout
    assert "tapml export" in ran.stdout
    again = run(*devices, *options, "--lf")
    assert f"{2 * BROKEN} failed" in again.stdout
    assert "passed" not in again.stdout.splitlines()[-1]
