"""Operators' programs as data: written into a suite, read back, and run inside their buffers."""
