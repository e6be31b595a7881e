"""`tapml generate`: what a language model writes."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from tapml.browsers import check_startable, startable_kind
from tapml.cache import cached
from tapml.cli.arguments import check_activations, one_device
from tapml.cli.outputs import Outputs, check_writable
from tapml.cli.package_state import state_of_package
from tapml.compiled.call import function_of
from tapml.compiled.files import CompiledFiles, is_compiled
from tapml.compiled.validated import unvalidated, unvalidated_text
from tapml.errors import DeviceLost, InputError
from tapml.generation.asked import Asked, Text, begun
from tapml.generation.drafts import NGRAM
from tapml.generation.encoding import encoder_inputs
from tapml.generation.sampling import Sampling
from tapml.generation.writing import Generated, Piece, Several, written_together
from tapml.leftovers import put_in_place, temporary_folder
from tapml.models import NAMES, folder_of
from tapml.npy import read_npy
from tapml.reports.progress import ProgressReport
from tapml.reports.terminal import warn_doubts
from tapml.text import counted, meant, visible

_CPU, _OPEN = "cpu", "open"
_GUESSED = 4
"""Tokens of the step in which guesses are verified, as it is carved."""
_TOGETHER = 8
"""Texts of full length that there is room for where several are written together."""
_MOST_KEPT = 3
"""Compiled models of a name in the cache: each state of the package makes another."""


def generate(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Print the text as it comes, then how it ended."""
    # All that can be refused without the model, which may have to be built.
    check_writable(options.json)
    device = one_device(options)
    _check_device(device)
    asked = _asked(options)
    encoding = _encoding(options)
    if options.prompt is None and options.prompt_ids is None and encoding is None:
        raise InputError("there is nothing to go on with: give --prompt TEXT, or --prompt-ids N,N,...")
    prompts = [options.prompt_ids] if options.prompt is None else options.prompt
    if options.quantise is not None and (options.model not in NAMES or Path(options.model).exists()):
        raise InputError(
            f"{options.model} is made already: --quantise is for {' and '.join(NAMES)}, which comes with tapml; of "
            "another model, give it to `tapml carve` or `tapml build`"
        )
    check_activations(options)
    if options.model in NAMES and not all(prompts):
        raise InputError("the prompt is empty: give text, or tokens as --prompt-ids 1,2,3")
    with contextlib.ExitStack() as held:

        def opened(name: str) -> CompiledFiles:
            found = held.enter_context(_model(name, progress, options.quantise, options.activations))
            warn_doubts(progress, name, found.proven().provenance.doubts)
            return found

        files = opened(options.model)
        draft = opened(options.speculate) if options.speculate not in (None, NGRAM) else None
        left = {} if encoding is None else encoding.placeholders
        texts = [begun(files, prompt, asked, left, draft) for prompt in prompts]
        for text in texts:
            if asked.tokens is not None and text.most < asked.tokens:
                progress.print(
                    f"{text.most} of {counted(asked.tokens, 'token')} fit behind the prompt of {len(text.prompt)}: "
                    f"{files.model.name} has room for {text.facts.capacity}"
                )
        writing, where = held.enter_context(_writing(texts, encoding, device, options, progress))
        quiet = str(options.json) == "-"
        # Before what follows them; what is redirected has that alone.
        before = options.prompt if progress.is_terminal and not quiet else None
        shown = _Shown(console, progress, texts, before, quiet=quiet)
        for number, piece in writing:
            shown.piece(number, piece, writing.results[number])
        shown.end()
        results = writing.results
    for text, found in zip(texts, results, strict=True):
        progress.print(_summary(text, found))
    outputs = Outputs(progress)
    outputs.report(options.json, _document(files, where, results), lambda: None)
    return outputs.exit_code(0)


class _Shown:
    """Texts on standard output, in the order of their prompts, a line of their own each: the first that is not over as
    it comes, those behind it when it is their turn."""

    def __init__(
        self, console: Console, progress: Console, texts: Sequence[Text], before: Sequence[str] | None, *, quiet: bool
    ) -> None:
        """`before`: what is printed before each text, on the terminal of `progress`."""
        self._file = console.file
        self._progress = progress
        self._before = before
        self._quiet = quiet
        self._waiting = [""] * len(texts)
        self._over = [False] * len(texts)
        self._first = 0
        # A model without a tokenizer writes tokens.
        self._by_ids = texts[0].tokenizer is None
        self._begin()

    def piece(self, number: int, piece: Piece, result: Generated) -> None:
        self._waiting[number] += f"{piece.id} " if self._by_ids else visible(piece.text)
        self._over[number] = result.reason != "abort"
        while self._first < len(self._waiting):
            self._write(self._waiting[self._first])
            self._waiting[self._first] = ""
            if not self._over[self._first] or self._first == len(self._waiting) - 1:
                break
            self._write("\n")
            self._first += 1
            self._begin()

    def _begin(self) -> None:
        if self._before is not None:
            prompt = visible(self._before[self._first])
            self._progress.print(prompt, style="dim", end="", markup=False, highlight=False)

    def end(self) -> None:
        self._write("\n")

    def _write(self, text: str) -> None:
        if not self._quiet:
            self._file.write(text)
            self._file.flush()


def _asked(options: argparse.Namespace) -> Asked:
    """Raises InputError for what is beyond its range."""
    sampling = Sampling(
        options.greedy, options.temperature, options.top_k, options.top_p, options.repetition_penalty, options.seed
    )
    if options.drafts is not None and options.speculate is None:
        raise InputError("--drafts says how many tokens are guessed at a time: give --speculate, or leave it out")
    drafts = None if options.speculate is None else options.drafts or True
    return Asked(sampling, options.tokens, options.stop, options.stop_ids, drafts)


@dataclass(frozen=True)
class _Encoding:
    """An encoder, and what it is run with before the text begins."""

    files: CompiledFiles
    inputs: Mapping[str, np.ndarray]

    @property
    def placeholders(self) -> dict[str, np.ndarray]:
        """Of what it leaves, by name."""
        return {port.name: np.empty(0, np.float32) for port in function_of(self.files.model).outputs}


def _encoding(options: argparse.Namespace) -> _Encoding | None:
    """Raises InputError for an encoder without a source, and for a source without an encoder."""
    given = [found for found in (options.source, options.source_ids, options.source_file) if found is not None]
    if (options.encoder is None) != (not given):
        raise InputError("an encoder and its source are given together: --encoder MODEL.tapml with --source TEXT")
    if options.encoder is None:
        return None
    files = CompiledFiles(options.encoder)
    files.proven()
    (source,) = given
    return _Encoding(files, encoder_inputs(files, read_npy(source) if isinstance(source, Path) else source))


def _check_device(device: str) -> None:
    """Raises InputError for one that cannot be started here."""
    if device in (_CPU, _OPEN) or startable_kind(device):
        return
    if device.startswith(("http://", "https://")):
        raise InputError(
            f"{device}: a text is not written on a device of another server, whose HTTP API runs jobs and tells no "
            "tokens: give a device that this machine can start, or a page there with examples/chat"
        )
    check_startable(device, "cpu (this machine)", "open (to wait for a browser that opens the device page)")


@contextlib.contextmanager
def _writing(
    texts: Sequence[Text],
    encoding: _Encoding | None,
    device: str,
    options: argparse.Namespace,
    progress: Console,
) -> Iterator[tuple[Several, str]]:
    """The texts as they are written, and where."""
    if device == _CPU:
        # Late: TVM takes seconds to load.
        from tapml.generation.on_cpu import written_on_cpu
        from tapml.platforms.compiled import run_on_cpu

        if encoding is not None:
            given = run_on_cpu(encoding.files, [encoding.inputs]).outputs[0]
            texts = [replace(text, given=given) for text in texts]

        with written_on_cpu(texts) as writing:
            yield writing, device
        return
    from tapml.cli.runs import acquire, interruptible, served
    from tapml.devices.compiled import run_compiled
    from tapml.generation.on_device import chosen_on_device

    models = [found.model for found in (texts[0].files, texts[0].draft) if found is not None]
    with interruptible() as cancel, served(None, options, [device]) as server:
        with ProgressReport(progress) as report:
            found = acquire(server, device, report, cancel)
        if found.hello.unavailable:
            raise InputError(f"{found.name} cannot run kernels: {found.hello.unavailable}")
        for model in models:
            if missing := unvalidated(model, found.hello.name, found.hello.runtime):
                # One that comes with tapml is built without a device: there is no suite to validate but the demo's.
                demo = f"`tapml demo --model {model.name} --device {device}`"
                own = [f"{demo} validates those of a build of its own, {model.name}-demo/{model.name}.tapml"]
                progress.print(unvalidated_text(model, missing, found.name, *own[: model.name in NAMES]))
        if encoding is not None:
            left = run_compiled(
                found,
                server.state.blobs,
                encoding.files,
                [encoding.inputs],
                hang_seconds=options.hang_seconds,
                check=cancel.check,
            )
            texts = [replace(text, given=left.outputs[0]) for text in texts]

        def lost(error: DeviceLost) -> None:
            progress.print(f"\n{found.name}: {error.summary}: the text goes on on the next GPU device", markup=False)

        source = chosen_on_device(
            found, server.state.blobs, texts, hang_seconds=options.hang_seconds, check=cancel.check, lost=lost
        )
        with written_together(texts, source) as writing:
            yield writing, found.name


@contextlib.contextmanager
def _model(name: str, progress: Console, quantise: str | None, activations: str | None) -> Iterator[CompiledFiles]:
    """The compiled model that is meant, or one that is built of the suite."""
    path = Path(name)
    if name in NAMES and not path.exists():
        yield CompiledFiles(_of_package(name, progress, quantise, activations))
    elif not path.exists() and (like := meant(name, NAMES)):
        raise InputError(f"{name} does not exist{like} give that, a compiled model (`tapml build`) or a suite")
    elif is_compiled(path) or not path.is_dir():
        yield CompiledFiles(path)
    else:
        from tapml.building.build import build
        from tapml.suite import Suite

        suite = Suite(path)
        with tempfile.TemporaryDirectory(prefix="tapml-") as folder, ProgressReport(progress) as report:
            output = Path(folder) / f"{suite.name}.tapml"
            build(suite, output, keep_disagreeing=True, progress=report.update)
            yield CompiledFiles(output)


def _of_package(name: str, progress: Console, quantise: str | None, activations: str | None) -> Path:
    """A model that comes with tapml, carved and built when it is first wanted by this state of the package."""
    return cached(partial(_built, name, progress, quantise, activations))


def _built(name: str, progress: Console, quantise: str | None, activations: str | None, cache: Path) -> Path:
    folder = cache / "language-models"
    kind = "-".join(part for part in (name, quantise, activations) if part is not None)
    path = folder / f"{kind}-{state_of_package()}.tapml"
    if path.exists():
        return path
    # Late, as above.
    from tapml.building.build import build
    from tapml.cli.commands import carved_by
    from tapml.importing.load import require_transformers

    require_transformers(name)
    folder.mkdir(parents=True, exist_ok=True)
    progress.print(f"building {name}, once: a minute or two")
    with temporary_folder(path) as made, ProgressReport(progress) as report:
        suite = carved_by(name, _importer(name, quantise, activations), made / f"{name}.suite", report)
        build(suite, made / path.name, progress=report.update)
        put_in_place(made / path.name, path)
    others = folder.glob(f"{kind}-{'?' * len(state_of_package())}.tapml")
    for old in sorted(others, key=lambda found: found.stat().st_mtime)[:-_MOST_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def _importer(name: str, quantise: str | None, activations: str | None) -> Callable[..., Any]:
    # Late: PyTorch takes seconds to load.
    from tapml.importing import import_decoder

    # It writes several texts together, verifies guesses, however many are made, and draws, so that one model is built
    # for all that may be asked for.
    prompt = "Once upon a time"
    return partial(
        import_decoder,
        folder_of(name),
        prompt=prompt,
        steps=1,
        speculate=_GUESSED,
        batch=_TOGETHER,
        draws=True,
        quantise=quantise,
        activations=activations,
    )


def _summary(text: Text, found: Generated) -> str:
    """How it ended, and how fast it was."""
    ends = {
        "length": "as many as were asked for",
        "stop": "ended by a stop",
        "end": "ended by the model",
        "capacity": f"the model has room for {text.facts.capacity}, the prompt's {found.prompt_tokens} included",
        "abort": "interrupted",
    }
    speed = "" if found.tokens_per_second is None else f", {found.tokens_per_second:.3g} tokens a second"
    if text.guesses and found.tokens_per_call is not None:
        speed += (
            f"; {counted(found.guessed, 'token')} guessed rightly: {counted(found.calls, 'call')} of the model for "
            f"{counted(len(found.ids) - 1, 'token')} behind the first, {found.tokens_per_call:.3g} tokens a call"
        )
    began = f"prompt of {counted(found.prompt_tokens, 'token')} in {found.prefill_seconds:.2g} s"
    return f"{counted(len(found.ids), 'token')} ({ends[found.reason]}); {began}{speed}"


def _document(files: CompiledFiles, where: str, results: Sequence[Generated]) -> dict[str, Any]:
    """Of one text as it is, of several as `texts`."""
    of_all = {"format": "tapml.generated/1", "model": files.model.name, "device": where}
    written = [
        {
            "ids": found.ids,
            "text": found.text,
            "reason": found.reason,
            "prompt_tokens": found.prompt_tokens,
            "guessed": found.guessed,
            "calls": found.calls,
            "tokens_per_call": found.tokens_per_call,
            "seconds": {"prefill": found.prefill_seconds, "decode": found.decode_seconds},
            "tokens_per_second": found.tokens_per_second,
        }
        for found in results
    ]
    return {**of_all, **(written[0] if len(written) == 1 else {"texts": written})}
