"""An operator's program as the templates see it: a few stages, each an expression over output axes and a reduction's.

`stages_of` reads the blocks; `inlined` puts pointwise temporaries into their readers. What is left of
softmax(x + y), say, is two reductions, whose terms hold the sum x + y (the prologue), and one pointwise stage that
reads both totals (the epilogue). Expressions are shared, not copied: equal parts may be one object, so that whatever
walks them remembers by `id` what it has seen (`Numbering`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapml.operators.program import Block, Expression, Let, OperatorProgram, Store

COMBINES = ("add", "max", "min", "mul")
"""What a reduction may gather its terms by."""


@dataclass(frozen=True)
class Index:
    """A loop: `variable` from 0 to `extent` - 1, an integer or an expression over symbols (tapml.expressions)."""

    variable: str
    extent: Any


@dataclass(frozen=True)
class Stage:
    """`buffer[indices] = value` for each point of `spatial`; with a `combine`, `value` is the term that is gathered
    over `reduction`, beginning with `start`. No two stages of an operator share a variable."""

    buffer: str
    spatial: tuple[Index, ...]
    indices: tuple[Expression, ...]
    value: Expression
    reduction: tuple[Index, ...] = ()
    combine: str | None = None
    start: Expression | None = None
    none: Expression | None = None
    """Of where an extreme is: what the program has where no element is one. `start` says so in its buffer."""

    @property
    def covers(self) -> bool:
        """Whether each point is one element of the buffer, and each element one point: its indices are its own
        variables, or 0."""
        found = [str(index.value) for index in self.indices if index.kind == "variable"]
        rest = [index for index in self.indices if index.kind != "variable"]
        plain = all(index.kind == "constant" and index.value == 0 for index in rest)
        return plain and sorted(found) == sorted(index.variable for index in self.spatial)


def variable(name: str, dtype: str = "int64") -> Expression:
    return Expression("variable", dtype, (), name)


def rewritten(root: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """`root` with parts replaced by what `change` gives for them, from the outside in; None: as it is. What is shared
    stays shared."""
    return _rewritten(root, change, {})


def _rewritten(
    found: Expression,
    change: Callable[[Expression], Expression | None],
    done: dict[int, tuple[Expression, Expression]],
) -> Expression:
    """No function within another: one that calls itself is a cycle, which would hold all of `done` until Python looks
    for cycles."""
    made = change(found)
    if made is None:
        before, same = found.operands, True
        operands = []
        for operand in before:
            known = done.get(id(operand))
            one = known[1] if known is not None else _rewritten(operand, change, done)
            same = same and one is operand
            operands.append(one)
        made = found if same else Expression(found.kind, found.dtype, tuple(operands), found.value)
    done[id(found)] = found, made
    return made


def substituted(root: Expression, values: Mapping[str, Expression]) -> Expression:
    """`root` with expressions in place of variables."""
    if not values:
        return root
    return rewritten(root, lambda found: values.get(str(found.value), found) if found.kind == "variable" else None)


def parts(*roots: Expression) -> Iterator[Expression]:
    """All that they are made of, what is shared once."""
    return iter(_all_parts(roots))


def _all_parts(roots: Iterable[Expression]) -> Iterable[Expression]:
    seen: dict[int, Expression] = {}
    stack = list(roots)
    while stack:
        found = stack.pop()
        key = id(found)
        if key not in seen:
            seen[key] = found
            if found.operands:
                stack += found.operands
    return seen.values()


def loads(*roots: Expression) -> list[Expression]:
    return [found for found in _all_parts(roots) if found.kind == "load"]


def variables_of(*roots: Expression) -> set[str]:
    return {str(found.value) for found in _all_parts(roots) if found.kind == "variable"}


def is_index(found: Expression) -> bool:
    """An integer that loop variables and symbols decide alone, in the arithmetic of indices."""
    if found.dtype not in ("int32", "int64") or found.kind in ("reinterpret", "call", "load", "constant"):
        return False
    return all(
        part.kind in ("variable", "constant", "add", "sub", "mul", "floordiv", "floormod", "min", "max", "cast")
        and part.dtype in ("int32", "int64")
        for part in parts(found)
    )


class Numbering:
    """A number for each expression: equal ones have the same."""

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[Expression, int]] = {}
        self._known: dict[tuple[Any, ...], int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def copy(self) -> Numbering:
        found = Numbering()
        found._numbers, found._known = dict(self._numbers), dict(self._known)
        return found

    def __call__(self, found: Expression) -> int:
        known = self._numbers.get(id(found))
        if known is None:
            operands = tuple(map(self, found.operands))
            # 0.0 and -0.0 are equal in Python, as are 1 and True.
            key = found.kind, found.dtype, operands, repr(found.value)
            known = self._numbers[id(found)] = found, self._known.setdefault(key, len(self._known))
        return known[1]


# ------------------------------------------------ from blocks


def stages_of(program: OperatorProgram) -> list[Stage] | None:
    """The stages of each block: as many as it has stores, which know nothing of each other. None where a block is of
    another form, or has no elements."""
    found: list[Stage] = []
    places: dict[str, Stage] = {}
    """By buffer, those of where extremes are."""
    for number, block in enumerate(program.blocks):
        stages = _stages(block, f"_{number}")
        if stages is None:
            return None
        found += [
            dataclasses.replace(
                stage, value=_placed(stage.value, places), start=stage.start and _placed(stage.start, places)
            )
            for stage in stages
        ]
        places |= {stage.buffer: stage for stage in stages if stage.none is not None}
    given = {buffer.name for buffer in program.parameters}
    return None if given & places.keys() else found


def _stages(block: Block, suffix: str) -> list[Stage] | None:
    if block.sequential or any(loop.extent == 0 for loop in block.loops):
        return None
    # Blocks may share names of variables, stages do not.
    own = {loop.variable: variable(loop.variable + suffix, loop.dtype) for loop in block.loops}
    zero = {loop.variable: Expression("constant", loop.dtype, (), 0) for loop in block.loops if loop.extent == 1}
    values = {axis.variable: substituted(axis.value, own | zero) for axis in block.axes}
    reduced = variables_of(*(values[axis.variable] for axis in block.axes if axis.reduction))
    spatial = variables_of(*(values[axis.variable] for axis in block.axes if not axis.reduction))
    indices = [Index(loop.variable + suffix, loop.extent) for loop in block.loops if loop.variable not in zero]
    # A loop that no axis follows only repeats; one that both kinds follow is nothing that a template knows.
    if reduced & spatial or any(index.variable not in reduced | spatial for index in indices):
        return None
    first, body = _stores(block.first, values), _stores(block.body, values)
    begun = {store.buffer: store for store in first}
    written = {store.buffer for store in body}
    if len(written) != len(body) or len(begun) != len(first) or (first and begun.keys() != written):
        return None
    outer = tuple(index for index in indices if index.variable in spatial)
    inner = tuple(index for index in indices if index.variable in reduced)
    if len(body) == 2 and inner and (pair := _extreme(body, begun, outer, inner)) is not None:
        return [_renamed(stage, f"_{number}") for number, stage in enumerate(pair)]
    found: list[Stage] = []
    for store in body:
        stage = _stage(store, begun, outer, inner)
        parts_of_it = (stage.value, *stage.indices, *((stage.start,) if stage.start else ())) if stage else ()
        if stage is None or any(load.value in written for load in loads(*parts_of_it)):
            return None
        # Stages of one block have its loops each for itself.
        found.append(_renamed(stage, f"_{len(found)}") if len(body) > 1 else stage)
    return found


def _stage(
    store: Store, begun: Mapping[str, Store], outer: tuple[Index, ...], inner: tuple[Index, ...]
) -> Stage | None:
    """What one store of a block does, whose buffers begin with `begun`."""
    numbers, first = Numbering(), begun.get(store.buffer)
    place = [*map(numbers, store.indices)]
    if first is not None and [*map(numbers, first.indices)] != place:
        return None

    def here(load: Expression) -> bool:
        return load.kind == "load" and [*map(numbers, load.operands)] == place

    def itself(load: Expression) -> bool:
        return here(load) and load.value == store.buffer

    start = first.value if first is not None else None
    if not inner:
        known = {buffer: one.value for buffer, one in begun.items()}
        value = rewritten(store.value, lambda load: known.get(str(load.value)) if here(load) else None)
        return Stage(store.buffer, outer, store.indices, value)
    if start is None or store.value.kind not in COMBINES:
        return None
    term = next((b for a, b in _orders(store.value) if itself(a)), None)
    if term is None or variables_of(start, *store.indices) & {index.variable for index in inner}:
        return None
    return Stage(store.buffer, outer, store.indices, term, inner, store.value.kind, start)


def _extreme(
    body: Sequence[Store], begun: Mapping[str, Store], outer: tuple[Index, ...], inner: tuple[Index, ...]
) -> list[Stage] | None:
    """An extreme and where it is, which a program gathers together, as two reductions: the second one is over the
    places of elements that are equal to the first's result. None for what is something else."""
    numbers = Numbering()
    places = [[*map(numbers, store.indices)] for store in (*body, *begun.values())]
    if len(begun) != 2 or any(place != places[0] for place in places) or len(inner) != 1:
        return None
    for at, best in (body, body[::-1]):
        here, top = (Expression("load", begun[one.buffer].value.dtype, one.indices, one.buffer) for one in (at, best))
        kept, found = best.value, at.value
        if kept.kind != "select" or kept.operands[0].kind not in ("gt", "lt") or found.kind != "select":
            continue
        _, same, element = kept.operands
        _, itself, place = found.operands
        counted = place.operands[0] if place.kind == "cast" else place
        if counted.kind != "variable":
            continue
        better = Expression(kept.operands[0].kind, "bool", (top, element))
        equal = Expression("eq", "bool", (top, element))
        for before, combine, past in (("lt", "min", 1), ("gt", "max", -1)):
            ahead = Expression("and", "bool", (equal, Expression(before, "bool", (here, place))))
            wanted = (better, top, Expression("or", "bool", (better, ahead)), here)
            given = (kept.operands[0], same, found.operands[0], itself)
            extent = inner[0].extent
            if [*map(numbers, wanted)] != [*map(numbers, given)] or not isinstance(extent, int):
                continue
            nowhere = Expression("constant", place.dtype, (), extent if past > 0 else -1)
            hit = Expression("eq", "bool", (element, top))
            term = Expression("select", place.dtype, (hit, place, nowhere))
            extreme = "max" if better.kind == "gt" else "min"
            return [
                Stage(best.buffer, outer, best.indices, element, inner, extreme, begun[best.buffer].value),
                Stage(at.buffer, outer, at.indices, term, inner, combine, nowhere, begun[at.buffer].value),
            ]
    return None


def _placed(root: Expression, places: Mapping[str, Stage]) -> Expression:
    """With what the program has where no element is an extreme."""

    def change(found: Expression) -> Expression | None:
        if found.kind != "load" or str(found.value) not in places:
            return None
        start, none = places[str(found.value)].start, places[str(found.value)].none
        assert start is not None
        assert none is not None
        return Expression("select", found.dtype, (Expression("eq", "bool", (found, start)), none, found))

    return rewritten(root, change)


def _renamed(stage: Stage, suffix: str) -> Stage:
    """The stage with variables of its own."""
    values = {index.variable: variable(index.variable + suffix) for index in (*stage.spatial, *stage.reduction)}
    return Stage(
        stage.buffer,
        tuple(Index(index.variable + suffix, index.extent) for index in stage.spatial),
        tuple(substituted(index, values) for index in stage.indices),
        substituted(stage.value, values),
        tuple(Index(index.variable + suffix, index.extent) for index in stage.reduction),
        stage.combine,
        substituted(stage.start, values) if stage.start is not None else None,
        stage.none,
    )


def _orders(found: Expression) -> Iterator[tuple[Expression, Expression]]:
    a, b = found.operands
    yield a, b
    yield b, a


def _stores(statements: Sequence[Store | Let], values: Mapping[str, Expression]) -> list[Store]:
    """The stores, without variables but those of `values`. A `let` holds what was there before any store."""
    known = dict(values)
    stores = []
    for statement in statements:
        value = substituted(statement.value, known)
        if isinstance(statement, Let):
            known[statement.variable] = value
        else:
            indices = tuple(substituted(index, known) for index in statement.indices)
            stores.append(Store(statement.buffer, indices, value))
    return stores


# ------------------------------------------------ inlining


def inlined(stages: Sequence[Stage], outputs: Collection[str]) -> list[Stage] | None:
    """The stages without pointwise temporaries: who read these has their expressions. What writes one of `outputs`
    stays. None where a buffer is written in parts."""
    if len({stage.buffer for stage in stages}) != len(stages) or not all(stage.covers for stage in stages):
        return None
    known: dict[str, Stage] = {}
    found = []
    for stage in stages:
        made = dataclasses.replace(stage, value=_with(stage.value, known))
        if stage.start is not None:
            made = dataclasses.replace(made, start=_with(stage.start, known))
        if stage.combine is None:
            known[stage.buffer] = made
        if stage.combine is not None or stage.buffer in outputs:
            found.append(made)
    return found


def _with(root: Expression, known: Mapping[str, Stage]) -> Expression:
    """`root` with the values of `known` in place of loads of them."""

    def change(found: Expression) -> Expression | None:
        if found.kind != "load" or str(found.value) not in known:
            return None
        at = tuple(rewritten(index, change) for index in found.operands)
        return at_element(known[str(found.value)], at)

    return rewritten(root, change)


def at_element(stage: Stage, indices: Sequence[Expression]) -> Expression:
    """The value of a stage that `covers` its buffer, at one of its elements."""
    values = {
        str(own.value): index for own, index in zip(stage.indices, indices, strict=True) if own.kind == "variable"
    }
    return substituted(stage.value, values)
