"""Locate in a real browser: two different bugs in MiniLM, both named with their reason, and no other kernel."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Edit, read_json, tapml


@pytest.mark.slow
def test_two_broken_kernels_are_named_and_no_other(
    suite: Path, edit: Callable[[str, Edit], None], tmp_path: Path
) -> None:
    edit(
        "softmax",
        lambda text: text.replace("red_buf0_1[i32(threadIdx.x)] = in_", "red_buf0_1[i32(threadIdx.x)] = 2f * in_"),
    )
    edit("divide", lambda text: text.replace(" < 3i) {", " < 2i) {"))
    out, page = tmp_path / "located.json", tmp_path / "located.html"
    ran = tapml("locate", suite, "--device", "chromium", "--json", out, "--html", page)
    assert ran.code == 1, ran.out + ran.err
    document = read_json(out)
    assert document["format"] == "tapml.locate/1"
    assert sorted(document["summary"]["faulty_kernels"]) == ["divide", "softmax"]
    assert document["summary"]["verdict"] == "faulty"
    assert document["model"] is None
    found = {entry["kernel"]: entry for entry in document["kernels"]}
    assert set(found) == {"divide", "softmax"}
    assert found["softmax"]["findings"][0]["pattern"] == "scale"
    assert "0.5 (1/2) times the expected one" in found["softmax"]["reason"]
    assert found["divide"]["findings"][0]["pattern"] == "unwritten"
    assert "columns 256 to 383 (the end)" in found["divide"]["reason"]
    for entry in found.values():
        assert entry["edited"]
        assert entry["deterministic"] is True
        assert entry["passing_nodes"] == []
        assert entry["outputs"][0]["heatmap"]["values"]
    for word in ("divide", "softmax", "never written", "0.5 (1/2) times", "2 faulty kernels", "█"):
        assert word in ran.out
    assert "tapml reduce" in ran.err
    (packed,) = re.findall(r'<script type="text/plain" id="data">([^<]*)<', page.read_text())
    assert json.loads(gzip.decompress(base64.b64decode(packed)))["document"] == document
    (kept,) = (suite / "results").glob("locate.*.json")
    assert read_json(kept) == document


def test_a_failing_test_is_reduced_to_what_shows_the_bug(
    suite: Path, edit: Callable[[str, Edit], None], tmp_path: Path
) -> None:
    """The sum of the mask, without its second element: one 1 in it is left."""
    edit("sum1", lambda text: text.replace("+ 1i)]", "+ 2i)]", 1))
    test = next(test["id"] for test in read_json(suite / "tests.json")["tests"] if test["kernel"] == "sum1")
    out, reduced = tmp_path / "reduced.json", tmp_path / "reduced.suite"
    ran = tapml("reduce", suite, test, "--device", "node-dawn", "--json", out, "-o", reduced)
    assert ran.code == 0, ran.err
    document = read_json(out)
    assert document["inputs"][0]["nonzero"] < document["inputs"][0]["nonzero_before"]
    assert document["outputs"][0]["mismatched"] == 1
    assert "still fails with less" in ran.out
    again = tapml("validate", reduced, "--device", "node-dawn")
    assert again.code == 1, "what remained fails by itself"
    assert "1 fail" in again.out
