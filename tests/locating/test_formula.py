"""Small changes of an operator's program: the one that gives what a device gave is found, and none where none does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from little_programs import (
    DEPTH,
    EXACT,
    ROWS,
    WIDTH,
    B,
    N,
    W,
    X,
    causal,
    dense,
    layer_norm,
    matmul,
    normal,
    normed,
    of_matmul,
    off_stride,
    seen,
    without,
)  # fmt: skip

from tapml.locating.evidence import Evidence, Finding
from tapml.locating.formula import explain
from tapml.locating.formula.narrow import NARROW
from tapml.locating.patterns import findings
from tapml.operators.program import OperatorProgram

CHANCE = np.random.default_rng(1).permutation(ROWS)


def best(evidence: Evidence) -> Finding:
    return findings(evidence)[0]


@pytest.mark.parametrize(
    ("got", "pattern", "words"),
    [
        (normed(N, WIDTH - 1), "wrong-constant", "47 in place of 48 in sum(x) / 48"),
        (normed(N, epsilon=1e-2), "wrong-constant", "0.01 in place of 1e-05"),
        (0.9999 * normed(N), "scale", "0.9999 times the expected one"),  # no cause is named where one number says it
        (normed(N, last=WIDTH - 1), "wrong-terms", "the last term of 48 left out of sum("),
    ],
)
def test_a_norm(got: np.ndarray, pattern: str, words: str) -> None:
    found = best(seen(layer_norm(), (N,), got, normed(N), "x y"))
    assert (found.pattern, words in found.text) == (pattern, True), found.text


@pytest.mark.parametrize(
    ("got", "pattern", "words"),
    [
        (dense(without(DEPTH - 1)), "wrong-terms", "the last term of 32 left out of sum(x * w)"),
        (dense(without(5, 13, 21, 29)), "wrong-terms", "terms 5, 13, 21, ... of 32 left out"),
        (
            dense(without(*(k for k in range(DEPTH) if k % 4 != 2))),
            "wrong-terms",
            "all but terms 2, 6, 10, ... of 32 left",
        ),
        (
            # An element of a tile is stored in the place before it: that is read instead, and its own place is empty.
            dense(without(*range(1, DEPTH, 4)) + (X[:, 1::4] - X[:, ::4]).astype(np.float64) @ W[::4]),
            "wrong-index",
            "terms 1, 5, 9, ... of 32 left out of sum(x * w) and ",
        ),
        (
            dense(EXACT + (X[:, [3, 3, 3, 3]] - X[:, 3::8]).astype(np.float64) @ W[3::8]),
            "wrong-index",
            "x read among its first 8 always along the last axis, in terms 3, 11, 19, ... of 32",
        ),
        (dense(EXACT + 3), "wrong-terms", "sum(x * w) beginning at 3 in place of 0"),
        (dense(EXACT - 2 * np.outer(X[:, 7], W[7])), "wrong-operation", "term 7 of 32 subtracted"),
        (np.tanh(EXACT + np.roll(B, -1)), "wrong-index", "b read one element too far"),
        (np.tanh(EXACT + B[::-1]), "wrong-index", "b read backwards"),
        (np.tanh(EXACT + np.roll(B, -5)), "wrong-index", "b read 5 elements too far"),
        (
            np.tanh(EXACT + B.reshape(-1, 6)[:, ::-1].reshape(-1)),
            "wrong-index",
            "b read backwards in every 6 in",
        ),
        (dense(X[:, ::-1].astype(np.float64) @ W), "wrong-index", "read backwards along"),
        (dense(X[::-1, ::-1].astype(np.float64) @ W), "wrong-index", "x read backwards along axes 0 to 1"),
        (dense(off_stride(X, 31).astype(np.float64) @ W), "wrong-index", "x read with 31 in place of 32 elements"),
        (np.tanh(EXACT - B), "wrong-operation", "sum(x * w) - b in place of sum(x * w) + b"),
        (EXACT + B, "wrong-operation", "tanh(...) left out"),
        (
            # Each row reads two terms of a row of its own: no index says which.
            dense(EXACT + (X[CHANCE][:, 5::16] - X[:, 5::16]).astype(np.float64) @ W[5::16]),
            "wrong-index",
            "other elements of x in terms 5 and 21 of 32 of sum(x * w), such as ",
        ),
        (
            dense(EXACT + (normal(ROWS, 1, seed=9) - X[:, 6:7]).astype(np.float64) @ W[6:7]),
            "wrong-terms",
            "other numbers in place of x in term 6 of 32 of sum(x * w), such as ",
        ),
        (
            dense(X.astype(np.float16).astype(np.float64) @ W.astype(np.float16)),
            "dtype-conversion",
            "its inputs rounded to float16 or TF32, in every term of sum(x * w)",
        ),
        (
            dense(X.astype(ml_dtypes.bfloat16).astype(np.float64) @ W.astype(ml_dtypes.bfloat16).astype(np.float64)),
            "dtype-conversion",
            "its inputs rounded to bfloat16",
        ),
    ],
)
def test_a_matrix_product(got: np.ndarray, pattern: str, words: str) -> None:
    found = best(of_matmul(got))
    assert (found.pattern, words in found.text) == (pattern, True), found.text
    assert found.strength > 0.85


def test_a_mask_that_is_off_by_one_is_no_transposition() -> None:
    x = normal(16, 16)
    lowest = np.float32(-3.4028234663852886e38)
    i, k = np.indices((16, 16))
    expected, got = np.where(k <= i, x, lowest), np.where(k < i, x, lowest)
    bound = np.abs(expected.astype(np.float64)) * 1e-6
    found = best(Evidence(got, expected, bound, (x,), names=("x", "y"), program=causal()))
    assert found.pattern == "wrong-condition"
    assert "k < i in place of k <= i" in found.text


@pytest.mark.slow
def test_what_is_fitted_is_tested_on_another_call() -> None:
    """A number may be found for one row; for two calls it has to be the same."""
    one, other = N[:1], normal(1, WIDTH, seed=9)
    rows = layer_norm()
    assert rows.parameters[0].shape == (ROWS, WIDTH)
    x = np.repeat(one, ROWS, 0)
    y = np.repeat(other, ROWS, 0)
    right = [normed(x), normed(y)]
    wrong = [0.9 * right[0], 0.8 * right[1]]
    second = seen(rows, (y,), wrong[1], right[1], "x y")
    first = seen(rows, (x,), wrong[0], right[0], "x y")
    apart = Evidence(first.got, first.expected, first.bound, (x,), names=("x", "y"), program=rows, beside=(second,))
    assert not [found for found in explain.detect(apart) if found.pattern == "wrong-constant"]


def test_arithmetic_in_a_narrow_type_is_named_whatever_the_order_of_its_sums() -> None:
    def narrow(values: np.ndarray) -> np.ndarray:
        return values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)

    total = np.zeros(EXACT.shape)
    for k in reversed(range(DEPTH)):
        total = narrow(total + narrow(np.outer(X[:, k].astype(np.float64), W[k])))
    got = narrow(total + B) * (1 + 1e-4 * np.random.default_rng(3).standard_normal(total.shape))
    plain = matmul()
    body = [dataclasses.replace(store, value=store.value.operands[0]) for store in plain.blocks[1].body]
    plain = dataclasses.replace(plain, blocks=(plain.blocks[0], dataclasses.replace(plain.blocks[1], body=tuple(body))))
    found = best(seen(plain, (X, W, B), got, EXACT + B, "x w b y"))
    assert (found.pattern, "arithmetic in bfloat16" in found.text) == ("dtype-conversion", True), found.text


def test_sums_that_are_cut_off_on_the_way() -> None:
    """In lanes, which are summed two by two."""
    terms = X.astype(np.float64)[:, :, None] * W.astype(np.float64)
    lanes, cut = np.zeros((len(X), 8, W.shape[1])), NARROW["bfloat16, cut off"]
    for place in range(0, DEPTH, 8):
        lanes = cut(lanes + terms[:, place : place + 8])
    for half in (4, 2, 1):
        lanes = cut(lanes[:, :half] + lanes[:, half : 2 * half])
    found = best(of_matmul(dense(lanes[:, 0])))
    assert found.pattern == "dtype-conversion"
    assert "bfloat16, cut off at every term and at each step, of 8 lanes" in found.text


@pytest.mark.parametrize(("under", "words"), [(-1.0, "of a negative number"), (0.0, "of 0")])
def test_where_nan_and_infinity_come_from(under: float, words: str) -> None:
    with np.errstate(all="ignore"):
        got = (N - N.mean(axis=1, keepdims=True)) / np.sqrt(under * np.ones((len(N), 1)))
    found = best(seen(layer_norm(), (N,), got.astype(np.float32), normed(N), "x y"))
    assert found.pattern == "nan-range"
    assert words in found.text, found.text


@pytest.mark.slow
def test_of_what_is_0_no_cause_is_named() -> None:
    """Inputs below 1 that are cut to integers give 0 as well, and so would much else."""
    got = dense(EXACT)
    got[:, ::4] = 0
    found = best(of_matmul(got))
    assert "integer" not in found.text
    assert found.pattern in ("constant", "stride")


@pytest.mark.slow
def test_a_limit_is_no_narrow_type() -> None:
    found = best(of_matmul(np.clip(dense(EXACT), -0.5, 0.5)))
    assert (found.pattern, "the result limited to" in found.text or "stop at" in found.text) == ("saturation", True), (
        found
    )


@pytest.mark.slow
def test_noise_is_explained_by_no_program() -> None:
    noise = np.random.default_rng(1).standard_normal(EXACT.shape)
    found = findings(of_matmul(dense(EXACT) + 0.01 * noise))
    assert {one.pattern for one in found} <= {"noise"}


@pytest.mark.parametrize("change", [lambda made: None, lambda made: matmul()])
def test_a_program_that_does_not_fit_says_nothing(change: Callable[[OperatorProgram], OperatorProgram | None]) -> None:
    wrong = seen(layer_norm(), (N,), normed(N, WIDTH - 1), normed(N), "x y")
    other = Evidence(wrong.got, wrong.expected, wrong.bound, (N,), program=change(layer_norm()))
    assert explain.detect(other) == []
