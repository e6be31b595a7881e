"""Small kernels of one dispatch (docs/build.md#side-by-side).

Recording a dispatch costs the host some microseconds, and one of few workgroups leaves most of a GPU idle. Where a
node's inputs are there before another node runs, and both run few workgroups of one size, one dispatch runs both: the
first workgroups do the work of the first kernel, those behind them that of the next. Where one reads what another
writes, a workgroup does the work of both, one behind the other (handed_on.py). What each computes stays what was
proven; the compiled model says of which dispatches each is made, and a capture records those.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tapml.building.groups import Documents, Group, Kernels, Texts
from tapml.building.handed_on import handed_on
from tapml.files import unique
from tapml.program import Node, NodeKind
from tapml.program.graph import shown_by
from tapml.program.program import Function

_WINDOW = 24
"""Kernels behind a node that are looked at."""
_LONGEST_ID = 400


@dataclass(frozen=True)
class SideBySide:
    """`functions` with nodes that are several, whose kernels `documents` has behind the others: `parts` of such a
    document are its kernels with the places of their operands among its own. `texts`: WGSL of the variants of each."""

    functions: Mapping[str, Function]
    documents: Documents
    texts: Mapping[str, Sequence[str]]
    nodes: Mapping[str, Mapping[str, Sequence[str]]]
    """Function -> a node that is several -> the ids of these."""

    @property
    def made(self) -> dict[str, list[str]]:
        """The kernels that are several -> these."""
        return {name: [part["kernel"] for part in self.documents[name]["parts"]] for name in self.texts}


def side_by_side(
    functions: Mapping[str, Function], documents: Documents, texts: Texts, choosing: Collection[str]
) -> SideBySide:
    """`choosing`: the kernels that are choices; a function with one keeps its dispatches as they are."""
    kernels = Kernels(documents, texts)
    found: dict[str, Function] = {}
    nodes: dict[str, dict[str, list[str]]] = {}
    for name, function in functions.items():
        if any(node.kernel in choosing for node in function.nodes):
            found[name], nodes[name] = function, {}
            continue
        found[name], nodes[name] = _Grouping(function, kernels).function()
    used = {node.kernel for function in found.values() for node in function.nodes}
    made = {name: document for name, document in kernels.made.items() if name in used}
    return SideBySide(found, {**documents, **made}, {name: kernels.texts[name] for name in made}, nodes)


@dataclass
class _Grouping:
    """One function's nodes in a new order, those that run at once as one node."""

    of: Function
    kernels: Kernels
    groups: list[Group] = field(default_factory=list)

    def function(self) -> tuple[Function, dict[str, list[str]]]:
        self.shown = shown_by(self.of)
        self.waiting = {value for node in self.of.nodes for value in node.outputs}
        left = list(self.of.nodes)
        while left:
            node = left.pop(0)
            nodes = [node]
            if node.kind is NodeKind.KERNEL and self.kernels.parts(node.kernel):
                nodes += self._beside(node, left)
            self._add(Group.beside(nodes))
        members: dict[str, list[str]] = {}
        groups = handed_on(self.groups, self.kernels, self.shown)
        nodes = [self._node(group, members) for group in groups]
        return replace(self.of, nodes=nodes), members

    def _add(self, group: Group) -> None:
        self.groups.append(group)
        self.waiting.difference_update(group.outputs)

    def _node(self, group: Group, members: dict[str, list[str]]) -> Node:
        if len(group.nodes) == 1:
            return group.nodes[0]
        ids = [one.id for one in group.nodes]
        name = " + ".join(ids)
        name = name if len(name) <= _LONGEST_ID else f"{ids[0][:_LONGEST_ID]} + {len(ids) - 1} more"
        name = unique(name, lambda taken: taken in members)
        kernel = self.kernels.name(group)
        assert kernel is not None
        members[name] = ids
        return Node(name, NodeKind.KERNEL, kernel, tuple(group.inputs), tuple(group.outputs))

    def _beside(self, first: Node, left: list[Node]) -> list[Node]:
        """Nodes among those `left` that may run with `first`; they are taken out, as are views that may stand before
        it."""
        chosen: list[Node] = []
        passed: list[Node] = []
        looked_at = 0
        while left and looked_at < _WINDOW:
            node = left.pop(0)
            ready = not self.waiting.intersection(node.inputs)
            if ready and node.kind is NodeKind.VIEW:
                self._add(Group.beside([node]))
                continue
            looked_at += 1
            fits = ready and node.kind is NodeKind.KERNEL and self.kernels.parts(node.kernel)
            if fits and self._apart([first, *chosen], passed, node) and self._one([first, *chosen, node]):
                chosen.append(node)
            else:
                passed.append(node)
        left[:0] = passed
        return chosen

    def _one(self, nodes: Sequence[Node]) -> bool:
        return self.kernels.name(Group.beside(nodes)) is not None

    def _apart(self, group: Sequence[Node], passed: Sequence[Node], node: Node) -> bool:
        """Nothing that one of them writes over is read by another, and none that `passed` would read what was there
        before."""
        own = self.kernels.spoilt(node, self.shown)
        read = {self.shown[value] for other in (*group, *passed) for value in other.inputs}
        spoilt = {value for other in group for value in self.kernels.spoilt(other, self.shown)}
        return not own & read and not spoilt & {self.shown[value] for value in node.inputs}
