"""Changes at any place of a program: behind a norm, at one of many uses, of kinds that no list has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from little_programs import (
    EXACT,
    ROWS,
    WIDTH,
    B,
    N,
    W,
    X,
    block,
    constant,
    layer_norm,
    normal,
    normed,
    of_matmul,
    program,
    seen,
)

from tapml.locating.evidence import Evidence, Finding
from tapml.locating.formula import explain
from tapml.locating.formula.work import Work
from tapml.locating.patterns import findings

ERF = np.vectorize(math.erf)


def best(evidence: Evidence) -> Finding:
    return findings(evidence)[0]


def gelu(value: Any) -> Any:
    cube = ["mul", constant(0.044715), ["mul", value, ["mul", value, value]]]
    inner = ["mul", constant(0.7978846), ["add", value, cube]]
    return ["mul", ["mul", constant(0.5), value], ["add", constant(1.0), ["call", "tanh", inner]]]


def gelu_by_erf(value: Any) -> Any:
    error = ["call", "erf", ["mul", value, constant(0.70710678)]]
    return ["mul", value, ["add", constant(0.5), ["mul", error, constant(0.5)]]]


@pytest.mark.parametrize(("root", "cubic"), [(0.8978846, 0.044715), (0.7978846, 0.44715)])
def test_a_constant_behind_a_norm(root: float, cubic: float) -> None:
    def gelued(root: float, cubic: float) -> np.ndarray:
        value = normed(N)
        found: np.ndarray = 0.5 * value * (1 + np.tanh(root * (value + cubic * value**3)))
        return found

    found = best(seen(layer_norm(gelu), (N,), gelued(root, cubic), gelued(0.7978846, 0.044715), "x y"))
    words = "0.797885 in 0.797885 *" if cubic < 0.1 else "in place of 0.044715 in"
    assert (found.pattern, words in found.text) == ("wrong-constant", True), found.text


def test_an_epsilon_in_some_columns_is_no_start_of_a_sum() -> None:
    """A kernel that writes its last tile by itself: the start would give the same there."""
    x = N * np.float32(0.05)
    expected, got = normed(x), normed(x)
    got[:, 32:] = normed(x, epsilon=1e-6)[:, 32:]
    found = best(seen(layer_norm(), (x,), got, expected, "x y"))
    assert (found.pattern, "with 1e-06 in place of 1e-05 in" in found.text) == ("wrong-constant", True), found.text
    assert "beginning at" not in found.text


def test_what_is_wrong_with_a_large_sum_is_told_by_how_much() -> None:
    """1 times as large says nothing."""
    x = (N + 3000).astype(np.float32)
    mean = x.astype(np.float64).mean(1, keepdims=True)
    off = np.random.default_rng(3).uniform(0.5e-3, 1e-3, (ROWS, 1))
    centred = x - mean - off
    got = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    text = best(seen(layer_norm(), (x,), got, normed(x), "x y")).text
    assert "one wrong number for each sum, such as sum(x) off by 0.04" in text, text


def test_a_constant_at_one_of_the_many_uses_of_a_value() -> None:
    value = normed(N)
    expected = value * (0.5 + 0.5 * ERF(value * 0.70710678))
    limited = np.clip(value * 0.70710678, -4, 4)
    square = limited * limited
    below = [-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03]
    above = [-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05]
    above += [-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02]
    bottom = np.polyval([*below, -1.42647390514189e-02], square)
    got = value * (0.5 + 0.5 * limited * np.polyval([*above[:-2], -2.95459980854025e-02, above[-1]], square) / bottom)
    found = best(seen(layer_norm(gelu_by_erf), (N,), got, expected, "x y"))
    assert (found.pattern, "-0.029546 in place of -0.0029546" in found.text) == ("wrong-constant", True), found.text


@pytest.mark.parametrize(
    ("got", "pattern", "words"),
    [
        (np.tanh(1.7 * (EXACT + B)), "scale", "1.7 times as large"),
        (np.tanh(EXACT + 0.3 + B), "wrong-terms", "beginning at 0.3 in place of 0"),
        (np.tanh(EXACT + np.outer(np.append(X[1:, 0], X[-1, -1]), np.full(WIDTH, W[-1, -1])) + B), "wrong-terms",
         "going on beyond its end, to 33 in place of 32"),
        (np.tanh(EXACT + B[np.arange(ROWS)][:, None]), "wrong-index", "b read at the output's index of axis 0"),
    ],
)  # fmt: skip
def test_a_change_of_a_kind_that_no_list_has(got: np.ndarray, pattern: str, words: str) -> None:
    found = best(of_matmul(got))
    assert (found.pattern, words in found.text) == (pattern, True), found.text


def test_a_value_that_is_a_number_instead() -> None:
    x, count = normal(ROWS, WIDTH), np.abs(normal(ROWS, WIDTH, seed=3)) * 4 + 1
    value = ["div", ["load", "x", "i", "k"], ["add", ["load", "n", "i", "k"], constant(1.0)]]
    axes = {"i": ROWS, "k": WIDTH}
    shapes = {"x": [ROWS, WIDTH], "n": [ROWS, WIDTH], "y": [ROWS, WIDTH]}
    made = program(shapes, {}, [block("y", axes, [["store", "y", ["i", "k"], value]])])
    found = best(seen(made, (x, count), x / 9, x / (count.astype(np.float64) + 1), "x n y"))
    assert "9 in place of n + 1" in found.text


def test_an_output_that_is_a_number() -> None:
    made = program({"y": [WIDTH]}, {}, [block("y", {"k": WIDTH}, [["store", "y", ["k"], constant(1.0)]])])
    found = best(seen(made, (), np.full(WIDTH, 2.0), np.ones(WIDTH), "y"))
    assert found.pattern in ("constant", "scale", "wrong-constant")


def test_an_input_of_another_shape_is_read_at_the_same_place() -> None:
    long = np.append(B, np.zeros(3)).astype(np.float32)
    value = ["add", ["load", "x", "i", "k"], ["load", "c", "k"]]
    shapes = {"x": [ROWS, WIDTH], "c": [WIDTH], "d": [WIDTH + 3], "y": [ROWS, WIDTH]}
    made = program(shapes, {}, [block("y", {"i": ROWS, "k": WIDTH}, [["store", "y", ["i", "k"], value]])])
    x, c = normal(ROWS, WIDTH), normal(WIDTH, seed=4)
    found = best(seen(made, (x, c, long), x + long[:WIDTH], x + c.astype(np.float64), "x c d y"))
    assert "d read in place of c" in found.text


def test_a_number_is_no_index() -> None:
    """Inputs of one shape may be read in each other's place, but for those that say where to read."""
    value = ["mul", ["load", "c", "k"], ["load", "x", "i", ["load", "at", "k"]]]
    shapes = {"x": [ROWS, WIDTH], "at": [WIDTH], "c": [WIDTH], "y": [ROWS, WIDTH]}
    axes = {"i": ROWS, "k": WIDTH}
    made = program(shapes, {}, [block("y", axes, [["store", "y", ["i", "k"], value]])], whole=["at"])
    at = np.random.default_rng(2).permutation(WIDTH).astype(np.int32)
    x, c = normal(ROWS, WIDTH), normal(WIDTH, seed=4)
    found = best(seen(made, (x, at, c), c[::-1] * x[:, at], c * x[:, at].astype(np.float64), "x at c y"))
    assert "c read backwards" in found.text


def test_of_a_mask_another_element_is_no_cause() -> None:
    """It has two values: whatever reads another element of it gives the other value somewhere."""
    x, mask = normal(ROWS, WIDTH), (np.random.default_rng(1).random(WIDTH) < 0.3).astype(np.float32)
    value = ["add", ["load", "x", "i", "k"], ["mul", ["load", "m", "k"], constant(-100.0)]]
    axes = {"i": ROWS, "k": WIDTH}
    shapes = {"x": [ROWS, WIDTH], "m": [WIDTH], "y": [ROWS, WIDTH]}
    made = program(shapes, {}, [block("y", axes, [["store", "y", ["i", "k"], value]])])
    expected = x.astype(np.float64) - 100.0 * mask
    got = expected.copy()
    got[2:5, 7:20] = (x - 100.0 * (1 - mask))[2:5, 7:20]
    assert not [one for one in findings(seen(made, (x, mask), got, expected, "x m y")) if "m read" in one.text]


def test_a_search_ends_by_what_it_computes_and_not_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(5000)
    work.add(1000)
    assert not work.over()
    work.add(3000)
    assert work.over()
    seconds = iter(range(0, 10**6, 5))
    monkeypatch.setattr("time.thread_time", lambda: float(next(seconds)))
    monkeypatch.setattr("time.process_time", lambda: float(next(seconds)))
    evidence = of_matmul(np.tanh(1.7 * (EXACT + B)))
    found = [one.text for one in explain.detect(evidence)]
    assert "1.7 times as large" in found[0]
    monkeypatch.setattr(explain, "WORK", 0)
    assert explain.detect(evidence) == []
