"""Little operators as data, what they give, and what a device gives that has one of them wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapml.locating.evidence import Evidence
from tapml.operators.program import OperatorProgram
from tapml.operators.read import from_json

Arrays = Sequence[np.ndarray]


def block(name: str, axes: dict[str, int], body: list[Any], reduced: Sequence[str] = (), first: Any = None) -> Any:
    found = {
        "name": name,
        "loops": [[f"l_{axis}", "int64", extent] for axis, extent in axes.items()],
        "axes": [
            [axis, "int64", extent, "reduction" if axis in reduced else "spatial", f"l_{axis}"]
            for axis, extent in axes.items()
        ],
        "body": body,
    }
    return found if first is None else {**found, "first": first}


def program(
    parameters: dict[str, list[int]], temporaries: dict[str, list[int]], blocks: list[Any], whole: Sequence[str] = ()
) -> OperatorProgram:
    """`whole`: buffers of integers; the others hold float32."""

    def buffers(shapes: dict[str, list[int]]) -> list[dict[str, Any]]:
        return [
            {"name": name, "dtype": "int32" if name in whole else "float32", "shape": shape}
            for name, shape in shapes.items()
        ]

    document = {
        "format": "tapml.operator/2", "operator": "op", "pattern": None, "symbols": [],
        "parameters": buffers(parameters), "temporaries": buffers(temporaries), "blocks": blocks,
    }  # fmt: skip
    return from_json(document, "op", "op.json")


def constant(value: float) -> list[Any]:
    return ["float32", float(value)]


def summed(buffer: str, axes: dict[str, int], index: list[str], term: Any, over: str) -> Any:
    load = ["load", buffer, *index]
    first = [["store", buffer, index, constant(0.0)]]
    return block(buffer, axes, [["store", buffer, index, ["add", load, term]]], [over], first)


ROWS, WIDTH = 12, 48
MEAN = ["load", "mean", "i"]
CENTRED = ["sub", ["load", "x", "i", "k"], MEAN]


def layer_norm(after: Callable[[Any], Any] = lambda value: value) -> OperatorProgram:
    """`after`: what becomes of each normed value."""
    row = {"i": ROWS, "k": WIDTH}
    return program(
        {"x": [ROWS, WIDTH], "y": [ROWS, WIDTH]},
        {"total": [ROWS], "mean": [ROWS], "squares": [ROWS]},
        [
            summed("total", row, ["i"], ["load", "x", "i", "k"], "k"),
            block("mean", {"i": ROWS}, [["store", "mean", ["i"], ["div", ["load", "total", "i"], constant(WIDTH)]]]),
            summed("squares", row, ["i"], ["mul", CENTRED, CENTRED], "k"),
            block("y", row, [["store", "y", ["i", "k"], after(["mul", CENTRED, ["call", "rsqrt", [
                "add", ["div", ["load", "squares", "i"], constant(WIDTH)], constant(1e-5)]]])]]),
        ],
    )  # fmt: skip


def normed(x: np.ndarray, length: float = WIDTH, epsilon: float = 1e-5, last: int = WIDTH) -> np.ndarray:
    x = x.astype(np.float64)
    mean = x.sum(1, keepdims=True) / length
    square = ((x - mean)[:, :last] ** 2).sum(1, keepdims=True) / WIDTH
    return (x - mean) / np.sqrt(square + epsilon)


DEPTH = 32


def matmul() -> OperatorProgram:
    axes = {"i": ROWS, "j": WIDTH, "k": DEPTH}
    term = ["mul", ["load", "x", "i", "k"], ["load", "w", "k", "j"]]
    return program(
        {"x": [ROWS, DEPTH], "w": [DEPTH, WIDTH], "b": [WIDTH], "y": [ROWS, WIDTH]},
        {"sums": [ROWS, WIDTH]},
        [
            summed("sums", axes, ["i", "j"], term, "k"),
            block("y", {"i": ROWS, "j": WIDTH}, [["store", "y", ["i", "j"], [
                "call", "tanh", ["add", ["load", "sums", "i", "j"], ["load", "b", "j"]]]]]),
        ],
    )  # fmt: skip


def causal() -> OperatorProgram:
    """Scores where the key is not later than the query, else a very low number."""
    index = ["i", "k"]
    value = ["if_then_else", ["le", "k", "i"], ["load", "x", *index], constant(-3.4028234663852886e38)]
    return program({"x": [16, 16], "y": [16, 16]}, {}, [block("y", {"i": 16, "k": 16}, [["store", "y", index, value]])])


def normal(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X, W, B = normal(ROWS, DEPTH) / 4, normal(DEPTH, WIDTH, seed=6), normal(WIDTH, seed=7)
N = normal(ROWS, WIDTH, seed=8) * 2 + 1


def seen(made: OperatorProgram, inputs: Arrays, got: np.ndarray, expected: np.ndarray, names: str) -> Evidence:
    bound = 2e-6 * np.abs(expected.astype(np.float64)) + 2e-6
    return Evidence(
        got.astype(np.float32), expected.astype(np.float32), bound, inputs, names=names.split(), program=made
    )


def of_matmul(got: np.ndarray) -> Evidence:
    return seen(matmul(), (X, W, B), got, dense(X @ W), "x w b y")


def dense(sums: np.ndarray) -> np.ndarray:
    return np.tanh(sums.astype(np.float64) + B)


def off_stride(array: np.ndarray, stride: int) -> np.ndarray:
    """Rows that are read so many elements apart."""
    rows, columns = np.indices(array.shape)
    return np.asarray(array.reshape(-1)[rows * stride + columns])


def without(*terms: int) -> np.ndarray:
    kept = [k for k in range(DEPTH) if k not in terms]
    return np.asarray(X[:, kept].astype(np.float64) @ W[kept])


EXACT = X.astype(np.float64) @ W
