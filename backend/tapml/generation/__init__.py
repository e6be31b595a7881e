"""Texts that language models write, on this machine and on devices (docs/generation.md)."""
