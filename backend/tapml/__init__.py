"""tapml: bring machine-learning models up on new platforms, WebGPU in the browser first (`import tapml as tml`)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapml.api.captures import import_capture
    from tapml.api.compiled import CompiledModel, build, load_model
    from tapml.api.devices import Device, batch, cpu, cuda, webgpu
    from tapml.api.generation import generate, generate_several
    from tapml.api.library import Function, Library, LoadedLibrary, compile, upload
    from tapml.api.modules import Module, load
    from tapml.api.tensors import Tensor, allocate, tensor
    from tapml.api.tuning import tune
    from tapml.api.validation import validate
    from tapml.api.writer import Writer
    from tapml.errors import DeviceError, DeviceLost, InputError, TapmlError, ToolchainError
    from tapml.sharing import Repro, load_repro
    from tapml.suite import Suite

__all__ = [
    "CompiledModel",
    "Device",
    "DeviceError",
    "DeviceLost",
    "Function",
    "InputError",
    "Library",
    "LoadedLibrary",
    "Module",
    "Repro",
    "Suite",
    "TapmlError",
    "Tensor",
    "ToolchainError",
    "Writer",
    "allocate",
    "batch",
    "build",
    "compile",
    "cpu",
    "cuda",
    "generate",
    "generate_several",
    "import_capture",
    "load",
    "load_model",
    "load_repro",
    "tensor",
    "tune",
    "upload",
    "validate",
    "webgpu",
]


_MODULES = (
    "errors",
    "suite",
    "sharing",
    "api.devices",
    "api.tensors",
    "api.modules",
    "api.library",
    "api.tuning",
    "api.validation",
    "api.compiled",
    "api.captures",
    "api.generation",
    "api.writer",
)


def __getattr__(name: str) -> Any:
    # Late: TVM takes a second to load, which `tapml --help` need not wait for.
    if name in __all__:
        for place in _MODULES:
            module = import_module(f"tapml.{place}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module 'tapml' has no attribute {name!r}")
