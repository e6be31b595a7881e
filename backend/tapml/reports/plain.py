"""Texts that several reports share."""

from __future__ import annotations

import shlex

from tapml.text import visible


def lines(text: str) -> str:
    """Each line fit for a terminal (tapml.text), without the spaces at its end."""
    return "\n".join(visible(line).replace("\t", " ").rstrip() for line in text.splitlines())


def export_command(suite_path: str, test: str) -> str:
    """What makes a page of one test that needs nothing else."""
    return f"tapml export {shlex.quote(suite_path)} {shlex.quote(test)} --html repro.html"
