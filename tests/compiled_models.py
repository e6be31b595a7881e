"""Compiled models by hand."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import numpy as np

from tapml.compiled.model import CompiledModel

Json = Any


def kernel(name: str, arguments: list[Json], symbols: list[Json] = (), **variant: Json) -> Json:  # type: ignore[assignment]
    """One launch that reads all inputs and writes all outputs; inputs that outputs overwrite it does not bind."""
    overwritten = {found.get("overwrites") for found in arguments}
    bound = [number for number in range(len(arguments)) if number not in overwritten]
    bindings = [
        {"binding": number, "access": "read" if arguments[number]["role"] == "input" else "read_write"}
        for number in bound
    ]
    entry_point = {
        **{"name": name, "file": f"{name}.wgsl", "wgsl": 0},
        **{"workgroup_size": [64, 1, 1], "bindings": bindings},
    }
    launch = {
        "entry_point": name,
        "operands": [{"argument": number} for number in bound],
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


def chained() -> Json:
    """Three calls of float32[n, 4], n 1..8, through two arena buffers: bytes are used again, and seen through a view;
    the kernel `total` has two launches and a temporary."""
    n = {"name": "n", "minimum": 1, "maximum": 8}
    m = {"name": "m", "minimum": 1, "maximum": 100}
    add = kernel("add", [argument("input", ["m"]), argument("input", ["m"]), argument("output", ["m"])], [m])
    variant = kernel("total", [argument("input", ["n", 4]), argument("output", ["n", 4])])["variants"][0]
    variant["entry_points"].append({**variant["entry_points"][0], "name": "second"})
    variant["entry_points"][1]["bindings"] = [
        {"binding": 0, "access": "read"},
        {"binding": 1, "access": "uniform"},
        {"binding": 2, "access": "read_write"},
    ]
    variant["launches"] = [
        {"entry_point": "total", "operands": [{"argument": 0}, {"temporary": 0}], "uniforms": [], "grid": ["n", 1, 1]},
        {
            **{"entry_point": "second", "operands": [{"temporary": 0}, {"argument": 1}]},
            "uniforms": [{"name": "n", "dtype": "uint32", "value": ["mul", "n", 4]}],
            "grid": [["ceildiv", "n", 2], 1, 1],
        },
    ]
    variant["temporaries"] = [["mul", "n", 16]]
    del variant["name"]
    total = kernel("total", [argument("input", ["n", 4]), argument("output", ["n", 4])], [n], **variant)
    flat = [["mul", "n", 4]]
    tensors = [
        tensor("x", ["n", 4], "input", 0),
        tensor("x.flat", flat, "input", 0, view=0),
        tensor("a", flat, "arena", 0, 0),
        tensor("a.square", ["n", 4], "arena", 0, 0, view=2),
        tensor("b", ["n", 4], "arena", 1, 0),
        tensor("b.flat", flat, "arena", 1, 0, view=4),
        tensor("scratch", [32], "arena", 2, 0, dtype="uint32"),
        tensor("y", ["n", 4], "output", 0),
        tensor("y.flat", flat, "output", 0, view=7),
        tensor("c", flat, "arena", 0, 0),
    ]
    code = [
        {"op": "dispatch", "kernel": 0, "operands": [1, 1, 2], "sizes": {"m": ["mul", 4, "n"]}, "node": "n0"},
        {"op": "dispatch", "kernel": 1, "operands": [3, 4], "temporaries": [6]},
        {"op": "dispatch", "kernel": 0, "operands": [5, 1, 9], "sizes": {"m": ["mul", "n", 4]}},
        {"op": "copy", "from": 9, "to": 8},
    ]
    main = {
        "inputs": [{"name": "x", "tensor": 0}],
        "outputs": [{"name": "y", "tensor": 7}],
        **{"arena": [128, 128, 128], "tensors": tensors, "code": code},
    }
    return document({"main": main}, [add, total], symbols=[n])


def looped() -> Json:
    """Sums the n rows of x into a state, row by row, until a counter says so; twice where `flag` is above 5."""
    n = {"name": "n", "minimum": 0, "maximum": 6}
    row, one = [4], [1]
    add = kernel("add", [argument("input", row), argument("input", row), argument("output", row)])
    tensors = [
        tensor("x", ["n", 4], "input", 0),
        tensor("flag", [3], "input", 1, dtype="int32"),
        tensor("sum", row, "output", 0),
        tensor("rows", ["n", 4], "output", 1),
        tensor("cache", row, "state", 0),
        tensor("row", row, "arena", 0, 0),
        tensor("next", row, "arena", 1, 0),
        tensor("done", one, "arena", 1, 256, dtype="int32"),
        tensor("scale", row, "weights", 0, 0),
    ]
    turn = [
        {
            **{"op": "copy", "from": 0, "to": 5, "from_offset": ["mul", "i", 16]},
            **{"to_offset": 0, "bytes": "width"},
        },
        {"op": "dispatch", "kernel": 0, "operands": [5, 4, 6]},
        {"op": "copy", "from": 6, "to": 4},
        {"op": "copy", "from": 6, "to": 3, "to_offset": ["mul", "width", "i"], "bytes": 16},
        {"op": "call", "module": "sampling", "function": "finished", "inputs": [4], "outputs": [7]},
    ]
    twice = {"op": "loop", "variable": "k", "count": 2, "most": 2, "body": [{"op": "copy", "from": 4, "to": 2}]}
    code = [
        {"op": "let", "name": "width", "value": ["mul", 2, 8]},
        {"op": "fill", "tensor": 5, "value": 0},
        {"op": "fill", "tensor": 3, "value": 2143289344},
        {"op": "loop", "variable": "i", "count": "n", "most": 6, "until": 7, "body": turn},
        {"op": "read", "name": "flagged", "tensor": 1, "index": 2, "minimum": 0, "maximum": 10},
        {"op": "copy", "from": 4, "to": 2},
        {
            **{"op": "if", "condition": ["max", 0, ["sub", "flagged", 5]]},
            "then": [{"op": "dispatch", "kernel": 0, "operands": [4, 8, 6]}, twice, {"op": "copy", "from": 6, "to": 2}],
        },
    ]
    main = {
        "inputs": [{"name": "x", "tensor": 0}, {"name": "flag", "tensor": 1}],
        "outputs": [{"name": "sum", "tensor": 2}, {"name": "rows", "tensor": 3}],
        **{"arena": [16, 512], "tensors": tensors, "code": code},
    }
    weights = np.float32([1, 2, 3, 4]).tobytes()
    shard = {"sha256": sha256(weights).hexdigest(), "bytes": 16, "buffer": 0, "offset": 0}
    state = {"name": "cache", "dtype": "float32", "shape": row, "initial": [0, 0]}
    return document({"main": main}, [add], symbols=[n], states=[state], weights={"buffers": [16], "shards": [shard]})


def generating() -> Json:
    """Logits of the embedding of one token of 8, and the most likely one; they may begin and end a text."""
    take = kernel("take", [argument("input", [1, 1], "int32"), argument("output", [1, 8])])
    choose = kernel("choose", [argument("input", [1, 8]), argument("output", [1], "int32")])
    tensors = [
        tensor("input_ids", [1, 1], "input", 0, dtype="int32"),
        tensor("positions", [1], "input", 1, dtype="int32"),
        tensor("last", [1], "input", 2, dtype="int32"),
        tensor("logits", [1, 8], "output", 0),
        tensor("next", [1], "output", 1, dtype="int32"),
    ]
    code = [{"op": "dispatch", "kernel": number, "operands": [[0, 3], [3, 4]][number]} for number in range(2)]
    main = {
        "inputs": [{"name": found["name"], "tensor": number} for number, found in enumerate(tensors[:3])],
        "outputs": [{"name": "logits", "tensor": 3}, {"name": "next", "tensor": 4}],
        **{"arena": [], "tensors": tensors, "code": code},
    }
    generation = {
        **{"prefill": "main", "decode": "main", "chunk": 1, "capacity": 4, "vocabulary": 8, "next": "next"},
        **{"end": [7], "begin": 0, "bytes_per_token": 0},
    }
    return document({"main": main}, [take, choose], generation=generation)


def growing() -> Json:
    """As `generating`, with logits alone, of a cache that begins with places for 2 of the 4 tokens that fit."""
    found = generating()
    places = {"name": "places", "minimum": 2, "maximum": 4}
    cache, one = ["places", 2], [1, 1]
    append = kernel(
        "append",
        [
            argument("input", cache),
            argument("input", one, "int32"),
            argument("input", [1], "int32"),
            argument("output", cache, overwrites=0),
        ],
        [places],
    )
    take = kernel("take", [argument("input", cache), argument("output", [1, 8])], [places])
    main = found["functions"]["main"]
    main["tensors"][4:] = [tensor("cache", cache, "state", 0)]
    del main["outputs"][1:]
    main["code"] = [
        {"op": "dispatch", "kernel": 0, "operands": [4, 0, 1, 4]},
        {"op": "dispatch", "kernel": 1, "operands": [4, 3]},
    ]
    state = {"name": "cache", "dtype": "float32", "shape": cache, "initial": None}
    generation = {**found["generation"], "next": None, "places": "places"}
    return document({"main": main}, [append, take], symbols=[places], states=[state], generation=generation)


def appended() -> Json:
    """Puts the n rows of x into a state, in place, and into a copy of it, which it gives, once more."""
    n = {"name": "n", "minimum": 1, "maximum": 4}
    whole, rows = [8, 2], ["n", 2]
    append = kernel(
        "append",
        [
            argument("input", whole),
            argument("input", rows),
            argument("input", ["n"], "int32"),
            argument("output", whole, overwrites=0),
        ],
        [n],
    )
    tensors = [
        tensor("x", rows, "input", 0),
        tensor("places", ["n"], "input", 1, dtype="int32"),
        tensor("cache", whole, "state", 0),
        tensor("kept", whole, "arena", 0, 0),
        tensor("given", whole, "output", 0),
        tensor("table", whole, "weights", 0, 0),
    ]
    code = [
        {"op": "dispatch", "kernel": 0, "operands": [2, 0, 1, 2]},
        {"op": "copy", "from": 2, "to": 3},
        {"op": "dispatch", "kernel": 0, "operands": [3, 0, 1, 3]},
        {"op": "copy", "from": 3, "to": 4},
    ]
    main = {
        "inputs": [{"name": "x", "tensor": 0}, {"name": "places", "tensor": 1}],
        "outputs": [{"name": "given", "tensor": 4}],
        **{"arena": [64], "tensors": tensors, "code": code},
    }
    shard = {"sha256": "0" * 64, "bytes": 64, "buffer": 0, "offset": 0}
    state = {"name": "cache", "dtype": "float32", "shape": whole, "initial": None}
    return document({"main": main}, [append], symbols=[n], states=[state], weights={"buffers": [64], "shards": [shard]})


def beside() -> Json:
    """One dispatch does the work of two: of `negate`, and of `append`, which writes over a state."""
    n = {"name": "n", "minimum": 1, "maximum": 4}
    rows, cache = ["n", 2], [8, 2]
    negate = kernel("negate", [argument("input", rows), argument("output", rows)], [n])
    places = argument("input", ["n"], "int32")
    append = kernel(
        "append",
        [argument("input", cache), argument("input", rows), places, argument("output", cache, overwrites=0)],
        [n],
    )
    both = kernel(
        "both",
        [
            *(argument("input", rows), argument("input", cache), places),
            *(argument("output", rows), argument("output", cache, overwrites=1)),
        ],
        [n],
    )
    tensors = [
        tensor("x", rows, "input", 0),
        tensor("places", ["n"], "input", 1, dtype="int32"),
        tensor("cache", cache, "state", 0),
        tensor("y", rows, "output", 0),
        tensor("z", rows, "input", 2),
    ]
    parts = [
        {"kernel": 0, "operands": [0, 3], "node": "n0"},
        {"kernel": 1, "operands": [2, 0, 1, 2], "node": "n1"},
    ]
    code = [{"op": "dispatch", "kernel": 2, "operands": [0, 2, 1, 3, 2], "node": "n0 + n1", "parts": parts}]
    inputs = [{"name": "x", "tensor": 0}, {"name": "places", "tensor": 1}, {"name": "z", "tensor": 4}]
    main = {"inputs": inputs, "outputs": [{"name": "y", "tensor": 3}], "arena": [], "tensors": tensors, "code": code}
    state = {"name": "cache", "dtype": "float32", "shape": cache, "initial": None}
    return document({"main": main}, [negate, append, both], symbols=[n], states=[state])
