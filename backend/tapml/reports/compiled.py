"""Compiled models, and what running one gave, as text and as documents."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from tapml.compiled.call import CompiledRun, planned_bytes, range_text
from tapml.compiled.instructions import Dispatch, If, Instruction, every_instruction
from tapml.compiled.model import CompiledFunction, CompiledModel, InputPort, Port, Validation
from tapml.compiled.validated import failed_somewhere, unvalidated_text
from tapml.expressions import Expression
from tapml.program.graph import Typed
from tapml.reports.console import Table
from tapml.reports.plain import generation_text
from tapml.reports.terminal import mark, warn_doubts
from tapml.results.base import adapter_name
from tapml.results.verdicts import SEVERITY
from tapml.text import counted, listed, one_line, size

MODEL_FORMAT = "tapml.compiled/1"
RUN_FORMAT = "tapml.compiled-run/1"
_FEW = 6
_HALVES = "float16"


def model_document(model: CompiledModel, path: object, nbytes: int) -> dict[str, Any]:
    """What a compiled model is: all but its kernels' texts, tensors and code. `nbytes`: of all its files."""
    return {
        "format": MODEL_FORMAT,
        "name": model.name,
        "path": str(path),
        "bytes": nbytes,
        "provenance": model.provenance.model_dump(mode="json"),
        "symbols": [symbol.model_dump() for symbol in model.symbols],
        "functions": {name: _function_document(function) for name, function in model.functions.items()},
        "states": [state.model_dump(mode="json", exclude_defaults=True) for state in model.states],
        "kernels": [_kernel_document(model, kernel.kernel) for kernel in model.kernels],
        "weights": {
            "bytes": sum(model.weights.buffers),
            "shards": len(model.weights.shards),
            "loaded": sum(shard.bytes for shard in model.weights.shards),
        },
        "memory": {name: facts.model_dump() for name, facts in model.memory.items()},
        "validation": [found.model_dump(mode="json") for found in model.validation],
        "generation": model.generation.model_dump() if model.generation else None,
        "tokenizer": model.tokenizer.kind if model.tokenizer else None,
    }


def _weights_text(model: CompiledModel) -> str:
    """What lies in memory, how of it kernels read, and what is loaded where that is less."""
    shards = model.weights.shards
    text = f"{size(sum(model.weights.buffers))} in {counted(len(shards), 'shard')}"
    tensors = [tensor for function in model.functions.values() for tensor in function.tensors]
    halves = {
        tuple(tensor.at): tensor for tensor in tensors if tensor.at[0] == "weights" and tensor.encoding == _HALVES
    }
    if halves:
        read = sum(2 * math.prod(map(_extent, tensor.shape)) for tensor in halves.values())
        text += f", {size(read)} of them as float16, which kernels read"
    # What they are stored as is not what they are computed in.
    widened = [shard for shard in shards if shard.stored is not None]
    if not widened:
        return text
    loaded, kinds = size(sum(shard.bytes for shard in shards)), sorted({str(shard.stored) for shard in widened})
    numbers = f"{'other ' if halves else ''}numbers that {listed(kinds, 2)} holds"
    return f"{text}; {loaded} to load: {numbers} are stored so, and float32 in memory"


def _extent(axis: Expression) -> int:
    """Of a weight."""
    assert isinstance(axis, int), "weights have one size"
    return axis


def _function_document(function: CompiledFunction) -> dict[str, Any]:
    ports: Mapping[str, Sequence[Port]] = {"inputs": function.inputs, "outputs": function.outputs}
    described = {
        what: [{"name": port.name, **_typed(function, port.tensor).to_json(), **_range(port)} for port in found]
        for what, found in ports.items()
    }
    return {**described, "dispatches": dispatches(function.code), "arenas": function.arena}


def _kernel_document(model: CompiledModel, name: str) -> dict[str, Any]:
    kernel = next(found for found in model.kernels if found.kernel == name)
    number = model.kernels.index(kernel)
    calls = {name: count for name, found in model.functions.items() if (count := dispatches(found.code, number))}
    within = {name: count for name, found in model.functions.items() if (count := parts(found.code, number))}
    return {
        "kernel": name,
        "variants": [variant.name for variant in kernel.variants],
        "dispatches": calls,
        "parts": within,
        "verdict": _worst(model.validation, name),
    }


def dispatches(code: Iterable[Instruction], kernel: int | None = None) -> int:
    """Instructions that dispatch (that kernel), those inside branches and loops once."""
    return sum(kernel in (None, one.kernel) for one in every_instruction(code) if isinstance(one, Dispatch))


def parts(code: Iterable[Instruction], kernel: int) -> int:
    """How often dispatches of other kernels do that kernel's work, those inside branches and loops once."""
    found = (one for one in every_instruction(code) if isinstance(one, Dispatch))
    return sum(part.kernel == kernel for one in found for part in one.parts)


def _calls_text(model: CompiledModel) -> str:
    """Of each function: a call is one of one of them."""
    return ", ".join(
        _call_text(function, "" if len(model.functions) == 1 else f" of {name}")
        for name, function in model.functions.items()
    )


def _call_text(function: CompiledFunction, behind: str) -> str:
    conditions = sum(isinstance(found, If) for found in every_instruction(function.code))
    calls = f"{counted(dispatches(function.code), 'dispatch', 'dispatches')} in a call{behind}"
    return f"at most {calls}, by {counted(conditions, 'condition')}" if conditions else calls


def show_model(console: Console, model: CompiledModel, path: object, nbytes: int) -> None:
    """`tapml show`, and what `tapml build` ends with."""
    warn_doubts(console, path, model.provenance.doubts)
    made = model.provenance
    rows = [
        ("model", f"{model.name} ({path})"),
        ("from", f"{model.title}, {made.model.source}, sha256 {made.model.sha256[:16]}..."),
        (
            "built by",
            f"tapml {made.tapml}; kernels by {listed([f'{c.name} {c.version}' for c in made.compilers], _FEW)}",
        ),
    ]
    for name, function in model.functions.items():
        behind = "" if len(model.functions) == 1 else f" of {name}"
        rows += [(f"input{behind}", _input(function, port)) for port in function.inputs]
        rows += [(f"output{behind}", _port(function, port.name, port.tensor)) for port in function.outputs]
    rows += [("size", f"{symbol.name}: {symbol.minimum} to {symbol.maximum}") for symbol in model.symbols]
    rows += [
        ("state", f"{state.name} {Typed(tuple(state.shape), state.dtype, state.encoding)}") for state in model.states
    ]
    if model.generation is not None:
        rows.append(("generation", generation_text(model.generation)))
    if model.tokenizer is not None:
        rows.append(("tokenizer", f"{model.tokenizer.kind}, {model.tokenizer.file}"))
    rows += [
        ("kernels", f"{len(model.kernels)}, {_calls_text(model)}, {counted(len(model.wgsl), 'WGSL text')}"),
        ("weights", _weights_text(model)),
    ]
    rows += [("memory", memory_text(model, name)) for name in model.memory]
    rows.append(("on disk", size(nbytes)))
    rows += [("note", note) for note in made.model.notes]
    rows += [("validated", _validation_text(model, found)) for found in model.validation] or [("validated", "nowhere")]
    for name, text in rows:
        console.print(f"{name:<10} {one_line(text, 2000)}")
    if made.edited:
        text = f"edited kernels (not what was generated): {', '.join(made.edited)}"
        console.print(one_line(text, 5000), style="yellow")
    without = [kernel.kernel for kernel in model.kernels if _worst(model.validation, kernel.kernel) is None]
    if without and model.validation:
        text = f"not validated as they are now: {listed(without, _FEW)}"
        console.print(one_line(text, 2000), style="yellow")
    if failed := failed_somewhere(model):
        console.print(one_line(unvalidated_text(model, failed, ""), 2000), style="red")


def show_kernels(console: Console, model: CompiledModel) -> None:
    """A row a kernel. Its dispatches are those of the head; how often others do its work stands beside them."""
    console.print()
    documents = [_kernel_document(model, kernel.kernel) for kernel in model.kernels]
    # A call is one of one function: what several of them dispatch is no sum.
    counts: dict[str, tuple[str, str]] = {}
    for name in model.functions:
        behind = "" if len(model.functions) == 1 else f"in {name}"
        counts[behind or "dispatches"] = "dispatches", name
        if any(name in found["parts"] for found in documents):
            counts[f"parts {behind}".strip()] = "parts", name
    table = Table("kernel", *counts, "variants", "validated", right=[*counts])
    for found in documents:
        verdict = mark(found["verdict"]) if found["verdict"] else "-"
        each = [str(found[what].get(name, 0)) for what, name in counts.values()]
        table.add_row(found["kernel"], *each, ", ".join(found["variants"]), verdict)
    console.print(table)


def memory_text(model: CompiledModel, function: str) -> str:
    """What a function's scratch buffers take, in one line."""
    facts = model.memory[function]
    count = len(model.functions[function].arena)
    buffers = "1 buffer" if count == 1 else f"{count} buffers"
    behind = "" if len(model.functions) == 1 else f" for {function}"
    return (
        f"{size(facts.planned)} in {buffers}{behind} ({facts.strategy}); {size(facts.naive)} if nothing shared, at "
        f"least {size(facts.lower_bound)}"
    )


def _validation_text(model: CompiledModel, found: Validation) -> str:
    passed = sum(verdict == "pass" for verdict in found.kernels.values())
    name = adapter_name(found.device.adapter.model_dump())  # type: ignore[arg-type]  # the same fields
    failing = [f"{kernel}: {verdict}" for kernel, verdict in found.kernels.items() if verdict != "pass"]
    rest = f"; {listed(failing, _FEW)}" if failing else ""
    return f"{found.device.name}{f' ({name})' if name else ''}: {passed} of {len(model.kernels)} kernels pass{rest}"


def _worst(validation: Iterable[Validation], kernel: str) -> str | None:
    verdicts = [found.kernels[kernel] for found in validation if kernel in found.kernels]
    return max(verdicts, key=SEVERITY.index) if verdicts else None


def _range(port: Port) -> dict[str, Any]:
    return {"range": list(port.range)} if isinstance(port, InputPort) and port.range else {}


def _port(function: CompiledFunction, name: str, tensor: int) -> str:
    return f"{name} {_typed(function, tensor)}"


def _input(function: CompiledFunction, port: InputPort) -> str:
    among = f", from {range_text(port.range)}" if port.range else ""
    return f"{_port(function, port.name, port.tensor)}{among}"


def _typed(function: CompiledFunction, tensor: int) -> Typed:
    found = function.tensors[tensor]
    return Typed(tuple(found.shape), found.dtype, found.encoding)


# ------------------------------------------------------------ running one


def run_document(
    model: CompiledModel, function: str, device: str, found: CompiledRun, unvalidated: Sequence[str]
) -> dict[str, Any]:
    """What calls gave: types and digests of the outputs, times (docs/build.md). `unvalidated`: kernels, on
    the device."""
    return {
        "format": RUN_FORMAT,
        "name": model.name,
        "function": function,
        "device": device,
        "calls": [{name: _array_document(array) for name, array in outputs.items()} for outputs in found.outputs],
        "variants": dict(found.variants),
        "unvalidated": list(unvalidated),
        "bytes": planned_bytes(model, function),
        "seconds": {
            "load": found.load_seconds,
            "calls": list(found.call_seconds[: len(found.outputs)]),
            "repeated": list(found.call_seconds[len(found.outputs) :]),
        },
    }


def _array_document(array: np.ndarray) -> Mapping[str, Any]:
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "sha256": digest}


def show_run(console: Console, device: str, found: CompiledRun, planned: int) -> None:
    """Outputs with a first look at their elements, then times; `planned` bytes are those of `planned_bytes`."""
    for number, outputs in enumerate(found.outputs):
        behind = f" (call {number})" if len(found.outputs) > 1 else ""
        for name, array in outputs.items():
            console.print(one_line(f"{name}{behind}  {Typed(array.shape, str(array.dtype))}  {_look(array)}", 2000))
    count = len(found.outputs)
    calls, repeated = found.call_seconds[:count], found.call_seconds[count:]
    # The first call of a size takes longer, and each may be of its own.
    took = f"{'call' if count == 1 else 'calls'} {listed([_milliseconds(one) for one in calls], _FEW)}"
    again = f", the last again {_milliseconds(min(repeated))} at best of {len(repeated)}" if repeated else ""
    kept = f"{size(planned)} of weights, states and scratch memory"
    console.print(f"{device}: loaded in {found.load_seconds:.3f} s, {took}{again}; {kept}")


def _look(array: np.ndarray) -> str:
    elements = [f"{element:.6g}" if array.dtype.kind == "f" else str(element) for element in array.reshape(-1)[:_FEW]]
    return ", ".join(elements) + (", ..." if array.size > _FEW else "")


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"
