"""Texts that language models write, from Python."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from tapml.api.compiled import CompiledModel
from tapml.api.devices import Device, WebGpuDevice, cpu
from tapml.devices.device import HANG_SECONDS
from tapml.errors import InputError
from tapml.generation.asked import Asked, Text, begun
from tapml.generation.encoding import encoder_inputs
from tapml.generation.on_cpu import chosen_on_cpu, written_on_cpu
from tapml.generation.on_device import chosen_on_device
from tapml.generation.sampling import Sampling
from tapml.generation.writing import Chosen, Several, Writing, written_alone, written_together


def generate(
    model: CompiledModel,
    prompt: str | Sequence[int] | None = None,
    device: Device | None = None,
    *,
    encoder: CompiledModel | None = None,
    source: str | Sequence[int] | np.ndarray | None = None,
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
    hang_seconds: float = HANG_SECONDS,
) -> Writing:
    """What a language model writes behind a prompt (text or tokens), token by token, on a device as a page does, or on
    this machine. Gives an iterator of pieces (`id`, `text`, `position`); its `result` has all of it, how it ended and
    how long it took, also where it was closed before its end.

    `encoder`, `source`: of a model that attends to what an encoder leaves, that encoder, and what it is run with once:
    a text, tokens, or an array as it takes it. The prompt is the decoder's then: if none is given, the token that
    begins a text.

    `tokens`: how many at most (default: as many as fit). `greedy`: the most likely token; otherwise one is drawn, by
    `seed` (default 0), of the `top_k` most likely, and of these of the fewest that are as likely as `top_p` together,
    where logits were divided by `temperature`. Before all that, logits of tokens that are in the text are divided by
    `repetition_penalty`, or multiplied where they are below 0. `stop`, `stop_ids`: texts and tokens that end it.
    `speculate`: so many tokens are guessed at a time (True: as many as usual), by `draft`, a smaller model of the same
    vocabulary, or else by what stood behind the last ones before, and verified by one call of a model that was built
    for it; the text is the same without.

    Raises InputError for what cannot be asked for (an empty prompt, one that is longer than the model has room for,
    tokens outside of its vocabulary, a model that is no language model); its pieces raise as `CompiledModel.run`, and
    TapmlError where the model's logits are no numbers.
    """
    sampling = Sampling(greedy, temperature, top_k, top_p, repetition_penalty, seed)
    device = device or cpu()
    if (encoder is None) != (source is None):
        raise InputError("an encoder and its source are given together: give both, or neither")
    given: dict[str, np.ndarray] = {}
    if encoder is not None and source is not None:
        given = encoder.run(encoder_inputs(encoder.files, source), device)
    asked = Asked(sampling, tokens, stop, stop_ids, speculate)
    text = begun(model.files, prompt, asked, given, None if draft is None else draft.files)
    if isinstance(device, WebGpuDevice):
        return written_alone(text, _chosen(device, [text], hang_seconds))
    _check_kind(device)
    return Writing(text, chosen_on_cpu(text))


def generate_several(
    model: CompiledModel,
    prompts: Sequence[str | Sequence[int]],
    device: Device | None = None,
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
    hang_seconds: float = HANG_SECONDS,
) -> Several:
    """What a language model writes behind each of several prompts, which share its weights: the texts of `generate`.
    A model that was built with `--batch` (and guesses no tokens) writes all of them by the same calls, and computes
    what they begin with alike once. Of others each is a sequence with states of its own on a device, and their calls
    take turns; this machine writes one after the other. Gives an iterator of the number of a prompt and a piece; its
    `results` are in the order of the prompts.

    Options and errors are those of `generate`; InputError, too, where there are no prompts.
    """
    if isinstance(prompts, str) or not prompts:
        raise InputError('prompts is no list with something in it: give it as ["Once", "Then"]')
    sampling = Sampling(greedy, temperature, top_k, top_p, repetition_penalty, seed)
    asked = Asked(sampling, tokens, stop, stop_ids, speculate)
    texts = [begun(model.files, prompt, asked, draft=None if draft is None else draft.files) for prompt in prompts]
    device = device or cpu()
    if isinstance(device, WebGpuDevice):
        return written_together(texts, _chosen(device, texts, hang_seconds))
    _check_kind(device)
    return written_on_cpu(texts)


def _chosen(device: WebGpuDevice, texts: Sequence[Text], hang_seconds: float) -> Generator[tuple[int, Chosen]]:
    device.synchronize()
    session = device.session
    return chosen_on_device(session.device, session.blobs, texts, hang_seconds=hang_seconds)


def _check_kind(device: Device) -> None:
    if device.kind != "cpu":
        raise InputError(f"a compiled model does not run on {device.kind}: give tml.cpu() or tml.webgpu(...)")
