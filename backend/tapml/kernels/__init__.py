"""Operators to kernels: lowering with TVM, WGSL with its launch metadata, the wasm a browser runs them with."""
