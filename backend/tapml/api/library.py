"""Compiled modules and their functions, on every device."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tapml.api.devices import Device, WebGpuDevice, cpu, cuda
from tapml.api.modules import Module
from tapml.api.remote import RemoteSession
from tapml.api.tensors import Freeable, Tensor, tensor
from tapml.carving.repeated import unrepeatable
from tapml.compilers.choose import compile_operators
from tapml.devices.commands import allocated, viewed
from tapml.devices.messages import kernel_message
from tapml.errors import InputError
from tapml.files import sha256
from tapml.kernels.bundle import CompiledKernel, WgslFile
from tapml.lowering.lower import Lowered, lower
from tapml.platforms.reference import Reference
from tapml.program import Graph, NodeKind, TensorType
from tapml.program.limits import MEND
from tapml.protocol import methods
from tapml.protocol.base import DTYPES
from tapml.sharing import Repro

_KINDS = ("cpu", "cuda", "webgpu")
_KNOWN_CALLS = 64


@dataclass(frozen=True)
class Program:
    """A function as operator calls, the arrays that were written into it, by value id, and its compiled operators:
    kernels for WebGPU, what runs them for this machine."""

    graph: Graph
    constants: Mapping[str, np.ndarray]
    compiled: Mapping[str, CompiledKernel] | Reference
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Of the symbols of its kernels."""
    limits: Mapping[int, str] = field(default_factory=dict)
    """As those of a Module."""


@dataclass(frozen=True, eq=False)
class Library:
    """A compiled module: named functions for one kind of device. `upload` puts it on a device."""

    kind: str
    functions: Mapping[str, Program]
    device: Device | None
    """What it was compiled for, where that is one device."""

    def get_function(self, name: str) -> Function:
        """The same as `upload(library).get_function(name)`."""
        return upload(self).get_function(name)

    def __repr__(self) -> str:
        return f"<tapml.Library for {self.kind}: {', '.join(self.functions)}>"


def compile(  # the paper's name
    module: Module | tvm.IRModule | Repro, target: Device | str | None = None, *, variants: Sequence[str] = ("256",)
) -> Library:
    """Compile every function of `module` for a device (or "cpu", "cuda", "webgpu"; default: the CPU).

    An exported test (`load_repro`) brings its WebGPU kernel along: the library's one function is that kernel.
    `variants`: of each WebGPU kernel, as in `tapml carve --variants`; a device takes the best it can run.
    Functions take tensors of static shape and of dtypes that WebGPU has. Raises InputError for what cannot be lowered
    to kernels, has no WGSL, or gives something else each time that it runs; ToolchainError for "cuda" where there is
    none.
    """
    kind = target.kind if isinstance(target, Device) else (target or "cpu")
    if kind not in _KINDS:
        raise InputError(f"unknown target {kind!r}: choose {', '.join(_KINDS)}")
    device = target if isinstance(target, Device) else cpu() if kind == "cpu" else cuda() if kind == "cuda" else None
    if isinstance(module, Repro):
        return Library(kind, _program_of_repro(module, kind), device)
    whole = module if isinstance(module, Module) else Module(module)
    programs = {}
    for name in whole.functions:
        lowered = lowered_function(whole.ir_module, name)
        model = lowered.as_it_is
        _check_dtypes(name, model.graph, kind)
        # A model from a file was run when it was loaded, on its own inputs, and its doubts were told.
        if not whole.checked and (doubts := unrepeatable(lowered)):
            raise InputError(f"{name}: {'; '.join(doubts)}: give a module whose operators write all that they give")
        compiled: Any = (
            _supported(compile_operators(lowered.operators, tuple(variants)))
            if kind == "webgpu"
            else Reference(model, platform=kind)
        )
        limits = whole.limits if whole.limits and name == whole.main else {}
        programs[name] = Program(model.graph, lowered.constants, compiled, limits=limits)
    return Library(kind, programs, device)


def _program_of_repro(repro: Repro, kind: str) -> dict[str, Program]:
    if kind != "webgpu":
        raise InputError(f"an exported test has WebGPU kernels only, none for {kind}: give tml.webgpu(...)")
    document = repro.document
    name = document.test.kernel
    files = [WgslFile(file, document.text(file)) for file in document.wgsl_names]
    kernels = _supported({name: CompiledKernel(document.kernel, files)})
    return {name: Program(repro.graph(), {}, kernels, document.test.sizes)}


def lowered_function(module: tvm.IRModule, name: str) -> Lowered:
    function = module[name].with_attr("global_symbol", "main")
    others = {gv: f for gv, f in module.functions.items() if not isinstance(f, relax.Function)}
    single = tvm.IRModule({**others, tvm.ir.GlobalVar("main"): function})
    return lower(single, len(function.params))


def _check_dtypes(function: str, graph: Graph, kind: str) -> None:
    """Raises InputError for a tensor that no device of the kind has: any on WebGPU, what callers see elsewhere."""
    seen = {*graph.inputs, *graph.outputs}
    for value in graph.values.values():
        if (kind == "webgpu" or value.id in seen) and value.type.dtype not in DTYPES:
            names = ", ".join(DTYPES)
            raise InputError(
                f"{function}: the tensor {value.name or value.id} is {value.type.dtype}, which no function on {kind} "
                f"has: convert it first, to one of {names}",
                node=value.name or value.id,
                reason=f"{kind} has no {value.type.dtype}",
            )


def _supported(kernels: dict[str, CompiledKernel]) -> dict[str, CompiledKernel]:
    for name, kernel in kernels.items():
        if kernel.document["unsupported"]:
            raise InputError(f"kernel {name} has no WGSL: {kernel.document['unsupported']}")
    return kernels


def upload(library: Library, device: Device | None = None) -> LoadedLibrary:
    """Make a library's functions callable on a device, by default on the one that it was compiled for.

    Raises InputError where it was compiled for another kind, DeviceError for a kernel that the device refuses.
    """
    device = device or library.device
    if device is None:
        raise InputError(
            f"this library was compiled for {library.kind}, not for one device: "
            "say which, as in tml.upload(library, tml.webgpu())"
        )
    if library.kind != device.kind:
        raise InputError(f"this library was compiled for {library.kind}, not {device.kind}: compile it for {device!r}")
    return LoadedLibrary(library, device)


class LoadedLibrary(Freeable):
    """A library on a device. Freed there when Python drops it, or at the end of a `with` block."""

    def __init__(self, library: Library, device: Device) -> None:
        self.library = library
        self.device = device
        self._functions: dict[str, Function] = {}
        self._kernels = _Kernels(library, device.session) if isinstance(device, WebGpuDevice) else None

    def get_function(self, name: str) -> Function:
        """Raises InputError for a name the module does not have."""
        if name not in self.library.functions:
            raise InputError(f"the module has no function {name!r}; it has {', '.join(self.library.functions)}")
        if name not in self._functions:
            self._functions[name] = self._function(name)
        return self._functions[name]

    __getitem__ = get_function

    def _function(self, name: str) -> Function:
        program = self.library.functions[name]
        if self._kernels is None:
            return _LocalFunction(name, program, self.device)
        self._kernels.name(name)  # not after `free`, which forgets the functions too
        return _RemoteFunction(name, program, self._kernels, self.device)

    def free(self) -> None:
        self._functions.clear()
        if self._kernels is not None:
            self._kernels.free()

    def __repr__(self) -> str:
        return f"<tapml library on {self.device!r}: {', '.join(self.library.functions)}>"


class _Kernels:
    """A library's kernels on a device, compiled there when it is made; unloaded when no library and no function of it
    is left."""

    def __init__(self, library: Library, session: RemoteSession) -> None:
        self.session = session
        self._names = {function: session.new_name("l") for function in library.functions}
        commands = []
        texts: list[bytes] = []
        for function, program in library.functions.items():
            assert not isinstance(program.compiled, Reference)
            messages = []
            for kernel in program.compiled.values():
                texts += [file.text.encode() for file in kernel.files]
                messages.append(kernel_message(kernel.document, [sha256(file.text) for file in kernel.files]))
            commands.append(methods.LoadCommand(library=self._names[function], kernels=messages))
        with session.blobs.holding(texts):
            session.load(commands)
        unloads = [methods.UnloadCommand(library=name) for name in self._names.values()]
        self._finalizer = weakref.finalize(self, session.drop, *unloads)
        self._finalizer.atexit = False  # the device ends with the program

    def name(self, function: str) -> str:
        """The function's library on the device. Raises InputError after `free`."""
        if not self._finalizer.alive:
            raise InputError(f"the library of {function} was freed: upload it again")
        return self._names[function]

    def free(self) -> None:
        self._finalizer()


class Function:
    """A function on a device: call it with its inputs, then the tensors its outputs go to."""

    def __init__(self, name: str, program: Program, device: Device) -> None:
        graph = program.graph
        self.name = name
        self.device = device
        self.graph = graph
        self._limits = program.limits
        self.inputs = [graph.values[value].type for value in graph.inputs]
        self.outputs: list[TensorType] = [graph.values[value].type for value in graph.outputs]
        self._expected = [*self.inputs, *self.outputs]

    def __call__(self, *arguments: Tensor) -> None:
        """On WebGPU asynchronous: the call is made in the background, after those before it (but a model's whose loops
        have limits, which is waited for).

        Raises InputError for arguments of the wrong number, type or device, and for a call that needs more turns of a
        loop than there are: what its outputs hold then means nothing. What the device says is raised as
        DeviceError by whatever touches the device next, with the place of the call; with TAPML_BLOCKING=1 here.
        """
        if len(arguments) != len(self._expected):
            wants = f"{len(self._expected)} arguments (inputs: {len(self.inputs)}, outputs: {len(self.outputs)})"
            raise InputError(f"{self.name} takes {wants}, {len(arguments)} were given")
        given: Any
        for number, (given, wanted) in enumerate(zip(arguments, self._expected, strict=True)):
            if not isinstance(given, Tensor):
                found = f"a {type(given).__module__}.{type(given).__qualname__}"
                raise InputError(f"argument {number} of {self.name} is {found}: make a tensor of it by tml.tensor(...)")
            if given.type is not wanted and given.type != wanted:
                raise InputError(f"argument {number} of {self.name} is {given.type}, not {wanted}")
            if given.device is not self.device:
                raise InputError(f"argument {number} of {self.name} is on {given.device!r}, not on {self.device!r}")
        self._run([argument.handle for argument in arguments])
        for place, cause in self._limits.items():
            if arguments[len(self.inputs) + place].numpy().any():
                raise InputError(f"{self.name}: {cause}: {MEND}")

    def _run(self, handles: Sequence[Any]) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, types)) for types in (self.inputs, self.outputs))
        return f"<tapml function {self.name}({inputs}) -> {outputs} on {self.device!r}>"


class _LocalFunction(Function):
    def __init__(self, name: str, program: Program, device: Device) -> None:
        super().__init__(name, program, device)
        assert isinstance(program.compiled, Reference)
        self._reference = program.compiled
        self._constants = self._reference.values(program.constants)

    def _run(self, handles: Sequence[Any]) -> None:
        count = len(self.graph.inputs)
        inputs = dict(zip(self.graph.inputs, handles[:count], strict=True))
        values = self._reference.run(self.graph, {**self._constants, **inputs})
        for value, target in zip(self.graph.outputs, handles[count:], strict=True):
            target.copyfrom(values[value])


class _RemoteFunction(Function):
    """Its nodes as commands; a call fills in the names of its tensors."""

    def __init__(self, name: str, program: Program, kernels: _Kernels, device: Device) -> None:
        super().__init__(name, program, device)
        self._kernels = kernels
        self._session = kernels.session
        self._sizes = program.sizes
        # One upload a device and library, whatever the number of calls.
        self._constants = {value: tensor(array, device) for value, array in program.constants.items()}
        self._computed = self._computed_outputs()
        self._known: dict[tuple[Any, ...], list[methods.Command]] = {}

    def _computed_outputs(self) -> dict[str, int]:
        """Outputs that a kernel may write where the caller wants them -> their place. Others are an input, a constant
        or a second output under another name, and are copied."""
        root: dict[str, str] = {}
        for node in self.graph.nodes:
            if node.kind is NodeKind.VIEW:
                root[node.outputs[0]] = root.get(node.inputs[0], node.inputs[0])
        taken = {*self.graph.inputs, *self._constants}
        computed: dict[str, int] = {}
        for place, value in enumerate(self.graph.outputs):
            source = root.get(value, value)
            if source not in taken:
                computed[value] = place
                taken.add(source)
        return computed

    def _run(self, handles: Sequence[Any]) -> None:
        library = self._kernels.name(self.name)
        key = tuple(handles)
        commands = self._known.get(key)
        if commands is None:
            commands, again = self._commands(library, handles)
            if again:
                # The same tensors come again where a function is called in a loop.
                if len(self._known) >= _KNOWN_CALLS:
                    self._known.clear()
                self._known[key] = commands
        self._session.do(commands)

    def _commands(self, library: str, handles: Sequence[Any]) -> tuple[list[methods.Command], bool]:
        """What a call is made of; and whether another call with the same tensors is made of the same."""
        graph = self.graph
        inputs, outputs = handles[: len(graph.inputs)], handles[len(graph.inputs) :]
        names: dict[str, str] = dict(zip(graph.inputs, inputs, strict=True))
        names |= {value: constant.handle for value, constant in self._constants.items()}
        # What is read, or written twice, must not be written before the end.
        direct = {
            value: outputs[place]
            for value, place in self._computed.items()
            if outputs[place] not in inputs and outputs.count(outputs[place]) == 1
        }
        prefix = self._session.new_name("f") + "/"
        commands: list[methods.Command] = []
        for node in graph.nodes:
            for value in node.outputs:
                names[value] = direct.get(value, prefix + value)
            if node.kind is NodeKind.VIEW:
                (source,), (value,) = node.inputs, node.outputs
                commands.append(viewed(names[value], names[source], graph.values[value].type))
                continue
            for value in node.outputs:
                if value not in direct:
                    commands.append(allocated(names[value], graph.values[value].type))
            operands = [names[value] for value in (*node.inputs, *node.outputs)]
            sizes = dict(self._sizes)
            commands.append(methods.CallCommand(library=library, kernel=node.kernel, sizes=sizes, arguments=operands))
        for value, target in zip(graph.outputs, outputs, strict=True):
            if names[value] != target:
                commands.append(methods.CopyCommand(tensor=target, of=names[value]))
        within = len(direct) < sum(len(node.outputs) for node in graph.nodes)
        if within:
            commands.append(methods.FreePrefixCommand(prefix=prefix))
        return commands, not within
