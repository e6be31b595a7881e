"""Fuzzed documents of every format that tapml reads (`make bench-hostile`)."""
