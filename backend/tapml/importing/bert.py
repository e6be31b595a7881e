"""A BERT sentence encoder as a Relax function, from its configuration and weights."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, te
from tvm.relax import op

from tapml.importing.activations import rounded_by_call
from tapml.importing.model import Array
from tapml.importing.weights import as_tvm_holds

MASKED = -1e9
"""Added to the attention scores of padding: finite, so that no shader meets an infinity, and exp()
of it is 0.
"""


@dataclass(frozen=True)
class BertConfig:
    """The numbers of a BERT encoder, as its config.json names them."""

    hidden_size: int
    num_attention_heads: int
    num_hidden_layers: int
    intermediate_size: int
    layer_norm_eps: float
    max_position_embeddings: int

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> BertConfig:
        """Take the fields above from a config.json; raises KeyError for a missing one."""
        return BertConfig(**{name: document[name] for name in BertConfig.__dataclass_fields__})

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_attention_heads


class BertBuilder:
    """Writes the encoder with mean pooling and L2 normalisation as Relax operators.

    Every weight that is used becomes an argument of main, under the source's name. The weights of
    linear layers are stored transposed, [in, out], with ".T" after the name: a matrix
    multiplication reads them as they are, where the source's [out, in] would be transposed again at
    every call.
    """

    def __init__(self, config: BertConfig, weights: Mapping[str, Array], rounds: Collection[str] = ()) -> None:
        """`rounds`: names of weights whose products round what they are given (activations.py)."""
        self._config = config
        self._rounds = rounds
        self._weights = weights
        self._builder = relax.BlockBuilder()
        self._arguments: dict[str, relax.Var] = {}
        self.parameters: list[tuple[str, Array]] = []

    def build(self, batch: int, tokens: int | str) -> tvm.IRModule:
        """`tokens`: how many there are, or the name of the variable that says so.

        main(input_ids, attention_mask, token_type_ids: int32[batch, length], weights...) ->
        float32[batch, H].
        """
        length = tvm.tirx.Var(tokens, "int64") if isinstance(tokens, str) else tokens
        integers = relax.TensorType((batch, length), "int32")
        ids, mask, types = (relax.Var(name, integers) for name in ("input_ids", "attention_mask", "token_type_ids"))
        with self._builder.function("main"):
            with self._builder.dataflow():
                keep = self._emit(op.astype(mask, "float32"), "mask")
                hidden = self._embed(ids, types, length)
                row = self._emit(op.reshape(keep, (batch, 1, 1, length)), "mask")
                bias = self._emit((row - relax.const(1.0)) * relax.const(-MASKED), "attention.bias")
                for layer in range(self._config.num_hidden_layers):
                    hidden = self._layer(f"encoder.layer.{layer}", hidden, bias, batch, length)
                pooled = self._pool(hidden, keep, batch, length)
                result = self._builder.emit_output(pooled)
            self._builder.emit_func_output(result, params=[ids, mask, types, *self._arguments.values()])
        return self._builder.finalize()

    def _weight(self, name: str, transposed: bool = False) -> relax.Var:
        """An argument of main, declared where it is used first."""
        data = self._weights[name].astype(np.float32, copy=False)
        if transposed:
            name, data = f"{name}.T", data.T
        if name not in self._arguments:
            self.parameters.append((name, as_tvm_holds(data)))
            self._arguments[name] = relax.Var(name, relax.TensorType(data.shape, "float32"))
        return self._arguments[name]

    def _emit(self, expression: Any, name: str) -> Any:
        return self._builder.emit(expression, name)

    def _embed(self, ids: Any, types: Any, length: Any) -> Any:
        words = self._emit(op.take(self._weight("embeddings.word_embeddings.weight"), ids, axis=0), "words")
        kinds = self._emit(op.take(self._weight("embeddings.token_type_embeddings.weight"), types, axis=0), "kinds")
        table = self._weight("embeddings.position_embeddings.weight")
        width = self._config.hidden_size

        def strided_slice(data: Any) -> Any:
            # Not TVM's own: the shape of a slice up to a variable is more than its simplifier sees through.
            return te.compute((length, width), lambda row, column: data[row, column], name="strided_slice")

        positions = self._builder.emit_te(strided_slice, table)
        return self._norm("embeddings.LayerNorm", words + kinds + positions)

    def _layer(self, name: str, hidden: Any, bias: Any, batch: int, length: Any) -> Any:
        config = self._config
        split = (batch, length, config.num_attention_heads, config.head_size)

        def heads(part: str, axes: tuple[int, ...]) -> Any:
            projected = self._linear(f"{name}.attention.self.{part}", hidden)
            return self._emit(op.permute_dims(op.reshape(projected, split), axes), part)

        query, value = heads("query", (0, 2, 1, 3)), heads("value", (0, 2, 1, 3))
        key = heads("key", (0, 2, 3, 1))
        scores = self._emit(op.matmul(query, key), "scores")
        scaled = self._emit(scores * relax.const(1 / math.sqrt(config.head_size)) + bias, "scores")
        attention = self._emit(op.nn.softmax(scaled, axis=-1), "attention")
        context = self._emit(op.permute_dims(op.matmul(attention, value), (0, 2, 1, 3)), "context")
        joined = self._emit(op.reshape(context, (batch, length, config.hidden_size)), "context")
        attended = self._norm(
            f"{name}.attention.output.LayerNorm",
            self._linear(f"{name}.attention.output.dense", joined) + hidden,
        )
        inner = self._emit(op.nn.gelu(self._linear(f"{name}.intermediate.dense", attended)), "gelu")
        return self._norm(f"{name}.output.LayerNorm", self._linear(f"{name}.output.dense", inner) + attended)

    def _linear(self, name: str, data: Any) -> Any:
        if f"{name}.weight" in self._rounds:
            data = rounded_by_call(self._builder, data)
        product = self._emit(op.matmul(data, self._weight(f"{name}.weight", transposed=True)), "matmul")
        return self._emit(product + self._weight(f"{name}.bias"), "linear")

    def _norm(self, name: str, data: Any) -> Any:
        weight, bias = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        data = self._emit(data, "sum")
        normal = op.nn.layer_norm(data, weight, bias, axes=-1, epsilon=self._config.layer_norm_eps)
        return self._emit(normal, "layer_norm")

    def _pool(self, hidden: Any, keep: Any, batch: int, length: Any) -> Any:
        """Mean of the real tokens, scaled to length 1: [batch, length, H] -> [batch, H]."""
        column = self._emit(op.reshape(keep, (batch, length, 1)), "mask")
        mean = self._emit(op.sum(hidden * column, axis=1) / op.sum(column, axis=1), "mean")
        norm = self._emit(op.sqrt(op.sum(mean * mean, axis=-1, keepdims=True)), "norm")
        return self._emit(mean / norm, "embedding")
