"""Kernels by hand of a cache of keys and values, for the operators of importing/cached_attention.py."""
