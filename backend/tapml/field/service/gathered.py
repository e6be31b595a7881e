"""Questions of thousands of connections on one loop, asked of the database together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from tapml.errors import TapmlError

Given = TypeVar("Given")
Found = TypeVar("Found")

_log = logging.getLogger(__name__)


class Gathered(Generic[Given, Found]):
    """`work`: one transaction, on another thread: what came of each, in order. While it runs, others gather for the
    next one. `trouble`: what an error of it means, in the log."""

    def __init__(self, work: Callable[[list[Given]], list[Found]], trouble: str, most: int = 500) -> None:
        self._work, self._trouble, self._most = work, trouble, most
        self._queue: asyncio.Queue[tuple[Given, asyncio.Future[Found]]] = asyncio.Queue(2 * most)

    async def ask(self, given: Given) -> Found:
        """What came of it. Cancelled where it cannot be told now."""
        found: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        await self._queue.put((given, found))
        return await found

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            waiting = [await self._queue.get()]
            while len(waiting) < self._most and not self._queue.empty():
                waiting.append(self._queue.get_nowait())
            try:
                answers = await asyncio.to_thread(self._work, [given for given, _ in waiting])
            except TapmlError as error:
                _log.warning("%s: %s", self._trouble, error)
                for _, future in waiting:
                    future.cancel()
                continue
            for (_, future), answer in zip(waiting, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
