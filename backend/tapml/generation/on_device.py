"""Tokens that a compiled model chooses on a device, by the code that pages have (@tapml/runtime/generation)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict

import numpy as np

from tapml.devices import Blobs, Device
from tapml.devices.calls import OnProgress, Telling
from tapml.devices.commands import message
from tapml.devices.compiled import served_model
from tapml.devices.device import HANG_SECONDS
from tapml.errors import DeviceError, InputError
from tapml.generation.asked import Text
from tapml.generation.writing import Chosen
from tapml.protocol.methods import GeneratedToken, GenerateParams
from tapml.protocol.session import GENERATE


class _Ended(Exception):
    """Nobody takes tokens any more."""


def chosen_on_device(
    device: Device,
    blobs: Blobs,
    texts: Sequence[Text],
    *,
    hang_seconds: float = HANG_SECONDS,
    check: Callable[[], None] = lambda: None,
) -> Generator[tuple[int, Chosen]]:
    """Tokens of texts of one model, asked for alike, with the number of each: as many as can be written. Who takes them
    ends it before, by closing it. `check` is called now and then, and may raise to give it up.

    Raises what `Device.call` raises.
    """
    found: queue.SimpleQueue[tuple[int, Chosen] | BaseException | None] = queue.SimpleQueue()
    ended = threading.Event()

    def told(progress: Telling) -> None:
        if isinstance(progress, GeneratedToken):
            found.put((progress.text, Chosen(progress.id, progress.seconds, progress.guessed)))

    def checked() -> None:
        if ended.is_set():
            raise _Ended
        check()

    thread = threading.Thread(
        target=_called, args=(device, blobs, texts, hang_seconds, told, checked, found.put), daemon=True
    )
    thread.start()
    try:
        while (item := found.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
        raise DeviceError(f"{device.name} ended texts that are not over", "protocol")
    finally:
        ended.set()
        thread.join()


def _called(
    device: Device,
    blobs: Blobs,
    texts: Sequence[Text],
    hang_seconds: float,
    told: OnProgress,
    check: Callable[[], None],
    put: Callable[[BaseException | None], None],
) -> None:
    """The call, to its end; `put` is given what went wrong, or None behind the last token."""
    files, asked = texts[0].files, texts[0].asked
    try:
        given = {name: np.ascontiguousarray(array) for name, array in texts[0].given.items()}
        pieces = [array.tobytes() for array in given.values()]
        with served_model(blobs, files) as digest, blobs.holding(pieces) as digests:
            described = zip(given.items(), digests, strict=True)
            fields = {
                "model": digest,
                "given": {
                    name: {"digest": of, "dtype": str(array.dtype), "shape": list(array.shape)}
                    for (name, array), of in described
                },
                "prompts": [list(text.prompt) for text in texts],
                "tokens": max(text.most for text in texts),
                "stop_ids": list(asked.stop_ids),
                **asdict(asked.sampling),
                "speculate": asked.speculate,
            }
            params = message(GenerateParams, fields, files.model.name)
            device.call(GENERATE, params, hang_seconds=hang_seconds, check=check, on_progress=told)
    except _Ended:
        pass
    except DeviceError as error:
        if error.report is None or error.kind != "input":
            put(error)
        else:
            put(InputError(f"{files.model.name}: {error.report.message}"))
    except BaseException as error:
        put(error)
    else:
        put(None)
