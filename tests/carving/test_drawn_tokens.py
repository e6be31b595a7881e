"""A decoder with a function that draws tokens: carved, right on a device, and Python's tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tapml as tml
from decoders import PROMPT, decoder
from tapml.cli import main
from tapml.suite import Suite

pytestmark = [pytest.mark.torch, pytest.mark.slow]

WAYS: dict[str, dict[str, Any]] = {
    "all": {"seed": 8},
    "some": {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.2, "seed": 2**50},
    "the best, penalised": {"greedy": True, "repetition_penalty": 1.5},
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    config = decoder("grouped queries", tmp_path_factory.mktemp("drawn"))
    path = config.parent / "drawn.suite"
    options = ["--prompt-ids", ",".join(map(str, PROMPT)), "--capacity", "96", "--chunk", "16", "--steps", "1"]
    assert main(["carve", "--hf", str(config), *options, "--draws", "-o", str(path)]) == 0
    return Suite(path)


def test_draws_that_are_carved_are_sure_and_right_on_a_device(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = suite.output_names("draw").index("drawn")
    carved = [test for test in suite.tests if test.kernel == "draw"]
    assert [step["function"] for step in suite.manifest["steps"]][-2:] == ["draw", "draw"]
    assert len(carved) == 2
    assert all(suite.tensors.get(test.outputs[drawn])[0] >= 0 for test in carved)
    assert main(["validate", str(suite.path), "--device", "node-dawn", "--kernel", "draw"]) == 0
    assert "2 tests: 2 pass" in capsys.readouterr().out


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_the_device_draws_is_what_python_draws(way: dict[str, Any], suite: Suite, tmp_path: Path) -> None:
    model = tml.build(suite, tmp_path / "drawn.tapml")
    texts = [
        [piece.id for piece in tml.generate(model, PROMPT, device, tokens=40, **way)]
        for device in (tml.cpu(), tml.webgpu("node-dawn"))
    ]
    assert texts[0] == texts[1]


def test_a_suite_with_draws_is_looked_through_at_later_positions(suite: Suite, tmp_path: Path) -> None:
    """Its last steps are of no position."""
    found = tmp_path / "found.json"
    options = ["--device", "node-dawn", "--no-model", "--kernel", "cache_append", "--json", str(found)]
    assert main(["locate", str(suite.path), *options]) == 0
    positions = json.loads(found.read_text())["positions"]
    assert (positions["kernels"], positions["left_out"], positions["last"]) == (["cache_append"], [], 95)
