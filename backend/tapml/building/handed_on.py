"""Kernels of one dispatch of which one reads what another writes (docs/build.md#side-by-side).

No workgroup waits for another, so a workgroup does itself what its reading needs. Where what was written is read by the
invocation that wrote it, as in the product that a gate is multiplied with, both kernels run one behind the other
(same_element.py). Where one workgroup does all of a kernel, as a norm of a token, each workgroup that reads it does it
again, into memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tapml.building.groups import Group, Kernels
from tapml.building.same_element import hands_on
from tapml.kernels.wgsl_module import NotUnderstood
from tapml.program import Node, NodeKind

MOST_HANDED_BYTES = 4096
"""That are written by what a workgroup does again."""

MOST_READ_BYTES = 16_384
"""That it reads."""

MOST_READ_IN_A_ROW = 2**25
"""Bytes, of each of two kernels in a row: workgroups that read more one behind the other take longer than two
dispatches. On an H200 two products of 8,192 columns by weights of 25 MB each take 18.4 us in a row and 22.1 apart, by
ones of 50 MB 54.9 and 38.4."""

_WINDOW = 40
"""Groups before one that are looked at."""

_Join: TypeAlias = Callable[[Group, Group, Kernels], Group | None]
"""Of a group and one behind it that reads what it writes: one for both, where there is one."""


def handed_on(groups: Sequence[Group], kernels: Kernels, shown: Mapping[str, str]) -> list[Group]:
    """`groups` in the order they run, with fewer of them. `shown`: value -> what it is a view of."""
    found = list(groups)
    for join in (_in_a_row, _again):
        place = 0
        while place < len(found):
            joined = _joined(found, place, kernels, shown, join)
            if joined is None:
                place += 1
                continue
            # The one before is part of it; what is left may read what another one writes.
            number, found[place] = joined
            del found[number]
            place -= 1
    return found


def _joined(
    groups: Sequence[Group], place: int, kernels: Kernels, shown: Mapping[str, str], join: _Join
) -> tuple[int, Group] | None:
    """The number of a group before, and that with the one at `place`."""
    group = groups[place]
    if not _is_small(group, kernels):
        return None
    inputs = set(group.inputs)
    for number in range(place - 1, max(-1, place - 1 - _WINDOW), -1):
        before = groups[number]
        if not inputs.intersection(before.outputs) or not _is_small(before, kernels):
            continue
        both = join(before, group, kernels)
        if both is None or _must_stay(before, groups[number + 1 : place + 1], kernels, shown):
            continue
        if kernels.name(both) is not None:
            return number, both
    return None


def _must_stay(before: Group, behind: Sequence[Group], kernels: Kernels, shown: Mapping[str, str]) -> bool:
    """Does one of those between it and the last of those `behind` it need that it ran, or one of all write over what it
    reads?"""
    written = set(before.outputs)
    read = {shown[value] for value in before.inputs}
    spoilt = {value for group in behind for node in group.nodes for value in kernels.spoilt(node, shown)}
    return bool(spoilt & read) or any(written & set(group.inputs) for group in behind[:-1])


def _is_small(group: Group, kernels: Kernels) -> bool:
    return all(node.kind is NodeKind.KERNEL and kernels.parts(node.kernel) for node in group.nodes)


def _in_a_row(before: Group, group: Group, kernels: Kernels) -> Group | None:
    """Both are one kernel, and an invocation of the later one reads what the same of the former one wrote."""
    if len(before.nodes) != 1 or len(group.nodes) != 1:
        return None
    first, second = before.nodes[0], group.nodes[0]
    if len(first.outputs) != 1 or kernels.overwritten(first.kernel) or kernels.overwritten(second.kernel):
        return None
    if any((kernels.bytes(node.kernel, "input") or 0) > MOST_READ_IN_A_ROW for node in (first, second)):
        return None
    value = first.outputs[0]
    try:
        together = kernels.combinations([first.kernel, second.kernel])
    except NotUnderstood:
        return None
    producers, consumers = kernels.parts(first.kernel), kernels.parts(second.kernel)
    for producer, consumer in ((producers[one.places[0]], consumers[one.places[1]]) for one in together):
        written = [declared for declared, _, at in producer.storage if at == len(first.inputs)]
        read = [d for d, _, at in consumer.storage if at < len(second.inputs) and second.inputs[at] == value]
        if len(written) != 1 or len(read) != 1 or not hands_on(producer, written[0], consumer, read[0]):
            return None
    return Group([first, second], [(0, 1)])


def _again(before: Group, group: Group, kernels: Kernels) -> Group | None:
    """The former is one small kernel, which each workgroup of the later ones runs that reads it."""
    if len(before.nodes) != 1 or not _is_handed(before.nodes[0], kernels):
        return None
    value = before.nodes[0].outputs[0]
    columns = []
    for column in group.columns:
        reads = any(value in group.nodes[number].inputs for number in column)
        columns.append((*([0] if reads else []), *(number + 1 for number in column)))
    handed = frozenset({0, *(number + 1 for number in group.handed)})
    return Group([*before.nodes, *group.nodes], columns, handed)


def _is_handed(node: Node, kernels: Kernels) -> bool:
    read, written = kernels.bytes(node.kernel, "input"), kernels.bytes(node.kernel, "output")
    if read is None or written is None or len(node.outputs) != 1 or kernels.overwritten(node.kernel):
        return False
    small = 0 < written <= MOST_HANDED_BYTES and read <= MOST_READ_BYTES
    return small and all(part.is_small for part in kernels.parts(node.kernel))
