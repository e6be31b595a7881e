"""Constants of an exported program: added to it, and computed where only PyTorch can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def add_constant(program: Any, name: str, tensor: Any) -> Any:
    """The graph's node of a tensor that the program holds from now on under a new name."""
    from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

    graph = program.graph
    first = next(iter(graph.nodes))
    with graph.inserting_before(first):
        constant = graph.placeholder(f"c_{name}")
    held = tensor.contiguous()
    constant.meta["val"] = first.meta["val"].fake_mode.from_tensor(held, static_shapes=True)
    program.constants[name] = held
    spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(constant.name), name, None)
    program.graph_signature.input_specs.insert(0, spec)
    return constant


def compute_constants(program: Any, converted: Callable[[str], bool]) -> None:
    """Replace operators that the importer does not convert (`converted` says of one whether it does), and that are
    given constants only, by what PyTorch makes of them: a kernel would have to be written for what is one number, such
    as Gemma 3n's inverse of the error function."""
    import torch
    from torch.export.graph_signature import InputKind

    held = {
        spec.arg.name: program.constants[spec.target]
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.CONSTANT_TENSOR and isinstance(program.constants.get(spec.target), torch.Tensor)
    }
    values: dict[Any, Any] = {node: held[node.name] for node in program.graph.nodes if node.name in held}
    fixed = set(values)
    for node in program.graph.nodes:
        if node.op == "call_function" and fixed.issuperset(node.all_input_nodes) and _is_computable(node):
            fixed.add(node)
    computable = [node for node in program.graph.nodes if node in fixed and node not in values]
    unknown = [node for node in computable if not converted(node.target.__name__)]
    needed = _with_sources(unknown)
    for node in program.graph.nodes:
        if node in needed and node not in values:
            arguments, named = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            with torch.no_grad():
                values[node] = node.target(*arguments, **named)
    for number, node in enumerate(unknown):
        node.replace_all_uses_with(add_constant(program, f"computed{number}", values[node]))
    if unknown:
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()


_MOST = 1 << 16
"""Elements of what is computed here."""


def _is_computable(node: Any) -> bool:
    """Whether what it gives of constants is one tensor, the same each time."""
    import torch

    made = node.meta.get("val")
    return (
        isinstance(made, torch.Tensor)
        and all(isinstance(size, int) for size in made.shape)
        and made.numel() <= _MOST
        and isinstance(node.target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded not in node.target.tags
    )


def _with_sources(nodes: Sequence[Any]) -> set[Any]:
    found: set[Any] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found
