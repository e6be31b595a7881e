"""A call of a compiled function: its sizes, and what its inputs and outputs are at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tapml.compiled.bytes import bound, stored_bytes
from tapml.compiled.model import CompiledFunction, CompiledModel, CompiledTensor, InputPort
from tapml.errors import InputError
from tapml.expressions import ExpressionError, check_sizes, evaluate, printed
from tapml.program import TensorType
from tapml.program.graph import numpy_dtype
from tapml.program.program import SymbolicType, named_function
from tapml.text import listed, meant

_File: TypeAlias = bytes


@dataclass(frozen=True)
class Call:
    """`inputs` and `outputs` are in the function's order, by name."""

    sizes: Mapping[str, int]
    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]


@dataclass(frozen=True)
class CompiledRun:
    """What calls of a compiled function gave, one after the other: `outputs` of each, by name."""

    outputs: Sequence[Mapping[str, np.ndarray]]
    load_seconds: float
    """Until the first call could begin: fetching, checking, compiling."""
    call_seconds: Sequence[float]
    """Of each call, those that were repeated too, until its outputs were here."""
    variants: Mapping[str, str]
    """Kernel -> the variant that ran; none on this machine."""
    bytes: int
    """Of all buffers of the model where it ran: inputs, outputs and what a capture takes are among them on a device."""
    capture: _File | None = None
    """The file of what was captured of the last call (docs/capture.md), where it was asked for."""


def planned_bytes(model: CompiledModel, function: str | None = None) -> int:
    """What a call keeps on any device at most: weights, states, and the arenas of the function."""
    most = room_of(model)
    states = (evaluate(bound(stored_bytes(state.shape, state.dtype, state.encoding)), most) for state in model.states)
    return sum(model.weights.buffers) + sum(states) + sum(function_of(model, function).arena)


def room_of(model: CompiledModel) -> dict[str, int]:
    """The size that states which grow have at most, by its symbol; none where there are no such."""
    found = model.generation
    return {} if found is None or found.places is None else {found.places: found.most_places}


def name_of_function(model: CompiledModel, name: str | None = None) -> str:
    """That of a function; where none is said, `main`, or the only one. Raises InputError with the names of all, and
    what a language model is called by."""
    try:
        return named_function(model.functions, name)
    except InputError as error:
        writes = ""
        if model.generation is not None and name is None:
            writes = (
                "; it is a language model, which `tapml generate` lets write: `tapml run` takes one of these calls, "
                f"by --function {model.generation.decode}"
            )
        raise InputError(f"{model.name}: {error}{writes}") from None


def function_of(model: CompiledModel, name: str | None = None) -> CompiledFunction:
    """The function of that name, as `name_of_function` has it. Raises InputError where the model has no such."""
    return model.functions[name_of_function(model, name)]


def call_of(model: CompiledModel, function: str | None, arrays: Mapping[str, np.ndarray]) -> Call:
    """What a call with these inputs is.

    Raises InputError for an input that is missing, unknown, or of another dtype or shape, for a size out of range, and
    for an element that lies in nothing that it indexes: with its name, and what it must be.
    """
    found = function_of(model, function)
    inputs = {port.name: found.tensors[port.tensor] for port in found.inputs}
    takes = listed([f"{name}: {_described(tensor)}" for name, tensor in inputs.items()], 8) or "no inputs"
    if unknown := sorted(arrays.keys() - inputs.keys()):
        like = meant(unknown[0], inputs)
        raise InputError(f"{model.name} has no input {unknown[0][:100]!r}{like or ':'} it takes {takes}")
    if missing := [name for name in inputs if name not in arrays]:
        raise InputError(f"{model.name} was given no input {missing[0]!r}: it takes {takes}")
    # On this machine memory is taken as it is written: there is room for all from the beginning.
    sizes = room_of(model)
    for name, tensor in inputs.items():
        if not isinstance(arrays[name], np.ndarray):
            raise InputError(f"input {name} is a {type(arrays[name]).__name__}: give an array of {_described(tensor)}")
        _match(name, tensor, arrays[name], sizes)
    used = [symbol for symbol in model.symbols if symbol.name in sizes]
    try:
        # One that no input has by itself is in no shape of this function.
        check_sizes(used, sizes)
        types = {name: _type(name, tensor, sizes) for name, tensor in inputs.items()}
        outputs = {port.name: _type(port.name, found.tensors[port.tensor], sizes) for port in found.outputs}
    except ExpressionError as error:
        raise InputError(f"{model.name}: {error}") from None
    for name, tensor_type in types.items():
        if tensor_type.shape != arrays[name].shape:
            raise _wrong(name, inputs[name], arrays[name])
    for port in found.inputs:
        _check_range(port, arrays[port.name], sizes)
    return Call(sizes, types, outputs)


def taken(model: CompiledModel, function: str | None, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays as the function's dtypes have them: integers where all of them fit, other floating-point numbers
    rounded. What is none of these stays as it is, for `call_of` to refuse."""
    found = function_of(model, function)
    dtypes = {port.name: numpy_dtype(found.tensors[port.tensor].dtype) for port in found.inputs}
    return {name: _as(array, dtypes[name]) if name in dtypes else array for name, array in arrays.items()}


def _as(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.dtype == dtype:
        return array
    if array.dtype.kind == "f" == dtype.kind:
        with np.errstate(over="ignore", under="ignore"):
            return array.astype(dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not array.size or (int(array.min()) >= limits.min and int(array.max()) <= limits.max):
            return array.astype(dtype)
    return array


def _check_range(port: InputPort, array: np.ndarray, sizes: Mapping[str, int]) -> None:
    if port.range is None or not array.size:
        return
    try:
        least, most = (evaluate(end, sizes) for end in port.range)
    except ExpressionError as error:  # of a size that follows from no input
        raise InputError(f"input {port.name}: {error}") from None
    wrong = (array < least) | (array > most)
    if wrong.any():
        place = [int(found) for found in np.unravel_index(int(np.argmax(wrong)), array.shape)]
        raise InputError(
            f"input {port.name} is {array[tuple(place)]} at {place}, and must be from {range_text(port.range, sizes)}: "
            "it is an index, and there is nothing at any other"
        )


def range_text(found: tuple[Any, Any], sizes: Mapping[str, int] | None = None) -> str:
    """For people: "0 to tokens - 1", and for the sizes of a call "0 to 2 (tokens - 1)"."""

    def end(expression: Any) -> str:
        if sizes is None or isinstance(expression, int):
            return printed(expression)
        return f"{evaluate(expression, sizes)} ({printed(expression)})"

    return f"{end(found[0])} to {end(found[1])}"


def _match(name: str, tensor: CompiledTensor, array: np.ndarray, sizes: dict[str, int]) -> None:
    """The sizes that an input's shape gives. Raises InputError where it is of another kind, or contradicts others."""
    if array.dtype != numpy_dtype(tensor.dtype) or array.ndim != len(tensor.shape):
        raise _wrong(name, tensor, array)
    for axis, size in zip(tensor.shape, array.shape, strict=True):
        if isinstance(axis, int) and axis != size:
            raise _wrong(name, tensor, array)
        if isinstance(axis, str) and sizes.setdefault(axis, size) != size:
            raise InputError(
                f"input {name} has the shape {list(array.shape)}, where {axis} is {size}, and before it was "
                f"{sizes[axis]}: give all inputs of one call the same {axis}"
            )


def _type(name: str, tensor: CompiledTensor, sizes: Mapping[str, int]) -> TensorType:
    return SymbolicType(tuple(tensor.shape), tensor.dtype, tensor.encoding).at(sizes, f"the shape of {name}")


def _described(tensor: CompiledTensor) -> str:
    return f"{tensor.dtype}[{', '.join(map(printed, tensor.shape))}]"


def _wrong(name: str, tensor: CompiledTensor, array: np.ndarray) -> InputError:
    return InputError(f"input {name} is {array.dtype}{list(array.shape)}: give {_described(tensor)}")


def symbols_text(model: CompiledModel, names: Sequence[str] | None = None) -> str:
    """The symbols with their ranges, for people; empty where there are none."""
    found = [s for s in model.symbols if names is None or s.name in names]
    return ", ".join(f"{symbol.name} from {symbol.minimum} to {symbol.maximum}" for symbol in found)
