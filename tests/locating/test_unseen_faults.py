"""Faults that are drawn afresh, and how the sentences that are said of them are judged."""

from __future__ import annotations

import itertools

import numpy as np
from benchmarks.localization import unseen
from little_programs import DEPTH, ROWS, WIDTH, matmul, seen

from tapml.locating.evidence import Evidence, Finding
from tapml.locating.formula import explain
from tapml.suite import Suite


def test_unseen_faults_are_drawn_from_a_seed(suite: Suite) -> None:
    def first(seed: int, count: int = 5) -> list[tuple[str, str, str]]:
        chosen = itertools.islice(unseen.drawn({"small": suite}, seed), count)
        return [(bug.kernel, bug.mutant.operator, bug.mutant.text) for _, bug in chosen]

    found = first(1, 40)
    assert found[:5] == first(1) != first(2)
    assert len({text for _, _, text in found}) == 40
    assert len({kind for _, kind, _ in found}) >= 12
    for kernel, _, text in found:
        assert text not in [file.text for file in suite.kernel_files(kernel)]
        assert all(text.count(left) == text.count(right) for left, right in ("()", "[]", "{}"))


def test_an_unseen_fault_is_judged_by_other_inputs() -> None:
    """A formula that gives what the faulty kernel gives for them is good, whatever its name, and another is not."""
    chance = np.random.default_rng(3)
    x = chance.standard_normal((ROWS, DEPTH)).astype(np.float32)
    w, b = chance.standard_normal((DEPTH, WIDTH)).astype(np.float32), np.ones(WIDTH, np.float32)

    def call(got: np.ndarray) -> Evidence:
        return seen(matmul(), (x, w, b), got, np.tanh(x.astype(np.float64) @ w + b), "x w b y")

    sums = x.astype(np.float64) @ w
    without_b = explain.detect(call(np.tanh(sums)))[0]
    assert without_b.formula is not None
    good = unseen.grade("operand lost", without_b, matmul(), [call(np.tanh(sums))], first=True)
    wrong = unseen.grade("operand lost", without_b, matmul(), [call(np.tanh(sums - 0.5 * b))], first=True)
    assert (good[0], wrong[0]) == ("good", "misleading")
    place = Finding("stride", "every 4th row", 0.8)
    assert unseen.grade("operand lost", place, matmul(), [], first=True)[0] == "vague"
    named = Finding("wrong-operation", "a sign", 0.9)
    assert unseen.grade("register", named, matmul(), [], first=True)[0] == "misleading"
