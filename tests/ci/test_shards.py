"""Shards are disjoint, together they are everything, and they keep kernels together."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapml.ci.plan import Shard, parse_shard, plan
from tapml.errors import InputError


@given(st.integers(0, 500), st.integers(1, 40))
def test_the_union_is_everything_once_and_sizes_differ_by_at_most_one(total: int, count: int) -> None:
    things = list(range(total))
    parts = [Shard(index, count).part(things) for index in range(1, count + 1)]
    assert [thing for part in parts for thing in part] == things
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 8))
def test_a_kernel_is_in_as_few_shards_as_its_tests_need(tests_of_kernels: list[int], count: int) -> None:
    """Cutting n tests in a row into parts costs at most one more kernel for each cut."""
    things = [(kernel, number) for kernel, many in enumerate(tests_of_kernels) for number in range(many)]
    parts = [Shard(index, count).part(things) for index in range(1, count + 1)]
    compiled = sum(len({kernel for kernel, _ in part}) for part in parts)
    assert compiled <= len(tests_of_kernels) + count - 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "-1/2", "1/2/3", "a/b", "1/9999999", "\uff11/2"])
def test_a_wrong_shard_is_one_sentence(text: str) -> None:
    with pytest.raises(InputError, match=f"--shard {text}: write it as I/N"):
        parse_shard(text)


def test_a_plan_is_cut_in_the_order_of_kernels(carved: Path) -> None:
    whole = plan([carved])[0]
    assert len(whole.tests) == len(whole.suite.tests)
    kernels = [test.kernel for test in whole.tests]
    assert kernels == sorted(kernels, key=whole.suite.kernels.index)
    parts = [plan([carved], shard=parse_shard(f"{index}/3"))[0].tests for index in (1, 2, 3)]
    assert [test.id for part in parts for test in part] == [test.id for test in whole.tests]


def test_a_plan_refuses_what_makes_no_sense(carved: Path) -> None:
    with pytest.raises(InputError, match="is given twice"):
        plan([carved, carved.parent / "." / carved.name])
    with pytest.raises(InputError, match="no suite has a kernel 'nothing'"):
        plan([carved], kernels=["nothing"])
