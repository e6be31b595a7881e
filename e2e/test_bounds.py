"""Bounds of single elements, unbounded elements and ties: the same verdict on devices, in files and in reports."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from playwright.sync_api import expect

from bounded import EXPECTED, bounded_suite
from conftest import read_json, tapml
from pages import Opened
from preloaded import python
from tapml.results.verdicts import VERDICTS
from tapml.sharing import export, of_suite
from tapml.suite import Suite
from test_share import run_to_end


@pytest.fixture
def bounded(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    suite, cases = bounded_suite(tmp_path / "bounded.suite")
    return suite.path, cases


def test_every_element_is_held_against_its_own_bound(bounded: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    suite, cases = bounded
    out = tmp_path / "result.json"
    ran = tapml("validate", suite, "--device", "node-dawn", "--device", "chromium", "--json", out)
    assert ran.code == 1, ran.err
    document = read_json(out)
    for device in document["devices"]:
        found = {test["id"]: test for test in document["tests"] if test["device"] == device["id"]}
        counted = {case: {key: found[cases[case]][key] for key in EXPECTED[case]} for case in cases}
        assert counted == EXPECTED
        narrow, unbounded = (found[cases[case]] for case in ("narrow", "open"))
        element = {"output": 0, "index": [2, 3], "expected": 38.25, "got": 38.0, "bound": 0.125}
        assert narrow["first"] == narrow["worst"] == element
        assert unbounded["first"] == {"output": 0, "index": [0, 1], "expected": 2.25, "got": 2.0, "bound": "Infinity"}
        assert unbounded["message"].startswith("2 of 32 elements are unbounded: WGSL promises nothing for them")
        assert unbounded["tolerances"][0]["bound"]["shape"] == [4, 8]
    verdicts = [case["verdict"] for case in EXPECTED.values()]
    sums = {verdict: 2 * verdicts.count(verdict) for verdict in VERDICTS}
    assert {verdict: document["summary"][verdict] for verdict in VERDICTS} == sums
    assert document["summary"]["failing_kernels"] == ["multiply", "add"]


def test_exported_files_say_the_same(bounded: tuple[Path, dict[str, str]], opened: Opened, tmp_path: Path) -> None:
    path, cases = bounded
    suite = Suite(path)
    with opened("chromium") as page:
        for case, test in cases.items():
            (path,) = export(of_suite(suite, test), "html", tmp_path / f"{test}.html")
            verdict = run_to_end(page, path.as_uri())
            (output,) = page.evaluate("window.tapmlRepro")["outputs"]
            counts = {key: output[key] for key in ("mismatched", "unbounded", "tied")}
            assert {"verdict": verdict, **counts} == EXPECTED[case], case
            if case == "open":
                expect(page.locator("body")).to_contain_text("2 of 32 elements are unbounded")
    for case, code, words in (
        ("wide", 0, "0 of 32 elements"),
        ("open and narrow", 1, "1 of 32 elements outside"),
        ("open", 1, "2 elements are unbounded"),
        ("ties", 0, "0 of 8 elements"),
    ):
        script, _ = export(of_suite(suite, cases[case]), "python", tmp_path / f"{cases[case]}.py")
        ran = python(script, "node-dawn")
        assert (ran.code, words in ran.out) == (code, True), ran.out + ran.err


def test_an_imported_test_keeps_its_bounds(bounded: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    suite, cases = bounded
    (file,) = export(of_suite(Suite(suite), cases["open and narrow"]), "safetensors", tmp_path / "x.safetensors")
    again = tmp_path / "again.suite"
    assert tapml("import", file, "-o", again).code == 0
    out = tmp_path / "again.json"
    assert tapml("validate", again, "--device", "node-dawn", "--json", out).code == 1
    (test,) = read_json(out)["tests"]
    expected = EXPECTED["open and narrow"]
    assert {key: test[key] for key in expected} == expected


def test_unbounded_is_a_failure_of_its_own_in_ci_and_keeps_its_kernel_on_the_reference(
    bounded: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    suite, cases = bounded
    tests = read_json(suite / "tests.json")
    wanted = (cases["wide"], cases["open"], cases["ties"])
    tests["tests"] = [test for test in tests["tests"] if test["id"] in wanted]
    (suite / "tests.json").write_text(json.dumps(tests))
    run = ("test", suite, "--device", "node-dawn", "--baseline", tmp_path / "b.json")
    junit = tmp_path / "junit.xml"
    assert tapml(*run[:4], "--junit", junit, "--retries", "1").code == 1
    (failure,) = ET.parse(junit).getroot().iter("failure")
    assert failure.get("type") == "unbounded"
    assert "WGSL promises nothing" in (failure.get("message") or "")
    assert not list(ET.parse(junit).getroot().iter("rerunFailure")), "another run would say the same"
    assert tapml(*run, "--update-baseline").code == 0
    (entry,) = read_json(tmp_path / "b.json")["expected"]
    assert entry["verdict"] == "unbounded"
    assert tapml(*run).code == 0

    out = tmp_path / "offload.json"
    assert tapml("offload", suite, "--device", "node-dawn", "--json", out).code == 1
    steps = {step["kernel"]: step for step in read_json(out)["steps"]}
    assert steps["add"]["kept"]
    assert not steps["multiply"]["kept"]
    assert steps["multiply"]["operator_verdict"] == "unbounded"
    assert steps["multiply"]["message"].startswith("stays on the reference platform: 2 of 32 elements are unbounded")
