"""What depends on positions alone (rotary embeddings, mostly) becomes a table, a row for each position.

WGSL promises little for sin and cos, and nothing for angles beyond pi: tables are computed here, by PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.export.graph_signature import InputKind

from tapml.errors import InputError
from tapml.importing.torch_constants import add_constant

_aten = torch.ops.aten
_SAME_NUMBERS = (
    "unsqueeze", "squeeze", "view", "reshape", "_unsafe_view", "expand", "alias", "clone", "slice", "select", "permute",
    "transpose", "t", "_to_copy", "to", "detach", "contiguous", "lift_fresh_copy", "where",
)  # fmt: skip
"""Operators that compute nothing: a table holds what they are given, so that all layers share it."""


def with_tables(program: Any, positions: str, capacity: int, hint: str = "") -> Any:
    """A functional program with floating-point values of `positions` (an input of int32 [n], which follow one another)
    read from constants of `capacity` rows, and integers that were computed of such values.

    Raises InputError for a value that is no function of each position by itself, with `hint` at the sentence's end.
    """
    graph = program.graph
    given = next(node for node in graph.nodes if node.op == "placeholder" and node.name == positions)
    values = _constants(program)
    alone = _of_positions(graph, given, values)
    computed = _computed(alone)
    wanted = [node for node in computed if any(_read_by_others(user, alone, computed) for user in node.users)]
    if not wanted:
        return program
    rows = torch.arange(capacity, dtype=torch.int32)
    if isinstance(given.meta["val"].shape[0], int):
        _one_by_one(program, alone, values, given, rows, wanted)
        return program
    of_all = _evaluated(graph, alone, values, given, rows, wanted)
    few = max(1, capacity // 8)
    runs = [(begin, _evaluated(graph, alone, values, given, rows[begin:][:few], wanted)) for begin in (0, 1, few)]
    for number, (node, table) in enumerate(zip(wanted, of_all, strict=True)):
        axis = _axis(node, table, capacity)
        for begin, found in runs:
            count = found[number].shape[axis]
            if not torch.equal(table.narrow(axis, begin, count), found[number]):
                raise InputError(
                    f"{node.name} ({node.target.__name__}) is no function of each position by itself, but of all "
                    f"positions of a call: tapml makes tables of positions, and cannot of this{hint}",
                    node=node.name,
                    reason="it depends on the positions of the whole call",
                )
        _replace(program, node, f"table{number}", table, axis, given)
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    return program


def _one_by_one(
    program: Any, alone: Sequence[Any], constants: dict[str, torch.Tensor], given: Any, rows: torch.Tensor, wanted: Any
) -> None:
    """For a program of one token: its rows lie along an axis of size 1."""
    found = [_evaluated(program.graph, alone, constants, given, row[None], wanted) for row in rows]
    for number, node in enumerate(wanted):
        axis = next((axis for axis, size in enumerate(node.meta["val"].shape) if size == 1), None)
        if axis is None:
            raise _no_axis(node)
        _replace(program, node, f"table{number}", torch.cat([each[number] for each in found], axis), axis, given)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _constants(program: Any) -> dict[str, torch.Tensor]:
    """Buffers and constants, which the model does not write, by the names of their placeholders."""
    signature = program.graph_signature
    written = set(signature.buffers_to_mutate.values())
    found = {}
    for spec in signature.input_specs:
        if spec.kind in (InputKind.BUFFER, InputKind.CONSTANT_TENSOR) and spec.target not in written:
            held = program.state_dict.get(spec.target, program.constants.get(spec.target))
            found[spec.arg.name] = held
    return found


def _of_positions(graph: Any, given: Any, constants: dict[str, torch.Tensor]) -> list[Any]:
    """The nodes that depend on positions, constants and the number of tokens, and on nothing else, in order."""
    alone: dict[Any, bool] = {}  # whether it depends on positions
    for node in graph.nodes:
        if node is given:
            alone[node] = True
        elif node.op == "placeholder":
            if node.name in constants:
                alone[node] = False
        elif node.target is _aten.sym_size.int:
            alone[node] = False
        elif node.op == "call_function" and all(source in alone for source in node.all_input_nodes):
            alone[node] = any(alone[source] for source in node.all_input_nodes)
    return [node for node, depends in alone.items() if depends and node is not given and node.op == "call_function"]


def _computed(alone: Sequence[Any]) -> list[Any]:
    """Those of `alone` that compute something with floating-point numbers, or integers and conditions of what does, in
    order."""
    found: list[Any] = []
    rounded = set()  # whether something of it was computed in floating point
    for node in alone:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        computes = node.target.__name__.partition(".")[0] not in _SAME_NUMBERS
        of_rounded = any(source in rounded for source in node.all_input_nodes)
        if of_rounded or (computes and value.is_floating_point()):
            rounded.add(node)
            if computes or not value.is_floating_point():
                found.append(node)
    return found


def _read_by_others(user: Any, alone: Sequence[Any], computed: Sequence[Any]) -> bool:
    """Whether what is not of positions alone reads it, itself or through operators that compute nothing."""
    if user not in alone:
        return True
    return user not in computed and any(_read_by_others(further, alone, computed) for further in user.users)


def _evaluated(
    graph: Any,
    alone: Sequence[Any],
    constants: dict[str, torch.Tensor],
    given: Any,
    positions: torch.Tensor,
    wanted: Sequence[Any],
) -> list[torch.Tensor]:
    from torch.fx.node import map_arg

    known: dict[Any, Any] = {given: positions}

    def value(node: Any) -> Any:
        if node not in known:
            if node.op == "placeholder":
                known[node] = constants[node.name]
            elif node.target is _aten.sym_size.int:
                known[node] = len(positions)  # of a call, all sizes that differ are its number of tokens
            else:
                arguments = map_arg((node.args, node.kwargs), value)
                known[node] = node.target(*arguments[0], **arguments[1])
        return known[node]

    with torch.no_grad():
        return [value(node) for node in wanted]


def _axis(node: Any, table: torch.Tensor, capacity: int) -> int:
    """Along which the positions lie."""
    axes = [axis for axis, size in enumerate(node.meta["val"].shape) if not isinstance(size, int)]
    if len(axes) != 1 or table.shape[axes[0]] != capacity:
        raise _no_axis(node)
    return axes[0]


def _no_axis(node: Any) -> InputError:
    return InputError(
        f"{node.name} ({node.target.__name__}) has the shape {list(node.meta['val'].shape)}, of which not one axis "
        "is that of the positions: tapml cannot make a table of it",
        node=node.name,
        reason="positions are not along one axis",
    )


def _replace(program: Any, node: Any, name: str, table: torch.Tensor, axis: int, positions: Any) -> None:
    """The node's value becomes the rows of a constant at `positions`."""
    graph = program.graph
    constant = add_constant(program, name, table)
    with graph.inserting_before(node):
        rows = graph.call_function(_aten.index_select.default, (constant, axis, positions))
    rows.meta = dict(node.meta)
    node.replace_all_uses_with(rows)
