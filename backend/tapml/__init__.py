"""tapml: bring machine-learning models up on new platforms, WebGPU in the browser first (`import tapml as tml`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapml.api import Tensor, allocate, compile, cpu, tensor, upload, webgpu
    from tapml.suite import Suite

_API = ("Tensor", "allocate", "compile", "cpu", "tensor", "upload", "webgpu")

__all__ = ["Suite", "Tensor", "allocate", "compile", "cpu", "tensor", "upload", "webgpu"]


def __getattr__(name: str) -> Any:
    # Late: TVM takes a second to load, which `tapml --help` need not wait for.
    if name in _API:
        from tapml import api

        return getattr(api, name)
    if name == "Suite":
        from tapml.suite import Suite

        return Suite
    raise AttributeError(f"module 'tapml' has no attribute {name!r}")
