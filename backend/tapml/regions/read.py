"""From an operator's program to regions.

Each element of an output is followed back through the program's temporaries to what it is: an element of an input, or a
constant. This is vertical merging: a chain of moves is one, whatever of it was an operator by itself. Where an index or
a choice is not the same sum of loop variables everywhere, the box of loops is cut in two, or one of its loops made two
(`box.py`), until it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from tapml.operators.program import CHOICES, Block, Buffer, Expression, OperatorProgram, Store, parts_of
from tapml.regions.box import Box, Cut, Fold
from tapml.regions.forms import Form, NotRegions, form_of, sized
from tapml.regions.region import Region, View, merged

MOST_REGIONS = 64
"""Of an output; what is in more pieces is no move of boxes."""

_MOST_TRIES = 8 * MOST_REGIONS
_MOST_BLOCKS = 100
_MOST_WORK = 2**18
"""Expressions that are looked at, in all tries for an output."""
_WHOLE = "@"
"""The one variable of a box that is an output's elements in a row."""

Symbols: TypeAlias = Mapping[str, tuple[int, int]]
_Scope: TypeAlias = Mapping[str, Form]


def regions_of(program: OperatorProgram, symbols: Symbols | None = None) -> dict[str, list[Region]] | None:
    """By output, the regions that make all of it, in the order in which they lie in it; None where the program does
    something else than to move elements. `symbols`: least and most of each of a template's."""
    return _Reading(program, symbols or {}).regions()


@dataclass(frozen=True)
class _Tensor:
    """What a store makes of a whole buffer: at each point of `axes`, the buffer's axes, an expression over these."""

    axes: tuple[str, ...]
    value: Expression


@dataclass(frozen=True)
class _Element:
    """A leaf: an element of an input, or a constant."""

    source: str | None
    place: Form = field(default_factory=lambda: Form.of(0))
    value: bool | int | float | None = None


class _Reading:
    def __init__(self, program: OperatorProgram, symbols: Symbols) -> None:
        self._program = program
        self._symbols = symbols
        self._buffers = {buffer.name: buffer for buffer in (*program.parameters, *program.temporaries)}
        self._made: dict[str, _Tensor] = {}
        self._stored = {store.buffer for block in program.blocks for store in block.body if isinstance(store, Store)}

    def regions(self) -> dict[str, list[Region]] | None:
        blocks = self._program.blocks
        if len(blocks) > _MOST_BLOCKS:
            return None
        try:
            for block in blocks:
                self._made.update(list(self._tensors(block)))
            outputs = [buffer for buffer in self._program.parameters if buffer.name in self._made]
            return {buffer.name: self._of(buffer) for buffer in outputs} or None
        except NotRegions:
            return None

    def _tensors(self, block: Block) -> Iterator[tuple[str, _Tensor]]:
        """Raises NotRegions unless each store covers its buffer, element by element."""
        loops = {loop.variable: loop.extent for loop in block.loops}
        axes = {axis.variable: axis for axis in block.axes}
        if block.first or any(axis.reduction for axis in block.axes):
            raise NotRegions
        for store in block.body:
            if not isinstance(store, Store) or store.buffer in self._made:
                raise NotRegions
            read = {str(part.value) for part in parts_of(store) if part.kind == "load"}
            if read & (self._stored - self._made.keys()):
                raise NotRegions  # what is written later, or here
            names, seen = [], set()
            for index, extent in zip(store.indices, self._buffers[store.buffer].shape, strict=True):
                axis = axes.get(str(index.value)) if index.kind == "variable" else None
                if axis is None and extent == 1 and index.kind == "constant":
                    names.append("")
                    continue
                loop = str(axis.value.value) if axis is not None and axis.value.kind == "variable" else ""
                if axis is None or (extent != 1 and loops.get(loop) != extent) or loop in seen:
                    raise NotRegions
                names.append(axis.variable)
                seen.add(loop if extent != 1 else axis.variable)
            if any(axis.variable not in names and axis.extent != 1 for axis in block.axes):
                raise NotRegions
            yield store.buffer, _Tensor(tuple(names), store.value)

    # ------------------------------------------------ an output

    def _of(self, output: Buffer) -> list[Region]:
        """Raises NotRegions."""
        shape = [_form(extent) for extent in output.shape]
        count = Form.of(1)
        for extent in shape:
            count = count * extent
        if count.constant == 0:
            return []
        # Of fixed sizes elements in a row are the fewest boxes: rows matter only where what is read asks for them.
        names = [_WHOLE] if count.constant is not None else [f"{_WHOLE}{axis}" for axis in range(len(shape))]
        extents = [count] if count.constant is not None else shape
        start = _Part(Box(dict(zip(names, extents, strict=True)), self._symbols), {n: Form.atom(n) for n in names})
        pending, found, tries = [start], list[Region](), 0
        work = sum(len(block.expressions) for block in self._program.blocks)
        while pending:
            part, tries = pending.pop(), tries + 1
            if tries > _MOST_TRIES or tries * work > _MOST_WORK or len(found) > MOST_REGIONS:
                raise NotRegions
            try:
                found.append(self._region(part, output, shape))
            except Cut as cut:
                pending += reversed(part.cut(cut))
            except Fold as fold:
                pending += reversed(part.folded(fold))
        return merged(found)

    def _region(self, part: _Part, output: Buffer, shape: Sequence[Form]) -> Region:
        """Raises Cut and Fold, too."""
        box = part.box
        place = _flat([*part.roots.values()], shape) if len(part.roots) > 1 else next(iter(part.roots.values()))
        found = self._element(self._made[output.name], self._axes(part, shape), box)
        box.resolve(found.place)
        kept = {name: extent for name, extent in box.extents.items() if extent != 1}
        sizes = [sized(extent) for extent in kept.values()]
        views = [_view(form, kept, box) for form in (place, found.place)]
        if None in sizes:
            raise NotRegions
        read = views[1] if found.source is not None else View(0, ())
        return Region(tuple(s for s in sizes if s is not None), views[0], found.source, read, found.value)

    def _axes(self, part: _Part, shape: Sequence[Form]) -> list[Form]:
        """Where an element lies along each axis of its output."""
        if len(part.roots) == len(shape) and _WHOLE not in part.roots:
            return [*part.roots.values()]
        return _apart(part.roots[_WHOLE], shape, part.box)

    def _element(self, tensor: _Tensor, at: Sequence[Form], box: Box) -> _Element:
        return self._leaf(tensor.value, dict(zip(tensor.axes, at, strict=True)), box)

    def _leaf(self, value: Expression, scope: _Scope, box: Box) -> _Element:
        index = partial(_index, scope=scope, box=box)
        if value.kind == "constant":
            assert not isinstance(value.value, str)
            return _Element(None, value=value.value)
        if value.kind in CHOICES:
            condition, then, otherwise = value.operands
            return self._leaf(then if _holds(condition, scope, box) else otherwise, scope, box)
        if value.kind != "load":
            raise NotRegions
        name, at = str(value.value), [index(operand) for operand in value.operands]
        if name in self._made:
            return self._element(self._made[name], at, box)
        if name not in self._buffers:
            raise NotRegions
        return _Element(name, _flat(at, [_form(extent) for extent in self._buffers[name].shape]))


@dataclass(frozen=True)
class _Part:
    """A box of an output's elements. `roots`: what variables that the whole output had are in it."""

    box: Box
    roots: Mapping[str, Form]

    def cut(self, cut: Cut) -> list[_Part]:
        extent = self.box.extents[cut.variable]
        before = self._with({cut.variable: cut.at}, cut.variable, Form.atom(cut.variable))
        behind = self._with({cut.variable: extent - cut.at}, cut.variable, Form.atom(cut.variable) + cut.at)
        return [before, behind]

    def folded(self, fold: Fold) -> list[_Part]:
        variable, length = fold.variable, fold.length
        extent = self.box.extents[variable]
        if not extent.divisible(length):
            if (known := extent.constant) is None:
                raise NotRegions
            return self.cut(Cut(variable, Form.of(known - known % length)))
        turns = Form({product: c // length for product, c in extent.terms.items()})
        outer, inner = f"{variable}.{length}", f"{variable}:"
        value = Form.atom(outer) * length + Form.atom(inner)
        return [self._with({outer: turns, inner: Form.of(length)}, variable, value)]

    def _with(self, extents: Mapping[str, Form], variable: str, value: Form) -> _Part:
        """With other variables in place of one, which is `value`."""
        found: dict[str, Form] = {}
        for name, extent in self.box.extents.items():
            found |= extents if name == variable else {name: extent}
        box = dataclasses.replace(self.box, extents=found)
        roots = {}
        for name, root in self.roots.items():
            step = root.coefficient(variable)
            assert step is not None, "roots are sums of variables"
            roots[name] = root.without(variable) + step * value
        return _Part(box, _without_single(roots, box))


def _without_single(roots: Mapping[str, Form], box: Box) -> dict[str, Form]:
    """A variable of one turn is 0."""
    found = {}
    for name, root in roots.items():
        for variable, extent in box.extents.items():
            root = root.without(variable) if extent == 1 else root
        found[name] = root
    return found


def _form(extent: object) -> Form:
    if (found := form_of(extent)) is None:  # type: ignore[arg-type]
        raise NotRegions
    return found


def _flat(at: Sequence[Form], shape: Sequence[Form]) -> Form:
    """Where an element lies, row-major."""
    found = Form.of(0)
    for index, extent in zip(at, shape, strict=True):
        found = found * extent + index
    return found


def _apart(place: Form, shape: Sequence[Form], box: Box) -> list[Form]:
    """The opposite of that, of known sizes."""
    found = []
    for axis, extent in reversed([*enumerate(shape)]):
        found.append(box.modulo(place, extent) if axis else place)
        place = box.quotient(place, extent) if axis else place
    return found[::-1]


def _view(place: Form, kept: Mapping[str, Form], box: Box) -> View:
    """Raises NotRegions unless it is a sum of the variables, each times a size."""
    strides = []
    for variable in box.extents:
        step = place.coefficient(variable)
        if step is None or not box.symbols.keys() >= step.atoms:
            raise NotRegions
        place = place.without(variable)
        if variable in kept:
            strides.append(sized(step))
    offset = sized(place)
    if offset is None or None in strides or not box.symbols.keys() >= place.atoms:
        raise NotRegions
    return View(offset, tuple(stride for stride in strides if stride is not None))


# ------------------------------------------------ indices and conditions


def _index(found: Expression, scope: _Scope, box: Box) -> Form:
    """Raises Cut and Fold where it is not the same form everywhere."""
    index = partial(_index, scope=scope, box=box)
    kind = found.kind
    if kind == "constant":
        return Form.of(int(found.value or 0))
    if kind == "variable":
        name = str(found.value)
        if name not in scope and name not in box.symbols:
            raise NotRegions
        return scope[name] if name in scope else Form.atom(name)
    if kind == "cast" and "int" in found.dtype and "int" in found.operands[0].dtype:
        return index(found.operands[0])
    if kind in CHOICES:
        condition, then, otherwise = found.operands
        return index(then if _holds(condition, scope, box) else otherwise)
    if kind not in ("add", "sub", "mul", "floordiv", "floormod", "div", "mod", "min", "max"):
        raise NotRegions
    a, b = map(index, found.operands)
    if kind in ("min", "max"):
        return a if box.is_below(a - b) == (kind == "min") else b
    if kind in ("div", "mod") and (box.is_below(a) or box.is_below(b)):
        raise NotRegions  # towards zero
    if kind in ("floordiv", "div"):
        return box.quotient(a, b)
    if kind in ("floormod", "mod"):
        return box.modulo(a, b)
    return a + b if kind == "add" else a - b if kind == "sub" else a * b


def _holds(found: Expression, scope: _Scope, box: Box) -> bool:
    """Raises Cut and Fold where it does not hold everywhere or nowhere."""
    holds = partial(_holds, scope=scope, box=box)
    kind = found.kind
    if kind == "constant":
        return bool(found.value)
    if kind == "not":
        return not holds(found.operands[0])
    if kind == "and":
        return all(map(holds, found.operands))
    if kind == "or":
        return any(map(holds, found.operands))
    if kind == "cast" and found.dtype == "bool" and found.operands[0].dtype == "bool":
        return holds(found.operands[0])
    if kind not in ("eq", "ne", "lt", "le", "gt", "ge") or "int" not in found.operands[0].dtype:
        raise NotRegions
    a, b = (_index(operand, scope, box) for operand in found.operands)
    if kind in ("lt", "ge"):
        return box.is_below(a - b) == (kind == "lt")
    if kind in ("gt", "le"):
        return box.is_below(b - a) == (kind == "gt")
    same = not box.is_below(a - b) and not box.is_below(b - a)
    return same == (kind == "eq")
