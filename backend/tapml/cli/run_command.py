"""`tapml run`: a compiled model on this machine or a device."""

from __future__ import annotations

import argparse
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from tapml.cli.arguments import named_inputs, one_device
from tapml.cli.outputs import Outputs, check_writable
from tapml.cli.runs import JobEvents, acquire, elsewhere, interruptible, served
from tapml.compiled.call import CompiledRun, call_of, function_of, name_of_function, planned_bytes, taken
from tapml.compiled.files import CompiledFiles
from tapml.compiled.model import InputPort
from tapml.compiled.text import text_inputs
from tapml.compiled.validated import unvalidated_text
from tapml.errors import InputError
from tapml.expressions import Symbol
from tapml.files import cannot_write, write_pieces
from tapml.formats import validated
from tapml.jobs.run import RunOptions, check_capture, run_on_device
from tapml.program.intervals import interval
from tapml.reports.compiled import run_document, show_run
from tapml.reports.progress import ProgressReport
from tapml.reports.terminal import warn_doubts
from tapml.sharing.capture import read_capture
from tapml.text import counted, listed, one_line, size

_CPU = "cpu"
_NPY, _NPZ = ".npy", ".npz"
_FEW = 4


def run_model(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Run a function of a compiled model and write its outputs."""
    check_writable(options.json)
    check_writable(options.output)
    check_writable(options.capture)
    files = CompiledFiles(options.model)
    options.function = name_of_function(files.model, options.function)
    if options.output is not None:
        _check_form(options.output, files, options.function)
    warn_doubts(progress, options.model, files.proven().provenance.doubts)
    device = one_device(options)
    if device == _CPU and options.capture is not None:
        raise InputError("--capture is of a device, which the CPU is compared with: give one with --device")
    calls = _calls(files, options)
    found, unvalidated, where = _run(files, calls, device, options, progress)
    outputs = Outputs(progress)
    outputs.report(
        options.json,
        run_document(files.model, options.function, where, found, unvalidated),
        lambda: show_run(console, where, found, planned_bytes(files.model, options.function)),
    )
    if options.output is not None:
        outputs.write(lambda: _write(options.output, found))
    if options.capture is not None and (data := found.capture) is not None:
        outputs.write(lambda: _keep_capture(options.capture, data, progress))
    return outputs.exit_code(0)


def _calls(files: CompiledFiles, options: argparse.Namespace) -> list[dict[str, np.ndarray]]:
    """The inputs of each call."""
    if options.text:
        if options.inputs or options.input or options.random_inputs:
            raise InputError("--text makes all inputs: leave out --inputs, --input and --random-inputs")
        return [text_inputs(files, options.function, options.text)]
    # Late: importing loads TVM, which takes seconds.
    from tapml.importing.inputs import InputSpec, gather_steps

    function = function_of(files.model, options.function)
    specs = []
    for port in function.inputs:
        tensor = function.tensors[port.tensor]
        shape = tuple(axis if isinstance(axis, int | str) else None for axis in tensor.shape)
        specs.append(InputSpec(port.name, tensor.dtype, shape, _bound(port, files.model.symbols)))
    if not specs:
        return [{}]
    steps = gather_steps(
        specs,
        input_files=options.inputs,
        input_arrays=named_inputs(options.input),
        random_inputs=options.random_inputs,
        seed=options.seed,
    )
    for step in steps:
        try:
            call_of(files.model, options.function, taken(files.model, options.function, step.arrays))
        except InputError as error:
            raise InputError(f"{step.description}: {error}") from None
    return [step.arrays for step in steps]


def _bound(port: InputPort, symbols: Sequence[Symbol]) -> int | None:
    """One more than the largest index that it takes at all sizes, where its elements are indices."""
    return max(interval(port.range[1], symbols)[0], 0) + 1 if port.range else None


def _run(
    files: CompiledFiles,
    calls: list[dict[str, np.ndarray]],
    name: str,
    options: argparse.Namespace,
    progress: Console,
) -> tuple[CompiledRun, list[str], str]:
    """What the calls gave, the kernels that are not validated on the device, and what it is called: a server's token
    is in no report."""
    if name == _CPU:
        # Late: TVM takes seconds to load.
        from tapml.platforms.compiled import run_on_cpu

        return run_on_cpu(files, calls, function=options.function, repeat=options.repeat), [], name
    asked, where = _asked(options), name
    check_capture(files, asked)
    with ProgressReport(progress) as report, interruptible() as cancel:
        if remote := elsewhere(name):
            found, missing = remote.run_model(files, calls, asked, JobEvents(report), cancel)
            name, where = remote.known_as, f"{remote.known_as} of {remote.base}"
        else:
            with served(None, options, [name]) as server:
                device = acquire(server, name, report, cancel)
                found, missing = run_on_device(device, server.state.blobs, files, calls, asked, cancel.check)
        if missing:
            report.line(unvalidated_text(files.model, missing, name))
        return found, missing, where


def _asked(options: argparse.Namespace) -> RunOptions:
    """Raises InputError for an option beyond its range."""
    given = {name: getattr(options, name) for name in ("nodes", "sample", "max_bytes", "weights")}
    given = {name: value for name, value in given.items() if value is not None and value is not False}
    if given and options.capture is None:
        option = next(iter(given)).replace("_", "-")
        raise InputError(f"--{option} says what is captured: give --capture FILE with it")
    fields = {"function": options.function, "repeat": options.repeat, "hang_seconds": options.hang_seconds}
    capture = None if options.capture is None else given
    return validated("the command", RunOptions, {**fields, "capture": capture}, "")


def _keep_capture(path: Path, data: bytes, console: Console) -> None:
    """Write the captured call, and say what is in it."""
    try:
        write_pieces(path, [data])
    except OSError as error:
        raise InputError(cannot_write(path, error)) from error
    capture = read_capture(path)
    if capture is None:
        raise InputError(f"{path} is no captured call: the device sent something else")
    calls = capture.document.calls
    kernels = listed(list(dict.fromkeys(call.kernel for call in calls)), _FEW)
    text = f"{path} has {counted(len(calls), 'operator call')} ({kernels}), {size(len(data))}"
    console.print(one_line(text, 2000), soft_wrap=True)
    # Late: what holds a capture against this machine loads TVM.
    from tapml.cli.capture_command import left_out_text

    if text := left_out_text(capture.document):
        console.print(text, style="yellow", soft_wrap=True)
    console.print(f"compare it: `tapml import {path} --into` the suite that the model was built of", soft_wrap=True)


def _check_form(path: Path, files: CompiledFiles, function: str) -> None:
    """Raises InputError for another suffix than .npz and .npy, and where a .npy is to hold more than one array."""
    if path.suffix not in (_NPY, _NPZ):
        raise InputError(f"-o {path}: outputs are written as a .npz, or a single one as a .npy: give it that suffix")
    names = [port.name for port in function_of(files.model, function).outputs]
    if path.suffix == _NPY and len(names) != 1:
        raise InputError(
            f"-o {path}: a .npy holds one array, and the model gives {listed(names, 8) or 'none'}: write a .npz"
        )


def _write(path: Path, found: CompiledRun) -> None:
    """The outputs of the last call, as a .npy where one is asked for, or else as a .npz; in that those of calls before
    it have their number behind the name."""
    last = len(found.outputs) - 1
    with tempfile.TemporaryFile() as file:
        if path.suffix == _NPY:
            (array,) = found.outputs[last].values()
            np.lib.format.write_array(file, array, allow_pickle=False)
        else:
            with zipfile.ZipFile(file, "w") as archive:
                for number, outputs in enumerate(found.outputs):
                    for name, array in outputs.items():
                        entry = f"{name}.npy" if number == last else f"{name}@{number}.npy"
                        with archive.open(entry, "w", force_zip64=True) as part:
                            np.lib.format.write_array(part, array, allow_pickle=False)
        file.seek(0)
        try:
            write_pieces(path, iter(lambda: file.read(1 << 20), b""))
        except OSError as error:
            raise InputError(cannot_write(path, error)) from error
