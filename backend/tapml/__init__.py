"""tapml: bring machine-learning models up on new platforms, WebGPU in the browser first (`import tapml as tml`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapml.api import (
        Device,
        Function,
        Library,
        LoadedLibrary,
        Module,
        Tensor,
        allocate,
        batch,
        compile,
        cpu,
        cuda,
        load,
        tensor,
        upload,
        webgpu,
    )
    from tapml.errors import DeviceError, DeviceLost, InputError, TapmlError, ToolchainError
    from tapml.sharing import Repro, load_repro
    from tapml.suite import Suite

_ERRORS = ("DeviceError", "DeviceLost", "InputError", "TapmlError", "ToolchainError")

__all__ = [
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
    "allocate",
    "batch",
    "compile",
    "cpu",
    "cuda",
    "load",
    "load_repro",
    "tensor",
    "upload",
    "webgpu",
]


def __getattr__(name: str) -> Any:
    # Late: TVM takes a second to load, which `tapml --help` need not wait for.
    if name not in __all__:
        raise AttributeError(f"module 'tapml' has no attribute {name!r}")
    if name == "Suite":
        from tapml.suite import Suite

        return Suite
    if name in _ERRORS:
        from tapml import errors

        return getattr(errors, name)
    from tapml import api

    return getattr(api, name)
