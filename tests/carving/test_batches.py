"""Decoders whose calls take tokens of several texts, from a configuration to texts that are written together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tapml as tml
from decoders import PROMPT, decoder
from tapml.cli import main
from tapml.importing import import_decoder
from tapml.suite import Suite

pytestmark = pytest.mark.torch

CAPACITY, TEXTS = 96, 3
"""Five texts do not fit into the blocks of three."""


@pytest.mark.slow
def test_texts_together_are_those_of_separate_runs(tmp_path: Path) -> None:
    """Each of them is what transformers writes, whichever ends first, and whether or not it lost its blocks on the way.
    Two begin alike, with more than a block."""
    from tapml.importing.hf_import import greedy
    from tapml.importing.hf_model import open_decoder

    config, path = decoder("grouped queries", tmp_path), tmp_path / "decoder.suite"
    options = ["--prompt-ids", ",".join(map(str, PROMPT)), "--capacity", str(CAPACITY), "--chunk", "8", "--steps", "1"]
    assert main(["carve", "--hf", str(config), *options, "--batch", str(TEXTS), "-o", str(path)]) == 0
    assert main(["validate", str(path), "--device", "node-dawn"]) == 0
    model = tml.build(Suite(path), tmp_path / "decoder.tapml")
    generation = model.files.model.generation
    assert generation is not None
    assert generation.blocks is not None
    assert generation.blocks.places == CAPACITY * TEXTS
    prompts = [[3, 17, 42], [*range(20), 5], [*range(20), 6, 7], [9], [*range(40, CAPACITY)]]
    made = open_decoder(config).model
    ends = set(generation.end)
    wanted = []
    for prompt in prompts:
        tokens = greedy(made, prompt, min(64, CAPACITY - len(prompt) + 1))
        over = next((place + 1 for place, token in enumerate(tokens) if token in ends), len(tokens))
        wanted.append(tokens[:over])
    assert len({token for tokens in wanted for token in tokens}) > 10
    for device in (tml.cpu(), tml.webgpu("node-dawn")):
        with tml.generate_several(model, prompts, device, greedy=True, tokens=64) as several:
            list(several)
        assert [result.ids for result in several.results] == wanted, device
        # One alone, by the function of one token, and drawn ones, of logits.
        with tml.generate(model, prompts[1], device, greedy=True, tokens=8) as alone:
            assert [piece.id for piece in alone] == wanted[1][:8], device
        drawn: dict[str, Any] = {"tokens": 6, "temperature": 1.5, "seed": 3}
        with tml.generate_several(model, prompts[:2], device, **drawn) as several:
            list(several)
        for prompt, result in zip(prompts, several.results, strict=False):
            assert [piece.id for piece in tml.generate(model, prompt, device, **drawn)] == result.ids, device


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("own attention", "FalconForCausalLM computes attention by itself, over the cache of one sequence: leave out"),
        ("states of a cache", "MambaForCausalLM keeps states of a recurrence, which are of one sequence: leave out"),
        ("encoder of tokens", "attends to what its encoder leaves, which is one source's: leave out --batch"),
    ],
)
def test_what_has_no_batch_is_refused(kind: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(tml.InputError, match=said):
        import_decoder(decoder(kind, tmp_path), prompt=[3, 5], steps=1, capacity=32, chunk=4, batch=2)


def test_what_tokens_do_to_those_of_other_texts_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a call's first token told the blocks of all."""
    from tapml.importing import hf_step

    right = hf_step.cached_attention

    def of_the_first(*given: Any) -> Any:
        *before, blocks, scaling, window, softcap, block = given
        return right(*before, blocks[:1].expand(blocks.shape[0], -1), scaling, window, softcap, block)

    monkeypatch.setattr(hf_step, "cached_attention", of_the_first)
    with pytest.raises(tml.InputError, match="exported for several sequences, differs from transformers' own"):
        import_decoder(decoder("grouped queries", tmp_path), prompt=[3, 5], steps=1, capacity=32, chunk=4, batch=2)


def test_a_capacity_that_is_no_whole_blocks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tml.InputError, match=r"--capacity 40 is no multiple of 16, .*: give --capacity 48"):
        import_decoder(decoder("grouped queries", tmp_path), prompt=[3, 5], steps=1, capacity=40, batch=2)
