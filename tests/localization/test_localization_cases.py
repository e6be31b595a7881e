"""Cases: the same each time, 1 to 11 bugs, spread over the mutation operators."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.localization.cases import MOST_BUGS, cases, distinct
from benchmarks.localization.working import WorkingCopy

from tapml.suite import Suite


def test_cases_are_the_same_each_time(suite: Suite) -> None:
    made = cases("small", suite, count=10)
    assert made == cases("small", suite, count=10)
    assert made != cases("small", suite, seed=1, count=10)


def test_as_many_bugs_as_kernels_allow(suite: Suite) -> None:
    made = cases("small", suite, count=2 * MOST_BUGS)
    most = len(suite.kernels)
    assert [len(case.bugs) for case in made] == [min(1 + n % MOST_BUGS, most) for n in range(2 * MOST_BUGS)]
    for case in made:
        assert len({bug.kernel for bug in case.bugs}) == len(case.bugs)


def test_operators_are_spread(suite: Suite) -> None:
    used = Counter(bug.mutant.operator for case in cases("small", suite, count=44) for bug in case.bugs)
    everywhere = ("index off by one", "dtype conversion", "swapped axes", "sign")
    assert max(used.values()) - min(used[name] for name in everywhere) <= 3


def test_distinct_bugs(suite: Suite) -> None:
    made = cases("small", suite, count=5)
    assert distinct([*made, *made]) == distinct(made)


def test_a_working_copy_is_mended_again(suite: Suite, tmp_path: Path) -> None:
    case = cases("small", suite, count=MOST_BUGS)[3]
    copy = WorkingCopy(suite, tmp_path / "copies")
    with copy.mutated(case.bugs) as mutated:
        assert sorted(mutated.edited_kernels) == sorted(bug.kernel for bug in case.bugs)
        assert mutated.id == suite.id
        mutated.verify()
    assert Suite(copy.path).edited_kernels == []
    assert suite.edited_kernels == []
