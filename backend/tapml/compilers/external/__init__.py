"""Kernels that somebody wrote by hand, and operators that have none."""
