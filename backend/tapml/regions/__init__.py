"""What operators that only move elements do, as regions (docs/kernels.md#regions): MNN's geometric computing.

Pure: programs (tapml.operators) go in, data comes out. Nothing is recognised by name: whatever operator's elements are
each an element of an input, or a constant, at indices that loops decide, is regions.
"""
