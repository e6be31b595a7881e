"""Tensors to the suite's folder, beside other work."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from tapml.carving.spill import let_go
from tapml.errors import InputError
from tapml.program import Value
from tapml.suite import TensorRef, TensorStore


class Recorder:
    """Writes tensors on a second thread, so that nobody waits for disk and SHA-256."""

    def __init__(self, store: TensorStore) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(1, "tensor writer")
        self._waiting: deque[Future[TensorRef]] = deque()

    def put(self, array: np.ndarray, value: Value[Any]) -> Future[TensorRef]:
        """Raises what writing an earlier one raised: on a full disk the rest would be for nothing."""
        self.check()
        self._waiting.append(self._pool.submit(self._write, array, value))
        return self._waiting[-1]

    def put_versions(self, arrays: Sequence[np.ndarray], value: Value[Any]) -> list[Future[TensorRef]]:
        """What one state was at one time after another. Raises as `put`."""
        self.check()
        written = self._pool.submit(self._write_versions, arrays, value)
        # One thread, in order: none of these waits.
        found = [self._pool.submit(lambda place: written.result()[place], place) for place in range(len(arrays))]
        self._waiting += found
        return found

    def check(self) -> None:
        """Raise what writing has raised so far."""
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft().result()

    def finish(self) -> None:
        """Wait for everything to be written. Raises what writing raised (a full disk)."""
        for written in self._waiting:
            written.result()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _write(self, array: np.ndarray, value: Value[Any]) -> TensorRef:
        with _of(value, [array]):
            return self._store.put(array, value.type.encoding)

    def _write_versions(self, arrays: Sequence[np.ndarray], value: Value[Any]) -> list[TensorRef]:
        with _of(value, arrays):
            return self._store.put_versions(arrays, value.type.encoding)


@contextmanager
def _of(value: Value[Any], arrays: Sequence[np.ndarray]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"{value.name or value.id}: {error}") from error
    finally:
        let_go(arrays)
