"""Faults that no carved position shows: a decoder is carved with a short prompt, and pages write longer texts."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoders import decoder
from tapml.cli import main
from tapml.locating.places import not_yet, places_of
from tapml.locating.positions import starts

CAPACITY = 96

Edit = Callable[[str], str]


@pytest.mark.parametrize(
    ("tokens", "capacity", "most"),
    [(1, 24, 40), (1, 128, 40), (11, 128, 40), (1, 4096, 12), (32, 4096, 12), (1, 1, 40)],
)
def test_positions_that_are_tried_reach_from_end_to_end(tokens: int, capacity: int, most: int) -> None:
    found = starts(tokens, capacity, most)
    assert found == sorted(set(found))
    assert found[0] == 0
    assert found[-1] == capacity - tokens
    assert len(found) <= most
    if capacity == 128 and tokens == 1:
        assert {63, 64, 31, 32} <= {*found}


@pytest.fixture(scope="module")
def carved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prompt of five tokens, and two after it."""
    folder = tmp_path_factory.mktemp("positions")
    config, path = decoder("grouped queries", folder), folder / "decoder.suite"
    options = ["--prompt-ids", "3,17,42,99,7", "--capacity", str(CAPACITY), "--chunk", "8", "--steps", "2"]
    assert main(["carve", "--hf", str(config), *options, "-o", str(path)]) == 0
    return path


def located(suite: Path, folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    code = main(["locate", str(suite), "--device", "node-dawn", *options, "--json", str(folder / "found.json")])
    return code, json.loads((folder / "found.json").read_text())


def edited(suite: Path, folder: Path, kernel: str, edit: Edit) -> Path:
    copy = folder / "edited.suite"
    shutil.copytree(suite, copy)
    path = copy / "kernels" / f"{kernel}.wgsl"
    before = path.read_text()
    path.write_text(edit(before))
    assert path.read_text() != before
    return copy


def of_position(change: str) -> Edit:
    """`change`: what to read, of the position `{}`."""

    def edit(text: str) -> str:
        found, begin = "", 0
        for match in re.finditer(r"positions(_ptr)?\[", text):
            end, depth = match.end(), 1
            while depth:
                depth += {"[": 1, "]": -1}.get(text[end], 0)
                end += 1
            found += text[begin : match.start()] + change.format(text[match.start() : end])
            begin = end
        return found + text[begin:]

    return edit


def of_values(change: str) -> Edit:
    """`change`: which row of the cache the values are read from, where `tile + j` is the place and
    `row_of_head` the head's first row."""
    return lambda text: text.replace("(row_of_head + tile + j) * 16", f"({change}) * 16")


def windowed(text: str) -> str:
    """Only the 48 positions before are seen."""
    return text.replace("at <= position", "at <= position && at + 48 > position")


ATTENTION = "cached_attention_decode"
FAULTS: dict[str, tuple[str, Edit, int]] = {
    "a window": (ATTENTION, windowed, 48),
    "a window in a chunk": ("cached_attention", windowed, 48),
    "modulo 64": (ATTENTION, of_position("({} & 63i)"), 64),
    "a stale row": (ATTENTION, of_values("row_of_head + tile + j - select(0, 1, tile + j == 70)"), 70),
    "another head": (ATTENTION, of_values("select(row_of_head, 0, tile + j >= 64) + tile + j"), 64),
    "appended modulo 64": ("cache_append_decode", of_position("({} & 63i)"), 64),
    "a table that ends": ("take1_decode", of_position("min({}, 80i)"), 81),
}


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_shows_beyond_the_carved_positions_is_named_with_its_position(
    carved: Path, tmp_path: Path, name: str
) -> None:
    kernel, edit, position = FAULTS[name]
    suite = edited(carved, tmp_path, kernel, edit)
    code, found = located(suite, tmp_path, "--kernel", kernel)
    assert code == 1
    assert found["summary"]["faulty_kernels"] == [kernel]
    (accused,) = found["kernels"]
    where = (
        f"position {position}" if kernel.endswith("_decode") else f"the call of positions {position - 4} to {position}"
    )
    assert f"wrong from {where} on (right before;" in accused["reason"]
    (told,) = [one for one in accused["findings"] if one["pattern"] == "position"]
    assert told["details"]["position"] == position
    assert told["details"]["carved_pass"], "carved tests show it"


@pytest.mark.torch
@pytest.mark.slow
def test_the_step_at_which_logits_part_is_named_with_its_position(carved: Path, tmp_path: Path) -> None:
    """Right for the prompt, wrong from the first token after it on."""
    suite = edited(carved, tmp_path, ATTENTION, of_position("min({}, 4i)"))
    code, found = located(suite, tmp_path)
    assert code == 1
    assert found["summary"]["faulty_kernels"] == [ATTENTION]
    assert "wrong from position 5 on" in found["kernels"][0]["reason"]
    text = found["model"]["text"]
    assert text.startswith(f"{ATTENTION} fails: the logits are off by ")
    assert "at step 1 (token 5), position 5, the first of 3 steps beyond the bound" in text
    nodes = ", ".join(f"{node} ({ATTENTION})" for node in found["model"]["minimal_nodes"])
    assert f"the model is within its bound again when {nodes} are computed by the reference" in text


@pytest.mark.torch
@pytest.mark.slow
def test_right_kernels_are_right_at_all_positions(
    carved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = located(carved, tmp_path)
    assert code == 0
    assert found["summary"]["verdict"] == "clean"
    reading = ["take1", "cache_append", "cached_attention"]
    assert found["positions"]["kernels"] == [*reading, *(f"{kernel}_decode" for kernel in reading)]
    assert found["positions"]["left_out"] == []
    assert found["positions"]["last"] == CAPACITY - 1
    said = " ".join(capsys.readouterr().out.split())
    assert f"at positions up to {CAPACITY - 1}, the last that fits" in said


OWN = "own attention"


@pytest.mark.torch
@pytest.mark.slow
def test_attention_over_the_whole_capacity_is_tried_where_nothing_stands_yet(tmp_path: Path) -> None:
    """Its kernels read no positions: masks and caches tell what is there."""
    config, path = decoder(OWN, tmp_path), tmp_path / "own.suite"
    options = ["--prompt-ids", "3,17,42,99,7", "--capacity", "80", "--chunk", "8", "--steps", "2"]
    assert main(["carve", "--hf", str(config), *options, "-o", str(path)]) == 0
    (kernel,) = [file.stem for file in (path / "kernels").glob("*.wgsl") if "ax3_0 < 10i" in file.read_text()]
    code, found = located(path, tmp_path, "--no-model")
    assert code == 0
    assert kernel in found["positions"]["kernels"]
    assert found["positions"]["left_out"] == []
    # Of 80 rows of values the last 16 are not added.
    suite = edited(path, tmp_path, kernel, lambda text: text.replace("ax3_0 < 10i", "ax3_0 < 8i"))
    code, found = located(suite, tmp_path, "--kernel", kernel)
    assert code == 1
    (accused,) = found["kernels"]
    assert "the last 16 of 80 terms left out" in accused["reason"]
    (told,) = [one for one in accused["findings"] if one["pattern"] == "position"]
    assert told["details"]["position"] == 64
    assert told["details"]["carved_pass"], "carved tests show it"


@pytest.mark.torch
@pytest.mark.slow
def test_what_positions_choose_from_is_tried_at_all_of_them(tmp_path: Path) -> None:
    """T5 looks up a bias for each bucket of distances: a short text has few of them."""
    config, path = decoder("encoder of tokens", tmp_path), tmp_path / "t5.suite"
    options = ["--prompt-ids", "3,17,42,99,7", "--capacity", "64", "--chunk", "8", "--steps", "2"]
    assert main(["carve", "--hf", str(config), *options, "-o", str(path)]) == 0
    texts = {file.stem: file.read_text() for file in (path / "kernels").glob("take*.wgsl")}
    (kernel,) = [name for name, text in texts.items() if "relative_attention_bias" in text]
    last_bucket = "max(min(condval, 7i), 0i)"
    suite = edited(path, tmp_path, kernel, lambda text: text.replace(last_bucket, "max(min(condval, 6i), 0i)"))
    code, found = located(suite, tmp_path, "--kernel", kernel)
    assert code == 1
    (told,) = [one for one in found["kernels"][0]["findings"] if one["pattern"] == "position"]
    assert told["details"]["position"] == 14
    assert told["details"]["carved_pass"], "carved tests show it"


def test_places_are_where_one_number_stands_behind_what_is_known() -> None:
    scores = np.zeros((2, 3, 8), np.float32)
    scores[..., :3] = np.arange(18).reshape(2, 3, 3)
    mask = np.where(np.arange(8) < 3, np.float32(0), np.finfo(np.float32).min)[None]
    found, masked = places_of(scores, 8, 3), places_of(mask, 8, 3)
    assert found is not None
    assert masked is not None
    assert (found.axis, masked.axis) == (2, 1)
    assert np.isfinite(masked.drawn).all()
    assert np.array_equal(found.until(3), scores)
    assert np.array_equal(found.until(6)[..., 6:], scores[..., 6:])
    assert found.until(6)[1, :, 3:6].all()
    assert places_of(np.arange(8, dtype=np.float32), 8, 3) is None, "features, not places"
    assert places_of(np.zeros(8, np.float32), 8, 3) is None, "nothing to draw from"
    assert not_yet((2, 8), 8, 5).sum() == 6
    assert not not_yet((8, 8), 8, 5).any(), "which of the two are places?"
