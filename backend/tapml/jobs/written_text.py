"""A text that a suite's model writes on a device, step by step beside what the reference platform computes of the same
tokens."""

from __future__ import annotations

import base64
import binascii
import queue
import threading
from collections.abc import Generator, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from tapml.compare.agreement import agreement
from tapml.compiled.text import read_tokenizer
from tapml.devices import Blobs, Device
from tapml.devices.device import HANG_SECONDS
from tapml.devices.messages import digest_now
from tapml.errors import DeviceError, InputError
from tapml.generation.asked import Asked, Text, begun
from tapml.generation.on_device import chosen_on_device
from tapml.generation.sampling import Sampling
from tapml.generation.writing import Chosen, written_alone
from tapml.jobs.built_model import built_model
from tapml.jobs.job import PlainName
from tapml.program.generation import INPUTS, POSITIONS, Generation
from tapml.protocol.base import Message
from tapml.protocol.fields import Count
from tapml.protocol.methods import GeneratedStep
from tapml.protocol.session import HangSeconds
from tapml.results.base import ModelTolerance, within
from tapml.suite import Suite, TensorRef
from tapml.validation.events import Cancel, Cancelled, Emit
from tapml.validation.operatorwise import require_devices

_MOST_TOKENS = 100_000
Prompt = Annotated[list[Count], Field(max_length=_MOST_TOKENS)]


class TextSpecification(Message):
    """The body of `POST /api/suites/<suite>/texts`: a prompt as text or as tokens, and how it goes on."""

    device: PlainName
    prompt: Annotated[str, Field(max_length=1_000_000)] | None = None
    prompt_ids: Prompt | None = None
    tokens: Annotated[int, Field(ge=1, le=_MOST_TOKENS)] = 32
    """How many at most."""
    greedy: bool = True
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float = 1.0
    seed: int | None = None
    hang_seconds: HangSeconds = Field(default=HANG_SECONDS, le=86_400)

    def asked(self) -> Asked:
        """Raises InputError for what is beyond its range."""
        given = (self.temperature, self.top_k, self.top_p, self.repetition_penalty, self.seed)
        return Asked(Sampling(self.greedy, *given), self.tokens)

    def check(self, suite: Suite) -> None:
        """What can be said before a device starts. Raises InputError."""
        self.asked()
        if not (self.prompt if self.prompt_ids is None else self.prompt_ids):
            raise InputError("the prompt is empty: give text, or tokens as numbers")
        if self.prompt_ids is None and suite.tokenizer is None:
            raise InputError(f"{suite.name} has no tokenizer: give the prompt as tokens, numbers with commas between")


def check_writes(suite: Suite) -> Generation:
    """How a suite's model generates. Raises InputError where it does not, or not by itself."""
    facts = suite.generation
    if facts is None:
        raise InputError(f"{suite.path} is of no language model that generates: carve one by `tapml carve --hf FOLDER`")
    if facts.given:
        raise InputError(
            f"{suite.path} attends to what its encoder leaves, which is not here: write with `tapml generate --encoder`"
        )
    return facts


def write_text(
    asked: TextSpecification, suite: Suite, device: Device, blobs: Blobs, emit: Emit, cancel: Cancel
) -> dict[str, Any]:
    """Write on `device` with the suite's kernels as they are now. Events are "prompt", "token" for each token as it
    comes and "compared" for each when the reference platform has computed its step (docs/http-api.md). Gives what was
    written, also after a cancel.

    Raises InputError for a prompt that is empty or too long, and for a model that cannot be built; DeviceError where
    the device fails.
    """
    require_devices([device])
    # Before it is built: what is edited meanwhile counts as edited.
    digests = {name: digest_now(suite, name) for name in suite.kernels}
    with built_model(suite) as files:
        prompt = asked.prompt if asked.prompt_ids is None else asked.prompt_ids
        text = begun(files, prompt, asked.asked())
        carved = carved_calls(suite)
        emit(
            {
                "type": "prompt",
                "ids": list(text.prompt),
                "capacity": text.facts.capacity,
                "bytes_per_token": text.facts.bytes_per_token,
                "tolerance": suite.manifest["model_tolerance"],
                "kernels": digests,
            }
        )
        steps: list[GeneratedStep] = []
        source = chosen_on_device(
            device,
            blobs,
            [text],
            hang_seconds=asked.hang_seconds,
            check=cancel.check,
            lost=lambda error: emit({"type": "message", "level": "warning", "text": f"{error.summary}: {_GOES_ON}"}),
            inspect=True,
        )
        interrupted = False
        with _Reference(text, suite.manifest["model_tolerance"], emit) as reference:
            with written_alone(text, _seen(source, steps)) as writing:
                try:
                    for piece in writing:
                        tokens = [*text.prompt, *writing.result.ids]
                        step = steps[-1]
                        before = tokens[: piece.position]
                        emit(
                            {
                                "type": "token",
                                "id": piece.id,
                                "text": _shown(text, piece.id),
                                "position": piece.position,
                                **step.model_dump(exclude={"logits"}),
                                "carved": carved.get((_last(step, text.facts), tuple(before))),
                            }
                        )
                        reference.compare(piece.position, before, _logits(device, text, step))
                except Cancelled:
                    interrupted = True
                    reference.abandon()
            reference.finish(cancel)
        found = writing.result
        return {
            "interrupted": interrupted or cancel.requested,
            "text": found.text,
            "ids": found.ids,
            "reason": found.reason,
            "prompt_tokens": found.prompt_tokens,
        }


_GOES_ON = "the text goes on on the next GPU device"


def carved_calls(suite: Suite) -> dict[tuple[int, tuple[int, ...]], int]:
    """The suite's steps by how many tokens each was given, and by the text up to the last of them."""
    found: dict[tuple[int, tuple[int, ...]], int] = {}
    text: list[int] = []
    for number, step in enumerate(suite.manifest["steps"]):
        given = {name: step["inputs"].get(name) for name in INPUTS}
        if any(ref is None for ref in given.values()):
            continue
        ids, positions = (
            suite.tensors.get(TensorRef.from_json(given[name])).reshape(-1).tolist() for name in (INPUTS[0], POSITIONS)
        )
        begin = positions[0]
        # What stands before a step is known of the steps before it alone.
        if begin > len(text) or positions != [*range(begin, begin + len(ids))]:
            text = []
            continue
        text = [*text[:begin], *ids]
        found.setdefault((len(ids), tuple(text)), number)
    return found


def carved_prompt(suite: Suite) -> str | None:
    """The text that the suite was carved with; None where it was none, or its tokens are not those of a text."""
    content = suite.tokenizer
    ids = next((list(text) for _, text in carved_calls(suite)), None)
    if content is None or ids is None:
        return None
    tokenizer = read_tokenizer(content, f"{suite.path}: tokenizer.json")
    text: str = tokenizer.decode(ids)
    return text if tokenizer.encode(text).ids == ids else None


def _last(step: GeneratedStep, facts: Generation) -> int:
    """Tokens of its last call: all calls before it are of as many as there can be."""
    return (step.tokens - 1) % facts.chunk + 1


def _seen(source: Generator[tuple[int, Chosen]], steps: list[GeneratedStep]) -> Generator[tuple[int, Chosen]]:
    try:
        for number, chosen in source:
            assert chosen.step is not None, "they are asked for"
            steps.append(chosen.step)
            yield number, chosen
    finally:
        source.close()


def _shown(text: Text, token: int) -> str | None:
    """A token's own text: a space before it is part of it."""
    if text.tokenizer is None:
        return None
    known = text.prompt[-1:]
    return str(text.tokenizer.decode([*known, token]))[len(text.tokenizer.decode(list(known))) :]


def _logits(device: Device, text: Text, step: GeneratedStep) -> np.ndarray:
    try:
        found = np.frombuffer(base64.b64decode(step.logits, validate=True), "<f4")
    except (binascii.Error, ValueError):
        found = np.empty(0, np.float32)
    if found.size != text.facts.vocabulary:
        said = f"{found.size} logits of {text.facts.vocabulary}"
        raise DeviceError(f"{device.name} sent {said}", "protocol")
    return found


class _Reference:
    """Computes each step on the reference platform, behind the device, in a thread of its own."""

    def __init__(self, text: Text, tolerance: ModelTolerance | None, emit: Emit) -> None:
        self._text, self._tolerance, self._emit = text, tolerance, emit
        self._asked: queue.SimpleQueue[tuple[int, Sequence[int], np.ndarray] | None] = queue.SimpleQueue()
        self._abandoned = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="reference", daemon=True)

    def __enter__(self) -> _Reference:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()
        self._asked.put(None)
        self._thread.join()

    def compare(self, position: int, before: Sequence[int], logits: np.ndarray) -> None:
        """Of the token at `position`, with the text before it."""
        self._asked.put((position, before, logits))

    def abandon(self) -> None:
        """What is not computed yet is not wanted any more."""
        self._abandoned.set()

    def finish(self, cancel: Cancel) -> None:
        """Wait for what was asked for. Raises what went wrong."""
        self._asked.put(None)
        while self._thread.is_alive():
            if cancel.requested:
                self.abandon()
            self._thread.join(0.1)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        # Late: TVM takes seconds to load.
        from tapml.generation.calls_on_cpu import Calls
        from tapml.platforms.compiled import CompiledOnCpu

        try:
            text = self._text
            calls = Calls(CompiledOnCpu(text.files), text.facts, text.given)
            while (asked := self._asked.get()) is not None and not self._abandoned.is_set():
                position, before, got = asked
                self._emit(self._compared(position, got, calls.behind(before).reshape(-1)))
        except BaseException as error:
            self._error = error

    def _compared(self, position: int, got: np.ndarray, expected: np.ndarray) -> dict[str, Any]:
        found = agreement([got], [expected]).to_json()
        token, wanted = int(np.argmax(got)), int(np.argmax(expected))
        return {
            "type": "compared",
            "position": position,
            **found,
            "within": None if self._tolerance is None else within(found, self._tolerance),
            "greedy": token,
            "reference_greedy": wanted,
            "reference_text": None if token == wanted else _shown(self._text, wanted),
            "margin": float(expected[wanted] - expected[token]),
        }
