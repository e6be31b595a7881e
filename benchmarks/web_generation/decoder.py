"""tiny as ONNX Runtime takes decoders at its best: its own fused operators, with the cache as inputs and outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

_OWN = "com.microsoft"


class _Graph:
    """Nodes one after the other, each of one output but for those that say so."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, name: str, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, outputs: tuple[str, ...] = (), domain: str = "", **attributes: Any) -> str:
        outputs = outputs or (f"t{len(self.nodes)}",)
        self.nodes.append(helper.make_node(kind, list(inputs), list(outputs), domain=domain, **attributes))
        return outputs[0]


def write_decoder(folder: Path, path: Path) -> None:
    """Write the Llama of a folder of transformers, its weights in float32.

    Inputs: `input_ids` int64 [1, n], `seqlens_k` int32 [1] (tokens so far, less one), `total` int32 [] (tokens so far),
    `past.N.key` and `.value`. Outputs: `logits` [1, 1, vocabulary] of the last token, `present.N.key` and `.value`
    [1, kv heads, tokens so far, head dim].
    """
    config = json.loads((folder / "config.json").read_text())
    weights = {name: value.astype(np.float32) for name, value in load_file(folder / "model.safetensors").items()}
    heads, groups, size = (config[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    epsilon = config["rms_norm_eps"]
    graph = _Graph()
    angles = np.outer(
        np.arange(config["max_position_embeddings"]), config["rope_theta"] ** -(np.arange(0, size, 2) / size)
    )
    cosine = graph.weight("cosine", np.cos(angles).astype(np.float32))
    sine = graph.weight("sine", np.sin(angles).astype(np.float32))
    embedding = graph.weight("embedding", weights["model.embed_tokens.weight"])

    def linear(x: str, name: str) -> str:
        return graph.add("MatMul", x, graph.weight(name, weights[f"{name}.weight"].T))

    def normalized(x: str, name: str) -> str:
        weight = graph.weight(name, weights[f"{name}.weight"])
        return graph.add("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=epsilon, stash_type=1)

    hidden = graph.add("Gather", embedding, "input_ids")
    inputs, outputs = [], []
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        x = normalized(hidden, f"{at}.input_layernorm")
        q, k, v = (linear(x, f"{at}.self_attn.{part}_proj") for part in "qkv")
        past = [f"past.{layer}.{part}" for part in ("key", "value")]
        present = [f"present.{layer}.{part}" for part in ("key", "value")]
        attended = graph.add(
            "GroupQueryAttention", q, k, v, *past, "seqlens_k", "total", cosine, sine,
            outputs=(f"attended{layer}", *present), domain=_OWN, num_heads=heads, kv_num_heads=groups, do_rotary=1,
            rotary_interleaved=0,
        )  # fmt: skip
        hidden = graph.add("Add", hidden, linear(attended, f"{at}.self_attn.o_proj"))
        x = normalized(hidden, f"{at}.post_attention_layernorm")
        gate, up = (linear(x, f"{at}.mlp.{part}_proj") for part in ("gate", "up"))
        gated = graph.add("Mul", graph.add("Mul", gate, graph.add("Sigmoid", gate)), up)
        hidden = graph.add("Add", hidden, linear(gated, f"{at}.mlp.down_proj"))
        inputs += [_cache(name, groups, "before", size) for name in past]
        outputs += [_cache(name, groups, "after", size) for name in present]
    ends = [graph.weight(name, np.array([value], np.int64)) for name, value in (("-1", -1), ("all", 2**62), ("1", 1))]
    last = graph.add("Slice", normalized(hidden, "model.norm"), ends[0], ends[1], ends[2])
    head = graph.weight("head", weights["model.embed_tokens.weight"].T)
    graph.add("MatMul", last, head, outputs=("logits",))
    given = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "n"]),
        helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, [1]),
        helper.make_tensor_value_info("total", TensorProto.INT32, []),
    ]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1, config["vocab_size"]])
    made = helper.make_graph(graph.nodes, "tiny", [*given, *inputs], [logits, *outputs], graph.weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_OWN, 1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(made, opset_imports=opsets, ir_version=9), path)


def _cache(name: str, groups: int, tokens: str, size: int) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, groups, tokens, size])


def continued(path: Path, ids: list[int], count: int) -> list[int]:
    """What the file continues with on this machine's processor, greedily."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    past = {
        given.name: np.zeros((1, given.shape[1], 0, given.shape[3]), np.float32)
        for given in session.get_inputs()
        if given.name.startswith("past.")
    }
    names = [output.name for output in session.get_outputs()]
    found: list[int] = []
    given, total = ids, 0
    while len(found) < count:
        total += len(given)
        fed = {
            "input_ids": np.array([given], np.int64),
            "seqlens_k": np.array([total - 1], np.int32),
            "total": np.array(total, np.int32),
            **past,
        }
        outputs = dict(zip(names, session.run(None, fed), strict=True))
        found.append(int(outputs.pop("logits").argmax()))
        past = {name.replace("present", "past"): value for name, value in outputs.items()}
        given = found[-1:]
    return found
