"""An explanation is made from one half of the wrong elements; what fits that half by chance, the other refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from little_programs import EXACT, B, N, W, X, dense, layer_norm, matmul, normal, normed

from tapml.locating.evidence import Evidence
from tapml.locating.held_out import accepted, halves
from tapml.locating.patterns import PLACES, findings
from tapml.operators.program import OperatorProgram

SHAPE = (512, 96)
_SLOW = pytest.mark.slow
"""What no change explains is held against all of them."""
Change = Callable[[np.ndarray], np.ndarray]
FACTS = PLACES | {"noise"}
"""What needs no test: where, how many, how far."""


def half_true(evidence: Evidence) -> Evidence:
    """The same, but that the half which decides is off by noise, and nothing else."""
    noise = np.random.default_rng(1).uniform(0.1, 0.3, evidence.got.shape) * np.ptp(evidence.e)
    got = np.where(evidence.fitted, evidence.g, evidence.e + noise).astype(np.float32)
    return Evidence(
        got, evidence.expected, evidence.bound, evidence.inputs, names=evidence.names, program=evidence.program
    )


@pytest.mark.parametrize(
    ("pattern", "change"),
    [
        ("sign", lambda a: -a),
        ("scale", lambda a: a * np.float32(1.7)),
        ("scale", lambda a: a * np.linspace(0.5, 2, 512, dtype=np.float32)[:, None]),
        ("offset", lambda a: a + np.float32(2.5)),
        ("offset", lambda a: a + np.linspace(1, 2, 96, dtype=np.float32)),
        ("saturation", lambda a: np.clip(a, np.float32(-0.01), np.float32(0.01))),
        ("constant", lambda a: np.full_like(a, 0.7)),
        ("dtype-conversion", lambda a: a.astype(np.float16).astype(np.float32)),
        ("dtype-conversion", lambda a: np.trunc(a)),
        ("shift", lambda a: np.roll(a, -1, 0)),
        ("transpose", lambda a: np.ascontiguousarray(a.T).reshape(a.shape)),
        ("transpose", lambda a: a[::-1, ::-1]),
        ("mask", lambda a: 0.37 * a**3),
    ],
)  # fmt: skip
def test_what_the_output_shows(pattern: str, change: Change) -> None:
    expected = 3 * normal(*SHAPE)
    got = np.asarray(change(expected), np.float32)
    inputs = [got] if pattern == "mask" else []
    whole = Evidence(got, expected, np.full(SHAPE, 1e-5), inputs)
    assert pattern in {finding.pattern for finding in findings(whole)}
    assert {finding.pattern for finding in findings(half_true(whole))} <= FACTS


@pytest.mark.parametrize(
    ("program", "inputs", "right", "wrong"),
    [
        pytest.param(matmul(), (X, W, B), dense(EXACT), np.tanh(EXACT + B[::-1]), marks=_SLOW),
        pytest.param(matmul(), (X, W, B), dense(EXACT), dense(EXACT - np.outer(X[:, 7], W[7])), marks=_SLOW),
        pytest.param(matmul(), (X, W, B), dense(EXACT), dense(EXACT + 3), marks=_SLOW),
        (layer_norm(), (N,), normed(N), normed(N, epsilon=1e-2)),
        (layer_norm(), (N,), normed(N), normed(N, 47)),
    ],
)
def test_a_change_of_the_program(
    program: OperatorProgram, inputs: tuple[np.ndarray, ...], right: np.ndarray, wrong: np.ndarray
) -> None:
    bound = 2e-6 * np.abs(right) + 2e-6
    whole = Evidence(wrong.astype(np.float32), right.astype(np.float32), bound, inputs, program=program)
    assert findings(whole)[0].strength > 0.85
    assert {finding.pattern for finding in findings(half_true(whole))} <= FACTS


def test_a_threshold_of_an_input() -> None:
    """Wrong elements are above 1 in one half of the input's values, and anywhere in the other."""
    x = normal(64, 64)
    mask = x > 1
    assert _masks(x, mask) == ["wrong only where input 0 is above 0.99983"]
    for number in range(8):
        chance = np.random.default_rng(number)
        anywhere = chance.random(x.shape) < mask.mean()
        assert not _masks(x, np.where(chance.random(x.shape) < 0.5, mask, anywhere))


def _masks(x: np.ndarray, mask: np.ndarray) -> list[str]:
    got = np.where(mask, x + np.random.default_rng(5).uniform(1, 2, x.shape), x).astype(np.float32)
    found = findings(Evidence(got, x, np.full(x.shape, 1e-6), [x]))
    return [finding.text for finding in found if finding.pattern == "mask"]


def test_nothing_is_accepted_by_what_it_was_made_from() -> None:
    fitted, held = halves(9)
    assert sorted([*fitted, *held]) == list(range(9))
    right = np.zeros(9, bool)
    right[fitted] = True
    assert accepted(right, held, 0.5) is None
    right[held[:3]] = True
    assert accepted(right, held, 0.5) == 0.75
    assert accepted(right, held[:0], 0.0) is None, "of nothing, nothing is borne out"
