"""Operators to WGSL with TVM's WebGPU code generator: all that is known of it is known here."""
