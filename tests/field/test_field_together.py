"""Writes of many threads that are committed together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tapml.errors import InputError
from tapml.field.service.together import Together


def test_each_gets_its_own_answer_and_those_that_wait_share_a_transaction() -> None:
    batches: list[list[int]] = []
    begun, go_on = threading.Event(), threading.Event()

    def commit(given: list[int]) -> list[int]:
        batches.append(given)
        begun.set()
        go_on.wait(60)
        return [-one for one in given]

    together = Together(commit, most=10)
    with ThreadPoolExecutor(30) as pool:
        first = pool.submit(together, 1000)
        assert begun.wait(60)
        others = [pool.submit(together, number) for number in range(25)]
        while len(together._queue) < 25:  # all of them wait
            pass
        go_on.set()
        assert first.result(60) == -1000
        assert [one.result(60) for one in others] == [-number for number in range(25)]
    assert [len(batch) for batch in batches] == [1, 10, 10, 5]


def test_what_cannot_be_committed_is_told_to_all_of_its_batch_and_to_no_other() -> None:
    def commit(given: list[int]) -> list[int]:
        if given == [7]:
            raise InputError("the database is away")
        return given

    together = Together(commit)
    assert together(1) == 1
    with pytest.raises(InputError, match="away"):
        together(7)
    assert together(2) == 2
