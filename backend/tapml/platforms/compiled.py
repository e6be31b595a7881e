"""A compiled model run on this machine: the host program as it is, over memory laid out by its plan, with each dispatch
computed by the operator's program on the reference platform.

Arena buffers, outputs and temporaries are bytes that hold NaN until something is written: what reads bytes that are
dead gives NaN here as it gives anything at all on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any

import numpy as np

from tapml.compiled.call import CompiledRun, call_of, function_of, room_of, taken
from tapml.compiled.files import CompiledFiles
from tapml.compiled.instructions import (
    Call,
    Copy,
    Dispatch,
    Fill,
    If,
    Instruction,
    Let,
    Loop,
    Read,
    every_instruction,
)
from tapml.compiled.model import CompiledFunction, CompiledTensor, Port
from tapml.errors import InputError
from tapml.expressions import ExpressionError, evaluate
from tapml.lowering.lower import Model
from tapml.operators.external import External
from tapml.operators.program import OperatorProgram
from tapml.operators.read import read_document
from tapml.platforms.reference import Reference, to_numpy
from tapml.program import Graph, TensorType
from tapml.program.limits import MEND
from tapml.program.program import SymbolicType
from tapml.strict_json import parse_json

Names = dict[str, int]
HostFunction = Callable[[list[np.ndarray]], Sequence[np.ndarray]]
Modules = Mapping[str, Mapping[str, HostFunction]]
"""Module -> function -> what computes it."""

POISON = np.uint32(0x7FFF7FFF)
"""NaN, as float32 and as float16."""


def run_on_cpu(
    files: CompiledFiles,
    calls: Sequence[Mapping[str, np.ndarray]],
    *,
    function: str | None = None,
    repeat: int = 0,
    modules: Modules = MappingProxyType({}),
) -> CompiledRun:
    """What calls of a function give, one after the other; states are those of the call before. The last is made again
    `repeat` times, for its time alone.

    Raises InputError for a model that is not proven, for inputs that are none of the function's, for an operator that
    cannot be computed here, and where the program itself ends the call.
    """
    begun = time.perf_counter()
    model = CompiledOnCpu(files, modules)
    loaded = time.perf_counter()
    outputs, seconds = [], []
    for number, arrays in enumerate([*calls, *([calls[-1]] * repeat if calls else [])]):
        begun_call = time.perf_counter()
        found = model.run(arrays, function)
        seconds.append(time.perf_counter() - begun_call)
        if number < len(calls):
            outputs.append(found)
    return CompiledRun(outputs, loaded - begun, seconds, {}, model.nbytes)


class CompiledOnCpu:
    """A compiled model with its weights and states. Raises InputError where it is not proven, or damaged."""

    def __init__(self, files: CompiledFiles, modules: Modules = MappingProxyType({})) -> None:
        self.model = files.proven()
        self.modules = modules
        self.weights = [buffer.view(np.uint32) for buffer in files.weights()]
        self.states = [self._initial(number) for number in range(len(self.model.states))]
        self._operators = _Operators(files)
        self.nbytes = sum(self.model.weights.buffers) + sum(state.nbytes for state in self.states)
        """Of weights, states, and the arena of the function that was run."""

    def fork(self) -> CompiledOnCpu:
        """The same model with states of its own, which begin with what these hold: weights and operators are shared."""
        forked = copy(self)
        forked.states = [state.copy() for state in self.states]
        return forked

    def run(self, arrays: Mapping[str, np.ndarray], function: str | None = None) -> dict[str, np.ndarray]:
        """Outputs by name. A call that fails leaves the states as they were. Raises InputError as `run_on_cpu`."""
        found = function_of(self.model, function)
        arrays = taken(self.model, function, arrays)
        call = call_of(self.model, function, arrays)
        self._operators.prepare(found, call.sizes)
        before = [state.copy() for state in self.states]
        try:
            run = _Run(self, found, call.sizes, self._operators)
            for (name, kind), port in zip(call.inputs.items(), found.inputs, strict=True):
                run.write(port.tensor, np.asarray(arrays[name]).reshape(kind.shape))
            run.block(found.code, dict(call.sizes))
        except BaseException as error:
            self.states[:] = before
            if isinstance(error, ExpressionError):
                raise InputError(f"{self.model.name}: {error}") from None
            raise
        fixed = sum(self.model.weights.buffers) + sum(state.nbytes for state in self.states)
        self.nbytes = fixed + sum(found.arena)
        return {port.name: run.read(port.tensor) for port in found.outputs}

    def _initial(self, number: int) -> np.ndarray:
        state = self.model.states[number]
        found = SymbolicType(tuple(state.shape), state.dtype, state.encoding)
        kind = found.at(room_of(self.model), f"the shape of state {state.name}")
        words = np.zeros(_words(kind), np.uint32)
        if state.initial is not None:
            buffer, offset = state.initial
            words[:] = self.weights[buffer][offset // 4 : offset // 4 + len(words)]
        return words


class _Run:
    """One call: its memory, and its instructions."""

    def __init__(
        self, on: CompiledOnCpu, function: CompiledFunction, sizes: Mapping[str, int], operators: _Operators
    ) -> None:
        self._on = on
        self._operators = operators
        self._function = function
        self._types = [
            SymbolicType(tuple(tensor.shape), tensor.dtype, tensor.encoding).at(sizes, f"the shape of {tensor.name}")
            for tensor in function.tensors
        ]
        ports: Mapping[str, Sequence[Port]] = {"input": function.inputs, "output": function.outputs}
        whole = {kind: [self._poisoned(_words(self._types[p.tensor])) for p in found] for kind, found in ports.items()}
        arena = [self._poisoned(count // 4) for count in function.arena]
        self._memory = {"weights": on.weights, "state": on.states, "arena": arena, **whole}

    def block(self, code: Sequence[Instruction], names: Names) -> None:
        """Run instructions; `names` are those around them, and their own."""
        for found in code:
            self._step(found, names)

    def read(self, tensor: int) -> np.ndarray:
        """The elements of a tensor."""
        kind = self._types[tensor]
        return kind.decoded(self._bytes(tensor).view(np.uint8)[: kind.nbytes].tobytes())

    def write(self, tensor: int, array: np.ndarray) -> None:
        """Make a tensor's elements those of an array."""
        stored = np.ascontiguousarray(self._types[tensor].encoded(array)).reshape(-1).view(np.uint8)
        self._bytes(tensor).view(np.uint8)[: stored.size] = stored

    def _step(self, found: Instruction, names: Names) -> None:
        if isinstance(found, Dispatch):
            for part in found.each:
                self._dispatch(part, names)
        elif isinstance(found, Copy):
            self._copy(found, names)
        elif isinstance(found, Fill):
            self._bytes(found.tensor)[:] = found.value
        elif isinstance(found, Let):
            names[found.name] = evaluate(found.value, names)
        elif isinstance(found, Read):
            names[found.name] = self._element(found, names)
        elif isinstance(found, If):
            self.block(found.then if evaluate(found.condition, names) else found.otherwise, dict(names))
        elif isinstance(found, Loop):
            for turn in range(evaluate(found.count, names)):
                self.block(found.body, {**names, found.variable: turn})
                if found.until is not None and self._bytes(found.until)[0]:
                    break
        else:
            self._call(found)

    def _dispatch(self, found: Dispatch, names: Names) -> None:
        kernel = self._on.model.kernels[found.kernel]
        inputs = sum(argument.role == "input" for argument in kernel.arguments)
        sizes = {symbol.name: evaluate(found.sizes.get(symbol.name, symbol.name), names) for symbol in kernel.symbols}
        outputs = found.operands[inputs:]
        arrays = [self.read(tensor) for tensor in found.operands[:inputs]]
        results = self._operators.call(kernel.kernel, arrays, [self._types[tensor] for tensor in outputs], sizes)
        for tensor in found.temporaries:
            self._bytes(tensor)[:] = POISON
        for tensor, array in zip(outputs, results, strict=True):
            self.write(tensor, array)

    def _copy(self, found: Copy, names: Names) -> None:
        source, target = self._bytes(found.source), self._bytes(found.target)
        if found.bytes is None:
            target[:] = source
            return
        begin, end, count = (evaluate(at, names) for at in (found.from_offset, found.to_offset, found.bytes))
        part, place = source[begin // 4 : (begin + count) // 4], target[end // 4 : (end + count) // 4]
        if not part.size == place.size == count // 4:  # proven, and numpy would say nothing
            raise InputError(f"a copy of {count} bytes from {begin} to {end} does not lie in its tensors")
        place[:] = part

    def _element(self, found: Read, names: Names) -> int:
        value = int(self.read(found.tensor).reshape(-1)[evaluate(found.index, names)])
        if not found.minimum <= value <= found.maximum:
            if found.otherwise is not None:
                raise InputError(f"{self._on.model.name}: {found.otherwise}: {MEND}")
            tensor = self._function.tensors[found.tensor].name
            raise InputError(
                f"{self._on.model.name}: {found.name}, of {tensor}, is {value}, and must be from {found.minimum} to "
                f"{found.maximum}"
            )
        return value

    def _call(self, found: Call) -> None:
        what = f"{found.module}.{found.function}"
        function = self._on.modules.get(found.module, {}).get(found.function)
        if function is None:
            raise InputError(f"{self._on.model.name} calls {what}, a host function that was not given: register it")
        results = list(function([self.read(tensor) for tensor in found.inputs]))
        wanted = [self._types[tensor].logical for tensor in found.outputs]
        given = [TensorType(array.shape, str(array.dtype)) for array in map(np.asarray, results)]
        if given != wanted:
            takes = ", ".join(map(str, wanted)) or "nothing"
            raise InputError(f"{what} gave {', '.join(map(str, given)) or 'nothing'}, and must give {takes}")
        for tensor, array in zip(found.outputs, results, strict=True):
            self.write(tensor, np.asarray(array))

    def _bytes(self, number: int) -> np.ndarray:
        """Where a tensor lies, word by word."""
        tensor: CompiledTensor = self._function.tensors[number]
        begin = tensor.at[2] // 4 if tensor.at[0] == "weights" or tensor.at[0] == "arena" else 0
        found: np.ndarray = self._memory[tensor.at[0]][tensor.at[1]]
        return found[begin : begin + _words(self._types[number])]

    @staticmethod
    def _poisoned(words: int) -> np.ndarray:
        return np.full(words, POISON, np.uint32)


class _Operators:
    """The operators of a model, compiled for the sizes of calls."""

    def __init__(self, files: CompiledFiles) -> None:
        self._files = files
        self._documents: dict[str, Any] = {}
        self._platforms: dict[tuple[str, frozenset[tuple[str, int]]], Reference] = {}

    def prepare(self, function: CompiledFunction, sizes: Mapping[str, int]) -> None:
        """Compile at once what the call is known to need: one by one it takes longer."""
        wanted: dict[frozenset[tuple[str, int]], set[str]] = {}
        for found in _dispatches(function.code):
            kernel = self._files.model.kernels[found.kernel]
            try:
                at = {s.name: evaluate(found.sizes.get(s.name, s.name), sizes) for s in kernel.symbols}
            except ExpressionError:  # of names that the program gives
                continue
            wanted.setdefault(frozenset(at.items()), set()).add(kernel.kernel)
        for key, kernels in wanted.items():
            wanted[key] = {kernel for kernel in kernels if (kernel, key) not in self._platforms}
        self._compile({key: kernels for key, kernels in wanted.items() if kernels})

    def call(
        self, kernel: str, inputs: list[np.ndarray], outputs: list[TensorType], sizes: Mapping[str, int]
    ) -> list[np.ndarray]:
        """What the operator gives, as its outputs are when not encoded."""
        key = frozenset(sizes.items())
        if (kernel, key) not in self._platforms:
            self._compile({key: {kernel}})
        platform = self._platforms[kernel, key]
        found = platform.call(kernel, [platform.tensor(array) for array in inputs], outputs, sizes)
        return [to_numpy(tensor, kind.dtype) for tensor, kind in zip(found, outputs, strict=True)]

    def _compile(self, wanted: Mapping[frozenset[tuple[str, int]], set[str]]) -> None:
        if not wanted:
            return
        models = []
        for key, names in wanted.items():
            programs = {kernel: self._program(kernel, key) for kernel in sorted(names)}
            models.append(Model(Graph({}, [], (), (), sizes=dict(key)), [], programs))
        platform = Reference(*models)
        for key, names in wanted.items():
            self._platforms.update({(kernel, key): platform for kernel in names})

    def _program(self, kernel: str, sizes: frozenset[tuple[str, int]]) -> OperatorProgram | External:
        name = f"operators/{kernel}.json"
        where = f"{self._files.path}: {name}"
        if kernel not in self._documents:
            text = self._files.attachment(name)
            self._documents[kernel] = parse_json(text, where, "build the model again")
        return read_document(self._documents[kernel], kernel, where, dict(sizes))


def _dispatches(code: Sequence[Instruction]) -> Iterator[Dispatch]:
    for found in every_instruction(code):
        if isinstance(found, Dispatch):
            yield from found.each


def _words(kind: TensorType) -> int:
    """Of 4 bytes, that it takes in a buffer."""
    return max(1, -(-kind.nbytes // 4))
