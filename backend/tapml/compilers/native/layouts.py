"""How a tensor lies in buffers and textures: ML Drift's tensor virtualisation.

A kernel speaks of elements, `x[b, h, w, c]`. A *layout* says which object holds one, at which texel, in which of its
channels. Everything follows from one description: the tensor's axes are cut into pieces (`C` into slices `S` of four
channels `C4`), and the pieces are put together again, row-major, to coordinates. Each of these is a number in mixed
radix: `W` and `B` together are `w * B + b`.

docs/kernels.md has the table of all of them. Channels beyond the last one, up to the end of its slice, are zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tapml.compilers.native.textures import TEXEL, Dimension, Texture
from tapml.errors import InputError
from tapml.operators.program import Expression, integer

ROLES = "GOBHWDIC"
"""What an axis of a tensor may be: batch, height, width, depth and channels; of weights groups, outputs and inputs."""


@dataclass(frozen=True)
class Piece:
    """A part of an axis: index `value` of the axis is `value // divisor % extent` of the piece."""

    role: str
    divisor: int
    extent: int
    whole: bool = False
    """Whether it is all of the axis."""


@dataclass(frozen=True)
class Layout:
    """`pieces` by name; `objects`, `z`, `y`, `x`: the names whose numbers in mixed radix are the coordinates; `texel`:
    the one that is the channel of a texel, "" where a texel is one element. A buffer has only `x`.

    `shape` of the tensor, and the role of each of its axes: several with one role count as one, row-major.
    """

    name: str
    shape: tuple[int, ...]
    roles: str
    pieces: Mapping[str, Piece]
    dimension: Dimension | None
    x: tuple[str, ...]
    y: tuple[str, ...] = ()
    z: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    texel: str = ""

    def __hash__(self) -> int:
        return hash((self.name, self.shape, self.roles, self.objects, self.z, self.y, self.x, self.texel))

    @property
    def order(self) -> tuple[str, ...]:
        """The pieces, as elements lie behind each other in memory."""
        return (*self.objects, *self.z, *self.y, *self.x, *([self.texel] if self.texel else []))

    @property
    def extents(self) -> tuple[int, ...]:
        """Of the pieces in their order: the tensor's shape as it lies, with the channels that are zeros."""
        return tuple(self.pieces[name].extent for name in self.order)

    @property
    def channels(self) -> int:
        """Of a texel."""
        return self.pieces[self.texel].extent if self.texel else 1

    @property
    def count(self) -> int:
        """Of objects."""
        return self._size(self.objects)

    @property
    def texture(self) -> Texture | None:
        """That each object is; None for buffers."""
        if self.dimension is None:
            return None
        size = self._size(self.x), self._size(self.y), self._size(self.z)
        return Texture(self.dimension, size, self.channels, self.count)

    def _size(self, names: Sequence[str]) -> int:
        return math.prod(self.pieces[name].extent for name in names)

    # ------------------------------------------------ translation

    def of_roles(self, indices: Sequence[int]) -> dict[str, int]:
        """Where an element is along each role."""
        found: dict[str, int] = {}
        for role, extent, index in zip(self.roles, self.shape, indices, strict=True):
            found[role] = found.get(role, 0) * extent + index
        return found

    def at(self, indices: Sequence[int]) -> tuple[int, tuple[int, int, int], int]:
        """The object of an element, its coordinates (x, y, z), and the channel of the texel."""
        along = self.of_roles(indices)

        def number(names: Sequence[str]) -> int:
            found = 0
            for name in names:
                piece = self.pieces[name]
                found = found * piece.extent + along.get(piece.role, 0) // piece.divisor % piece.extent
            return found

        place = number(self.x), number(self.y), number(self.z)
        return number(self.objects), place, number([self.texel] if self.texel else [])

    def described(self) -> str:
        """Where an element is: `texture-2d ((w * D + d) * B + b, h * S + s)[c4]`."""

        def sum_of(names: Sequence[str]) -> str:
            text = ""
            for name in names:
                piece = name.lower()
                text = (
                    f"({text}) * {name} + {piece}" if " " in text else f"{text} * {name} + {piece}" if text else piece
                )
            return text or "0"

        axes = [self.x] if self.dimension is None else [self.x, self.y, *([] if self.dimension == "2d" else [self.z])]
        place = ", ".join(map(sum_of, axes))
        texel = f"[{self.texel.lower()}]" if self.texel else ""
        objects = f"{sum_of(self.objects)}: " if self.objects else ""
        return f"{self.name} {objects}({place}){texel}"

    # ------------------------------------------------ expressions

    def lies_at(self, indices: Sequence[Expression]) -> tuple[Expression, ...]:
        """Along each piece, in their order, of the element at these indices."""
        along: dict[str, Expression] = {}
        for role, extent, index in zip(self.roles, self.shape, indices, strict=True):
            before = along.get(role)
            along[role] = index if before is None else _sum(_times(before, extent), index)
        return tuple(_part(along.get(self.pieces[name].role), self.pieces[name]) for name in self.order)

    def holds(self, places: Sequence[Expression]) -> tuple[tuple[Expression, ...], list[tuple[Expression, int]]]:
        """Of the place along each piece, in their order: the indices of the element there, and what has to be below
        which extent, for else there is none."""
        at = dict(zip(self.order, places, strict=True))
        along: dict[str, Expression] = {}
        ends: list[tuple[Expression, int]] = []
        for role in dict.fromkeys(self.roles):
            names = self._of_role(role)
            for name in names:
                found = _times(at[name], self.pieces[name].divisor)
                along[role] = _sum(along[role], found) if role in along else found
            size = math.prod(extent for extent, own in zip(self.shape, self.roles, strict=True) if own == role)
            if self._size(names) > size:
                ends.append((along[role], size))
        indices = []
        for axis, (role, extent) in enumerate(zip(self.roles, self.shape, strict=True)):
            behind = math.prod(
                n for n, own in zip(self.shape[axis + 1 :], self.roles[axis + 1 :], strict=True) if own == role
            )
            found = along[role] if behind == 1 else Expression("floordiv", "int64", (along[role], integer(behind)))
            if role in self.roles[:axis]:
                found = Expression("floormod", "int64", (found, integer(extent)))
            indices.append(found)
        return tuple(indices), ends

    # ------------------------------------------------ numpy

    def pack(self, given: NDArray[np.generic]) -> list[NDArray[np.generic]]:
        """The contents of each object, of shape (z, y, x, channels); x alone is not 1 for buffers."""
        roles = sorted(set(self.roles), key=self.roles.index)
        merged = [[axis for axis, role in enumerate(self.roles) if role == wanted] for wanted in roles]
        array = given.reshape(self.shape).transpose([axis for axes in merged for axis in axes])
        array = array.reshape([math.prod(self.shape[axis] for axis in axes) for axes in merged])
        names = {role: self._of_role(role) for role in [*roles, *self._others(roles)]}
        # What no axis is has one element; the tail of the last slice is zeros.
        array = array.reshape([*array.shape, *[1] * (len(names) - len(roles))])
        wanted = [math.prod(self.pieces[name].extent for name in found) for found in names.values()]
        array = np.pad(array, [(0, most - now) for most, now in zip(wanted, array.shape, strict=True)])
        flat = [name for found in names.values() for name in found]
        array = array.reshape([self.pieces[name].extent for name in flat])
        array = array.transpose([flat.index(name) for name in self.order])
        sizes = self.count, self._size(self.z), self._size(self.y), self._size(self.x), self.channels
        return [np.ascontiguousarray(one) for one in array.reshape(sizes)]

    def unpack(self, objects: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
        """The tensor that lies there."""
        array = np.stack(objects).reshape(self.extents)
        found = np.empty(self.shape, array.dtype)
        for indices in np.ndindex(*self.shape):
            along = self.of_roles(indices)
            pieces = [self.pieces[name] for name in self.order]
            found[indices] = array[tuple(along.get(p.role, 0) // p.divisor % p.extent for p in pieces)]
        return found

    def _of_role(self, role: str) -> list[str]:
        """Pieces of an axis, the outermost first."""
        found = [name for name, piece in self.pieces.items() if piece.role == role]
        return sorted(found, key=lambda name: -self.pieces[name].divisor)

    def _others(self, roles: Sequence[str]) -> list[str]:
        return sorted({piece.role for piece in self.pieces.values()} - set(roles))


def _part(along: Expression | None, piece: Piece) -> Expression:
    """What a piece is of an index."""
    if along is None or piece.extent == 1:
        return integer(0)
    if piece.divisor > 1:
        return Expression("floordiv", "int64", (along, integer(piece.divisor)))
    return along if piece.whole else Expression("floormod", "int64", (along, integer(piece.extent)))


def _times(found: Expression, by: int) -> Expression:
    return found if by == 1 else Expression("mul", "int64", (found, integer(by)))


def _sum(a: Expression, b: Expression) -> Expression:
    return Expression("add", "int64", (a, b))


# ------------------------------------------------ tensors

KINDS: tuple[str, ...] = (
    "rows", "slices", "texture-2d", "texture-2d-array", "texture-3d", "textures-2d", "texture-2d-of-ones",
)  # fmt: skip
"""Layouts of tensors."""


def tensor_layout(kind: str, shape: Sequence[int], roles: str | None = None) -> Layout:
    """The layout of a tensor whose axes have these roles of "BHWDC": by default the last ones of BHWC (of five axes
    BHWDC), and more axes before them are batches. Raises InputError for roles that do not fit the shape, and for kinds
    that there are not."""
    roles = roles if roles is not None else _default_roles(len(shape))
    size = _sizes(shape, roles, "BHWDC")
    whole = {role: Piece(role, 1, size[role], whole=True) for role in "BHWDC"}
    cut = {**whole, **_slices("S", "C4", "C", size["C"])}
    del cut["C"]
    given = tuple(shape), roles
    match kind:
        case "rows":
            return Layout(kind, *given, whole, None, ("B", "H", "W", "D", "C"))
        case "slices":
            return Layout(kind, *given, cut, None, ("S", "H", "W", "D", "B"), texel="C4")
        case "texture-2d":
            return Layout(kind, *given, cut, "2d", ("W", "D", "B"), ("H", "S"), texel="C4")
        case "texture-2d-array":
            return Layout(kind, *given, cut, "2d-array", ("W", "B"), ("H",), ("D", "S"), texel="C4")
        case "texture-3d":
            return Layout(kind, *given, cut, "3d", ("W", "B"), ("H",), ("D", "S"), texel="C4")
        case "textures-2d":
            return Layout(kind, *given, cut, "2d", ("W", "D", "B"), ("H",), objects=("S",), texel="C4")
        case "texture-2d-of-ones":
            return Layout(kind, *given, whole, "2d", ("W", "D", "B"), ("H", "C"))
    raise InputError(f"there is no layout {kind} of tensors: give one of {', '.join(KINDS)}")


def _default_roles(rank: int) -> str:
    if rank <= 4:
        return "BHWC"[4 - rank :]
    return "B" * (rank - 4) + "HWDC"


# ------------------------------------------------ weights

WEIGHT_PIECES = ("G", "SO", "O4", "HWD", "SI", "I4")
"""Groups, slices of four outputs, outputs of a slice, the window, slices of four inputs, inputs of a slice."""

Within = Literal["O4", "I4"]
"""What the channels of a texel are."""

WEIGHT_KINDS: tuple[str, ...] = ("slices", "texture-2d", "texture-2d-array", "texture-3d", "four-textures-2d")


def weights_layout(
    kind: str, shape: Sequence[int], roles: str, within: Within = "I4", order: Sequence[str] = ()
) -> Layout:
    """The layout of weights whose axes have these roles of "GOHWDI", as `OHWI` or `OIHW`; of a matrix `OI` or `IO`.

    `order`: of a buffer, the pieces in the order in which they lie behind each other, `within` the last; by default
    G, S_O, HWD, S_I and the piece of four that is not in a texel. `four-textures-2d` has a texture for each number of
    that one: the four texels at one place are a square of four outputs by four inputs. Raises InputError.
    """
    size = _sizes(shape, roles, "GOHWDI")
    window = size["H"] * size["W"] * size["D"]
    pieces = {
        "G": Piece("G", 1, size["G"], whole=True),
        **_slices("SO", "O4", "O", size["O"]),
        "HWD": Piece("H", 1, window, whole=True),
        **_slices("SI", "I4", "I", size["I"]),
    }
    other = "O4" if within == "I4" else "I4"
    # The window is one axis: H, W and D behind each other, row-major, wherever they stand.
    given = tuple(shape), "".join("H" if role in "HWD" else role for role in roles)
    match kind:
        case "slices":
            found = tuple(order) or ("G", "SO", "HWD", "SI", other, within)
            if sorted(found) != sorted(WEIGHT_PIECES) or found[-1] != within:
                raise InputError(f"{found} is no order of {', '.join(WEIGHT_PIECES)} that ends with {within}")
            return Layout(kind, *given, pieces, None, found[:-1], texel=within)
        case "texture-2d":
            return Layout(kind, *given, pieces, "2d", ("SI", other, "HWD"), ("G", "SO"), texel=within)
        case "texture-2d-array":
            return Layout(kind, *given, pieces, "2d-array", ("SI", other), ("G", "SO"), ("HWD",), texel=within)
        case "texture-3d":
            return Layout(kind, *given, pieces, "3d", ("SI", other), ("G", "SO"), ("HWD",), texel=within)
        case "four-textures-2d":
            return Layout(kind, *given, pieces, "2d", ("G", "SO"), ("HWD", "SI"), objects=(other,), texel=within)
    raise InputError(f"there is no layout {kind} of weights: give one of {', '.join(WEIGHT_KINDS)}")


def _slices(slices: str, within: str, role: str, size: int) -> dict[str, Piece]:
    return {slices: Piece(role, TEXEL, -(-size // TEXEL)), within: Piece(role, 1, TEXEL)}


def _sizes(shape: Sequence[int], roles: str, known: str) -> dict[str, int]:
    if len(roles) != len(shape) or not set(roles) <= set(known) or any(extent < 1 for extent in shape):
        raise InputError(f"a tensor of shape {[*shape]} has no axes {roles}: give one of {known} for each, none empty")
    return {role: math.prod(n for n, own in zip(shape, roles, strict=True) if own == role) for role in known}
