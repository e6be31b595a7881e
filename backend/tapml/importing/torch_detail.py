"""The values between an exported program's operators, as PyTorch computes them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapml.importing.inputs import RawStep
from tapml.importing.model import Array, Intermediate

_UNDEFINED = ("empty.", "empty_like.", "empty_permuted.", "empty_strided.", "new_empty.", "new_empty_strided.")
"""Operators of PyTorch that give whatever is in memory."""


@dataclass(frozen=True)
class Detail:
    """Floating-point values that depend on the inputs, in the order of the nodes that give them: what they are for
    people, and what they are in each step. `steps`: those of the program; each begins with the buffers that the oracle
    left."""

    said: list[str]
    expected: list[list[Array]]
    steps: list[RawStep]


def exactly() -> AbstractContextManager[Any]:
    """Within it PyTorch computes each operator in float64, of what it is given, and rounds what comes out once: its own
    kernels, those of convolutions above all, are off by more than an import may be."""
    import torch
    from torch.utils import _pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    def is_narrow(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.float16)

    def wide(value: Any) -> Any:
        return value.double() if is_narrow(value) else value

    def rounded(plain: Any, exact: Any) -> Any:
        return exact.to(plain.dtype) if is_narrow(plain) else plain

    class Exactly(TorchDispatchMode):  # type: ignore[misc]  # torch has no types
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = args, kwargs or {}
            found = function(*given[0], **given[1])
            if any(argument.alias_info is not None for argument in function._schema.arguments):
                return found  # it writes what it is given, or gives it back
            if not any(map(is_narrow, _pytree.tree_leaves(given))):
                return found
            arguments, named = _pytree.tree_map(wide, given)
            try:
                return _pytree.tree_map(rounded, found, function(*arguments, **named))
            except Exception:  # it has no float64, or wants the dtype that it is told
                return found

    return Exactly()


def intermediates(
    program: Any,
    steps: Sequence[RawStep],
    written: Sequence[str],
    expected: Sequence[Sequence[Array]],
    *,
    exact: bool = False,
) -> Iterator[Intermediate]:
    """What each node of a program, as it was exported, gives in each step. `written`: the buffers and inputs that it
    writes, which come first among the `expected` outputs of each step. `exact`: computed `exactly`."""
    import torch

    left: dict[str, Array] = {}
    given = set(program.graph_signature.user_inputs)
    for number, (step, outputs) in enumerate(zip(steps, expected, strict=True)):
        interpreter = _interpreter(program.graph_module)
        interpreter.args_iter = iter(_arguments(program, {**step.arrays, **left}, written))
        for node in program.graph_module.graph.nodes:
            # Not longer: what takes the values may compute with PyTorch, too.
            with torch.no_grad(), exactly() if exact else contextlib.nullcontext():
                result = interpreter.env[node] = interpreter.run_node(node)
            for unused in interpreter.user_to_last_uses.get(node, ()):
                del interpreter.env[unused]
            if node.op == "call_function" and isinstance(result, torch.Tensor) and not result.is_complex():
                # A copy: a program may write in place.
                yield number, _said(node), _array(result.float() if result.dtype == torch.bfloat16 else result)
            del result
        left = {name: out for name, out in zip(written, outputs, strict=False) if name not in given}


def in_detail(functional: Any, steps: Sequence[RawStep], written: Sequence[str]) -> Detail:
    """Of a program in PyTorch's core operators that writes its buffers as outputs, the first of which are `written`.
    Makes these values the outputs of the program."""
    import torch
    from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument

    found: list[dict[Any, Any]] = []
    begun: list[RawStep] = []
    left: dict[str, Array] = {}
    for step in steps:
        arrays = {name: left.get(name, array) for name, array in step.arrays.items()}
        interpreter = _interpreter(functional.graph_module, garbage_collect_values=False)
        with torch.no_grad():
            outputs = interpreter.run(*_arguments(functional, arrays, written))
        # Inputs that it writes are given anew.
        given = set(functional.graph_signature.user_inputs)
        left = {name: _array(out) for name, out in zip(written, outputs, strict=False) if name not in given}
        found.append(interpreter.env)
        begun.append(dataclasses.replace(step, arrays=arrays))
    nodes = [node for node in _of_inputs(functional) if all(_is_float(env[node]) for env in found)]
    _make_outputs(functional, nodes)
    functional.graph_signature.output_specs[:] = [
        OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=node.name), None) for node in nodes
    ]
    expected = [[_array(env[node]) for node in nodes] for env in found]
    return Detail([_said(node) for node in nodes], expected, begun)


def outputs_exactly(functional: Any, steps: Sequence[RawStep], written: Sequence[str]) -> list[list[Array]]:
    """What a program that was made `in_detail` gives in each step of that, computed `exactly`."""
    import torch

    found = []
    for step in steps:
        interpreter = _interpreter(functional.graph_module)
        with torch.no_grad(), exactly():
            found.append([_array(output) for output in interpreter.run(*_arguments(functional, step.arrays, written))])
    return found


def _interpreter(module: Any, **options: Any) -> Any:
    """What PyTorch leaves undefined until it is written, as the middle of a circular pad, is 0 as in the import."""
    import torch

    class Interpreter(torch.fx.Interpreter):  # type: ignore[misc]  # torch has no types
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            found = super().call_function(target, args, kwargs)
            return found.zero_() if getattr(target, "__name__", "").startswith(_UNDEFINED) else found

    return Interpreter(module, **options)


def _arguments(functional: Any, arrays: Mapping[str, Array], written: Sequence[str]) -> list[Any]:
    """What its graph takes: parameters and buffers, then inputs. What nothing writes is not copied: where a file's
    weights lie in memory as PyTorch would not put them, its sums of a copy differ in their last places."""
    import torch

    held = {**functional.constants, **functional.state_dict}
    arguments = []
    for spec in functional.graph_signature.input_specs:
        array = arrays.get(spec.arg.name if spec.target is None else spec.target)
        if array is not None:
            arguments.append(torch.tensor(array))
        else:
            arguments.append(held[spec.target].clone() if spec.target in written else held[spec.target])
    return arguments


def _of_inputs(functional: Any) -> list[Any]:
    """The nodes that compute something of the inputs: what is constant is folded."""
    taken = set(functional.graph_signature.user_inputs) | {
        spec.arg.name for spec in functional.graph_signature.input_specs if spec.target in _mutated(functional)
    }
    reached: set[Any] = set()
    for node in functional.graph.nodes:
        if (node.op == "placeholder" and node.name in taken) or any(used in reached for used in node.all_input_nodes):
            reached.add(node)
    return [node for node in functional.graph.nodes if node in reached and node.op == "call_function"]


def _mutated(functional: Any) -> set[str]:
    return {spec.target for spec in functional.graph_signature.output_specs if spec.target is not None}


def _make_outputs(functional: Any, nodes: Sequence[Any]) -> None:
    output = next(node for node in functional.graph.nodes if node.op == "output")
    output.args = (tuple(nodes),)
    functional.graph_module.recompile()


def _is_float(value: Any) -> bool:
    return bool(hasattr(value, "is_floating_point") and value.is_floating_point() and value.numel())


def _said(node: Any) -> str:
    if node.target.__name__ == "getitem":
        return f"{node.name!r}, output {node.args[1]} of {node.args[0].target.__name__} (node {node.args[0].name!r})"
    return f"{node.name!r}, which {node.target.__name__} gives"


def _array(tensor: Any) -> Array:
    return np.array(tensor.detach().numpy())
