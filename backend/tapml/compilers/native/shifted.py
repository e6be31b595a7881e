"""Rows that are written several times, each time moved by some elements: an image for each place along a row of a
convolution's window, with the zeros around it (packed.py).

What is read and written are whole vectors, `vec4<f32>`, or of float16 `vec4<u32>`, eight numbers two a word. An
invocation reads a vector of a row and of its neighbours what it needs, makes of them the vectors of all places of the
window, and goes on with the next row of the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from tapml.compilers.native.elementwise import decompose
from tapml.compilers.native.kernel import (
    GROUP,
    GROUPS,
    LOCAL,
    Found,
    Launch,
    Text,
    ceildiv,
    check_counts,
    grid_of,
    product,
    times,
)
from tapml.compilers.native.polynomials import Indices, Polynomial, atom, number
from tapml.compilers.native.stages import Index, Stage, loads
from tapml.compilers.native.text import Writer
from tapml.compilers.native.words import bare
from tapml.operators.program import Expression

_NUMBERS = {"float32": 1, "float16": 2}
"""Of a word, four of which are a vector."""
_WIDEST = 16
"""Places of a window along a row: each is lines of text."""
_FEW = 8
"""Rows of a window that an invocation goes through."""
_WORDS = {4: "four", 8: "eight"}
_OWN = ("at", "group", "groups", "local")
_LETTERS = ("i", "j", "k", "l", "m", "n", "o", "p")


@dataclass(frozen=True)
class _Rows:
    """How rows are read: vector number v of what is written at place w of the window begins `offsets[w]` elements
    behind the beginning of vector number v of the row."""

    load: Expression
    last: Index
    """Along the row, what is written."""
    window: Index | None
    offsets: Sequence[int]
    begin: Polynomial
    """Where a row's vector number 0 lies in memory, in vectors."""
    first: bool
    """Whether what is before vector number 0 are zeros."""
    end: int | None
    """The number of vectors, behind which are zeros; None where nothing behind them is asked for."""
    given: Sequence[Expression]
    """The conditions without which all of a row is zeros."""


def shifted(found: Found) -> list[Launch] | None:
    """A dispatch for an output whose rows, of whole vectors, are those of a tensor, each one or several times, moved by
    elements, with zeros before and behind them. None for others, and where the tensor's rows do not begin and end at
    whole vectors."""
    indices = found.indices(found.stages)
    rows = _rows(found, indices)
    return None if rows is None else [_launch(found, indices, found.stages[0], rows)]


def is_shifted(found: Found) -> bool:
    """Whether `shifted` has a dispatch for it."""
    return _rows(found, found.indices(found.stages)) is not None


def _rows(found: Found, indices: Indices) -> _Rows | None:
    if len(found.stages) != 1 or found.stages[0].combine or found.textures:
        return None
    (stage,) = found.stages
    if stage.value.dtype not in _NUMBERS:
        return None
    each = 4 * _NUMBERS[stage.value.dtype]
    load, conditions = stage.value, [*_conditions(stage.value)]
    if load.kind in ("if_then_else", "select"):
        load = load.operands[1]
        if stage.value.operands[2].kind != "constant" or stage.value.operands[2].value != 0:
            return None
    if load.kind != "load" or loads(*load.operands, *conditions) or not stage.spatial:
        return None
    if [index.value for index in stage.indices] != [axis.variable for axis in stage.spatial]:
        return None
    last, shape = stage.spatial[-1], found.buffers[str(load.value)].shape
    place = indices.flat(load.operands, shape)
    if not isinstance(last.extent, int) or last.extent % each or not product(indices, shape).divisible(each):
        return None
    along = [atom(last.variable), *filter(None, (_not_negative(indices, one) for one in conditions))]
    ends = [one for one in along if indices.depends(one, last.variable)]
    windows = [
        axis
        for axis in stage.spatial[:-1]
        if (step := place.coefficient(axis.variable)) is None
        or not step.divisible(each)
        or any(indices.depends(end, axis.variable) for end in ends)
    ]
    if len(windows) > 1:
        return None
    window = windows[0] if windows else None
    return _moved(indices, (load, last, window), place, conditions, each)


def _moved(
    indices: Indices,
    read: tuple[Expression, Index, Index | None],
    place: Polynomial,
    conditions: Sequence[Expression],
    each: int,
) -> _Rows | None:
    """`read`: the load, the axis along the row and that of the window; `place`: where it reads."""
    load, last, window = read
    moved, rest, extent, step = atom(last.variable), place.without(last.variable), 1, 0
    if window is not None:
        by = place.coefficient(window.variable)
        if by is None or by.constant is None or not isinstance(window.extent, int) or window.extent > _WIDEST:
            return None
        extent, step = window.extent, by.constant
        moved, rest = moved + atom(window.variable).scaled(step), rest.without(window.variable)
    own = [axis.variable for axis in (last, window) if axis is not None]
    constant = rest.terms.get((), 0)
    begin = rest - number(constant)
    if place - rest != moved or not begin.divisible(each) or any(indices.depends(begin, one) for one in own):
        return None
    # Numbers of `moved`: those that there are, and those that are no zeros.
    least, most = min(0, step * (extent - 1)), last.extent - 1 + max(0, step * (extent - 1))
    low, high, given = least, most, []
    for condition in conditions:
        end = _not_negative(indices, condition)
        if end is not None and (limit := (end - moved).constant) is not None:
            low = max(low, -limit)
        elif end is not None and (limit := (end + moved).constant) is not None:
            high = min(high, limit)
        elif end is None or any(indices.depends(end, one) for one in own):
            return None
        else:
            given.append(condition)
    offsets = [step * nth + constant for nth in range(extent)]
    first = low + constant if low > least else offsets[extent // 2] // each * each
    behind = (high + 1 + constant - first) if high < most else 0
    if first % each or behind % each:
        return None
    return _Rows(
        load=load,
        last=last,
        window=window,
        offsets=[offset - first for offset in offsets],
        begin=(begin + number(first)).divided(each),
        first=low > least,
        end=behind // each if high < most else None,
        given=given,
    )


def _conditions(value: Expression) -> Iterator[Expression]:
    """Of a choice, those that all have to hold."""
    stack = [value.operands[0]] if value.kind in ("if_then_else", "select") else []
    while stack:
        found = stack.pop()
        if found.kind == "and":
            stack += reversed(found.operands)
        else:
            yield found


def _not_negative(indices: Indices, condition: Expression) -> Polynomial | None:
    """What is 0 or more where the condition holds; None where it does not compare indices."""
    if condition.kind not in ("lt", "le", "gt", "ge") or condition.operands[0].dtype not in ("int32", "int64"):
        return None
    a, b = map(indices, condition.operands)
    found = a - b if condition.kind in ("gt", "ge") else b - a
    return found - number(1) if condition.kind in ("lt", "gt") else found


def _launch(found: Found, indices: Indices, stage: Stage, rows: _Rows) -> Launch:
    per = _NUMBERS[stage.value.dtype]
    each = 4 * per
    text = Text(found, found.entry_point, indices, taken=(*_OWN, *_LETTERS))
    for buffer in (str(rows.load.value), stage.buffer):
        text.bind(buffer, each, write=buffer == stage.buffer)
    axes, window_rows = [axis for axis in stage.spatial if axis is not rows.window], None
    if rows.window is not None:
        above = stage.spatial.index(rows.window) - 1
        extent = stage.spatial[above].extent if above >= 0 else None
        if isinstance(extent, int) and extent <= _FEW:
            window_rows = axes.pop(above)
    extents = [axis.extent for axis in axes]
    check_counts(indices, [axis.extent for axis in stage.spatial])
    lanes = min(found.threads, 256)
    invocations = times(*extents[:-1], rows.last.extent // each)
    grid, group = grid_of(ceildiv(invocations, lanes), -(-check_counts(indices, extents) // each // lanes) + 1)
    writer = text.writer()
    writer.line(f"let at = i32({group} * {lanes}u + local);")
    with writer.block(f"if (at >= {bare(writer.polynomial(indices.size(invocations)))}) {{"):
        writer.line("return;")
    decompose(writer, axes, each)
    # From here on it is the number of the vector.
    writer.variables[rows.last.variable] = writer.quad
    head = ""
    if window_rows is not None:
        name = writer.variables[window_rows.variable] = writer.names("row")
        head = f"for (var {name} = 0; {name} < {window_rows.extent}; {name}++) {{"
    with writer.block(head) if head else nullcontext():
        _lines(text, writer, stage, rows, per)
    arguments = [GROUP, GROUPS, LOCAL] if grid[1] != 1 else [GROUP, LOCAL]
    comment = f"{found.operator.name}: {_WORDS[each]} elements of a row an invocation, at each place of a window."
    if per == 2:
        comment += "\nA word is two numbers: where the first of a vector is the second of a word, words are shifted."
    return text.launch(writer, comment, arguments, lanes, grid)


def _lines(text: Text, writer: Writer, stage: Stage, rows: _Rows, per: int) -> None:
    """What is read, and written for each place of the window."""
    words = [[offset // per + more for more in range(5 if offset % per else 4)] for offset in rows.offsets]
    read = _read(text, writer, rows, sorted({word for some in words for word in some}), "u32" if per == 2 else "f32")
    access, last = text.accesses[stage.buffer], rows.last.variable
    to = text.indices.flat(stage.indices, access.shape)
    step = number(0)
    if rows.window is not None:
        step, to = to.coefficient(rows.window.variable) or step, to.without(rows.window.variable)
    vectors = to.without(last).divided(4 * per) + atom(last)
    begin = writer.let("to", writer.polynomial(vectors))
    for place, some in enumerate(words):
        four = _vector([read[word] for word in some[:4]], per)
        if len(some) > 4:
            more = _vector([read[word] for word in some[1:]], per)
            four = f"({four} >> vec4<u32>(16u)) | ({more} << vec4<u32>(16u))"
        behind = bare(writer.polynomial(step.divided(4 * per).scaled(place)))
        writer.line(f"{access.name}[{begin if behind == '0' else f'{begin} + {behind}'}] = {four};")


def _read(text: Text, writer: Writer, rows: _Rows, words: Sequence[int], kind: str) -> dict[int, tuple[str, str]]:
    """The text of each word: a name, and which of its components that is, "" for all of it."""
    access, own = text.accesses[str(rows.load.value)], writer.quad
    given = []
    if rows.given:
        condition = rows.given[0]
        for other in rows.given[1:]:
            condition = Expression("and", "bool", (condition, other))
        given.append(writer.let("given", writer.value(condition)))
    place = writer.let("place", writer.polynomial(rows.begin + atom(rows.last.variable)))
    count = rows.last.extent // (4 if kind == "f32" else 8)
    found: dict[int, tuple[str, str]] = {}
    for vector in sorted({word // 4 for word in words}):
        inside = [*given]
        if rows.first and vector < 0:
            inside.append(f"{own} >= {-vector}")
        if rows.end is not None and count + vector > rows.end:
            inside.append(f"{own} < {rows.end - vector}")
        parts = [word for word in words if word // 4 == vector]
        alone = f".{'xyzw'[parts[0] % 4]}" if len(parts) == 1 else ""
        name = writer.names("before" if vector < 0 else "after" if vector else "here")
        at = f"{place} {'-' if vector < 0 else '+'} {abs(vector)}" if vector else place
        if inside:
            chosen = inside[0] if len(inside) == 1 and given else writer.let(f"is_{name}", " && ".join(inside))
            zero = f"vec4<{kind}>()" if not alone else "0u" if kind == "u32" else "0.0f"
            writer.line(f"let {name} = select({zero}, {access.name}[select(0, {at}, {chosen})]{alone}, {chosen});")
        else:
            writer.line(f"let {name} = {access.name}[{at}]{alone};")
        found |= {word: (name, "" if alone else "xyzw"[word % 4]) for word in parts}
    return found


def _vector(words: Sequence[tuple[str, str]], per: int) -> str:
    """The text of four words as one vector."""
    merged: list[tuple[str, str]] = []
    for name, part in words:
        if merged and merged[-1][0] == name:
            merged[-1] = name, merged[-1][1] + part
        else:
            merged.append((name, part))
    if merged == [(merged[0][0], "xyzw")]:
        return merged[0][0]
    texts = [f"{name}.{part}" if part else name for name, part in merged]
    return texts[0] if len(merged[0][1]) == 4 else f"vec4<{'u32' if per == 2 else 'f32'}>({', '.join(texts)})"
