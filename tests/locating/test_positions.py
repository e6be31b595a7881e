"""Faults that no carved position shows: a decoder is carved with a short prompt, and pages write longer texts."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decoders import decoder
from tapml.cli import main
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
