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
from tapml.expressions import ExpressionError, Symbol
from tapml.program.generation import check_generation
from tapml.program.graph import Typed


def verify(model: CompiledModel) -> None:
    """Raise InputError, one sentence with function, instruction and tensor, unless the model is proven."""
    try:
        algebra = Algebra()
        scope = symbol_values(model.symbols, algebra)
        _check_weights(model.weights)
        _check_states(model.states, model.weights, algebra)
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
        offset += shard.bytes
        if offset > weights.buffers[buffer]:
            raise ExpressionError(f"shard {number} ends at {offset}, behind weight buffer {buffer}")
    if weights.buffers and (buffer, offset) != (len(weights.buffers) - 1, weights.buffers[-1]):
        raise ExpressionError(f"the shards end at weight buffer {buffer}, {offset}, and do not cover all")


def _check_states(states: Sequence[CompiledState], weights: Weights, algebra: Algebra) -> None:
    names = set()
    for state in states:
        if state.name in names:
            raise ExpressionError(f"the state {state.name} stands twice")
        names.add(state.name)
        try:
            check_stored(state.dtype, state.encoding)
            count = algebra.value(bound(stored_bytes(state.shape, state.dtype, state.encoding)), {}).high
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
