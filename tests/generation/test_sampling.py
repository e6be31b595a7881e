"""Which token is chosen: as a page has it, and as transformers' own processors leave it open."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapml.errors import InputError, TapmlError
from tapml.generation.drafts import ngrams
from tapml.generation.philox import philox, uniform
from tapml.generation.sampling import Sampling, chooser

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/sampling.json").read_text())
NAMES = {"topK": "top_k", "topP": "top_p", "repetitionPenalty": "repetition_penalty"}


def logits_of(case: dict[str, Any]) -> np.ndarray:
    if "logits" in case:
        return np.array([float(value) for value in case["logits"]], np.float32)
    made = case["formula"]
    places = np.arange(made["count"])
    return (((places * made["times"] + made["plus"]) % made["modulo"]) / made["by"]).astype(np.float32)


def test_random_numbers_are_those_of_pages() -> None:
    for case in VECTORS["philox"]:
        assert list(philox(tuple(case["counter"]), tuple(case["key"]))) == case["words"]
    for case in VECTORS["uniform"]:
        assert uniform(case["seed"], case["position"]) * 2**53 == case["bits"]


def test_guesses_are_those_of_pages() -> None:
    for case in VECTORS["ngrams"]:
        assert ngrams(case["tokens"], case["count"]) == case["guesses"]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: json.dumps(case["options"]))
def test_tokens_are_those_of_pages(case: dict[str, Any]) -> None:
    choose = chooser(Sampling(**{NAMES.get(name, name): value for name, value in case["options"].items()}))
    found = [choose(logits_of(case), case["seen"], position) for position in range(len(case["tokens"]))]
    assert found == case["tokens"]


@pytest.mark.torch
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.6},
        {"top_k": 7},
        {"top_p": 0.8},
        {"repetition_penalty": 1.7, "temperature": 1.3, "top_k": 20, "top_p": 0.9},
    ],
    ids=str,
)
def test_draws_are_as_likely_as_transformers_has_them(options: dict[str, Any]) -> None:
    import torch
    import transformers as hf

    logits = np.random.default_rng(3).normal(0, 2, 40).astype(np.float32)
    seen = [1, 5, int(np.argmax(logits))]
    chain = hf.LogitsProcessorList()
    if penalty := options.get("repetition_penalty"):
        chain.append(hf.RepetitionPenaltyLogitsProcessor(penalty))
    if temperature := options.get("temperature"):
        chain.append(hf.TemperatureLogitsWarper(temperature))
    if top_k := options.get("top_k"):
        chain.append(hf.TopKLogitsWarper(top_k))
    if top_p := options.get("top_p"):
        chain.append(hf.TopPLogitsWarper(top_p))
    left = chain(torch.tensor([seen]), torch.tensor(logits[None]))
    likely = torch.softmax(left[0].double(), -1).numpy()
    draws = 4000
    choose = chooser(Sampling(**options, seed=1))
    counts = Counter(choose(logits, seen, position) for position in range(draws))
    assert set(counts) <= set(np.flatnonzero(likely))
    for token, share in enumerate(likely):
        # Five standard deviations: of 200 shares none is beyond by chance.
        room = 5 * math.sqrt(draws * share * (1 - share)) + 1e-9
        assert abs(counts[token] - draws * share) <= room, token


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"greedy": True, "top_p": 0.5}, "greedy takes the most likely token, and top_p is for draws"),
        ({"temperature": 0}, "temperature is 0: give a number above 0 .for the most likely token give greedy"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"temperature": True}, "temperature is True"),
        ({"temperature": 1e-300}, r"temperature is 1e-300: .*, from 0\.000001 to 1000000$"),
        ({"top_k": 0}, "top_k is 0: give a whole number from 1"),
        ({"top_k": 2.0}, "top_k is 2.0"),
        ({"top_p": 0.0}, "top_p is 0.0: give a number above 0 and at most 1"),
        ({"top_p": 1.01}, "top_p is 1.01"),
        ({"repetition_penalty": -1}, "repetition_penalty is -1"),
        ({"repetition_penalty": 1e-320}, "repetition_penalty is 1e-320: .*, from 0"),
        ({"repetition_penalty": math.nan}, "repetition_penalty is nan"),
        ({"seed": -1}, "seed is -1: give a whole number from 0 to 2.53 - 1"),
        ({"seed": 2**53}, "seed is 9007199254740992"),
    ],
)
def test_what_is_beyond_its_range_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Sampling(**options)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("greedy", [True, False])
def test_logits_that_are_no_numbers_are_told(value: float, greedy: bool) -> None:
    logits = np.array([-math.inf, value, -math.inf], np.float32)
    with pytest.raises(TapmlError, match="logits for position 9 are no numbers to choose by"):
        chooser(Sampling(greedy=greedy))(logits, [], 9)
