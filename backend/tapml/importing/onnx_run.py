"""Run an ONNX model on this CPU without TVM: the oracle."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from tapml.errors import InputError
from tapml.importing.model import Array
from tapml.importing.onnx_tensors import subgraphs

# Read when ONNX Runtime is imported, which happens here only: without it, it writes an identifier of this machine
# below the home folder and sends what it is used for. Whoever wants that sets the variable to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


class Oracle(Protocol):
    """Runs a model."""

    name: str
    """With its version."""

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
        """The values `names` for the inputs; raises InputError where the run fails."""


class OnnxRuntime:
    """ONNX Runtime on a model file or on a serialized model, whose external data may lie in `folder`, or be `weights`
    by name: it keeps a serialized model besides what it makes of it, these it takes as they are.

    Graph optimizations are off: the oracle computes what the file says, operator by operator.
    Raises InputError (at construction) where ONNX Runtime is not installed, or refuses the model.
    """

    def __init__(
        self, model: Path | bytes, folder: Path | None = None, weights: Mapping[str, Array] = MappingProxyType({})
    ) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise InputError("onnxruntime is not installed: pip install onnxruntime") from error

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        # It grows by doubling, and a model is run once for each step.
        options.enable_cpu_mem_arena = False
        # Its threads would turn in a loop for a while after each operator, in wait for the next: a carve has pieces of
        # a model run, a few operators each.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if folder is not None and isinstance(model, bytes):
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
        # The session reads them where they are, as long as it lives.
        self._weights = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in weights.items()}
        source = model if isinstance(model, bytes) else str(model)
        try:
            if weights:
                options.add_external_initializers([*self._weights], [*self._weights.values()])
            self._session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exception classes are not public
            raise InputError(f"ONNX Runtime cannot run the model: {error}") from error
        self.name = f"onnxruntime {onnxruntime.__version__}"

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
        """As `Oracle.run`."""
        try:
            return list(self._session.run(list(names), dict(inputs)))
        except Exception as error:  # as above
            raise InputError(f"ONNX Runtime could not run the model on these inputs: {error}") from error


class OnnxReference:
    """The reference implementation that comes with ONNX, in numpy: slow, and it knows every operator of its version.

    A model file or a serialized model, as for `OnnxRuntime`. Raises InputError (at construction) where it refuses it.
    """

    def __init__(self, model: Path | bytes, folder: Path | None = None) -> None:
        import onnx
        from onnx.external_data_helper import load_external_data_for_model
        from onnx.reference import ReferenceEvaluator

        try:
            loaded = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
            if folder is not None and isinstance(model, bytes):
                load_external_data_for_model(loaded, str(folder))
            self._evaluator = ReferenceEvaluator(loaded)
        except Exception as error:  # whatever its operators raise
            raise InputError(f"onnx.reference cannot run the model: {error}") from error
        if (ignored := _ignored(loaded.graph)) is not None:
            raise InputError(f"onnx.reference cannot run the model: it ignores {ignored}")
        self.name = f"onnx.reference {onnx.__version__}"

    def run(self, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
        """As `Oracle.run`."""
        try:
            with np.errstate(all="ignore"):
                return [np.asarray(found) for found in self._evaluator.run(list(names), dict(inputs))]
        except Exception as error:  # as above
            raise InputError(f"onnx.reference could not run the model on these inputs: {error}") from error


_GATES = {"activation_alpha", "activation_beta", "activations", "clip", "input_forget"}
_IGNORED = {"GRU": _GATES, "LSTM": _GATES, "RNN": {"clip"}}
"""Attributes that onnx.reference takes no notice of. Of the same operators it ignores sequence_lens, too."""


def _ignored(graph: Any) -> str | None:
    """What onnx.reference would leave out, without a word."""
    for node in graph.node:
        if node.op_type in _IGNORED:
            if len(node.input) > 4 and node.input[4]:
                return f"sequence_lens of {node.op_type}"
            for attribute in node.attribute:
                if attribute.name in _IGNORED[node.op_type]:
                    return f"{attribute.name} of {node.op_type}"
        for inner in subgraphs(node):
            if (found := _ignored(inner)) is not None:
                return found
    return None


def drop_unused(graph: Any) -> None:
    """Remove the nodes and weights that no output needs."""
    needed = {output.name for output in graph.output}
    # One by one: protobuf would copy what is put back, and keep both.
    for place, node in reversed(list(enumerate(graph.node))):
        if needed.intersection(node.output):
            needed.update(read_by(node))
        else:
            del graph.node[place]
    for place, tensor in reversed(list(enumerate(graph.initializer))):
        if tensor.name not in needed:
            del graph.initializer[place]


def read_by(node: Any) -> set[str]:
    """The names a node reads, those its subgraphs take from outside included."""
    names = {name for name in node.input if name}
    for graph in subgraphs(node):
        for inner in graph.node:
            names |= read_by(inner)
        names |= {output.name for output in graph.output}
    return names
