"""Parts of the slow tests: each test is in exactly one, measured or not, and none takes much longer than the others."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everywhere import of_part
from parts import SECONDS, SETUP, WORKERS, Parts, only_part, pytest_configure

ROOT = Path(__file__).parents[2]
MEASURED = json.loads(SECONDS.read_text())
TESTS = [f"{file}::{name}" for file, tests in MEASURED.items() for name in tests if name != SETUP]
NEW = ["tests/test_new.py::test_a", "tests/test_new.py::test_b", "new/test_of_a_new_folder.py::test_c"]


def test_what_was_measured_is_there() -> None:
    assert [file for file in MEASURED if not (ROOT / file).is_file()] == [], "make slow-seconds"


class Collected:
    """What pytest has, as far as it is looked at."""

    def __init__(self, tests: list[str], quick: list[str]) -> None:
        self.items = [self._item(test, test in quick) for test in (*tests, *quick)]
        self.deselected: list[str] = []
        self.hook = SimpleNamespace(
            pytest_deselected=lambda items: self.deselected.extend(item.nodeid for item in items)
        )

    @staticmethod
    def _item(test: str, is_quick: bool) -> Any:
        mark = None if is_quick else pytest.mark.slow.mark
        return SimpleNamespace(nodeid=test, get_closest_marker=lambda name: mark)

    def part(self, monkeypatch: pytest.MonkeyPatch, given: str) -> list[str]:
        monkeypatch.setenv("TEST_PART", given)
        only_part(self, self.items)  # type: ignore[arg-type]
        return [item.nodeid for item in self.items]


def test_eight_parts_are_all_slow_tests_and_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    tests = [*TESTS, *NEW, *(f"{file}::test_that_was_never_measured" for file in MEASURED)]
    quick = ["tests/locating/test_positions.py::test_quick", "tests/test_quick.py::test_quick"]
    seen = []
    for part in range(1, 9):
        collected = Collected(tests, quick)
        kept = collected.part(monkeypatch, f"{part}/8")
        assert {*kept} & {*quick} == {*quick}
        assert sorted([*kept, *collected.deselected]) == sorted([*tests, *quick])
        seen += [test for test in kept if test not in quick]
    assert sorted(seen) == sorted(tests)


def test_parts_take_about_as_long_as_each_other() -> None:
    for seconds in Parts(MEASURED, 8).seconds.values():
        assert max(seconds) < 1.1 * min(seconds)


def test_files_stay_together_but_for_those_that_would_keep_one_worker_busy() -> None:
    parts = Parts(MEASURED, 8)
    for folder in parts.seconds:
        files = {file: sum(tests.values()) for file, tests in MEASURED.items() if file.startswith(f"{folder}/")}
        apart = {file for file in files if len({parts.of(test) for test in TESTS if test.startswith(f"{file}::")}) > 1}
        assert {file for file in files if files[file] > sum(files.values()) / 8 / WORKERS} >= apart


def test_the_longest_file_is_begun_first(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Collected(TESTS, []).part(monkeypatch, "1/1")
    files = [*dict.fromkeys(test.partition("::")[0] for test in kept)]
    seconds = [sum(taken for name, taken in MEASURED[file].items() if name != SETUP) for file in files]
    assert seconds == sorted(seconds, reverse=True)


@given(
    st.dictionaries(
        st.sampled_from([f"{folder}/{name}.py" for folder in ("tests", "e2e") for name in "abcdef"]),
        st.dictionaries(st.sampled_from([SETUP, "test_a", "test_b", "test_c"]), st.floats(0, 1000), min_size=1),
    ),
    st.integers(1, 9),
)
def test_every_test_has_a_part_whatever_was_measured(measured: dict[str, dict[str, float]], count: int) -> None:
    parts = Parts(measured, count)
    tests = [f"{file}::{name}" for file in (*measured, "tests/new.py") for name in ("test_a", "test_b", "test_d")]
    assert {parts.of(test) for test in tests} <= {*range(1, count + 1)}
    again = Parts(dict(reversed(measured.items())), count)
    assert [again.of(test) for test in tests] == [parts.of(test) for test in tests]


@pytest.mark.parametrize("given", ["0/3", "4/3", "2", "a/3", "1/0", "-1/3", "1/2/3", " 1/3"])
def test_what_is_no_part_is_a_usage_error(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("TEST_PART", given)
    with pytest.raises(pytest.UsageError, match="is no part of the tests: write one like 2/3"):
        pytest_configure()


def test_without_a_part_all_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Collected(TESTS, []).part(monkeypatch, "") == TESTS


def test_what_a_test_carves_is_compared_in_one_part_and_what_a_slow_test_carves_in_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []
    for part in range(1, 9):
        monkeypatch.setenv("TEST_PART", f"{part}/8")
        is_compared = of_part({*NEW})
        compared += [test for test in TESTS if is_compared(test)]
        assert all(is_compared(test) for test in NEW)
    assert sorted(compared) == sorted(TESTS)
    monkeypatch.delenv("TEST_PART")
    assert all(of_part(set())(test) for test in TESTS)
