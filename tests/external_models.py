"""A model with an operator that TVM lacks, and the kernel that somebody wrote for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

K, N, BLOCK = 32, 8, 16

WGSL = """\
@group(0) @binding(0) var<storage, read> a : array<f32>;
@group(0) @binding(1) var<storage, read> b : array<u32>; // four bytes each: eight weights of four bits
@group(0) @binding(2) var<storage, read> scales : array<f32>;
@group(0) @binding(3) var<storage, read_write> y : array<f32>;
struct Sizes { m : u32, n : u32, blocks : u32 }
@group(0) @binding(4) var<uniform> sizes : Sizes;

@compute @workgroup_size(64, 1, 1)
fn matmul_4bits(@builtin(global_invocation_id) id : vec3<u32>) {
  let at = id.x;
  if (at >= sizes.m * sizes.n) { return; }
  let row = at / sizes.n;
  let column = at % sizes.n;
  let k = sizes.blocks * 16u;
  var sum = 0.0f;
  for (var i = 0u; i < k; i++) {
    let at_bits = column * k + i;
    let weight = f32((b[at_bits / 8u] >> (4u * (at_bits % 8u))) & 15u) - 8.0f;
    sum += a[row * k + i] * weight * scales[column * sizes.blocks + i / 16u];
  }
  y[at] = sum;
}
"""


def quantised(path: Path, rows: int = 3) -> Path:
    """y = relu(MatMulNBits(x + 1)): com.microsoft's product with weights of four bits."""
    random = np.random.default_rng(0)
    weights = {
        "one": np.float32([1]),
        "b": random.integers(0, 256, (N, K // BLOCK, BLOCK // 2), np.uint8),
        "scales": random.uniform(0.01, 0.1, N * K // BLOCK).astype(np.float32),
    }
    product = helper.make_node(
        "MatMulNBits", ["h", "b", "scales"], ["p"], domain="com.microsoft", K=K, N=N, bits=4, block_size=BLOCK
    )
    nodes = [helper.make_node("Add", ["x", "one"], ["h"]), product, helper.make_node("Relu", ["p"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (rows, K))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (rows, N))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def by_hand(folder: Path, **changes: Any) -> Path:
    """Its kernel for any number of rows, columns and blocks; `changes` are of the document's fields."""
    folder.mkdir()
    symbols = [{"name": name, "minimum": 1, "maximum": 4096} for name in ("m", "n", "blocks")]
    shapes: dict[str, tuple[str, list[Any], str]] = {
        "a": ("float32", ["m", ["mul", "blocks", 16]], "input"),
        "b": ("int32", ["n", "blocks", 8], "input"),
        "scales": ("float32", [["mul", "n", "blocks"]], "input"),
        "y": ("float32", ["m", "n"], "output"),
    }
    uniforms = [{"name": name, "dtype": "uint32", "value": name} for name in ("m", "n", "blocks")]
    variant = {
        "name": "simple",
        "requires": {"features": [], "limits": {"maxComputeInvocationsPerWorkgroup": 64}},
        "entry_points": [
            {
                "name": "matmul_4bits",
                "file": "matmul.wgsl",
                "workgroup_size": [64, 1, 1],
                "bindings": [
                    *({"binding": number, "access": "read"} for number in range(3)),
                    {"binding": 3, "access": "read_write"},
                    {"binding": 4, "access": "uniform"},
                ],
            }
        ],
        "launches": [
            {
                "entry_point": "matmul_4bits",
                "operands": [{"argument": number} for number in range(4)],
                "uniforms": uniforms,
                "grid": [["ceildiv", ["mul", "m", "n"], 64], 1, 1],
            }
        ],
        "temporaries": [],
    }
    document = {
        "format": "tapml.kernel/3",
        "kernel": "MatMulNBits",
        "compiler": {"name": "external", "version": "1"},
        "symbols": symbols,
        "arguments": [
            {"name": name, "dtype": dtype, "shape": shape, "role": role}
            | ({"encoding": "uint8x4"} if name == "b" else {})
            for name, (dtype, shape, role) in shapes.items()
        ],
        "numerics": {"accumulation_length": 4096, "builtins": [], "operations": 3},
        "variants": [variant],
        "unsupported": None,
    }
    (folder / "MatMulNBits.json").write_text(json.dumps({**document, **changes}))
    (folder / "matmul.wgsl").write_text(WGSL)
    return folder
