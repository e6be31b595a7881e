"""An explanation has to hold for inputs that nobody carved, and one of a part of the wrong elements says which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from computing_device import ComputingDevice, Fault
from little_programs import DEPTH, EXACT, B, W, X, dense, matmul, of_matmul, seen, without

from tapml.devices import Blobs
from tapml.locating import Locate
from tapml.locating.evidence import Evidence
from tapml.locating.examine import Examiner
from tapml.locating.patterns import findings
from tapml.locating.trials import TRIALS, Trials, varied
from tapml.suite import CarvedTest, Suite
from tapml.validation.context import JobContext

Faulty = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
TRIED = range(1, TRIALS + 1)


def call(faulty: Faulty, x: np.ndarray, w: np.ndarray, b: np.ndarray) -> Evidence:
    return seen(matmul(), (x, w, b), faulty(x, w, b), right(x, w, b), "x w b y")


def right(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.tanh(x.astype(np.float64) @ w + b))


def said(
    faulty: Faulty,
    x: np.ndarray = X,
    w: np.ndarray = W,
    b: np.ndarray = B,
    *,
    tried: Sequence[int] = TRIED,
    edited: bool = True,
) -> str:
    """The strongest finding, with these trials, of patterns alone or (`edited`) of changes of the program, too."""
    given = [varied([x, w, b], seed) for seed in tried]
    trials = [replace(call(faulty, *made), program=None) for made in given if made is not None]
    seen_once = call(faulty, x, w, b)
    return findings(replace(seen_once, trials=trials, program=seen_once.program if edited else None))[0].text


class ZeroExaminer:
    """Runs nothing: each output is zeros. `given`: the tests that it was to run."""

    def __init__(self) -> None:
        self.given: list[CarvedTest] = []

    def run(self, tests: Sequence[CarvedTest], runs: int) -> dict[str, list[list[np.ndarray]]]:
        self.given += tests
        return {test.id: [[np.zeros(ref.shape, ref.dtype) for ref in test.outputs]] * runs for test in tests}


def test_what_is_kept_as_float16_varies_to_what_that_holds(suite: Suite) -> None:
    carved = next(test for test in suite.tests if "matmul" in test.kernel)
    inputs = [suite.tensors.get(ref).astype(np.float16).astype(np.float32) for ref in carved.inputs]
    refs = tuple(suite.tensors.put(array, "float16") for array in inputs)
    examiner = ZeroExaminer()
    found = Trials(JobContext(suite, [], Blobs()), cast(Examiner, examiner)).run(replace(carved, inputs=refs))
    assert len(found) == len(examiner.given) == TRIALS
    for test, (evidence, *_) in zip(examiner.given, found, strict=True):
        assert {ref.encoding for ref in test.inputs} == {"float16"}
        for given, before in zip(evidence.inputs, inputs, strict=True):
            assert np.array_equal(given, given.astype(np.float16))
            assert not np.array_equal(given, before)


def test_numbers_vary_and_places_do_not() -> None:
    ids, masked = np.arange(4, dtype=np.int32), np.array([0.0, -np.inf, -1e4, 2.0], np.float32)
    assert varied([ids], 1) is None
    found = varied([ids, masked, np.full(3, 3e38, np.float32)], 1)
    assert found is not None
    assert np.array_equal(found[0], ids)
    zero, infinite, masked_out, two = found[1].tolist()
    assert (zero, infinite) == (0.0, -np.inf)
    assert masked_out < -4e3
    assert 1 <= two <= 3.2
    assert np.isfinite(found[2]).all()
    assert found[2].dtype == np.float32
    other = varied([masked], 2)
    assert other is not None
    assert not np.array_equal(other[0], found[1])


def test_what_fits_the_carved_call_alone_is_not_said() -> None:
    """Where b is 1 everywhere, b left out is 1 less; and the kernel takes 1 for the sum of 32 of its inputs."""
    ones = np.ones_like(B)

    def one_less(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(np.tanh(x.astype(np.float64) @ w + b - 1))

    def without_b(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(np.tanh(x.astype(np.float64) @ w))

    assert said(one_less, b=ones, tried=()) == said(without_b, b=ones, tried=())
    assert "left out" in said(without_b, b=ones)
    assert "left out" not in said(one_less, b=ones)


def test_what_is_read_where_a_zero_happens_to_be_is_not_left_out() -> None:
    """A term of the sum is another input's, which is 0 for the carved call: after a ReLU, say."""
    relu = X.copy()
    relu[:, 3] = 0

    def another(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        sums = x.astype(np.float64) @ w
        sums[:, ::4] += np.outer(x[:, 3] * x[:, 9] - x[:, 5], w[5]).astype(np.float64)[:, ::4]
        return np.asarray(np.tanh(sums + b))

    left_out = "term 5 of 32 left out of sum(x * w)"
    assert left_out in said(another, x=relu, tried=())
    assert left_out in said(another, x=relu, tried=TRIED[:2])
    assert left_out not in said(another, x=relu)


def test_a_pattern_of_the_output_has_to_come_again() -> None:
    """Twice the bound of a saturation is one number on the carved call, and another on the next."""

    def limited(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.clip(right(x, w, b), -1, np.float32(np.quantile(right(x, w, b), 0.7)))

    assert "values stop at" in said(limited, tried=(), edited=False)
    assert "values stop at" not in said(limited, edited=False)
    assert "values stop at 0.5" in said(lambda x, w, b: np.minimum(right(x, w, b), 0.5), edited=False)


def registers(chosen: int, other: int, terms: int) -> np.ndarray:
    """One column of each tile of four takes its first terms from another one."""
    sums = EXACT.copy()
    taken = X[:, :terms].astype(np.float64) @ W[:terms]
    sums[:, chosen::4] += taken[:, other::4] - taken[:, chosen::4]
    return dense(sums)


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (registers(1, 3, 31), "the first 31 of 32 terms of sum(x * w) taken from the element 2 elements on"),
        (registers(2, 1, DEPTH), "sum(x * w)"),
    ],
)  # fmt: skip
def test_registers_mistaken_for_each_other(got: np.ndarray, words: str) -> None:
    assert words in findings(of_matmul(got))[0].text


def test_two_registers_that_are_wrong_in_different_ways() -> None:
    sums = EXACT.copy()
    sums[:, 1::4] = without(DEPTH - 1)[:, 1::4]
    sums[:, 3::4] = 0.3 * EXACT[:, 3::4] ** 3 + np.sqrt(np.abs(EXACT[:, 3::4]))
    found = findings(of_matmul(dense(sums)))
    text = next(one.text for one in found if "edit" in one.details)
    assert text.startswith("in columns 1, 5, 9, ..., where 142 of 286 wrong elements are, got is what")
    assert "the last term of 32 left out of sum(x * w)" in text


@pytest.mark.parametrize(
    ("sums", "words"),
    [
        (lambda: np.tanh(EXACT + EXACT), "sum(x * w) + sum(x * w) in place of sum(x * w) + b"),
        (lambda: np.tanh(EXACT / B), "sum(x * w) / b in place of sum(x * w) + b"),
        (lambda: dense((X.astype(np.float64) ** 2) @ np.ones_like(W)), "x * x in place of x * w"),
        (lambda: np.tanh(EXACT + np.maximum(B, -0.25)), "b limited to at least -0.25"),
        (lambda: np.tanh(EXACT + np.clip(B, 0, 1)), "b limited to 0 to 1"),
        (lambda: dense(np.rint(X.astype(np.float64) * 8) / 8 @ W), "x rounded to multiples of 1/8"),
    ],
)
def test_more_changes(sums: Callable[[], np.ndarray], words: str) -> None:
    found = [one.text for one in findings(of_matmul(sums()))]
    assert any(words in text for text in found), found


def test_locate_tries_the_kernel_on_other_inputs(suite: Suite) -> None:
    """What is a factor of one half for the carved inputs, and none for others, is not said to be one."""
    softmax = next(kernel for kernel in suite.kernels if "softmax" in kernel)
    carved = [suite.tensors.get(test.inputs[0]) for test in suite.tests if test.kernel == softmax]

    def fault(inputs: list[np.ndarray], found: np.ndarray, before: np.ndarray) -> np.ndarray:
        return found / 2 if any(np.array_equal(inputs[0], one) for one in carved) else found**2

    def always(inputs: list[np.ndarray], found: np.ndarray, before: np.ndarray) -> np.ndarray:
        return found / 2

    assert "0.5 (1/2) times the expected one" in reason(suite, softmax, always)
    assert "0.5 (1/2) times the expected one" not in reason(suite, softmax, fault)


def reason(suite: Suite, kernel: str, fault: Fault) -> str:
    there = ComputingDevice(suite, {kernel: fault})
    document = Locate(JobContext(suite, [there.device], there.blobs), model=False).run()
    (found,) = document["kernels"]
    assert found["kernel"] == kernel
    return found["reason"]


def test_a_result_that_is_right_but_differs_from_run_to_run_is_a_race_whatever_its_trials_give() -> None:
    def late(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        return right(x, w, b) + 1

    one = call(right, X, W, B)
    other = one.got.copy()
    other.flat[0] = np.nextafter(other.flat[0], np.float32(2))
    made = varied([X, W, B], 1)
    assert made is not None
    trials = [replace(call(late, *made), program=None)]
    fills = [one.fills[0]] * 2 if one.fills else [0, 0]
    found = findings(replace(one, runs=[one.got, other], fills=fills, trials=trials))
    assert [finding.pattern for finding in found] == ["race"]
