"""Textures between the launches of a variant: in documents and in WGSL texts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tapml.errors import InputError
from tapml.kernels.bundle import bindings, requirements
from tapml.kernels.document import as_generated, is_edited, kernel_document
from tapml.kernels.textures import texture_limits

Document = dict[str, Any]

PACK = """\
@group(0) @binding(1) var t : texture_storage_2d_array<rgba32float, write>;
@group(0) @binding(0) var<storage, read> x : array<f32>;
@compute @workgroup_size(1) fn pack() { textureStore(t, vec2(0, 0), 0, vec4(x[0])); }
"""
READ = """\
@group(0) @binding(0) var t : texture_2d_array < f32 > ;
@group(0) @binding(2) var<storage, read_write> y : array<f32>;
@compute @workgroup_size(1) fn read() { y[0] = textureLoad(t, vec2(0, 0), 0, 0).x; }
"""


def document() -> Document:
    points = [
        {"name": name, "file": f"{name}.wgsl", "workgroup_size": [1, 1, 1], "bindings": bindings(text)}
        for name, text in (("pack", PACK), ("read", READ))
    ]
    launches = [
        {"entry_point": "pack", "operands": [{"argument": 0}, {"texture": 0}], "uniforms": [], "grid": [1, 1, 1]},
        {"entry_point": "read", "operands": [{"texture": 0}, {"argument": 1}], "uniforms": [], "grid": [1, 1, 1]},
    ]
    variant = {
        "name": "textures",
        "requires": {"features": [], "limits": {}},
        "entry_points": points,
        "launches": launches,
        "temporaries": [],
        "textures": [{"dimension": "2d-array", "format": "rgba32float", "size": [1, "n", ["ceildiv", "n", 4]]}],
    }
    tensor = {"dtype": "float32", "shape": ["n"]}
    return {
        "format": "tapml.kernel/4",
        "kernel": "copy",
        "compiler": {"name": "external", "version": "1"},
        "symbols": [{"name": "n", "minimum": 1, "maximum": 8}],
        "arguments": [{"name": "x", "role": "input", **tensor}, {"name": "y", "role": "output", **tensor}],
        "numerics": {"accumulation_length": 0, "builtins": [], "operations": 1},
        "variants": [variant],
        "unsupported": None,
    }


def test_bindings_of_textures_are_read_off_a_text() -> None:
    assert [found.get("texture") for found in bindings(PACK)] == [
        None,
        {"dimension": "2d-array", "numbers": "f32", "format": "rgba32float"},
    ]
    assert [found["access"] for found in bindings(PACK)] == ["read", "write"]
    assert bindings(READ)[0]["texture"] == {"dimension": "2d-array", "numbers": "f32"}


def test_a_device_must_offer_as_many_and_as_large() -> None:
    limits = requirements([PACK, READ], 16)["limits"]
    assert limits["maxStorageBuffersPerShaderStage"] == 1
    assert limits["maxSampledTexturesPerShaderStage"] == limits["maxStorageTexturesPerShaderStage"] == 1
    sizes = [("2d", [300, 5, 1]), ("2d-array", [7, 400, 99]), ("3d", [8, 9, 700])]
    assert texture_limits([{"dimension": dimension, "size": size} for dimension, size in sizes]) == {
        "maxTextureDimension2D": 400,
        "maxTextureArrayLayers": 99,
        "maxTextureDimension3D": 700,
    }


def test_a_document_with_textures_is_read() -> None:
    read = kernel_document(Path("copy.json"), document())
    assert read["variants"][0]["textures"] == document()["variants"][0]["textures"]


def test_another_texture_is_an_edit() -> None:
    made = as_generated(document())
    assert not is_edited(made)
    made["variants"][0]["textures"][0]["format"] = "rgba16float"
    assert is_edited(made)


def variant(found: Document) -> Any:
    return found["variants"][0]


@pytest.mark.parametrize(("change", "words"), [
    (lambda d: variant(d)["textures"].clear(), "launches[0].operands[1].texture: there are 0"),
    (lambda d: variant(d)["textures"][0].update(dimension="3d"), "binding 1 is 2d-array, and the texture 3d"),
    (lambda d: variant(d)["textures"][0].update(format="rgba16float"), "binding 1 writes rgba32float, and the"),
    (lambda d: variant(d)["textures"][0].update(format="rgba8unorm"), "textures[0].format"),
    (lambda d: variant(d)["textures"][0].update(size=[1, 2]), "textures[0].size"),
    (lambda d: variant(d)["textures"][0]["size"].__setitem__(0, "m"), "textures[0].size[0]: there is no symbol m"),
    (lambda d: variant(d)["launches"][1]["operands"].__setitem__(0, {"argument": 0}), "is a texture, and a buffer is"),
    (lambda d: variant(d)["launches"][0]["operands"].__setitem__(0, {"texture": 0}), "is a buffer, and a texture is"),
    (lambda d: variant(d)["entry_points"][1]["bindings"][0]["texture"].update(numbers="i32"), "has i32, and a texture"),
    (lambda d: variant(d)["entry_points"][1]["bindings"][0].update(access="read_write"), "is read or written, not"),
    (lambda d: variant(d)["entry_points"][0]["bindings"][1].update(access="read"), "one that is read has none"),
    (lambda d: variant(d)["entry_points"][0]["bindings"][0].update(access="write"), "only a texture is written"),
    (lambda d: variant(d)["entry_points"][1]["bindings"].append({"binding": 7, "access": "write", "texture":
        {"dimension": "2d-array", "numbers": "f32", "format": "rgba32float"}})
        or variant(d)["launches"][1]["operands"].append({"texture": 0}), "texture 0 is read and written in one launch"),
    (lambda d: variant(d)["launches"].reverse(), "the kernel copy reads its texture 0 in launch 0, and no launch"),
    (lambda d: variant(d)["launches"].pop(0), "the kernel copy reads its texture 0 in launch 0, and no launch before"),
])  # fmt: skip
def test_mistakes_are_named(change: Callable[[Document], object], words: str) -> None:
    wrong = copy.deepcopy(document())
    change(wrong)
    with pytest.raises(InputError) as caught:
        kernel_document(Path("copy.json"), wrong)
    assert words in str(caught.value)
    assert "copy.json: variants[0]" in str(caught.value)


def flat(size: list[Any]) -> Document:
    """The document with a texture of a plane."""
    found = document()
    variant(found)["textures"] = [{"dimension": "2d", "format": "rgba32float", "size": size}]
    for place, number in ((0, 1), (1, 0)):
        bindings_of = variant(found)["entry_points"][place]["bindings"]
        next(one for one in bindings_of if one["binding"] == number)["texture"]["dimension"] = "2d"
    return found


def test_a_plane_has_no_depth() -> None:
    kernel_document(Path("copy.json"), flat(["n", 4, 1]))
    for depth in (2, "n"):
        with pytest.raises(InputError, match=rf"the kernel copy has a depth of {depth} for its texture 0, which is 2d"):
            kernel_document(Path("copy.json"), flat(["n", 4, depth]))
