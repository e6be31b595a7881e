"""Tokens that a compiled model chooses on a device, by the code that pages have (@tapml/runtime/generation)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace

import numpy as np

from tapml.devices import Blobs, Device
from tapml.devices.calls import OnProgress, Telling
from tapml.devices.commands import message
from tapml.devices.compiled import served_model
from tapml.devices.device import HANG_SECONDS
from tapml.errors import DeviceError, DeviceLost, InputError
from tapml.generation.asked import Text
from tapml.generation.writing import Chosen
from tapml.protocol.methods import GeneratedToken, GenerateParams, KeptTexts
from tapml.protocol.session import GENERATE

_NO_OTHER = ("hung", "gone")
"""Why a device is lost that would be lost again, or behind which there is none."""


class _Ended(Exception):
    """Nobody takes tokens any more."""


def chosen_on_device(
    device: Device,
    blobs: Blobs,
    texts: Sequence[Text],
    *,
    hang_seconds: float = HANG_SECONDS,
    check: Callable[[], None] = lambda: None,
    kept: KeptTexts | None = None,
    lost: Callable[[DeviceLost], None] = lambda error: None,
    inspect: bool = False,
) -> Generator[tuple[int, Chosen]]:
    """Tokens of texts of one model, asked for alike, with the number of each: as many as can be written. Who takes them
    ends it before, by closing it. `check` is called now and then, and may raise to give it up. `kept`: of one text,
    where the device keeps its states. Where the GPU device is lost, and not because something hung, `lost` is told, and
    the texts go on on the next one, if one token at least was chosen on that one. `inspect`: of one text without
    guesses, each token comes with its step.

    Raises what `Device.call` raises.
    """
    written: list[list[int]] = [[] for _ in texts]
    seconds = 0.0
    while True:
        left = [number for number, text in enumerate(texts) if len(written[number]) < text.most]
        rest = [_behind(texts[number], written[number]) for number in left]
        before, began = sum(map(len, written)), seconds
        source = _chosen(device, blobs, rest, kept, hang_seconds, check, inspect)
        try:
            for place, chosen in source:
                number, seconds = left[place], began + chosen.seconds
                # All are asked for as many as the one that wants most.
                if len(written[number]) < texts[number].most:
                    written[number].append(chosen.id)
                    yield number, chosen._replace(seconds=seconds)
        except DeviceLost as error:
            if error.lost_reason in _NO_OTHER or sum(map(len, written)) == before:
                raise
            lost(error)
        finally:
            source.close()


def _behind(text: Text, written: Sequence[int]) -> Text:
    """The text that goes on behind what was written of it."""
    if not written:
        return text
    tokens = None if text.asked.tokens is None else text.asked.tokens - len(written)
    return replace(text, prompt=[*text.prompt, *written], asked=replace(text.asked, tokens=tokens))


def _chosen(
    device: Device,
    blobs: Blobs,
    texts: Sequence[Text],
    kept: KeptTexts | None,
    hang_seconds: float,
    check: Callable[[], None],
    inspect: bool,
) -> Generator[tuple[int, Chosen]]:
    """By one call."""
    found: queue.SimpleQueue[tuple[int, Chosen] | BaseException | None] = queue.SimpleQueue()
    ended = threading.Event()

    def told(progress: Telling) -> None:
        if isinstance(progress, GeneratedToken):
            found.put((progress.text, Chosen(progress.id, progress.seconds, progress.guessed, progress.step)))

    def checked() -> None:
        if ended.is_set():
            raise _Ended
        check()

    thread = threading.Thread(
        target=_called, args=(device, blobs, texts, kept, hang_seconds, told, checked, found.put, inspect), daemon=True
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
    kept: KeptTexts | None,
    hang_seconds: float,
    told: OnProgress,
    check: Callable[[], None],
    put: Callable[[BaseException | None], None],
    inspect: bool,
) -> None:
    """The call, to its end; `put` is given what went wrong, or None behind the last token."""
    files, asked = texts[0].files, texts[0].asked
    try:
        given = {name: np.ascontiguousarray(array) for name, array in texts[0].given.items()}
        pieces = [array.tobytes() for array in given.values()]
        with (
            served_model(blobs, files) as digest,
            blobs.holding(pieces) as digests,
            nullcontext() if texts[0].draft is None else served_model(blobs, texts[0].draft) as draft,
        ):
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
                "speculate": texts[0].guesses or None,
                "draft": draft,
                "kept": None if kept is None else kept.model_dump(),
                "inspect": inspect,
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
