"""Weights that float16 holds exactly, as of a model that was trained so, are read as that: which ones, and by which
kernels."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from tapml.compiled.stored import stored_as
from tapml.compilers.external.by_hand import EXTERNAL
from tapml.compilers.halves import HALVES
from tapml.compilers.native.stored import read_as_stored
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator
from tapml.program import NodeKind
from tapml.program.program import Function

LEAST_BYTES = 2**16
"""Of a weight: what is smaller saves nothing that is worth a kernel of its own."""
_PIECE = 2**18

Slot = tuple[str, int]
"""A kernel and one of its arguments."""


def exact_in_halves(
    functions: Collection[Function], parameters: Mapping[str, np.ndarray], scales: Collection[str] = ()
) -> set[str]:
    """Ids of the values of such weights. `parameters`: all weights, by the id of their value; `scales`: names of those
    that count however small they are, for they were made to be float16."""
    values = {value.id: value for function in functions for value in function.values.values()}
    return {
        value
        for value, array in parameters.items()
        if value in values and _is_exact(array, 0 if values[value].name in scales else LEAST_BYTES)
    }


def with_halves(
    functions: Collection[Function],
    kernels: Mapping[str, CompiledKernel],
    exact: Collection[str],
    operators: Collection[Operator],
) -> dict[str, CompiledKernel]:
    """The kernels of `operators`, of which those read weights as float16 whose every call is given one that is `exact`
    so (ids of values), where all kernels that read the weight can."""
    by_name = {operator.name: operator for operator in operators}
    readers = _readers(functions)
    exact = {value for value in exact if value in readers}
    of_slot: dict[Slot, set[str]] = {}
    for value, slots in readers.items():
        for slot in slots:
            of_slot.setdefault(slot, set()).add(value)
    # What somebody wrote by hand reads what its document says.
    refused = {name for name, kernel in kernels.items() if kernel.document["compiler"]["name"] == EXTERNAL.name}
    while True:
        exact = _agreed(exact, readers, of_slot, refused)
        wanted: dict[str, set[int]] = {}
        for value in exact:
            for kernel, place in readers[value]:
                wanted.setdefault(kernel, set()).add(place)
        made = {name: read_as_stored(kernels[name], by_name[name], places) for name, places in wanted.items()}
        if not (failed := {name for name, found in made.items() if found is None}):
            return {**kernels, **{name: found for name, found in made.items() if found is not None}}
        refused |= failed


def stored_as_read(functions: Mapping[str, Function], kernels: Mapping[str, CompiledKernel]) -> dict[str, Function]:
    """The functions, whose values are stored as the kernels there are read and write them."""
    documents = [kernel.document for kernel in kernels.values() if not kernel.document["unsupported"]]
    encodings = {found["kernel"]: [argument.get("encoding") for argument in found["arguments"]] for found in documents}
    return {name: function.stored_as(encodings) for name, function in functions.items()}


def _agreed(
    exact: Collection[str], readers: Mapping[str, set[Slot]], of_slot: Mapping[Slot, set[str]], refused: Collection[str]
) -> set[str]:
    """Those of which every reader is given nothing else, and is not refused."""
    left = set(exact)
    while True:
        kept = {
            value for value in left if all(slot[0] not in refused and of_slot[slot] <= left for slot in readers[value])
        }
        if kept == left:
            return left
        left = kept


def _readers(functions: Collection[Function]) -> dict[str, set[Slot]]:
    """What kernels are given as which of their arguments, by the value that lies there: views are what they show."""
    found: dict[str, set[Slot]] = {}
    for function in functions:
        shown: dict[str, str] = {}
        for node in function.nodes:
            if node.kind is NodeKind.VIEW:
                shown[node.outputs[0]] = shown.get(node.inputs[0], node.inputs[0])
                continue
            for place, value in enumerate((*node.inputs, *node.outputs)):
                found.setdefault(shown.get(value, value), set()).add((node.kernel, place))
        # Whoever takes a function's output knows of no encoding.
        for value in function.outputs:
            found.setdefault(shown.get(value, value), set()).add(("", 0))
    return found


def _is_exact(array: np.ndarray, least: int) -> bool:
    """Finite numbers of float32, `least` bytes or more, all of which float16 holds to the bit."""
    if array.dtype != np.float32 or array.nbytes < least or not np.isfinite(array).all():
        return False
    return stored_as(_pieces(np.ascontiguousarray(array).reshape(-1))) == HALVES


def _pieces(flat: np.ndarray) -> Iterator[bytes]:
    for begin in range(0, flat.size, _PIECE):
        yield flat[begin : begin + _PIECE].tobytes()
