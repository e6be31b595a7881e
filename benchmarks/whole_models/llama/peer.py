"""The Llama as ONNX Runtime takes it: as onnxruntime-genai's model builder writes one, with tapml's made-up weights.

Integers are those of `made_up.py` and one more, for zero is 8 there (128 of 8 bits) and 7 (127) in tapml: both models
have the same weights, but for numbers that float16 rounds. The graph is small: each weight is external data from the
begin of one of a few files, which a page makes of their periods (`pages/peer.js`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from benchmarks.web_runtimes.site import put
from benchmarks.whole_models.llama.made_up import (
    PERIOD,
    made_up_matrix,
    made_up_norm,
    made_up_scales,
    made_up_turns,
    made_up_words,
)
from benchmarks.whole_models.llama.models import Shape
from benchmarks.whole_models.llama.peers import ACTIVATIONS

_OWN = "com.microsoft"
_GROUP = 32
_ATTENTION = ("q", "k", "v", "o")
"""What tapml's `q844` keeps in 8 bits, by the ends of names here."""


def kinds_of(stored: str) -> tuple[str, ...]:
    """Of `peers.ACTIVATIONS`. Products with weights of float16 are of float16 alone."""
    return ("half",) if stored == "f16" else tuple(ACTIVATIONS)


@dataclass
class _Graph:
    """`periods`: of external files, by name; `sizes`: of these files, in bytes; `turned`: rows and columns of those
    that are a matrix of float16 turned around."""

    half: bool
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    periods: dict[str, np.ndarray] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    turned: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def dtype(self) -> type[np.generic]:
        return np.float16 if self.half else np.float32

    def weight(self, name: str, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def external(self, name: str, shape: tuple[int, ...], file: str, period: np.ndarray) -> str:
        self.periods[file] = period
        size = int(np.prod(shape)) * period.itemsize
        self.sizes[file] = max(size, self.sizes.get(file, 0))
        tensor = TensorProto(name=name, dims=shape, data_location=TensorProto.EXTERNAL)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(period.dtype)
        for key, value in (("location", file), ("offset", "0"), ("length", str(size))):
            tensor.external_data.add(key=key, value=value)
        self.weights.append(tensor)
        return name

    def add(self, kind: str, *inputs: str, outputs: tuple[str, ...] = (), domain: str = "", **attributes: Any) -> str:
        outputs = outputs or (f"t{len(self.nodes)}",)
        self.nodes.append(helper.make_node(kind, list(inputs), list(outputs), domain=domain, **attributes))
        return outputs[0]


def write_peer(folder: Path, shape: Shape, stored: str, kind: str, *, files: bool) -> None:
    """Write `model.onnx`, the periods and `peer.json`, which says what a page makes of them; the whole of the external
    files, too, where `files`. `stored`: of models.STORED; `kind`: of `kinds_of(stored)`: activations, the cache and
    scales are float16, or float32.

    Inputs: `input_ids` int64 [1, n], `attention_mask` int64 [1, tokens so far], `past_key_values.N.key` and `.value`
    [1, kv heads, places, head dim]. Outputs: `logits` [1, 1, vocabulary] of the last token, `present.N.key`, `.value`.
    """
    config, graph = shape.config, _Graph(kind != "single")
    hidden_size, middle, words = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads, groups, size = (config[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    dtype, epsilon = TensorProto.FLOAT16 if graph.half else TensorProto.FLOAT, config["rms_norm_eps"]
    norm = made_up_norm().astype(np.float32)[:hidden_size].astype(graph.dtype)
    accuracy = {"accuracy_level": 4} if kind == "half-int8" else {}

    def quantised(name: str, bits: int, rows: int, inner: int, blocked: tuple[int, ...]) -> tuple[str, str]:
        """Integers and scales. A row's scale of `q8` is that of each of its groups here."""
        least, of, each = min(rows, inner), *((np.float16, 1) if bits == 4 else (np.float32, inner // _GROUP))
        scales = made_up_scales(bits, least, PERIOD // np.dtype(of).itemsize).astype(of).astype(graph.dtype)
        integers = made_up_words(bits).view(np.uint8) + np.uint8(0x11 if bits == 4 else 1)
        packed = graph.external(f"{name}.words", blocked, f"words-{bits}", integers)
        held = (rows, inner // _GROUP)
        return packed, graph.external(f"{name}.scales", held, f"scales-{bits}-{least}-{each}", np.repeat(scales, each))

    def linear(x: str, name: str, rows: int, inner: int, **named: Any) -> str:
        bits = _bits(stored, name)
        if bits is None:
            file = f"matrix-{min(rows, inner)}"
            if name == "head":  # the table's numbers, in the shape that a product takes
                graph.turned[file := "head"] = (rows, inner)
            weight = graph.external(name, (inner, rows), file, made_up_matrix(min(rows, inner)))
            return graph.add("MatMul", x, weight, **named)
        given = quantised(name, bits, rows, inner, (rows, inner // _GROUP, _GROUP * bits // 8))
        return graph.add(
            "MatMulNBits", x, *given, domain=_OWN, K=inner, N=rows, bits=bits, block_size=_GROUP, **accuracy, **named
        )  # fmt: skip

    mask = graph.add("ReduceSum", "attention_mask", graph.weight("axis", np.array([1], np.int64)), keepdims=0)
    one = graph.weight("one", np.array([1], np.int64))
    seqlens = graph.add("Cast", graph.add("Sub", mask, one), to=TensorProto.INT32)
    total = graph.add("Gather", graph.add("Shape", "attention_mask"), graph.weight("at", np.array(1)), axis=0)
    total = graph.add("Cast", total, to=TensorProto.INT32)
    turns = np.resize(made_up_turns(size // 2, PERIOD // 4 // size), (shape.capacity, size // 2))
    turned = [graph.weight(name, turns.astype(np.float32).astype(graph.dtype)) for name in ("cos", "sin")]

    bits = _bits(stored, "embedding")
    if bits is None:
        table = graph.external("embedding", (words, hidden_size), "table", made_up_matrix(min(words, hidden_size)))
        hidden = graph.add("Gather", table, "input_ids", axis=0)
    else:
        packed, scales = quantised("embedding", bits, words, hidden_size, (words, hidden_size * bits // 8))
        hidden = graph.add(
            "GatherBlockQuantized", packed, "input_ids", scales, domain=_OWN, bits=bits, block_size=_GROUP,
            gather_axis=0, quantize_axis=1,
        )  # fmt: skip
    x = graph.add(
        "SimplifiedLayerNormalization", hidden, graph.weight("norm", norm), axis=-1, epsilon=epsilon, stash_type=1
    )

    def added(hidden: str, delta: str) -> tuple[str, str]:
        """The normalised sum, and the sum."""
        names = (f"n{len(graph.nodes)}", f"s{len(graph.nodes)}")
        graph.add(
            "SkipSimplifiedLayerNormalization", hidden, delta, "norm", domain=_OWN, epsilon=epsilon,
            outputs=(names[0], "", "", names[1]),
        )  # fmt: skip
        return names

    inputs, outputs = [], []
    for layer in range(config["num_hidden_layers"]):
        q, k, v = (
            linear(x, f"{layer}.{name}", count * size, hidden_size)
            for name, count in (("q", heads), ("k", groups), ("v", groups))
        )
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        present = [f"present.{layer}.{part}" for part in ("key", "value")]
        attended = graph.add(
            "GroupQueryAttention", q, k, v, *past, seqlens, total, *turned, outputs=(f"attended{layer}", *present),
            domain=_OWN, num_heads=heads, kv_num_heads=groups, do_rotary=1, rotary_interleaved=0, scale=size**-0.5,
        )  # fmt: skip
        x, hidden = added(hidden, linear(attended, f"{layer}.o", hidden_size, heads * size))
        gate, up = (linear(x, f"{layer}.{name}", middle, hidden_size) for name in ("gate", "up"))
        gated = graph.add("Mul", graph.add("Mul", gate, graph.add("Sigmoid", gate)), up)
        x, hidden = added(hidden, linear(gated, f"{layer}.down", hidden_size, middle))
        inputs += [helper.make_tensor_value_info(name, dtype, [1, groups, "past", size]) for name in past]
        outputs += [helper.make_tensor_value_info(name, dtype, [1, groups, "present", size]) for name in present]
    last = graph.add("Gather", x, graph.weight("last", np.array([-1], np.int64)), axis=1)
    # The tied table again, in the shape that a product takes.
    linear(last, "head", words, hidden_size, outputs=("logits",))
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, [1, of])
        for name, of in (("input_ids", "n"), ("attention_mask", "total"))
    ]
    logits = helper.make_tensor_value_info("logits", dtype, [1, 1, words])
    made = helper.make_graph(graph.nodes, "llama", [*ids, *inputs], [logits, *outputs], graph.weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(_OWN, 1)]
    put(folder / "model.onnx", helper.make_model(made, opset_imports=opsets, ir_version=10).SerializeToString())
    for name, period in graph.periods.items():
        put(folder / f"{name}.period", period.tobytes())
        if files:
            put(folder / name, _whole(period, graph.sizes[name], graph.turned.get(name)))
    facts = {
        "layers": config["num_hidden_layers"],
        "groups": groups,
        "size": size,
        "half": graph.half,
        "files": {name: {"bytes": bytes, "turned": graph.turned.get(name)} for name, bytes in graph.sizes.items()},
    }
    put(folder / "peer.json", json.dumps(facts).encode())


def _bits(stored: str, name: str) -> int | None:
    """Of a weight's integers; None where it is float16. `q844`: as tapml stores it."""
    return {"f16": None, "q8": 8, "q4f16": 4, "q844": 8 if name.rpartition(".")[2] in _ATTENTION else 4}[stored]


def _whole(period: np.ndarray, size: int, turned: tuple[int, int] | None) -> bytes:
    """A file of so many bytes: the numbers of the period again and again; `turned`: those of a matrix of so many rows
    and columns, column by column."""
    numbers = np.resize(period, size // period.itemsize)
    return (numbers if turned is None else np.ascontiguousarray(numbers.reshape(turned).T)).tobytes()


def here(folder: Path, prompt: int, context: int, vocabulary: int) -> Mapping[str, np.ndarray]:
    """Logits of a prompt and of a token behind `context`, by ONNX Runtime on this machine's processor, float32
    [vocabulary] each. The folder needs its external files."""
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    facts = json.loads((folder / "peer.json").read_text())
    text = np.array([[(at * 7919 + 17) % vocabulary for at in range(context + 1)]], np.int64)
    names = [output.name for output in session.get_outputs()]
    empty = np.zeros((1, facts["groups"], 0, facts["size"]), np.float16 if facts["half"] else np.float32)

    def call(begin: int, end: int, past: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        fed = {"input_ids": text[:, begin:end], "attention_mask": np.ones((1, end), np.int64), **past}
        return dict(zip(names, session.run(None, fed), strict=True))

    def after(outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name.replace("present", "past_key_values"): of for name, of in outputs.items() if name != "logits"}

    none = {name.replace("present", "past_key_values"): empty for name in names if name != "logits"}
    prefilled = call(0, prompt, none)["logits"]
    decoded = call(context, context + 1, after(call(0, context, none)))["logits"]
    return {"prefill": prefilled.astype(np.float32).ravel(), "decode": decoded.astype(np.float32).ravel()}
