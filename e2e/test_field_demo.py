"""`tapml field demo`, as somebody runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from preloaded import tapml

SECONDS = 1800
"""Forty browsers beside other tests: three minutes of a quiet machine's become ten of a busy one's."""


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
def test_the_demo_takes_a_wrong_version_back_and_names_its_kernel(tmp_path: Path) -> None:
    found = tmp_path / "demo.json"
    done = tapml("field", "demo", "--port", "0", "-o", tmp_path / "demo", "--json", found, timeout=SECONDS)
    assert done.code == 0, done.out + done.err
    assert "\nrolled back in the step gray 35%: " in done.out + done.err
    document = json.loads(found.read_text())
    assert document["rolled_back"] is True
    assert (document["kernel"], document["variant"]) == ("softmax", "subgroups")
    assert document["wrong_on"]
    assert document["wrongly_accused"] == []
    assert document["restored"] is True
    assert document["reproduced"]["verdict"] == "fail"
    most = max(point["devices"] for point in document["coverage"])
    assert 0 < most < 40
    assert document["coverage"][-1]["devices"] == 0
    assert [step["step"] for step in document["steps"]][:3] == ["simulation", "beta", "gray 35%"]
