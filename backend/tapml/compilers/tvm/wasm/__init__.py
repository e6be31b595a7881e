"""The wasm that tvmjs runs kernels and whole models with: TVM's runtime, built here by emscripten."""

from tapml.compilers.tvm.wasm.link import link_model
from tapml.compilers.tvm.wasm.runtime import runtime_objects, runtime_wasm

__all__ = ["link_model", "runtime_objects", "runtime_wasm"]
