"""Devices: this machine's CPU and CUDA, and WebGPU wherever a runner lives."""

from __future__ import annotations

import atexit
import functools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import tvm

from tapml.api.remote import RemoteSession
from tapml.errors import InputError, ToolchainError
from tapml.protocol.methods import SyncCommand
from tapml.server import Server

_lock = threading.Lock()


@dataclass(frozen=True)
class Info:
    """What a device says of itself. `limits` are GPUSupportedLimits, in bytes or counts."""

    name: str
    runtime: str
    adapter: Mapping[str, str]
    features: tuple[str, ...]
    limits: Mapping[str, float]


class Device:
    """Where tensors live and functions run: `cpu()`, `cuda()` or `webgpu(...)`. A context manager: see `close`."""

    kind: str
    """What a library is compiled for: "cpu", "cuda" or "webgpu"."""

    @property
    def info(self) -> Info:
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until all calls have been made and done. Raises the DeviceError of one that failed."""

    def close(self) -> None:
        """Free what this program holds there. The device itself stays: asking for it again is quick."""

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalDevice(Device):
    """A platform of TVM's on this machine."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.tvm = tvm.cuda() if kind == "cuda" else tvm.cpu()

    def synchronize(self) -> None:
        self.tvm.sync()

    @property
    def info(self) -> Info:
        found = str(self.tvm.device_name) if self.kind == "cuda" else "LLVM"
        adapter = {"vendor": "", "architecture": "", "device": found, "description": f"TVM {tvm.__version__}"}
        return Info(self.kind, "tvm", adapter, (), {})

    def __repr__(self) -> str:
        return f"tapml.{self.kind}()"


class WebGpuDevice(Device):
    """A runner's WebGPU device."""

    kind = "webgpu"

    def __init__(self, name: str, session: RemoteSession) -> None:
        self.name = name
        self.session = session

    @property
    def info(self) -> Info:
        hello = self.session.device.hello
        return Info(hello.name, hello.runtime, hello.adapter.model_dump(), tuple(hello.features), dict(hello.limits))

    def synchronize(self) -> None:
        self.session.run([SyncCommand()])

    @property
    def memory(self) -> dict[str, int]:
        """GPU buffers of the runner: how many are in use, their bytes, and the bytes of idle ones."""
        return self.session.run([]).result.memory.model_dump()

    def close(self) -> None:
        self.session.close()
        with _lock:
            if _webgpu.get(self.name) is self:
                del _webgpu[self.name]

    def __repr__(self) -> str:
        return f"tapml.webgpu({self.name!r})"


_cpu, _cuda = LocalDevice("cpu"), LocalDevice("cuda")
_webgpu: dict[str, WebGpuDevice] = {}


def cpu() -> Device:
    """This machine's CPU, through TVM's LLVM code generator."""
    return _cpu


def cuda() -> Device:
    """This machine's CUDA device, through TVM's code generator. Raises ToolchainError where there is none."""
    if not tvm.cuda().exist:
        raise ToolchainError("there is no CUDA device on this machine: use tml.cpu()")
    return _cuda


def webgpu(name: str = "chromium") -> Device:
    """WebGPU by the name of what runs it, started headless on first use: "chromium", "firefox", "node-dawn", "deno";
    or the name or id of a connected device; "open" waits for someone to open the printed address in any browser.

    Raises ToolchainError where it cannot be started, InputError for an unknown name, one that several have, or a
    browser without WebGPU.
    """
    with _lock:
        known = _webgpu.get(name)
        if known is not None and known.session.alive:
            return known
        state = running_server().state
        device = state.device(name, lambda: print(f"open {state.runner_url} in a browser", flush=True))
        if device.hello.unavailable:
            raise InputError(f"{device.name} cannot run kernels: {device.hello.unavailable}")
        _webgpu[name] = WebGpuDevice(name, RemoteSession(device, state.blobs))
        return _webgpu[name]


@functools.cache
def running_server() -> Server:
    """The server in this process that devices join; started on first use, ended with the program."""
    server = Server()
    atexit.register(_stop, server)
    return server


def _stop(server: Server) -> None:
    for device in list(_webgpu.values()):
        device.session.abandon()
    server.stop()


def find(kind: Any) -> Device:
    """The device an argument means: a Device, or None for the CPU."""
    if kind is None:
        return _cpu
    if isinstance(kind, Device):
        return kind
    raise InputError(f"{kind!r} is no device: give tml.cpu(), tml.cuda() or tml.webgpu(...)")


@contextmanager
def batch(device: Device) -> Iterator[None]:
    """Calls and allocations on `device` inside the `with` block travel together (2,000 to a message), and its end
    waits for them.

    On cpu() and cuda() calls are made at once.
    """
    with device.session.gather() if isinstance(device, WebGpuDevice) else nullcontext():
        yield
