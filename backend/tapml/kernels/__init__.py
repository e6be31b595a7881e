"""Kernel documents: an operator as a device runs it, with its variants and their WGSL. Knows no compiler."""
