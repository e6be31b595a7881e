"""Where elements of a tensor lie in buffers and textures: ML Drift's tensor virtualisation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapml.compilers.native.layouts import (
    KINDS,
    WEIGHT_KINDS,
    WEIGHT_PIECES,
    Layout,
    tensor_layout,
    weights_layout,
)
from tapml.compilers.native.textures import Texture
from tapml.errors import InputError

PAGE = Path(__file__).parents[2] / "docs/kernels.md"


def documented() -> dict[str, list[Any]]:
    """The table of docs/kernels.md: of each layout the object, coordinates and channel of an element (b, h, w, d, c)
    of a tensor of B, H, W, D, C, in S slices."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line[1:-1].split("|")]
        if len(cells) == 5 and cells[0] in KINDS:
            found[cells[0]] = [compile(cell or "0", "docs", "eval") for cell in cells[2:]]
    return found


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    """Each element another number, none of them 0."""
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def holds(layout: Layout, array: np.ndarray) -> None:
    """Each element is where the layout says, all else is zeros, and the tensor can be read back."""
    objects = layout.pack(array)
    assert len(objects) == layout.count
    found = 0
    for indices in np.ndindex(*array.shape):
        number, (x, y, z), channel = layout.at(indices)
        assert objects[number][z, y, x, channel] == array[indices], (layout, indices)
        found += 1
    assert sum(np.count_nonzero(one) for one in objects) == found == array.size, "two elements in one place"
    np.testing.assert_array_equal(layout.unpack(objects), array)
    if layout.texture is not None:
        width, height, depth = layout.texture.size
        assert {one.shape for one in objects} == {(depth, height, width, layout.channels)}


def test_a_tensor_of_1_2_3_5_lies_in_four_ways() -> None:
    """The figure of the paper: five channels are two slices, and the last three of the second are zeros."""
    shape = (1, 2, 3, 5)
    assert tensor_layout("slices", shape).pack(numbered(shape))[0].shape == (1, 1, 12, 4)
    assert tensor_layout("texture-2d", shape).texture == Texture("2d", (3, 4, 1), 4)
    assert tensor_layout("texture-2d-array", shape).texture == Texture("2d-array", (3, 2, 2), 4)
    assert tensor_layout("texture-3d", shape).texture == Texture("3d", (3, 2, 2), 4)
    (image,) = tensor_layout("texture-2d", shape).pack(numbered(shape))
    # Of the first row: channels 0 to 3 of its three pixels, then channel 4 and zeros.
    assert image[0, 0].tolist() == [[1, 2, 3, 4], [6, 7, 8, 9], [11, 12, 13, 14]]
    assert image[0, 1].tolist() == [[5, 0, 0, 0], [10, 0, 0, 0], [15, 0, 0, 0]]
    for kind in KINDS:
        holds(tensor_layout(kind, shape), numbered(shape))


def test_weights_of_5_2_1_7_are_four_textures() -> None:
    """The figure of the paper: five outputs are two slices, seven inputs two, each texture has a texel of four inputs
    for one of the four outputs of a slice."""
    weights = numbered((5, 2, 1, 7))
    layout = weights_layout("four-textures-2d", weights.shape, "OHWI")
    assert layout.texture == Texture("2d", (2, 4, 1), 4, objects=4)
    textures = layout.pack(weights)
    # Output 4 is the first of the second slice; places of the window are rows of two slices of inputs.
    assert textures[0][0, 2, 1].tolist() == weights[4, 1, 0, :4].tolist()
    assert textures[0][0, 3, 1].tolist() == [*weights[4, 1, 0, 4:], 0]
    assert textures[1][0, :, 1].tolist() == [[0, 0, 0, 0]] * 4, "there is no output 5"
    holds(layout, weights)
    by_outputs = weights_layout("four-textures-2d", weights.shape, "OHWI", within="O4")
    assert by_outputs.pack(weights)[2][0, 1, 0].tolist() == weights[:4, 0, 0, 6].tolist()
    holds(by_outputs, weights)


@pytest.mark.parametrize("kind", KINDS)
def test_elements_are_where_the_table_says(kind: str) -> None:
    generator = np.random.default_rng(KINDS.index(kind))
    table = documented()[kind]
    for _ in range(20):
        b, h, w, d, c = (int(n) for n in generator.integers(1, [4, 5, 5, 4, 14]))
        layout = tensor_layout(kind, (b, h, w, d, c))
        holds(layout, numbered((b, h, w, d, c)))
        for indices in np.ndindex(b, h, w, d, c):
            names = dict(zip("bhwdcBHWDCS", (*indices, b, h, w, d, c, -(-c // 4)), strict=True))
            number, place, channel = (eval(cell, {}, names) for cell in table)
            place = (*place, 0, 0)[:3] if isinstance(place, tuple) else (place, 0, 0)
            assert layout.at(indices) == (number, place, channel), (layout.shape, indices)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "roles"), [((7,), None), ((3, 6), None), ((2, 3, 9), None), ((2, 5, 3, 4), "BCHW"),
                                              ((2, 3, 2, 2, 3, 5), None), ((3, 2, 6), "CBW")])  # fmt: skip
def test_axes_have_roles(kind: str, shape: tuple[int, ...], roles: str | None) -> None:
    holds(tensor_layout(kind, shape, roles), numbered(shape))


ORDERS = [(*order, within) for within in ("O4", "I4") for order in
          itertools.permutations([piece for piece in WEIGHT_PIECES if piece != within])]  # fmt: skip


def test_weights_lie_in_any_order_of_their_pieces() -> None:
    weights = numbered((2, 5, 2, 1, 3))
    layouts = [weights_layout("slices", weights.shape, "GOHWI", order[-1], order) for order in ORDERS]
    assert len({layout.order for layout in layouts}) == 240
    for layout in layouts:
        holds(layout, weights)
        (texels,) = layout.pack(weights)
        # As the definition has it: cut, padded, and put into that order.
        whole = np.pad(weights.reshape(2, 5, 2, 3), [(0, 0), (0, 3), (0, 0), (0, 1)])
        cut = whole.reshape(2, 2, 4, 2, 1, 4)
        moved = cut.transpose([WEIGHT_PIECES.index(name) for name in layout.order])
        np.testing.assert_array_equal(texels.reshape(-1), moved.reshape(-1))


@pytest.mark.parametrize("within", ["O4", "I4"])
@pytest.mark.parametrize("kind", WEIGHT_KINDS)
@pytest.mark.parametrize(("shape", "roles"), [((5, 7), "OI"), ((7, 5), "IO"), ((2, 7, 5), "GIO"),
                                              ((6, 3, 2, 3), "OIHW"), ((3, 2, 9, 4), "HWIO"),
                                              ((4, 3, 1, 2, 3), "OIDHW"), ((4, 8), "OI")])  # fmt: skip
def test_weights_lie_in_every_kind_of_object(kind: str, within: str, shape: tuple[int, ...], roles: str) -> None:
    holds(weights_layout(kind, shape, roles, "O4" if within == "O4" else "I4"), numbered(shape))


def test_the_words_of_a_kernel_say_where_an_element_is() -> None:
    assert tensor_layout("texture-2d", (2, 3, 4, 5)).described() == "texture-2d ((w * D + d) * B + b, h * S + s)[c4]"
    assert tensor_layout("textures-2d", (2, 3, 4, 5)).described() == "textures-2d s: ((w * D + d) * B + b, h)[c4]"
    assert (
        tensor_layout("texture-2d-of-ones", (4, 5)).described() == "texture-2d-of-ones ((w * D + d) * B + b, h * C + c)"
    )
    assert (
        weights_layout("four-textures-2d", (4, 5), "OI").described()
        == "four-textures-2d o4: (g * SO + so, hwd * SI + si)[i4]"
    )


@pytest.mark.parametrize(("call", "why"), [
    (lambda: tensor_layout("texture-1d", (2, 3)), "no layout texture-1d of tensors: give one of rows, slices,"),
    (lambda: tensor_layout("rows", (2, 3), "BHW"), r"a tensor of shape \[2, 3\] has no axes BHW: give one of BHWDC"),
    (lambda: tensor_layout("rows", (2, 3), "OI"), "has no axes OI"),
    (lambda: tensor_layout("rows", (2, 0)), "none empty"),
    (lambda: weights_layout("textures-2d", (2, 3), "OI"), "no layout textures-2d of weights"),
    (lambda: weights_layout("slices", (2, 3), "OI", "I4", ("G", "SO")), "is no order of G, SO, O4, HWD, SI, I4"),
])  # fmt: skip
def test_what_is_no_layout_is_told(call: Callable[[], Layout], why: str) -> None:
    with pytest.raises(InputError, match=why):
        call()
