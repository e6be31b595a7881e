"""The Python API of the TapML paper's Figure 5: compile, upload, tensors and calls, the same on every device.

library = tml.compile(module, tml.webgpu())
remote = tml.upload(library, tml.webgpu())
x = tml.tensor(array, tml.webgpu())
y = tml.allocate(shape, dtype, tml.webgpu())
remote.get_function("transformer_block")(x, y)
np.testing.assert_allclose(y.numpy(), expected)
"""

from __future__ import annotations

import atexit
import itertools
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tapml.carving.reference import Reference, to_numpy
from tapml.devices import Device as RemoteDevice
from tapml.devices.messages import kernel_message
from tapml.errors import DeviceError, InputError
from tapml.files import sha256
from tapml.graph import Graph, NodeKind, TensorType
from tapml.graph.model import numpy_dtype
from tapml.kernels.bundle import CompiledKernel
from tapml.kernels.compile import compile_kernels
from tapml.kernels.lower import Lowered, lower
from tapml.server import Server

_names = itertools.count()
_lock = threading.Lock()
_server: Server | None = None


class Device:
    """Where tensors live and functions run: `cpu()` or `webgpu(...)`."""

    kind: str

    def __repr__(self) -> str:
        return f"tapml.{self.kind}()"


class _Cpu(Device):
    kind = "cpu"


class _WebGpu(Device):
    kind = "webgpu"

    def __init__(self, name: str, remote: RemoteDevice, server: Server) -> None:
        self.name = name
        self.remote = remote
        self.blobs = server.state.blobs

    def __repr__(self) -> str:
        return f"tapml.webgpu({self.name!r})"

    def execute(
        self, commands: list[dict[str, Any]], kernels: Sequence[dict[str, Any]] = (), download: int = 0
    ) -> bytes:
        params = {"kernels": list(kernels), "commands": commands}
        return self.remote.call("execute", params, download_bytes=download).downloads


_cpu = _Cpu()
_webgpu: dict[str, _WebGpu] = {}


def cpu() -> Device:
    """This machine's CPU, through TVM's LLVM code generator."""
    return _cpu


def webgpu(browser: str = "chromium") -> Device:
    """A browser's WebGPU, started headless on first use: "chromium" or "firefox"; "open" waits for someone to open
    the printed address in any browser.

    Raises ToolchainError where the browser cannot be started, InputError for an unknown name or a browser without
    WebGPU.
    """
    global _server
    with _lock:
        known = _webgpu.get(browser)
        if known is not None and known.remote.connected:
            return known
        if _server is None:
            _server = Server()
            atexit.register(_server.stop)
        state = _server.state
        if browser == "open":
            remote = state.wait_for_device(waiting=lambda: print(f"open {state.runner_url} in a browser", flush=True))
        else:
            remote = state.device(browser)
        if remote.hello.unavailable:
            raise InputError(f"{remote.name} cannot run kernels: {remote.hello.unavailable}")
        _webgpu[browser] = _WebGpu(browser, remote, _server)
        return _webgpu[browser]


class Tensor:
    """A tensor on a device. Freed there when Python drops it."""

    def __init__(self, device: Device, tensor_type: TensorType, handle: Any) -> None:
        self.device = device
        self.type = tensor_type
        self._handle = handle
        if isinstance(device, _WebGpu):
            weakref.finalize(self, _free, device, handle)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    def numpy(self) -> np.ndarray:
        """The elements, copied from the device. Raises DeviceError where it is gone."""
        if isinstance(self.device, _WebGpu):
            command = {"op": "download", "tensor": self._handle}
            data = self.device.execute([command], download=self.type.nbytes)
            if len(data) != self.type.nbytes:
                raise DeviceError(f"the device sent {len(data)} bytes of {self.type.nbytes}", "protocol")
            return np.frombuffer(data, numpy_dtype(self.dtype)).reshape(self.shape).copy()
        return to_numpy(self._handle, self.dtype).copy()

    def __repr__(self) -> str:
        return f"<tapml.Tensor {self.type} on {self.device!r}>"


def _free(device: _WebGpu, handle: str) -> None:
    # Runs in whatever thread drops the tensor, perhaps inside another call: never wait for the device here.
    if device.remote.connected:
        worker = threading.Thread(target=_free_now, args=(device, handle), daemon=True)
        try:
            worker.start()
        except RuntimeError:
            return  # the interpreter is ending, and the browser with it


def _free_now(device: _WebGpu, handle: str) -> None:
    try:
        device.execute([{"op": "free", "tensor": handle}])
    except DeviceError:
        return  # gone with its device


def tensor(data: Any, device: Device | None = None) -> Tensor:
    """A copy of `data` (anything numpy takes; no float64 or int64, which WebGPU lacks) on a device (default: CPU).

    Raises InputError for a dtype that no kernel takes.
    """
    array = np.asarray(data, order="C")
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > 4:
        raise InputError(f"a tensor of {array.dtype} cannot be on every device: convert it to float32 or int32 first")
    tensor_type = TensorType(tuple(array.shape), str(array.dtype))
    target = device or _cpu
    if isinstance(target, _WebGpu):
        name = f"t{next(_names)}"
        with target.blobs.holding([array.tobytes()]) as (digest,):
            target.execute([{"op": "upload", "tensor": name, "digest": digest, **_typed(tensor_type)}])
        return Tensor(target, tensor_type, name)
    return Tensor(target, tensor_type, tvm.runtime.tensor(array))


def allocate(shape: Sequence[int], dtype: str, device: Device | None = None) -> Tensor:
    """A tensor to write into; on WebGPU filled with 0xFF (NaN for floats), so that unwritten elements show."""
    tensor_type = TensorType(tuple(int(d) for d in shape), dtype)
    target = device or _cpu
    if isinstance(target, _WebGpu):
        name = f"t{next(_names)}"
        target.execute([{"op": "allocate", "tensor": name, **_typed(tensor_type)}])
        return Tensor(target, tensor_type, name)
    return Tensor(target, tensor_type, tvm.runtime.empty(tensor_type.shape, dtype, tvm.cpu()))


def _typed(tensor_type: TensorType) -> dict[str, Any]:
    return {"dtype": tensor_type.dtype, "shape": list(tensor_type.shape)}


class Library:
    """A compiled module: named functions for one kind of device. `upload` puts it on a device."""

    def __init__(self, kind: str, functions: dict[str, Lowered]) -> None:
        self.kind = kind
        self.functions = functions
        self._kernels: dict[str, dict[str, CompiledKernel]] = {}
        self._references: dict[str, Reference] = {}
        for name, lowered in functions.items():
            if kind == "webgpu":
                self._kernels[name] = _supported(compile_kernels(lowered, lowered.graph.kernels))
            else:
                self._references[name] = Reference(lowered)

    def function_on(self, name: str, device: Device) -> Function:
        if name not in self.functions:
            raise InputError(f"the module has no function {name!r}; it has {', '.join(self.functions)}")
        if isinstance(device, _WebGpu):
            return _DeviceFunction(name, self.functions[name], self._kernels[name], device)
        return _LocalFunction(name, self.functions[name], self._references[name], device)


class LoadedLibrary:
    """A library on a device."""

    def __init__(self, library: Library, device: Device) -> None:
        self._library = library
        self.device = device

    def get_function(self, name: str) -> Function:
        """Raises InputError for a name the module does not have."""
        return self._library.function_on(name, self.device)

    __getitem__ = get_function


def compile(module: tvm.IRModule, target: Device | str | None = None) -> Library:  # the paper's name
    """Compile every Relax function of `module` for a device (or "cpu", "webgpu"; default: CPU).

    Functions take tensors of static shape and dtypes that WebGPU has. Raises InputError for what cannot be
    lowered to kernels, or has no WGSL.
    """
    kind = target.kind if isinstance(target, Device) else (target or "cpu")
    if kind not in ("cpu", "webgpu"):
        raise InputError(f"unknown target {kind!r}: choose cpu or webgpu")
    names = [gv.name_hint for gv, f in module.functions.items() if isinstance(f, relax.Function)]
    if not names:
        raise InputError("the module has no Relax function to compile")
    return Library(kind, {name: _lower_function(module, name) for name in names})


def _lower_function(module: tvm.IRModule, name: str) -> Lowered:
    function = module[name].with_attr("global_symbol", "main")
    others = {gv: f for gv, f in module.functions.items() if not isinstance(f, relax.Function)}
    single = tvm.IRModule({**others, tvm.ir.GlobalVar("main"): function})
    return lower(single, len(function.params))


def upload(library: Library, device: Device) -> LoadedLibrary:
    """Make a library's functions callable on a device. Raises InputError where it was compiled for another kind."""
    if library.kind != device.kind:
        raise InputError(f"this library was compiled for {library.kind}, not {device.kind}: compile it for {device!r}")
    return LoadedLibrary(library, device)


def _supported(kernels: dict[str, CompiledKernel]) -> dict[str, CompiledKernel]:
    for name, kernel in kernels.items():
        if kernel.document["unsupported"]:
            raise InputError(f"kernel {name} has no WGSL: {kernel.document['unsupported']}")
    return kernels


class Function:
    """A function on a device: call it with its inputs, then the tensors its outputs go to."""

    def __init__(self, name: str, graph: Graph, device: Device) -> None:
        self.name = name
        self.graph = graph
        self.device = device

    @property
    def inputs(self) -> list[TensorType]:
        return [self.graph.values[value].type for value in self.graph.inputs]

    @property
    def outputs(self) -> list[TensorType]:
        """Types to allocate outputs by."""
        return [self.graph.values[value].type for value in self.graph.outputs]

    def __call__(self, *arguments: Tensor) -> None:
        """Raises InputError for arguments of the wrong number, type or device, DeviceError for what the device says."""
        expected = [*self.inputs, *self.outputs]
        if len(arguments) != len(expected):
            count = f"{len(self.inputs)} inputs and {len(self.outputs)} outputs"
            raise InputError(f"{self.name} takes {count}, {len(arguments)} arguments were given")
        for number, (given, wanted) in enumerate(zip(arguments, expected, strict=True)):
            if given.type != wanted:
                raise InputError(f"argument {number} of {self.name} is {given.type}, not {wanted}")
            if given.device is not self.device:
                raise InputError(f"argument {number} of {self.name} is on {given.device!r}, not on {self.device!r}")
        self._run(arguments)

    def _run(self, arguments: Sequence[Tensor]) -> None:
        raise NotImplementedError


class _LocalFunction(Function):
    def __init__(self, name: str, lowered: Lowered, reference: Reference, device: Device) -> None:
        super().__init__(name, lowered.graph, device)
        self._reference = reference
        self._constants = reference.values(lowered.constants)

    def _run(self, arguments: Sequence[Tensor]) -> None:
        handles = [argument._handle for argument in arguments]
        count = len(self.graph.inputs)
        inputs = dict(zip(self.graph.inputs, handles[:count], strict=True))
        values = self._reference.run({**self._constants, **inputs})
        for value, target in zip(self.graph.outputs, handles[count:], strict=True):
            target.copyfrom(values[value])


class _DeviceFunction(Function):
    def __init__(self, name: str, lowered: Lowered, kernels: dict[str, CompiledKernel], device: _WebGpu) -> None:
        super().__init__(name, lowered.graph, device)
        self._constants = {value: tensor(array, device) for value, array in lowered.constants.items()}
        self._device = device
        self._kernels = kernels

    def _run(self, arguments: Sequence[Tensor]) -> None:
        count = len(self.graph.inputs)
        names = {value: constant._handle for value, constant in self._constants.items()}
        names |= dict(zip(self.graph.inputs, (a._handle for a in arguments[:count]), strict=True))
        outputs = dict(zip(self.graph.outputs, (a._handle for a in arguments[count:]), strict=True))
        prefix = f"f{next(_names)}/"
        commands: list[dict[str, Any]] = []
        for node in self.graph.nodes:
            for value in node.outputs:
                names[value] = outputs.get(value, prefix + value)
            found = self.graph.values[node.outputs[0]].type
            if node.kind is NodeKind.VIEW:
                source = names[node.inputs[0]]
                commands.append(
                    {"op": "view", "tensor": names[node.outputs[0]], "of": source, "shape": list(found.shape)}
                )
                continue
            for value in node.outputs:
                if value not in outputs:
                    allocated = _typed(self.graph.values[value].type)
                    commands.append({"op": "allocate", "tensor": names[value], **allocated})
            dispatch = self._kernels[node.kernel].document["variants"][-1]
            operands = [names[value] for value in (*node.inputs, *node.outputs)]
            launch = {"launches": dispatch["launches"], "temporaries": dispatch["temporaries"]}
            commands.append({"op": "call", "kernel": node.kernel, "arguments": operands, **launch})
        commands.append({"op": "free_prefix", "prefix": prefix})
        texts = [file.text.encode() for kernel in self._kernels.values() for file in kernel.files]
        with self._device.blobs.holding(texts):
            messages = [
                kernel_message(kernel.document, [sha256(file.text) for file in kernel.files])
                for kernel in self._kernels.values()
            ]
            self._device.execute(commands, messages)
