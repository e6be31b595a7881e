"""The examples of the field as somebody runs them: agent, tasks, tunnel and service are the real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def example(name: str, folder: Path) -> dict[str, Any]:
    found = folder / "found.json"
    line = [sys.executable, ROOT / "examples" / name, "-o", folder / name, "--json", found]
    done = subprocess.run(line, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "summary" in done.stdout
    document: dict[str, Any] = json.loads(found.read_text())
    return document


@pytest.mark.slow
def test_what_a_small_model_is_not_sure_of_is_decided_in_the_cloud(tmp_path: Path) -> None:
    found = example("highlights", tmp_path)
    assert found["images"] == 597
    assert 0.06 < found["sent"] / found["images"] < 0.18
    assert found["load_saved"] == pytest.approx(1 - found["sent"] / found["images"])
    accuracy = found["accuracy"]
    assert 0.9 < accuracy["small"] < accuracy["both"] <= 1
    assert accuracy["small"] < accuracy["large"]
    assert found["accuracy_where_sure"] > accuracy["small"]


@pytest.mark.slow
def test_a_page_becomes_128_bytes_which_the_cloud_would_have_made_of_its_events(tmp_path: Path) -> None:
    found = example("page-views", tmp_path)
    assert found["pages"] == 12
    assert found["encoding_bytes"] == 128
    assert found["events"] > 8  # enter, the item, some others, scrolls, a click, exit
    assert found["raw_bytes"] > 5 * found["feature_bytes"]
    assert found["largest_difference"] < 1e-5
    assert found["nearest_is_viewed"] > 0.1  # by chance: one of a hundred
