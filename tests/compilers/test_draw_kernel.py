"""The kernel that draws a token: what the operator's numpy gives, bit for bit, and where it is sure what Python's
sampler draws in float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapml as tml
from tapml.generation.philox import uniform
from tapml.generation.sampling import Sampling, chooser
from tapml.importing.drawing import drawing
from tapml.operators.draw import asked_of, bits_of, draw

WAYS = {
    "all": Sampling(),
    "the best": Sampling(temperature=0.7, top_k=50),
    "a nucleus": Sampling(top_p=0.9),
    "everything": Sampling(temperature=1.3, top_k=200, top_p=0.95, repetition_penalty=1.2),
    "penalised": Sampling(repetition_penalty=1.1),
    "greedy, penalised": Sampling(greedy=True, repetition_penalty=1.3),
    "cold": Sampling(temperature=0.1, top_p=0.5),
    "more than there are": Sampling(top_k=100_000, repetition_penalty=0.8),
}


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    found = tml.webgpu("node-dawn")
    yield found
    found.close()


@pytest.fixture(scope="module")
def few(device: Any) -> Iterator[Any]:
    """Of a vocabulary of 64."""
    with tml.upload(tml.compile(drawing(64), target=device), device) as library:
        yield library


def logits_of(words: int, random: np.random.Generator) -> np.ndarray:
    """Of all kinds: flat and steep, with ties, far from 0."""
    found = random.normal(size=words) * random.choice([0.01, 1, 4, 10])
    if random.random() < 0.3:
        found = np.round(found * 4) / 4
    return (found + random.choice([0, 0, -30, 200])).astype(np.float32)


def asked(way: Sampling, seed: int, position: int, words: int) -> np.ndarray:
    random = 0.0 if way.greedy else uniform(seed, position)
    best = 1 if way.greedy else way.top_k or words
    return asked_of(way.temperature or 1.0, best, way.top_p or 1.0, way.repetition_penalty, random, words)


def drawn_by(library: Any, target: Any, given: list[np.ndarray]) -> list[np.ndarray]:
    outputs = [tml.allocate((1, 1), "int32", target), tml.allocate((1,), "int32", target)]
    outputs.append(tml.allocate(given[1].shape, "int32", target))
    library["main"](*(tml.tensor(array, target) for array in given), *outputs)
    return [output.numpy() for output in outputs]


@pytest.mark.parametrize(
    ("words", "times"),
    [pytest.param(3, 24, marks=pytest.mark.slow), (4096, 16), pytest.param(50257, 40, marks=pytest.mark.slow)],
)
def test_where_it_is_sure_it_is_the_token_of_float64(words: int, times: int, device: Any) -> None:
    random = np.random.default_rng(words)
    sure = 0
    with tml.upload(tml.compile(drawing(words), target=device), device) as library:
        for number in range(times):
            way = [*WAYS.values()][number % len(WAYS)]
            seed, position = int(random.integers(2**53)), int(random.integers(5000))
            way = way if way.greedy else dataclasses.replace(way, seed=seed)
            logits = logits_of(words, random)
            seen = {int(token) for token in random.integers(0, words, 100)}
            given = [logits[None], bits_of(sorted(seen), words), asked(way, seed, position, words)]
            wanted = draw(*given)
            for got, one in zip(drawn_by(library, device, given), wanted, strict=True):
                np.testing.assert_array_equal(got, one)
            if (token := int(wanted[1][0])) >= 0:
                sure += 1
                assert token == chooser(way)(logits, seen, position), (way, seed, position)
                assert wanted[2].view(np.uint32)[token >> 5] >> (token & 31) & 1
    assert sure >= times / 2


NAN, INFINITY = float("nan"), float("inf")
UNSURE = {
    "NaN": ({0: NAN}, {}, 0.5),
    "infinite": ({7: INFINITY}, {}, 0.5),
    "minus infinity alone": (dict.fromkeys(range(64), -INFINITY), {}, 0.5),
    "too large": ({3: 1e30}, {}, 0.5),
    "the border of two": (dict.fromkeys(range(64), 1.0), {}, 0.5),
    "the border of two of the best": (dict.fromkeys(range(64), 1.0), {"top_k": 4}, 0.25),
    "a nucleus that ends at a border": (dict.fromkeys(range(64), 1.0), {"top_k": 4, "top_p": 0.5}, 0.1),
    "a penalty that makes two equal": ({0: 4.0, 1: 2.0}, {"penalty": 2.0}, 0.0),
}


@pytest.mark.parametrize(("values", "options", "random"), UNSURE.values(), ids=UNSURE)
def test_what_rounding_may_decide_is_left_to_whoever_asked(
    values: dict[int, float], options: dict[str, float], random: float, device: Any, few: Any
) -> None:
    logits = np.full((1, 64), -20, np.float32)
    logits[0, [*values]] = [*values.values()]
    top_k = 1 if "penalty" in options else int(options.get("top_k", 64))
    found = asked_of(1.0, top_k, options.get("top_p", 1.0), options.get("penalty", 1.0), random, 64)
    given = [logits, bits_of([0], 64), found]
    chosen, drawn, after = drawn_by(few, device, given)
    assert (chosen.tolist(), drawn.tolist()) == ([[0]], [-1])
    np.testing.assert_array_equal(after, given[1])
    assert draw(*given)[1].tolist() == [-1]


def test_what_weighs_nothing_may_be_minus_infinity(device: Any, few: Any) -> None:
    logits = np.full((1, 64), -INFINITY, np.float32)
    logits[0, [3, 39]] = 1.0, 1.5
    given = [logits, bits_of([], 64), asked_of(1.0, 64, 1.0, 1.0, 0.9, 64)]
    chosen, drawn, after = drawn_by(few, device, given)
    assert (chosen.tolist(), drawn.tolist(), after.view(np.uint32).tolist()) == ([[39]], [39], [0, 1 << 7])
