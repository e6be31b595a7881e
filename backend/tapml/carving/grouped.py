"""The operators between values that are known: the fewest whose inputs and output the oracle has."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tapml.lowering.lower import Model
from tapml.operators.external import External
from tapml.operators.numerics import numerics
from tapml.operators.program import FLOATS, OperatorProgram
from tapml.program import Graph, Node, NodeKind

_STEPS = ("round", "floor", "ceil", "trunc", "nearbyint", "rint", "fmod")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


@dataclass(frozen=True)
class Group:
    """What makes `value` of values that are given. `nodes` are in order."""

    value: str
    nodes: tuple[Node, ...]

    @property
    def inputs(self) -> list[str]:
        """What it reads and does not make."""
        made = {value for node in self.nodes for value in node.outputs}
        return [value for value in dict.fromkeys(v for node in self.nodes for v in node.inputs) if value not in made]

    @property
    def kernels(self) -> list[str]:
        return [node.kernel for node in self.nodes if node.kind is NodeKind.KERNEL]

    def exact(self, model: Model) -> bool:
        """Whether it only moves, selects or compares values."""
        programs = [model.programs[kernel] for kernel in self.kernels]
        return all(isinstance(program, OperatorProgram) and numerics(program).exact for program in programs)

    def rounds(self, model: Model) -> bool:
        """Whether it does more than to move, select, compare or widen values."""
        return any(_rounds(model.programs[kernel]) for kernel in self.kernels)

    def jumps(self, model: Model) -> bool:
        """Whether a result may jump where an input moves a little: by rounding to integers, or comparing."""
        return any(_jumps(model.programs[kernel]) for kernel in self.kernels)


def groups(graph: Graph, given: Collection[str]) -> list[Group]:
    """One for each of the values `given` that a node makes, in the order of these."""
    makers: dict[str, Node] = {}
    places: dict[str, int] = {}
    found = []
    for place, node in enumerate(graph.nodes):
        places[node.id] = place
        makers.update((value, node) for value in node.outputs)
        for value in node.outputs:
            if value in given:
                nodes: dict[str, Node] = {node.id: node}
                pending = [*node.inputs]
                while pending:
                    name = pending.pop()
                    maker = makers.get(name)
                    if maker is not None and name not in given and maker.id not in nodes:
                        nodes[maker.id] = maker
                        pending += maker.inputs
                found.append(Group(value, tuple(sorted(nodes.values(), key=lambda node: places[node.id]))))
    return found


def _rounds(program: OperatorProgram | External) -> bool:
    if not isinstance(program, OperatorProgram):
        return True
    found = numerics(program)
    widened = sum(
        node.kind == "cast"
        and node.operands[0].dtype in FLOATS
        and node.dtype in FLOATS[FLOATS.index(node.operands[0].dtype) :]
        for block in program.blocks
        for node in block.expressions
    )
    return bool(found.builtins) or found.operations > widened


def _jumps(program: OperatorProgram | External) -> bool:
    if not isinstance(program, OperatorProgram):
        return True
    return any(
        (
            (found.kind == "cast" and found.dtype not in FLOATS)
            or found.kind in _COMPARISONS
            or (found.kind == "call" and found.value in _STEPS)
        )
        and found.operands[0].dtype in FLOATS
        for block in program.blocks
        for found in block.expressions
    )


def terms(program: OperatorProgram | External) -> int:
    """The most that are summed into one element."""
    return numerics(program).accumulation_length if isinstance(program, OperatorProgram) else 1
