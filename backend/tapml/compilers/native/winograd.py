"""Convolutions of 3x3 windows that move by one, by fewer multiplications: Winograd's F(2x2, 3x3).

Squares of four by four elements of the image, two apart, and each window of weights become sixteen numbers; a product
over the channels for each of the sixteen takes the place of nine for each element, and four elements of the output are
sums of what the sixteen give. That is 16 multiplications for 36 (Lavin and Gray, Fast Algorithms for Convolutional
Neural Networks, CVPR 2016, section 4.1, whose matrices these are).

An element of the output is made of its own window alone, but each number in that meets sums of all nine weights: bounds
know that (tapml.bounds.windows).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tapml.compilers.native.contraction import TOTAL, Contraction
from tapml.compilers.native.elementwise import bind, decompose
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
from tapml.compilers.native.packed import MOST_BYTES, or_zero, sums_of, together
from tapml.compilers.native.polynomials import Indices, number
from tapml.compilers.native.remembered import Memory
from tapml.compilers.native.stages import Index, Stage, loads, rewritten, substituted, variable
from tapml.compilers.native.text import Writer
from tapml.compilers.native.words import bare, wgsl_type
from tapml.operators.program import Buffer, Expression, integer, zero

_WINDOW, _SQUARE, _STEP = 3, 4, 2
"""Elements along an axis of a window, of a square, and from one square to the next, which are those that it gives."""
LEAST_CHANNELS = 8
"""With fewer, nothing is gained, and bounds do not know of it."""

_SCALE = 0.25
"""By which the image's numbers are multiplied where they are float16: sums of four elements would overflow."""

_OWN = ("at", "group", "groups", "local", *"ijklmnop")


@dataclass(frozen=True)
class Winograd:
    """A way to share out a product, without parameters."""


WINOGRAD = Winograd()


@dataclass(frozen=True)
class Windows:
    """A convolution of windows. `image`: which factor is the image, "left" or "right"; `pairs`: the axes of the output
    along which windows move, each with that of the window; `channels`: what is summed besides."""

    image: str
    pairs: tuple[tuple[Index, Index], ...]
    channels: tuple[Index, ...]

    @property
    def squares(self) -> dict[str, int]:
        """By axis of the output, how many squares there are along it."""
        return {axis.variable: -(-int(axis.extent) // _STEP) for axis, _ in self.pairs}


def windows_of(found: Found, made: Contraction, indices: Indices) -> Windows | None:
    """The windows of a convolution that the algorithm is for; None where there are none."""
    if found.textures or made.groups is not None or made.rest is not None or made.dtype == "int32":
        return None
    # Of most products nothing more is asked.
    if sum(axis.extent == _WINDOW for axis in made.inner) < 2:
        return None
    for side, own in (("left", made.rows), ("right", made.columns)):
        places = sums_of(found, indices, getattr(made, side))
        pairs = []
        for window in made.inner:
            for axis in own if window.extent == _WINDOW else ():
                both = together(axis, window, places)
                if both is not None and both[0] == int(axis.extent) + _WINDOW - 1:
                    pairs.append((axis, window))
        if len(pairs) == 2 and len({part.variable for pair in pairs for part in pair}) == 4:
            windows = [window for _, window in pairs]
            channels = tuple(axis for axis in made.inner if axis not in windows)
            if math.prod(indices.greatest(axis.extent) for axis in channels) >= LEAST_CHANNELS:
                return Windows(side, tuple(pairs), channels)
    return None


def pays(windows: Windows, counts: tuple[int, int, int, int], *, halves: bool) -> bool:
    """Whether fewer multiplications are estimated to take less time, for all that is written and read between.
    `counts`: batches, rows, columns and points of the inner axis; `halves`: by subgroup matrices, which multiply so
    fast that there have to be many channels, and not so many that a large device's cache does not hold the weights. The
    numbers are those of 25 convolutions on an H200."""
    batch, rows, columns, inner = counts
    channels, others = inner // _WINDOW**2, columns if windows.image == "left" else rows
    if halves:
        return min(channels, others) >= 256 and batch * channels * others < 2**20
    return min(channels, others) >= 64 and batch * rows * columns * inner >= 2**28


@dataclass(frozen=True)
class Steps:
    """Of a convolution, with temporaries between them: dispatches that write what becomes of the weights and of the
    image, then the products and the output, each by itself as templates take it."""

    before: list[Launch]
    products: Found
    output: Found


def steps(found: Found, made: Contraction, indices: Indices, windows: Windows, dtype: str) -> Steps | None:
    """`dtype`: of what becomes of the factors. None where a temporary is too large."""
    image, weights = (made.left, made.right) if windows.image == "left" else (made.right, made.left)
    of_weights, of_image, of_products = temporaries = _temporaries(found, made, indices, windows, dtype)
    program = replace(found.program, temporaries=(*found.program.temporaries, *(one.buffer for one in temporaries)))
    found = replace(found, program=program)
    if any(indices.greatest(found.bytes_of(one.buffer.name)) > MOST_BYTES for one in temporaries):
        return None
    last = replace(found, part=found.part + 1)
    before = [
        _transformed(found, of_weights, _WINDOW, _weights_at(weights, windows), _of_weights),
        _transformed(last, of_image, _SQUARE, _image_at(found, indices, image, windows), _of_image),
    ]
    term = Expression("mul", "float32", (_as("float32", of_weights.load), _as("float32", of_image.load)))
    written = of_products.buffer.name, (*_SQUARES, *of_products.axes), of_products.load.operands
    products = Stage(*written, term, windows.channels, "add", zero("float32"))
    total = _of_output(of_products.load, windows)
    if dtype == "float16":
        total = Expression("mul", "float32", (total, Expression("constant", "float32", (), 1 / _SCALE)))
    total = _as(made.dtype, total)
    finish = rewritten(made.finish, lambda part: total if part.kind == "variable" and part.value == TOTAL else None)
    output = Stage(str(made.stored.value), made.axes, made.stored.operands, finish)
    by_themselves = [
        replace(found, stages=[stage], outputs=[stage.buffer], part=found.part + len(before), memory=Memory())
        for stage in (products, output)
    ]
    return Steps(before, *by_themselves)


_SQUARES = Index("square_row", _SQUARE), Index("square_column", _SQUARE)
"""The first axes of each temporary, of its sixteen numbers."""


@dataclass(frozen=True)
class _Temporary:
    """`axes`: those behind the first two; `load`: of the element at all of them."""

    buffer: Buffer
    axes: Sequence[Index]
    load: Expression


def _temporaries(
    found: Found, made: Contraction, indices: Indices, windows: Windows, dtype: str
) -> tuple[_Temporary, _Temporary, _Temporary]:
    """Of the weights, of the image, and of the products."""
    image, own, others = made.left, made.rows, made.columns
    if windows.image == "right":
        image, own, others = made.right, made.columns, made.rows
    squares = [_halved(axis, windows) for axis in own]
    # As the image lies: channels last or not.
    lines = [*squares, *windows.channels] if _along(found, indices, image, windows) else [*windows.channels, *squares]

    def temporary(what: str, dtype: str, axes: Sequence[Index]) -> _Temporary:
        every = (*_SQUARES, *axes)
        buffer = Buffer(f"{what} of {found.entry_point}", dtype, tuple(axis.extent for axis in every))
        places = tuple(variable(axis.variable) for axis in every)
        return _Temporary(buffer, axes, Expression("load", dtype, places, buffer.name))

    return (
        temporary("weights", dtype, [*made.batch, *others, *windows.channels]),
        temporary("image", dtype, [*made.batch, *lines]),
        temporary("products", "float32", [_halved(axis, windows) for axis in made.axes]),
    )


def _halved(axis: Index, windows: Windows) -> Index:
    return replace(axis, extent=windows.squares.get(axis.variable, axis.extent))


def _along(found: Found, indices: Indices, image: Expression, windows: Windows) -> bool:
    """Whether the image's channels lie beside each other."""
    places = [indices.flat(load.operands, found.buffers[str(load.value)].shape) for load in loads(image)]
    given = [place.coefficient(axis.variable) for place in places for axis in windows.channels[-1:]]
    return any(step is not None and step.constant == 1 for step in given)


def _as(dtype: str, value: Expression) -> Expression:
    return value if value.dtype == dtype else Expression("cast", dtype, (value,))


# ------------------------------------------------ weights and image


Element = Callable[[int, int], Expression]
"""The value at a row and a column of a square or a window."""


def _transformed(
    found: Found,
    temporary: _Temporary,
    length: int,
    element: Element,
    of_line: Callable[[Sequence[str]], Sequence[str]],
) -> Launch:
    """The dispatch that writes the sixteen numbers of each window or square: `of_line` gives the texts of four numbers
    for those of a line, and is taken along columns, then along rows."""
    indices, axes = found.indices([]), temporary.axes
    for axis in axes:
        indices.declare(axis.variable, axis.extent)
    text = Text(found, found.entry_point, indices, taken=_OWN)
    values = [[element(row, column) for column in range(length)] for row in range(length)]
    bind(text, [value for line in values for value in line], None)
    access = text.bind(temporary.buffer.name, write=True)
    writer = text.writer()
    extents = [axis.extent for axis in axes]
    most, lanes = check_counts(indices, [_SQUARE * _SQUARE, *extents]), min(found.threads, 256)
    grid, group = grid_of(ceildiv(times(*extents), lanes), -(-most // (_SQUARE * _SQUARE * lanes)) + 1)
    count = bare(writer.polynomial(product(indices, extents)))
    writer.line(f"let at = i32({group} * {lanes}u + local);")
    with writer.block(f"if (at >= {count}) {{"):
        writer.line("return;")
    decompose(writer, axes, 1)
    for value in (value for line in values for value in line):
        writer.expect(value)
    given = [[writer.let("given", bare(writer.value(value))) for value in line] for line in values]
    down = [[_named(writer, one) for one in of_line(column)] for column in zip(*given, strict=True)]
    kind, scale = wgsl_type(access.dtype), _SCALE if length == _SQUARE else 1
    for row, line in enumerate(zip(*down, strict=True)):
        for place, one in enumerate(of_line(line)):
            written = one if access.dtype == "float32" else f"{kind}({one if scale == 1 else f'{scale} * ({one})'})"
            nth = row * _SQUARE + place
            writer.line(f"{access.name}[{f'{nth} * {count} + ' if nth else ''}at] = {written};")
    arguments = [GROUP, GROUPS, LOCAL] if grid[1] != 1 else [GROUP, LOCAL]
    what = "window of weights" if length == _WINDOW else "square of the image"
    comment = f"{found.operator.name}: the sixteen numbers of a {what} an invocation."
    return text.launch(writer, comment, arguments, lanes, grid)


def _named(writer: Writer, text: str) -> str:
    return text if text.isidentifier() else writer.let("down", text)


def _of_weights(line: Sequence[str]) -> Sequence[str]:
    """A line of G g."""
    a, b, c = line
    return a, f"0.5 * (({a} + {c}) + {b})", f"0.5 * (({a} + {c}) - {b})", c


def _of_image(line: Sequence[str]) -> Sequence[str]:
    """A line of B^T d."""
    a, b, c, d = line
    return f"{a} - {c}", f"{b} + {c}", f"{c} - {b}", f"{b} - {d}"


def _weights_at(weights: Expression, windows: Windows) -> Element:
    (_, down), (_, across) = windows.pairs
    return lambda row, column: substituted(weights, {down.variable: integer(row), across.variable: integer(column)})


def _image_at(found: Found, indices: Indices, image: Expression, windows: Windows) -> Element:
    """Without branches, which would wait for one number after the other: what is not there is read elsewhere, and not
    taken."""

    def element(*places: int) -> Expression:
        given, beyond = dict[str, Expression](), list[tuple[Expression, int]]()
        for (axis, window), place in zip(windows.pairs, places, strict=True):
            moved = _of_indices("add", _of_indices("mul", variable(axis.variable), _STEP), place)
            given |= {axis.variable: moved, window.variable: integer(0)}
            count = int(axis.extent) + _WINDOW - 1
            if _STEP * (windows.squares[axis.variable] - 1) + place >= count:
                beyond.append((moved, count))
        value = substituted(image, given)
        for moved, count in beyond:
            value = or_zero(indices, moved, count, value)
        return _without_branches(found, own, value)

    own = indices.copy()
    for axis, _ in windows.pairs:
        own.declare(axis.variable, windows.squares[axis.variable])
    own.forget()
    return element


def _without_branches(found: Found, indices: Indices, root: Expression) -> Expression:
    def change(part: Expression) -> Expression | None:
        if part.kind == "if_then_else":
            return Expression("select", part.dtype, tuple(rewritten(one, change) for one in part.operands))
        if part.kind != "load" or loads(*part.operands):
            return None
        shape = found.buffers[str(part.value)].shape
        place, last = indices.flat(part.operands, shape), product(indices, shape) - number(1)
        low, inside = indices.low(place), indices.expression(place)
        if low is None or low < 0:
            inside = _of_indices("max", inside, 0)
        if not indices.not_negative(last - indices.most(place)):
            inside = _of_indices("min", inside, indices.expression(last))
        return replace(part, operands=(*(integer(0) for _ in shape[1:]), inside))

    return rewritten(root, change)


def _of_indices(kind: str, a: Expression, b: Expression | int) -> Expression:
    return Expression(kind, "int64", (a, integer(b) if isinstance(b, int) else b))


# ------------------------------------------------ output


def _of_output(load: Expression, windows: Windows) -> Expression:
    """A^T m A: an even element is the sum of numbers 0, 1 and 2, an odd one number 1 without numbers 2 and 3."""
    halves = {axis.variable: _of_indices("floordiv", variable(axis.variable), _STEP) for axis, _ in windows.pairs}
    places, signs = [], []
    for axis, _ in windows.pairs:
        odd = _of_indices("floormod", variable(axis.variable), _STEP)
        places.append((integer(1), integer(2), _of_indices("mul", odd, 3)))
        ones = [Expression("constant", "float32", (), value) for value in (1.0, -1.0)]
        signs.append(Expression("select", "float32", (Expression("eq", "bool", (odd, integer(0))), *ones)))

    def summed(each: Sequence[Expression], sign: Expression) -> Expression:
        rest = Expression("add", "float32", (each[1], each[2]))
        return Expression("add", "float32", (each[0], Expression("mul", "float32", (sign, rest))))

    def element(row: Expression, column: Expression) -> Expression:
        return substituted(load, {**halves, _SQUARES[0].variable: row, _SQUARES[1].variable: column})

    return summed([summed([element(row, column) for column in places[1]], signs[1]) for row in places[0]], signs[0])
