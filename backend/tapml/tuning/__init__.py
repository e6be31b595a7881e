"""Measuring on a device which of an operator's kernels is the fastest there."""
