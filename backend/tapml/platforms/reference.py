"""The reference platform: the same operators built for the CPU (LLVM) or CUDA, run one call at a time."""

from __future__ import annotations

import functools
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm

from tapml.compilers.tvm.schedules import schedule
from tapml.errors import InputError, ToolchainError
from tapml.importing.external import implementation
from tapml.importing.model import Functions
from tapml.lowering.emit import prim_func
from tapml.lowering.lower import Model
from tapml.lowering.quiet import quiet_tvm, reason
from tapml.operators.external import External
from tapml.operators.guard import guarded
from tapml.operators.program import OperatorProgram
from tapml.platforms.vectors import vectorized
from tapml.program import Graph, Node, NodeKind
from tapml.program.graph import TensorType, numpy_dtype

Values = dict[str, Any]
"""Value id -> tvm.runtime.Tensor on the reference device."""

PLATFORMS = ("cpu", "cuda")
_FEW_STEPS = 3_000_000
"""Steps of all calls of an operator below which LLVM leaves it as it is: it takes longer over an operator than most
need to run, some four times in a carve."""

_Call = tuple[tuple[TensorType, ...], frozenset[tuple[str, int]]]
"""Types of the arguments, and sizes of the symbols: an operator may compute with a size that is in no shape."""


class Reference:
    """Operators compiled for one reference platform, for the sizes of one call or several.

    Those that are computed elsewhere are run there, by ONNX Runtime, PyTorch or `functions` of their names.

    Raises InputError for an unknown platform, for operators that TVM cannot compile, or that could reach outside
    their tensors, and for what cannot be run elsewhere; ToolchainError where the platform is not on this machine.
    """

    def __init__(self, *models: Model, platform: str = "cpu", functions: Functions = MappingProxyType({})) -> None:
        if platform not in PLATFORMS:
            raise InputError(f"unknown reference platform {platform!r}: choose {' or '.join(PLATFORMS)}")
        if platform == "cuda" and not tvm.cuda().exist:
            raise ToolchainError("there is no CUDA device on this machine: carve with --reference cpu")
        self.platform = platform
        self.device = tvm.cuda() if platform == "cuda" else tvm.cpu()
        self._functions = _build(models, platform)
        programs = {name: found for model in models for name, found in model.programs.items()}
        self._elsewhere = {
            name: implementation(found, functions) for name, found in programs.items() if isinstance(found, External)
        }

    @property
    def description(self) -> str:
        """What ran, for the suite's provenance."""
        name = self.device.device_name if self.platform == "cuda" else "LLVM"
        return f"tvm {tvm.__version__} on {self.platform} ({name})"

    def tensor(self, array: np.ndarray) -> Any:
        """A copy of `array` on the reference device. Of bool, only 0 and 1: compilers count on that."""
        if array.dtype == np.bool_:
            array = array.view(np.uint8) != 0
        return tvm.runtime.tensor(np.asarray(array, order="C"), device=self.device)

    def shared(self, array: np.ndarray) -> Any:
        """`array` itself on the reference device where that is this machine's memory, and it lies there as TVM has it
        (importing/weights.py); otherwise a copy. Nobody may change it."""
        fits = self.platform == "cpu" and array.ctypes.data % 64 == 0 and array.dtype != np.bool_
        fits = fits and array.flags.c_contiguous and array.flags.writeable and array.size > 0
        return tvm.runtime.from_dlpack(array) if fits else self.tensor(array)

    def values(self, arrays: Mapping[str, np.ndarray]) -> Values:
        return {value: self.tensor(array) for value, array in arrays.items()}

    def call(
        self, kernel: str, inputs: list[Any], outputs: list[TensorType], sizes: Mapping[str, int] = MappingProxyType({})
    ) -> list[Any]:
        """Run one operator, at the `sizes` of the call's symbols, on reference tensors into newly allocated outputs.

        Raises InputError for tensors of other types than the operator's: compiled code counts on them.
        """
        if kernel in self._elsewhere:
            return self._call_elsewhere(kernel, inputs, [found.logical for found in outputs])
        types = [TensorType(tuple(tensor.shape), str(tensor.dtype)) for tensor in inputs]
        types += [found.logical for found in outputs]
        function = self.native(kernel, types, sizes)
        results = [tvm.runtime.empty(t.shape, t.dtype, self.device) for t in outputs]
        function(*inputs, *results)
        return results

    def _call_elsewhere(self, kernel: str, inputs: list[Any], outputs: list[TensorType]) -> list[Any]:
        found = self._elsewhere[kernel]([tensor.numpy() for tensor in inputs])
        types = [TensorType(array.shape, str(array.dtype)) for array in found]
        if types != outputs:
            raise InputError(
                f"operator {kernel} gave {', '.join(map(str, types))}, not {', '.join(map(str, outputs))}: what it is "
                "computed by may give no shape that depends on values"
            )
        return [self.tensor(array) for array in found]

    def native(
        self, kernel: str, types: Sequence[TensorType], sizes: Mapping[str, int] = MappingProxyType({})
    ) -> Callable[..., None]:
        """The compiled operator for arguments of these very types, at these sizes: inputs, then outputs.

        Raises InputError where it was not compiled for them.
        """
        compiled = self._functions[kernel]
        function: Callable[..., None] | None = compiled.get((tuple(types), frozenset(sizes.items())))
        if function is None:
            takes = " or ".join(", ".join(map(str, known)) for known, _ in list(compiled)[:4])
            raise InputError(f"operator {kernel} takes {takes} and was given {', '.join(map(str, types))}")
        return function

    def run_node(self, graph: Graph, node: Node, values: Values) -> None:
        """Run a graph's `node` (or take its view), reading from and writing to `values`."""
        inputs = [values[value] for value in node.inputs]
        types = [graph.values[value].type for value in node.outputs]
        if node.kind is NodeKind.VIEW:
            # tvm.runtime.Tensor has no reshape that shares memory on every device; views are rare and small.
            values[node.outputs[0]] = self.tensor(inputs[0].numpy().reshape(types[0].shape))
        else:
            values.update(zip(node.outputs, self.call(node.kernel, inputs, types, graph.sizes), strict=True))

    def run(
        self,
        graph: Graph,
        values: Values,
        after: Callable[[Node, Values], None] | None = None,
        instead: Callable[[Graph, Node, Values], None] | None = None,
    ) -> Values:
        """Run a graph's nodes in order. `after(node, values)` sees each call's outputs, and may replace them;
        `instead(graph, node, values)` runs each node in place of `run_node`.

        What no later node reads leaves `values`: what is left are the graph's outputs, and what it was given.
        """
        last = {value: node.id for node in graph.nodes for value in (*node.outputs, *node.inputs)}
        given = {*values, *graph.outputs}
        for node in graph.nodes:
            (instead or self.run_node)(graph, node, values)
            if after:
                after(node, values)
            for value in {*node.inputs, *node.outputs} - given:
                if last[value] == node.id:
                    del values[value]
        self.device.sync()
        return values


def to_numpy(tensor: Any, dtype: str) -> np.ndarray:
    """A tensor's elements as a numpy array of the graph's dtype."""
    array: np.ndarray = tensor.numpy()
    expected = numpy_dtype(dtype)
    return array if array.dtype == expected else array.view(expected)


def _types(program: OperatorProgram | Any) -> tuple[TensorType, ...]:
    """Of its arguments: inputs, then outputs."""
    if isinstance(program, OperatorProgram):
        return tuple(TensorType(buffer.shape, buffer.dtype) for buffer in program.parameters)
    types = [parameter.ty for parameter in program.params]
    return tuple(TensorType(tuple(int(extent) for extent in ty.shape), str(ty.dtype)) for ty in types)


def _build(models: Sequence[Model], platform: str) -> dict[str, dict[_Call, Any]]:
    """Kernel -> call -> function. What is the same program at several sizes is compiled once."""
    calls: dict[tuple[str, _Call], str] = {}
    # By target: LLVM takes far longer to optimize an operator than most need to run.
    functions: dict[str, dict[str, Any]] = {}
    # Symbols of our own: a suite's name for an operator may be that of a function of the C library.
    symbols: dict[Any, str] = {}
    try:
        with quiet_tvm():
            times = _times(models)
            for model in models:
                for name, program in model.programs.items():
                    if isinstance(program, External):
                        continue
                    symbol = symbols.setdefault((name, program), f"operator_{len(symbols)}")
                    calls[name, (_types(program), frozenset(model.graph.sizes.items()))] = symbol
                    if not any(symbol in found for found in functions.values()):
                        target, function = _prepared(program, platform, times[name, program])
                        functions.setdefault(target, {})[symbol] = function.with_attr("global_symbol", symbol)
            runnable: dict[str, Any] = {}
            for target, found in functions.items():
                library = _library(tvm.IRModule(found), tvm.target.Target(json.loads(target)))
                runnable |= {symbol: library[symbol] for symbol in found}
            built: dict[str, dict[_Call, Any]] = {}
            for (name, call), symbol in calls.items():
                built.setdefault(name, {})[call] = runnable[symbol]
            return built
    except InputError:
        raise
    except Exception as error:  # TVM raises its own types, without a common base
        raise InputError(f"TVM cannot compile the operators for {platform}: {reason(error)}") from error


def _times(models: Sequence[Model]) -> Counter[tuple[str, Any]]:
    """How often each program is called, under its name, in one call of each of the models."""
    found: Counter[tuple[str, Any]] = Counter()
    for model in models:
        calls = Counter(node.kernel for node in model.graph.kernel_nodes)
        for name, program in model.programs.items():
            if not isinstance(program, External):
                found[name, program] += calls[name]
    return found


def _prepared(program: OperatorProgram | Any, platform: str, times: int) -> tuple[str, Any]:
    """The target that an operator is built for, as JSON, and its PrimFunc; it will be called so many times."""
    if platform == "cuda":
        target = json.dumps({"kind": "cuda", "arch": _cuda_arch()})
        return target, prim_func(guarded(program)) if isinstance(program, OperatorProgram) else program
    if not isinstance(program, OperatorProgram):  # the caller's own code: as it is
        return _llvm(3), program
    found = vectorized(guarded(program))
    function = prim_func(found.program, whole_regions=True, lanes=found.lanes)
    return _llvm(0 if times * found.steps < _FEW_STEPS else 1), function


def _llvm(level: int) -> str:
    # Of LLVM's two the JIT that keeps half as much of each operator. On Windows and macOS TVM's own choice.
    kept = {"jit": "mcjit"} if sys.platform == "linux" else {}
    # Longer vectors alone change no result. What multiplies and adds at once (fma) would, and is not among them.
    wide = {"mattr": ["+avx2"]} if _has_avx2() else {}
    return json.dumps({"kind": "llvm", "opt-level": level, **kept, **wide})


@functools.cache
def _has_avx2() -> bool:
    """Whether this machine and its kernel have it, which the name of a processor does not tell."""
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(errors="replace"), re.MULTILINE)
    except OSError:  # no Linux
        return False
    return flags is not None and "avx2" in flags[1].split()


def _library(module: tvm.IRModule, target: tvm.target.Target) -> Any:
    if target.kind.name == "cuda":
        module = schedule(module, target)
    # Half of what LLVM would compile: checks of the arguments' types, which `native` has seen to.
    with tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        library = tvm.tirx.build(module, target)
    # Host code becomes callable once it is linked; the JIT does that without a compiler on the machine.
    return library.jit() if hasattr(library, "jit") else library


def _cuda_arch() -> str:
    return "sm_" + "".join(tvm.cuda().compute_version.split("."))
