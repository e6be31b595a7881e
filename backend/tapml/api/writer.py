"""A text that a language model writes and goes on with."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from tapml.api.compiled import CompiledModel
from tapml.api.devices import Device, WebGpuDevice, cpu
from tapml.devices.device import HANG_SECONDS
from tapml.errors import InputError
from tapml.generation.asked import Asked, begun
from tapml.generation.calls_on_cpu import Calls
from tapml.generation.kept import Kept, KeptOnCpu, KeptOnDevice
from tapml.generation.sampling import Sampling
from tapml.generation.stream import TextStream
from tapml.generation.writing import Writing
from tapml.platforms.compiled import CompiledOnCpu


class Writer:
    """A text, kept as tokens, with states of its own on a device or on this machine, as pages have it: it is gone on
    with, a prompt that begins as it does computes only the rest, and `fork` copies the states. A context manager:
    `close` gives the states back."""

    def __init__(
        self, model: CompiledModel, device: Device | None = None, *, hang_seconds: float = HANG_SECONDS
    ) -> None:
        """Raises InputError for a model that does not generate, or attends to what an encoder leaves, and for a device
        that compiled models do not run on."""
        device = device or cpu()
        facts = model.files.model.generation
        if facts is None:
            raise InputError(f"{model.path} is no language model that generates: build one with `tapml build --hf`")
        if facts.given:
            raise InputError(f"{model.path} attends to what its encoder leaves: give both to tml.generate")
        self._model = model
        self._prompt: list[int] = []
        self._writing: Writing | None = None
        self._stream: TextStream | None = None
        self._kept: Kept
        if isinstance(device, WebGpuDevice):
            device.synchronize()
            session = device.session
            self._kept = KeptOnDevice.on(session.device, session.blobs, model.files, hang_seconds)
        elif device.kind == "cpu":
            self._kept = KeptOnCpu(Calls(CompiledOnCpu(model.files), facts))
        else:
            raise InputError(f"a compiled model does not run on {device.kind}: give tml.cpu() or tml.webgpu(...)")

    @property
    def tokens(self) -> list[int]:
        """Of the prompt and what was written."""
        return [*self._prompt, *([] if self._writing is None else self._writing.result.ids)]

    def generate(
        self,
        prompt: str | Sequence[int] | None = None,
        *,
        tokens: int | None = None,
        greedy: bool = False,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
        stop: Sequence[str] = (),
        stop_ids: Sequence[int] = (),
        speculate: int | bool | None = None,
        draft: CompiledModel | None = None,
    ) -> Writing:
        """What follows a prompt, or, without one, the text that there is: as `tml.generate`, whose options these are.
        One text is written at a time: close what is being written before, or take all of it.

        Raises InputError as that does, while the text is being written, and where there is nothing to go on with.
        """
        self._check_idle()
        sampling = Sampling(greedy, temperature, top_k, top_p, repetition_penalty, seed)
        asked = Asked(sampling, tokens, stop, stop_ids, speculate)
        before = self.tokens
        if prompt is None and not before:
            raise InputError("there is nothing to go on with: give a prompt")
        given = before if prompt is None else prompt
        text = begun(self._model.files, given, asked, draft=None if draft is None else draft.files)
        if prompt is not None or self._stream is None:
            self._stream = TextStream(text.tokenizer, text.prompt)
        self._prompt = [*text.prompt]
        self._writing = Writing(text, self._kept.chosen(text), stream=self._stream)
        return self._writing

    def fork(self) -> Writer:
        """Another writer of the same text, with states of its own that are copied where they are; both go on by
        themselves. Raises InputError while the text is being written."""
        self._check_idle()
        forked = object.__new__(Writer)
        forked._model, forked._prompt, forked._writing = self._model, self.tokens, None
        forked._stream = None if self._stream is None else self._stream.copy()
        forked._kept = self._kept.fork()
        return forked

    def close(self) -> None:
        """End what is being written, and give the states back."""
        if self._writing is not None:
            self._writing.close()
        self._kept.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_idle(self) -> None:
        if self._writing is not None and not self._writing.over:
            raise InputError("the writer is writing: take all of that or close it, or fork the writer before")
