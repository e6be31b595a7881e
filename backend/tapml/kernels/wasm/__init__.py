"""The wasm that tvmjs runs kernels and whole models with: TVM's runtime, built here by emscripten."""

from tapml.kernels.wasm.link import link_model
from tapml.kernels.wasm.runtime import runtime_objects, runtime_wasm

__all__ = ["link_model", "runtime_objects", "runtime_wasm"]
