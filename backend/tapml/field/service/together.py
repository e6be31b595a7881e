"""Writes of many threads, committed together: a transaction of one costs nearly what one of a hundred does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")


class _Waiting(Generic[Given, Found]):
    def __init__(self, given: Given) -> None:
        self.given = given
        self.woken = threading.Event()
        self.leads = False
        self.found: list[Found] = []
        self.error: BaseException | None = None


class Together(Generic[Given, Found]):
    """`commit`: one transaction; what came of each, in order. While one runs, others gather for the next, which one of
    them then commits."""

    def __init__(self, commit: Callable[[list[Given]], list[Found]], most: int = 500) -> None:
        self._commit, self._most = commit, most
        self._queue: list[_Waiting[Given, Found]] = []
        self._lock = threading.Lock()
        self._busy = False

    def __call__(self, given: Given) -> Found:
        """What came of this one, once it is committed; raises what `commit` raised."""
        mine: _Waiting[Given, Found] = _Waiting(given)
        with self._lock:
            self._queue.append(mine)
            mine.leads, self._busy = not self._busy, True
        if not mine.leads:
            mine.woken.wait()
        if mine.leads:
            self._take()
        if mine.error is not None:
            raise mine.error
        return mine.found[0]

    def _take(self) -> None:
        """The oldest ones, the leader's own first; then somebody else leads."""
        with self._lock:
            batch, self._queue = self._queue[: self._most], self._queue[self._most :]
        try:
            for one, found in zip(batch, self._commit([one.given for one in batch]), strict=True):
                one.found.append(found)
        except BaseException as error:  # whoever waits has to be told
            for one in batch:
                one.error = error
        finally:
            with self._lock:
                following = self._queue[0] if self._queue else None
                self._busy = following is not None
            if following is not None:
                following.leads = True
                following.woken.set()
            for one in batch:
                one.woken.set()
