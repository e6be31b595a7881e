"""The `tapml` command: a thin door to the library."""

from tapml.cli.main import main

__all__ = ["main"]
