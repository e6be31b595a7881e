"""Proves of a compiled model, for all sizes in range and before anything reaches a GPU, that it stays inside its
buffers and ends (docs/model-format.md, "What is proven"). What cannot be shown is refused.

runner_js/src/compiled/verify.ts is the same for pages; tests/vectors/compiled.json holds both to the same sentences.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapml.compiled.algebra import Algebra, Scope
from tapml.compiled.bytes import bound, check_stored, stored_bytes
from tapml.compiled.model import CompiledFunction, CompiledModel, CompiledState, Port, Weights
from tapml.compiled.verify_function import FunctionProof
from tapml.compiled.verify_kernel import KernelProof
from tapml.errors import InputError
from tapml.expressions import ExpressionError, Symbol, symbols_of
from tapml.program.generation import check_generation
from tapml.program.graph import Typed

_WORDS = ("float32", "int32", "uint32")
_GROWS = "one of its extents may be the places of generation"


def verify(model: CompiledModel) -> None:
    """Raise InputError, one sentence with function, instruction and tensor, unless the model is proven."""
    try:
        algebra = Algebra()
        scope = symbol_values(model.symbols, algebra)
        _check_weights(model.weights)
        _check_places(model)
        _check_states(model, algebra, scope)
        kernels = [KernelProof(kernel, len(model.wgsl), algebra) for kernel in model.kernels]
        if not model.functions:
            raise ExpressionError("there is no function")
        for name, function in model.functions.items():
            FunctionProof(name, function, model, kernels, algebra, scope).check()
        if model.generation is not None:
            check_generation(model.generation, {name: _typed(found) for name, found in model.functions.items()})
    except ExpressionError as error:
        raise InputError(str(error)) from None


def symbol_values(symbols: Sequence[Symbol], algebra: Algebra) -> Scope:
    """Raises ExpressionError where a name stands twice."""
    found = {}
    for symbol in symbols:
        if symbol.name in found:
            raise ExpressionError(f"the symbol {symbol.name} stands twice")
        found[symbol.name] = algebra.name(symbol.minimum, symbol.maximum)
    return found


def _check_weights(weights: Weights) -> None:
    buffer = offset = 0
    for number, shard in enumerate(weights.shards):
        if buffer < len(weights.buffers) and offset == weights.buffers[buffer]:
            buffer, offset = buffer + 1, 0
        if (shard.buffer, shard.offset) != (buffer, offset) or buffer == len(weights.buffers):
            raise ExpressionError(f"shard {number} is not where the one before it ends, at buffer {buffer}, {offset}")
        offset += shard.extent
        if offset > weights.buffers[buffer]:
            raise ExpressionError(f"shard {number} ends at {offset}, behind weight buffer {buffer}")
    if weights.buffers and (buffer, offset) != (len(weights.buffers) - 1, weights.buffers[-1]):
        raise ExpressionError(f"the shards end at weight buffer {buffer}, {offset}, and do not cover all")


def _check_places(model: CompiledModel) -> None:
    """The size that sequences decide, and no call."""
    places = None if model.generation is None else model.generation.places
    if model.generation is None or places is None:
        return
    symbol = next((found for found in model.symbols if found.name == places), None)
    if symbol is None:
        raise ExpressionError(f"generation: places: there is no symbol {places}")
    if symbol.minimum < 1 or symbol.maximum != model.generation.most_places:
        raise ExpressionError(
            f"generation: places: {places} is from {symbol.minimum} to {symbol.maximum}, and must be from 1 or more to "
            f"the {model.generation.most_places} that fit"
        )
    for name, function in model.functions.items():
        for kind, ports in (("input", function.inputs), ("output", function.outputs)):
            for port in ports:
                if port.tensor < len(function.tensors) and any(
                    places in symbols_of(extent) for extent in function.tensors[port.tensor].shape
                ):
                    raise ExpressionError(f"{name}: {kind} {port.name} has the size {places}, which is that of states")


def _check_growing(state: CompiledState, places: str | None) -> None:
    """Whoever makes room for more copies rows of it."""
    sizes = [extent for extent in state.shape if isinstance(extent, str)]
    if not sizes:
        return
    if sizes != [places]:
        raise ExpressionError(f"its shape is [{', '.join(map(str, state.shape))}], and only {_GROWS}")
    if state.initial is not None or state.encoding is not None or state.dtype not in _WORDS:
        words = ", ".join(_WORDS)
        raise ExpressionError(f"it grows, and what grows begins with zeros and is {words} without an encoding")


def _check_states(model: CompiledModel, algebra: Algebra, scope: Scope) -> None:
    names = set()
    weights, places = model.weights, None if model.generation is None else model.generation.places
    for state in model.states:
        if state.name in names:
            raise ExpressionError(f"the state {state.name} stands twice")
        names.add(state.name)
        try:
            check_stored(state.dtype, state.encoding)
            _check_growing(state, places)
            count = algebra.value(bound(stored_bytes(state.shape, state.dtype, state.encoding)), scope).high
        except ExpressionError as error:
            raise ExpressionError(f"state {state.name}: {error}") from None
        if state.initial is not None:
            buffer, offset = state.initial
            if buffer >= len(weights.buffers) or offset + count > weights.buffers[buffer]:
                raise ExpressionError(f"state {state.name} begins with what is in no weight buffer")


def _typed(function: CompiledFunction) -> tuple[dict[str, Typed], dict[str, Typed]]:
    """Inputs and outputs by name."""

    def types(ports: Sequence[Port]) -> dict[str, Typed]:
        tensors = {port.name: function.tensors[port.tensor] for port in ports}
        return {name: Typed(tuple(found.shape), found.dtype, found.encoding) for name, found in tensors.items()}

    return types(function.inputs), types(function.outputs)
