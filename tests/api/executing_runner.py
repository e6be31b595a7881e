"""A runner of protocol 4 in this process: checks each message by the schema, keeps tensors, runs kernels on the CPU.

It follows runner_js where that shows: names are checked before anything is done, uploads share bytes until a kernel
writes, views share storage, an error ends its message.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from helpers import RESULTS, FakeRunner
from tapml.api.devices import WebGpuDevice
from tapml.api.library import Library
from tapml.api.remote import RemoteSession
from tapml.devices import Blobs, DeviceHub
from tapml.platforms.reference import Reference
from tapml.protocol.base import MAX_MESSAGE_BYTES
from tapml.protocol.session import ExecuteCall

Kernel = Callable[..., None]
_CALL: TypeAdapter[ExecuteCall] = TypeAdapter(ExecuteCall)


class Refused(Exception):
    """What the runner replies with instead of a result."""

    def __init__(self, number: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.report = {"kind": "protocol", "message": message, "command": number, "done": number, **more}


class Storage:
    """What one or more names share; `shared` bytes are the server's, copied before they are written."""

    def __init__(self, data: np.ndarray, shared: bool) -> None:
        self.data = data
        self.shared = shared


class ExecutingRunner:
    """`kernels`: what runs for a kernel of that name, given its inputs, then its outputs to write."""

    def __init__(self, kernels: dict[str, Kernel] | None = None, name: str = "Fake 1") -> None:
        self.kernels: dict[str, Kernel] = kernels or {
            "add": lambda a, b, out: np.add(a, b, out=out),
            "multiply": lambda a, b, out: np.multiply(a, b, out=out),
        }
        self.tensors: dict[str, tuple[Storage, str, tuple[int, ...]]] = {}
        self.libraries: dict[str, set[str]] = {}
        self.most_tensors = 0
        self.fail_next_call: dict[str, Any] | None = None
        """What the error report of the next call of a kernel says besides that call's place."""
        self.replace_gpu_in_next_call = False
        """The GPU device was lost before it, which the runner finds then."""
        self.blobs = Blobs()
        self.hub = DeviceHub()
        self.runner = FakeRunner(self.hub, self._answer, name)
        self.device = self.new_device()

    def new_device(self) -> WebGpuDevice:
        return WebGpuDevice("fake", RemoteSession(self.runner.device, self.blobs))

    @property
    def messages(self) -> list[list[dict[str, Any]]]:
        """The commands of each message."""
        return [call["params"]["commands"] for call in self.runner.calls]

    def lose_gpu(self) -> None:
        """The GPU is reset while nothing runs: the same runner introduces itself with a new GPU device."""
        self.tensors.clear()
        self.libraries.clear()
        self.runner.new_gpu()

    def restart(self) -> None:
        """The process ended while nothing ran, and another one took its place."""
        self.runner.vanish()
        self.tensors.clear()
        self.libraries.clear()
        self.runner.welcome = self.runner.connect()

    def _answer(self, message: dict[str, Any], runner: FakeRunner) -> None:
        threading.Thread(target=self._reply, args=(message, runner), daemon=True).start()

    def _reply(self, message: dict[str, Any], runner: FakeRunner) -> None:
        assert len(json.dumps(message)) <= MAX_MESSAGE_BYTES, "a message that ends the connection"
        _CALL.validate_python(message)
        if self.replace_gpu_in_next_call:
            self.replace_gpu_in_next_call = False
            self.lose_gpu()
        try:
            downloads = self._execute(message["params"]["commands"])
        except Refused as refused:
            runner.fail(message, **refused.report)
            return
        running = runner.device.running_call(message["call"])
        assert running is not None
        running.downloads = b"".join(downloads)
        assert len(running.downloads) <= running.download_limit
        memory = {**RESULTS["execute"]["memory"], "buffers": len(self._storages())}
        runner.finish(message, downloads=[len(data) for data in downloads], memory=memory)

    def _storages(self) -> set[int]:
        return {id(storage) for storage, _, _ in self.tensors.values()}

    # ------------------------------------------------ commands

    def _execute(self, commands: Sequence[dict[str, Any]]) -> list[bytes]:
        self._check_names(commands)
        downloads = []
        for number, command in enumerate(commands):
            match command["op"]:
                case "load":
                    self.libraries[command["library"]] = {kernel["kernel"] for kernel in command["kernels"]}
                case "unload":
                    self.libraries.pop(command["library"], None)
                case "upload":
                    data = self.blobs.find(command["digest"])
                    assert isinstance(data, bytes | memoryview), "the bytes are not served"
                    self._put(command, Storage(np.frombuffer(data, np.uint8), shared=True))
                case "allocate":
                    bytes_ = np.dtype(command["dtype"]).itemsize * math.prod(command["shape"])
                    self._put(command, Storage(np.full(bytes_, 0xFF, np.uint8), shared=False))
                case "copy":
                    self._written(command["tensor"])
                    self._array(command["tensor"]).ravel()[...] = self._array(command["of"]).ravel()
                case "view":
                    storage, dtype, _ = self.tensors[command["of"]]
                    self.tensors[command["tensor"]] = (storage, dtype, tuple(command["shape"]))
                case "call":
                    self._call(number, command)
                case "download":
                    downloads.append(self._array(command["tensor"]).tobytes())
                case "free":
                    for name in command["tensors"]:
                        self.tensors.pop(name, None)
                case "free_prefix":
                    for name in [name for name in self.tensors if name.startswith(command["prefix"])]:
                        del self.tensors[name]
            self.most_tensors = max(self.most_tensors, len(self.tensors))
        return downloads

    def _check_names(self, commands: Sequence[dict[str, Any]]) -> None:
        """Before anything is done, as execute/command_plan.ts does."""
        known = set(self.tensors)
        for number, command in enumerate(commands):
            match command["op"]:
                case "upload" | "allocate":
                    known.add(command["tensor"])
                case "view":
                    self._need(number, [command["of"]], known)
                    known.add(command["tensor"])
                case "copy":
                    self._need(number, [command["tensor"], command["of"]], known)
                case "call":
                    self._need(number, command["arguments"], known)
                case "download":
                    self._need(number, [command["tensor"]], known)
                case "free":
                    known -= set(command["tensors"])
                case "free_prefix":
                    known = {name for name in known if not name.startswith(command["prefix"])}

    def _need(self, number: int, names: Sequence[str], known: set[str]) -> None:
        for name in names:
            if name not in known:
                raise Refused(number, f"there is no tensor {name} on this device", done=0)

    def _written(self, name: str) -> None:
        storage, _, _ = self.tensors[name]
        if storage.shared:
            storage.data, storage.shared = storage.data.copy(), False

    def _put(self, command: dict[str, Any], storage: Storage) -> None:
        self.tensors[command["tensor"]] = (storage, command["dtype"], tuple(command["shape"]))

    def _array(self, name: str) -> np.ndarray:
        storage, dtype, shape = self.tensors[name]
        return storage.data.view(dtype)[: math.prod(shape)].reshape(shape)

    def _call(self, number: int, command: dict[str, Any]) -> None:
        kernel, names = command["kernel"], command["arguments"]
        if kernel not in self.libraries.get(command["library"], ()):
            raise Refused(number, f"there is no kernel {kernel} in a library {command['library']} on this device")
        if self.fail_next_call is not None:
            report, self.fail_next_call = self.fail_next_call, None
            raise Refused(number, "no", **{"kind": "validation", "kernel": kernel, **report})
        # Every kernel here writes its last argument only.
        self._written(names[-1])
        self.kernels[kernel](*[self._array(name) for name in names])


def kernels_of(reference: Library, function: str) -> dict[str, Kernel]:
    """The kernels of a library for the CPU, on numpy arrays: what the same module's WGSL has to give."""
    program = reference.functions[function]
    compiled = program.compiled
    assert isinstance(compiled, Reference)

    def kernel(name: str) -> Kernel:
        def run(*arrays: np.ndarray) -> None:
            tensors = [compiled.tensor(array) for array in arrays]
            next(iter(compiled._functions[name].values()))(*tensors)
            arrays[-1][...] = tensors[-1].numpy()

        return run

    return {name: kernel(name) for name in program.graph.kernels}
