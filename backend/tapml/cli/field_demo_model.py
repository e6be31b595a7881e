"""The model of `tapml field demo`: attention over 48 words, small enough to be carved in seconds, and the hand-written
variant of its softmax that is wrong where values are large."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tapml.files import sha256
from tapml.importing import ImportedModel, Step
from tapml.suite import Suite

WORDS, WIDTH = 48, 32
LAB = 0.1
"""How large inputs of the lab are; those of users are twenty times as large."""

VARIANT = "subgroups"

_WGSL = """\
// softmax for devices with subgroups: one workgroup a row, the row's sum by subgroupAdd.
// It leaves out what the base variant does first: to subtract the row's largest value.
enable subgroups;

@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, read_write> y : array<f32>;

var<workgroup> parts : array<f32, 64>;

@compute @workgroup_size(64)
fn softmax_by_subgroups(
  @builtin(workgroup_id) row : vec3<u32>,
  @builtin(local_invocation_index) i : u32,
  @builtin(subgroup_size) size : u32,
  @builtin(subgroup_invocation_id) lane : u32,
) {
  var e = 0.0;
  if (i < COLUMNSu) { e = exp(x[row.x * COLUMNSu + i]); }
  let part = subgroupAdd(e);
  if (lane == 0u) { parts[i / size] = part; }
  workgroupBarrier();
  var total = 0.0;
  for (var k = 0u; k < 64u / size; k++) { total += parts[k]; }
  if (i < COLUMNSu) { y[row.x * COLUMNSu + i] = e / total; }
}
""".replace("COLUMNS", str(WORDS))


def attention() -> ImportedModel:
    """out = softmax(x @ x.T) @ x, then a layer with gelu, in float32; its oracle is numpy in float64."""
    from tvm import relax  # late: it takes seconds to load

    builder, op = relax.BlockBuilder(), relax.op
    words = relax.Var("words", relax.TensorType((WORDS, WIDTH), "float32"))
    weight = relax.Var("weight", relax.TensorType((WIDTH, WIDTH), "float32"))
    with builder.function("main", [words, weight]):
        with builder.dataflow():
            scores = builder.emit(op.nn.softmax(op.matmul(words, op.permute_dims(words))))
            mixed = builder.emit(op.matmul(scores, words))
            out = builder.emit_output(op.nn.gelu(op.matmul(mixed, weight)))
        builder.emit_func_output(out)
    random = np.random.default_rng(18)
    given = random.standard_normal((WORDS, WIDTH)).astype(np.float32) * np.float32(LAB)
    weights = (random.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32)
    return ImportedModel(
        module=builder.finalize(),
        input_names=["words"],
        parameters=[("layer.weight", weights)],
        steps=[Step("48 words of the lab", {"words": given}, synthetic=True, expected=[_by_numpy(given, weights)])],
        provenance={
            "kind": "demo", "source": "tapml field demo", "sha256": sha256(weights.tobytes()), "title": "attention",
            "notes": [],
        },
        outputs=["mixed"],
        oracle=f"numpy {np.__version__} in float64",
    )  # fmt: skip


def _by_numpy(words: np.ndarray, weight: np.ndarray) -> np.ndarray:
    from math import erf

    x = words.astype(np.float64)
    logits = x @ x.T
    e = np.exp(logits - logits.max(-1, keepdims=True))
    hidden = (e / e.sum(-1, keepdims=True)) @ x @ weight.astype(np.float64)
    return np.asarray(hidden * 0.5 * (1 + np.vectorize(erf)(hidden / np.sqrt(2))), np.float32)


def softmax_of(suite: Suite) -> str:
    """The name of its softmax kernel."""
    return next(name for name in suite.kernels if "softmax" in name)


def add_variant(suite: Suite) -> Suite:
    """Give its softmax the variant for devices with subgroups, as somebody does who writes it by hand."""
    kernel = softmax_of(suite)
    path = suite.path / "kernels" / f"{kernel}.json"
    document: dict[str, Any] = json.loads(path.read_text())
    file = f"{kernel}@{VARIANT}.wgsl"
    Path(suite.path / "kernels" / file).write_text(_WGSL)
    variant = {
        "name": VARIANT,
        "requires": {"features": ["subgroups"], "limits": {"maxComputeInvocationsPerWorkgroup": 64}},
        "entry_points": [
            {
                "name": "softmax_by_subgroups", "file": file, "workgroup_size": [64, 1, 1],
                "bindings": [{"binding": 0, "access": "read"}, {"binding": 1, "access": "read_write"}],
            }
        ],
        "launches": [
            {
                "entry_point": "softmax_by_subgroups", "operands": [{"argument": 0}, {"argument": 1}], "uniforms": [],
                "grid": [WORDS, 1, 1],
            }
        ],
        "temporaries": [],
    }  # fmt: skip
    document["variants"] = [variant, *document["variants"]]
    path.write_text(json.dumps(document))
    return Suite(suite.path)
