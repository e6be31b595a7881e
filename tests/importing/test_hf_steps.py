"""What of a model's own code is changed while a step of it is captured, and how its faults are told."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import transformers

from tapml.errors import InputError
from tapml.importing.hf_capture import _line
from tapml.importing.hf_compare import _check_itself
from tapml.importing.hf_masks import masks_at
from tapml.importing.hf_rotary import fixed_frequencies

pytestmark = pytest.mark.torch

PLACES = 6


def local() -> Any:
    """A module that sees two places, as GPT-Neo holds that."""
    module = torch.nn.Module()
    seen = torch.ones(PLACES, PLACES, dtype=torch.bool).tril()
    module.register_buffer("bias", (seen ^ seen.tril(-2))[None, None])
    module.register_buffer("weight", torch.ones(1, 1, PLACES, PLACES))
    return module


def test_masks_that_a_model_holds_are_of_the_tokens_positions() -> None:
    model = local()
    held = model.bias
    with masks_at(model, torch.tensor([2, 3])):
        # As if all places were filled: the last two rows of six.
        taken = model.bias[:, :, PLACES - 2 : PLACES, :PLACES]
        assert model.weight.shape == (1, 1, PLACES, PLACES)
    assert taken.shape == (1, 1, 2, PLACES)
    assert [row.nonzero()[:, 0].tolist() for row in taken[0, 0]] == [[1, 2], [2, 3]]
    assert model.bias is held


@pytest.mark.parametrize(
    ("kind", "settled"),
    [
        ("dynamic", "default"),
        ("longrope", "longrope"),
        ({"full": "dynamic", "sliding": "yarn"}, {"full": "default", "sliding": "yarn"}),
    ],
)
def test_frequencies_that_change_behind_the_capacity_are_fixed(kind: Any, settled: Any) -> None:
    model = torch.nn.Module()
    model.rope_type, model.original_max_seq_len = kind, 64
    for capacity, expected in ((64, settled), (65, kind)):
        with fixed_frequencies(model, capacity):
            assert model.rope_type == expected
        assert model.rope_type == kind


class Counting(torch.nn.Module):
    """Its logits are how many tokens a call has, and how many of them there were before it."""

    def forward(self, input_ids: Any, past_key_values: int = 0, use_cache: bool = False) -> Any:
        count = input_ids.shape[1]
        logits = torch.tensor([[[float(count), float(past_key_values)]]])
        return SimpleNamespace(logits=logits, past_key_values=past_key_values + count)


def test_a_model_that_differs_from_itself_is_told_so() -> None:
    """Three tokens, one by one: the last call has one, behind two."""
    ids, whole = torch.zeros(1, 3, dtype=torch.int64), torch.tensor([3.0, 0.0])
    with pytest.raises(InputError, match=r"Counting .* token by token, .* logits of token 3 differ by 2, and reach 3:"):
        _check_itself(Counting(), ids, None, torch.tensor([1.0, 2.0]), whole, 3.0)
    _check_itself(Counting(), ids, None, torch.tensor([1.0, 2.5]), whole, 3.0)  # the export is of a third opinion
    _check_itself(Counting(), ids, None, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]), 3.0)


def test_the_line_of_a_models_own_code_is_told() -> None:
    with pytest.raises(ValueError, match="no such model") as raised:
        transformers.AutoConfig.for_model("no such model")
    assert re.fullmatch(r" \(line \d+ of configuration_auto\.py, raise ValueError\(\)", _line(raised.value))
    assert _line(ValueError("raised by nobody")) == ""
