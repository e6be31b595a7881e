"""Compiled models by hand."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import numpy as np

from tapml.compiled.model import CompiledModel

Json = Any


def kernel(name: str, arguments: list[Json], symbols: list[Json] = (), **variant: Json) -> Json:  # type: ignore[assignment]
    """One launch that reads all inputs and writes all outputs."""
    bindings = [
        {"binding": number, "access": "read" if found["role"] == "input" else "read_write"}
        for number, found in enumerate(arguments)
    ]
    entry_point = {
        **{"name": name, "file": f"{name}.wgsl", "wgsl": 0},
        **{"workgroup_size": [64, 1, 1], "bindings": bindings},
    }
    launch = {
        "entry_point": name,
        "operands": [{"argument": number} for number in range(len(arguments))],
        "uniforms": [],
        "grid": [1, 1, 1],
    }
    made = {
        **{"name": "256", "requires": {"features": [], "limits": {}}, "entry_points": [entry_point]},
        **{"launches": [launch], "temporaries": [], **variant},
    }
    return {"kernel": name, "symbols": list(symbols), "arguments": arguments, "variants": [made]}


def argument(role: str, shape: list[Json], dtype: str = "float32", **more: Json) -> Json:
    return {"role": role, "dtype": dtype, "shape": shape, **more}


def tensor(name: str, shape: list[Json], *at: Json, dtype: str = "float32", **more: Json) -> Json:
    return {"name": name, "dtype": dtype, "shape": shape, "at": list(at), **more}


def document(functions: dict[str, Json], kernels: list[Json] = (), **more: Json) -> Json:  # type: ignore[assignment]
    """With nothing else in it than what is given."""
    return {
        "format": "tapml.model/1",
        "name": "model",
        "title": "",
        "provenance": {
            **{"tapml": "0", "compilers": [], "suite": None, "doubts": [], "edited": []},
            "model": {"kind": "onnx", "source": "", "sha256": "", "title": None, "notes": []},
        },
        **{"symbols": [], "weights": {"buffers": [], "shards": []}, "states": [], "wgsl": [""]},
        **{"kernels": list(kernels), "functions": functions, "validation": [], "memory": {}},
        **{"tokenizer": None, "attachments": [], **more},
    }


def doubled() -> tuple[CompiledModel, dict[str, bytes]]:
    """y = x * w for float32[n, 2], and its parts by name; has an attachment."""
    weights = np.float32([2, 2]).tobytes()
    digest = sha256(weights).hexdigest()
    tokenizer = b"{}\n"
    shape = ["n", 2]
    multiply = kernel(
        "multiply",
        [argument("input", shape), argument("input", [2]), argument("output", shape)],
        [{"name": "n", "minimum": 1, "maximum": 64}],
    )
    main = {
        "inputs": [{"name": "x", "tensor": 0}],
        "outputs": [{"name": "y", "tensor": 2}],
        "arena": [],
        "tensors": [
            tensor("x", shape, "input", 0),
            tensor("w", [2], "weights", 0, 0),
            tensor("y", shape, "output", 0),
        ],
        "code": [{"op": "dispatch", "kernel": 0, "operands": [0, 1, 2]}],
    }
    found = document(
        {"main": main},
        [multiply],
        symbols=[{"name": "n", "minimum": 1, "maximum": 64}],
        weights={"buffers": [8], "shards": [{"sha256": digest, "bytes": 8, "buffer": 0, "offset": 0}]},
        tokenizer={"file": "tokenizer.json", "kind": "huggingface"},
        attachments=[
            {"name": "tokenizer.json", "sha256": sha256(tokenizer).hexdigest(), "bytes": len(tokenizer)},
        ],
    )
    model = CompiledModel.model_validate(json.loads(json.dumps(found)))
    return model, {f"weights/{digest}.bin": weights, "tokenizer.json": tokenizer}
