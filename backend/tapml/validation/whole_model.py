"""A suite's whole model as TVM deploys it: one wasm, run by the tvmjs virtual machine, every node on the device."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapml.compilers.cache.compile import CACHE_KERNELS
from tapml.compilers.tvm.library import kernel_texts, model_library
from tapml.devices.commands import message
from tapml.devices.messages import KernelMessages, encodes, made_by_tvm
from tapml.errors import InputError
from tapml.files import sha256
from tapml.lowering.lower import Model
from tapml.protocol.methods import RunModelParams
from tapml.protocol.session import RUN_MODEL
from tapml.suite import Suite, TensorRef
from tapml.text import listed
from tapml.validation.context import JobContext
from tapml.validation.hybrid import ModelStep

_NAMED = 4
"""Of kernels and values in a message."""


def no_library(suite: Suite) -> str:
    """Why no library of the whole model can be made; empty where one can."""
    values = suite.model_graph.values.items()
    # Weights are given to it as their dtype says, to kernels of its own.
    if encoded := [
        value.name or name for name, value in values if value.type.encoding and name not in suite.parameters
    ]:
        return f"TVM's virtual machine knows no encodings, which {listed(encoded, _NAMED)} have"
    bundles = {name: suite.bundle(name) for name in suite.model_graph.kernels}
    if without := [name for name, bundle in bundles.items() if bundle["unsupported"]]:
        return f"no compiler has WGSL for {listed(without, _NAMED)}"
    if others := [name for name, bundle in bundles.items() if not _in_library(bundle)]:
        makers = listed(list(dict.fromkeys(bundles[name]["compiler"]["name"] for name in others)), _NAMED)
        return f"TVM's virtual machine runs the kernels that TVM made alone, and {makers} made {listed(others, _NAMED)}"
    return ""


def _in_library(bundle: Mapping[str, Any]) -> bool:
    """Whether TVM makes a kernel of the operator, too."""
    made = bundle["compiler"]
    # A decoder's draws have no program, of which TVM could make one.
    return made_by_tvm(bundle) or (made["name"] == CACHE_KERNELS.name and "reference" not in made)


class WholeModel:
    """The libraries of a suite's model, one for each sizes of its steps, with the suite's kernels in place of their
    own. A context manager: devices have what they need until it is left."""

    def __init__(self, context: JobContext, models: Sequence[Model], kernels: KernelMessages) -> None:
        """`models`: the suite's (read_models), of which there is a library (`no_library`).

        Raises InputError for what TVM cannot build, and ToolchainError where emscripten is missing.
        """
        self._context = context
        self.seconds: dict[str, Any] = {}
        """Of the last run."""
        # A library's kernels are made for its sizes alone, a suite's for all that its symbols may have.
        symbolic = bool(context.suite.program.symbols)
        names = context.suite.model_graph.kernels
        # Of the operators that another compiler has kernels of, the library has TVM's, as of those that read halves.
        bundles = {name: context.suite.bundle(name) for name in names}
        own = [name for name in names if symbolic or not made_by_tvm(bundles[name]) or encodes(bundles[name])]
        if edited := [name for name in own if kernels.edited(name)]:
            what = "a model with symbols is made for one size and" if symbolic else "the whole model is TVM's and"
            raise InputError(
                f"not run: the library of {what} takes no edited kernel ({listed(edited, _NAMED)}); the steps above "
                "ran them"
            )
        self._libraries = {model.graph: self._library(model) for model in models}
        with contextlib.ExitStack() as held:
            # Neither takes TVM's text as it is, of which not every browser takes every number.
            self._replace = {
                model.graph: {
                    **(self._held(kernel_texts(model), held) if own else {}),
                    **({} if symbolic else kernels.replacements()),
                }
                for model in models
            }
            self._parameters = {value: self._plain(ref, held) for value, ref in context.suite.parameters.items()}
            self._exit = held.pop_all()

    def __enter__(self) -> WholeModel:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def run(self, step: ModelStep) -> list[np.ndarray]:
        """The model's outputs of a step. Raises what `Device.call` raises."""
        self._context.cancel.check()
        suite = self._context.suite
        refs = {value: ref for value, (ref, _) in step.inputs.items()} | self._parameters
        types = [step.graph.values[value].type for value in step.graph.outputs]
        fields = {
            "wasm": self._libraries[step.graph],
            "function": "main",
            "arguments": [refs[value].to_json() for value in suite.arguments_of(step.graph)],
            "outputs": [tensor.to_json() for tensor in types],
            "replace": dict(self._replace[step.graph]),
            "runs": 2,  # the second shows the time without first-use costs
        }
        params = message(RunModelParams, fields, "the model")
        check, hang_seconds = self._context.cancel.check, self._context.hang_seconds
        called = self._context.device.call(RUN_MODEL, params, types, check=check, hang_seconds=hang_seconds)
        self.seconds = called.result.seconds.model_dump()
        return called.arrays

    def _library(self, model: Model) -> str:
        """The digest of its wasm."""
        library = model_library(model, lambda text: self._context.message(text, "info"))
        digest = sha256(library.read_bytes())
        self._context.blobs.add_file(library, digest)
        return digest

    def _plain(self, ref: TensorRef, held: contextlib.ExitStack) -> TensorRef:
        """A weight as its dtype says; devices have it until `held` is closed."""
        if ref.encoding is None:
            return ref
        digest = self._context.blobs.hold(np.ascontiguousarray(self._context.suite.tensors.get(ref)).tobytes())
        held.callback(self._context.blobs.release, digest)
        return TensorRef(digest, ref.dtype, ref.shape)

    def _held(self, texts: Mapping[str, str], held: contextlib.ExitStack) -> dict[str, str]:
        """Digests of texts by their entry points; devices have them until `held` is closed."""
        digests = {entry_point: self._context.blobs.hold(text.encode()) for entry_point, text in texts.items()}
        for digest in digests.values():
            held.callback(self._context.blobs.release, digest)
        return digests
