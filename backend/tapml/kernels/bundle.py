"""A kernel compiled for WebGPU: WGSL text files and `NAME.json` with everything a dispatch needs.

The JSON document (format tapml.kernel/4) is described in docs/suite-format.md.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from tapml.kernels.textures import numbers_of

_BINDING = re.compile(
    r"@group\(0\)\s*@binding\((\d+)\)\s*var<(storage|uniform)\s*(?:,\s*(\w+))?\s*>\s*(\w+)\s*:\s*([^;]+);"
)
_TEXTURE = re.compile(
    r"@group\(0\)\s*@binding\((\d+)\)\s*var\s+(\w+)\s*:\s*(texture_(storage_)?(2d_array|2d|3d)\s*<([^>]+)>)\s*;"
)
_WORKGROUP_SIZE = re.compile(r"@workgroup_size\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?(?:,\s*(\d+)\s*)?\)")
_WORKGROUP_VARIABLE = re.compile(r"var<workgroup>\s*\w+\s*:\s*((?:array<\s*)+)([\w<>]+?)\s*((?:,\s*\d+[ui]?\s*>\s*)+);")
_ENABLE = re.compile(r"^\s*enable\s+([\w\s,]+);", re.MULTILINE)
_ELEMENT_BYTES = {"f32": 4, "i32": 4, "u32": 4, "f16": 2, "bool": 4}
_FEATURE = {
    "f16": "shader-f16",
    "subgroups": "subgroups",
    "chromium_experimental_subgroup_matrix": "chromium-experimental-subgroup-matrix",
}


@dataclass(frozen=True)
class WgslFile:
    name: str
    text: str


@dataclass(frozen=True)
class CompiledKernel:
    """`document` is NAME.json; `files` are the WGSL texts of all variants' entry points, in its order."""

    document: dict[str, Any]
    files: list[WgslFile]


def bindings(wgsl: str) -> list[dict[str, Any]]:
    """Bindings of group 0 in a WGSL text: binding, access ("read", "read_write", "write", "uniform"), name, type, and
    `texture` of those that are one."""
    found = [_texture(*declared) for declared in _TEXTURE.findall(wgsl)] if "texture_" in wgsl else []
    for number, space, access, name, wgsl_type in _BINDING.findall(wgsl):
        found.append(
            {
                "binding": int(number),
                "access": "uniform" if space == "uniform" else (access or "read"),
                "name": name,
                "type": wgsl_type.strip(),
            }
        )
    return sorted(found, key=lambda b: int(b["binding"]))


def _texture(number: str, name: str, wgsl_type: str, storage: str, dimension: str, inside: str) -> dict[str, Any]:
    kind, *access = (part.strip() for part in inside.split(","))
    texture: dict[str, Any] = {
        "dimension": dimension.replace("_", "-"),
        "numbers": numbers_of(kind) if storage else kind,
    }
    if storage:
        texture["format"] = kind
    return {
        "binding": int(number),
        "access": access[0] if access else "read",
        "name": name,
        "type": wgsl_type,
        "texture": texture,
    }


def workgroup_size(wgsl: str) -> list[int]:
    """Invocations of a workgroup along x, y, z."""
    match = _WORKGROUP_SIZE.search(wgsl)
    return [int(extent or 1) for extent in match.groups()] if match else [1, 1, 1]


def workgroup_storage(wgsl: str) -> int:
    """Bytes of `var<workgroup>` arrays, each rounded up to 16 as WebGPU counts them."""
    total = 0
    for _, element, counts in _WORKGROUP_VARIABLE.findall(wgsl):
        vector = re.fullmatch(r"vec([234])<(\w+)>", element)
        size = _ELEMENT_BYTES.get(vector[2] if vector else element, 4)
        # vec3 takes the room of vec4 (WGSL, "Alignment and Size").
        size *= {"2": 2, "3": 4, "4": 4}[vector[1]] if vector else 1
        # Of arrays of arrays, the count of each.
        size *= math.prod(int(count) for count in re.findall(r"\d+", counts))
        total += -(-size // 16) * 16
    return total


def requirements(wgsl_texts: list[str], largest_binding: int) -> dict[str, Any]:
    """Features and limits (GPUSupportedLimits names) that a device must offer to run these entry points."""
    features = {
        _FEATURE[word.strip()]
        for text in wgsl_texts
        if "enable" in text
        for words in _ENABLE.findall(text)
        for word in words.split(",")
        if word.strip() in _FEATURE
    }
    sizes = [workgroup_size(text) for text in wgsl_texts]
    bound = [[b for b in bindings(text) if b["access"] != "uniform"] for text in wgsl_texts]
    storage_buffers = [sum("texture" not in b for b in found) for found in bound]
    textures = [[b["access"] for b in found if "texture" in b] for found in bound]
    limits = {
        "maxComputeInvocationsPerWorkgroup": max(math.prod(size) for size in sizes),
        "maxComputeWorkgroupSizeX": max(size[0] for size in sizes),
        "maxComputeWorkgroupSizeY": max(size[1] for size in sizes),
        "maxComputeWorkgroupSizeZ": max(size[2] for size in sizes),
        "maxComputeWorkgroupStorageSize": max(workgroup_storage(text) for text in wgsl_texts),
        "maxStorageBuffersPerShaderStage": max(storage_buffers),
        "maxStorageBufferBindingSize": largest_binding,
    }
    if any(textures):
        limits["maxSampledTexturesPerShaderStage"] = max(found.count("read") for found in textures)
        limits["maxStorageTexturesPerShaderStage"] = max(found.count("write") for found in textures)
    return {"features": sorted(features), "limits": limits}
