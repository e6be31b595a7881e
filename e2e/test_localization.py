"""The localisation benchmark's parts on real devices, with a small model."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from benchmarks.localization.baseline import Baseline
from benchmarks.localization.cases import Bug
from benchmarks.localization.equivalence import (
    DETECTABLE,
    EQUIVALENT,
    IMPLEMENTATIONS,
    Equivalence,
    classify,
)
from benchmarks.localization.mutate import Mutant, mutants
from benchmarks.localization.wgsl_text import Span
from benchmarks.localization.working import WorkingCopy

from helpers import small_model
from tapml.carving.carve import carve
from tapml.locating import Locate
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext

KERNEL = "softmax"


@pytest.fixture
def small(tmp_path: Path) -> Suite:
    return carve(small_model(), tmp_path / "small.suite", name="small")


def _bug(suite: Suite, operator: str) -> Bug:
    file = suite.kernel_files(KERNEL)[0]
    mutant = next(found for found in mutants(file.text) if found.operator == operator)
    return Bug(KERNEL, file.name, mutant)


def _appended(suite: Suite, text: str) -> Bug:
    file = suite.kernel_files(KERNEL)[0]
    end = Span(len(file.text), len(file.text))
    return Bug(KERNEL, file.name, Mutant("made", 1, "made", end, text, file.text))


def test_what_mutants_change(small: Suite, tmp_path: Path) -> None:
    wrong = _bug(small, "swapped operands")
    same, broken = _appended(small, "\n// nothing\n"), _appended(small, "\nfn (\n")
    equivalence = Equivalence(small, tmp_path / "effects.json")
    with Server() as server:
        for name in IMPLEMENTATIONS:
            start = partial(server.state.device, name)
            equivalence.run([broken, wrong, same], start, name, server.state.blobs, print)
        more = [equivalence.again(bug, start(), server.state.blobs) for bug in (broken, wrong, same)]
    again = Equivalence(small, tmp_path / "effects.json")
    classes = [classify(again.effects(bug).values()) for bug in (broken, wrong, same)]
    assert classes == [DETECTABLE, DETECTABLE, EQUIVALENT]
    assert all(effect.error for effect in again.effects(broken).values())
    assert [classify([effect]) for effect in more] == classes
    assert not any(effect.error for effect in again.effects(wrong).values())


def test_a_bug_is_accused_and_nothing_else(small: Suite, tmp_path: Path) -> None:
    bug = _bug(small, "swapped operands")
    copy = WorkingCopy(small, tmp_path / "copy")
    with Server() as server:
        device, blobs = server.state.device("node-dawn"), server.state.blobs
        for bugs, expected in (([], set()), ([bug], {KERNEL})):
            with copy.mutated(bugs) as mutated:
                document = Locate(JobContext(mutated, [device], blobs), model=False).run()
            assert set(document["summary"]["faulty_kernels"]) == expected
        baseline = Baseline(small, "node-dawn", tmp_path)
        baseline.run([bug], device, blobs, print)
    for tolerance in (1e-3, 1e-2):
        assert baseline.accused([], tolerance) == set()
        assert baseline.accused([bug], tolerance) == {KERNEL}
    assert baseline.seconds([bug]) > 0
