"""The reference platform: the same operators built for the CPU (LLVM) or CUDA, run one call at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tvm

from tapml.compilers.tvm.compile import schedule
from tapml.errors import InputError, ToolchainError
from tapml.graph import Node, NodeKind
from tapml.graph.model import TensorType, numpy_dtype
from tapml.kernels.lower import Lowered
from tapml.kernels.programs.emit import prim_func
from tapml.kernels.programs.guard import guarded
from tapml.kernels.quiet import quiet_tvm, reason

Values = dict[str, Any]
"""Value id -> tvm.runtime.Tensor on the reference device."""

PLATFORMS = ("cpu", "cuda")


class Reference:
    """Operators compiled for one reference platform.

    Raises InputError for an unknown platform and for operators that TVM cannot compile, or that could reach outside
    their tensors; ToolchainError where the platform is not on this machine.
    """

    def __init__(self, lowered: Lowered, platform: str = "cpu") -> None:
        if platform not in PLATFORMS:
            raise InputError(f"unknown reference platform {platform!r}: choose {' or '.join(PLATFORMS)}")
        if platform == "cuda" and not tvm.cuda().exist:
            raise ToolchainError("there is no CUDA device on this machine: carve with --reference cpu")
        self.platform = platform
        self.device = tvm.cuda() if platform == "cuda" else tvm.cpu()
        self.graph = lowered.graph
        self._functions = _build(lowered, platform)
        self._types = {name: _types(lowered.kernel(name)) for name in self.graph.kernels}

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

    def values(self, arrays: Mapping[str, np.ndarray]) -> Values:
        return {value: self.tensor(array) for value, array in arrays.items()}

    def call(self, kernel: str, inputs: list[Any], outputs: list[TensorType]) -> list[Any]:
        """Run one operator on reference tensors into newly allocated outputs.

        Raises InputError for tensors of other types than the operator's: compiled code counts on them.
        """
        found = [TensorType(tuple(tensor.shape), str(tensor.dtype)) for tensor in inputs] + outputs
        if found != self._types[kernel]:
            raise InputError(
                f"operator {kernel} takes {', '.join(map(str, self._types[kernel]))} and was given "
                f"{', '.join(map(str, found))}"
            )
        results = [tvm.runtime.empty(t.shape, t.dtype, self.device) for t in outputs]
        self.native(kernel)(*inputs, *results)
        return results

    def native(self, kernel: str) -> Callable[..., None]:
        """The compiled operator: it takes inputs and outputs, on this platform and of its very types."""
        function: Callable[..., None] = self._functions[kernel]
        return function

    def run_node(self, node: Node, values: Values) -> None:
        """Run `node` (or take its view), reading from and writing to `values`."""
        inputs = [values[value] for value in node.inputs]
        types = [self.graph.values[value].type for value in node.outputs]
        if node.kind is NodeKind.VIEW:
            # tvm.runtime.Tensor has no reshape that shares memory on every device; views are rare and small.
            values[node.outputs[0]] = self.tensor(inputs[0].numpy().reshape(types[0].shape))
        else:
            values.update(zip(node.outputs, self.call(node.kernel, inputs, types), strict=True))

    def run(
        self,
        values: Values,
        nodes: Iterable[Node] | None = None,
        after: Callable[[Node, Values], None] | None = None,
    ) -> Values:
        """Run nodes (default: all) in order. `after(node, values)` sees each call's outputs, and may replace them."""
        for node in self.graph.nodes if nodes is None else nodes:
            self.run_node(node, values)
            if after:
                after(node, values)
        self.device.sync()
        return values


def to_numpy(tensor: Any, dtype: str) -> np.ndarray:
    """A tensor's elements as a numpy array of the graph's dtype."""
    array: np.ndarray = tensor.numpy()
    expected = numpy_dtype(dtype)
    return array if array.dtype == expected else array.view(expected)


def _types(prim_func: Any) -> list[TensorType]:
    """Of its arguments: inputs, then outputs."""
    types = [parameter.ty for parameter in prim_func.params]
    return [TensorType(tuple(int(extent) for extent in ty.shape), str(ty.dtype)) for ty in types]


def _build(lowered: Lowered, platform: str) -> dict[str, Any]:
    target = tvm.target.Target("llvm" if platform == "cpu" else {"kind": "cuda", "arch": _cuda_arch()})
    # Symbols of our own: a suite's name for an operator may be that of a function of the C library.
    symbols = {name: f"operator_{number}" for number, name in enumerate(lowered.graph.kernels)}
    try:
        with quiet_tvm():
            functions = {symbol: _native(lowered, name, platform) for name, symbol in symbols.items()}
            module = tvm.IRModule({symbol: f.with_attr("global_symbol", symbol) for symbol, f in functions.items()})
            if platform == "cuda":
                module = schedule(module, target)
            library = tvm.tirx.build(module, target)
            # Host code becomes callable once it is linked; the JIT does that without a compiler on the machine.
            runnable = library.jit() if hasattr(library, "jit") else library
            return {name: runnable[symbol] for name, symbol in symbols.items()}
    except InputError:
        raise
    except Exception as error:  # TVM raises its own types, without a common base
        raise InputError(f"TVM cannot compile the operators for {platform}: {reason(error)}") from error


def _native(lowered: Lowered, name: str, platform: str) -> Any:
    """What is compiled of an operator. Of a module that is the caller's own code: as it is."""
    program = lowered.programs.get(name)
    if program is None:
        return lowered.kernel(name)
    return prim_func(guarded(program), whole_regions=platform == "cpu")


def _cuda_arch() -> str:
    return "sm_" + "".join(tvm.cuda().compute_version.split("."))
