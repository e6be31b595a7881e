"""Texts from strangers, fit for what people and machines read."""

from __future__ import annotations

import re
import shlex

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str, most: int = 500) -> str:
    """Without control characters and line breaks, cut to `most` characters."""
    line = re.sub(r" {2,}", " ", _CONTROL.sub(" ", text)).strip()
    return line if len(line) <= most else line[: most - 3] + "..."


def lines(text: str) -> str:
    """Without control characters other than line breaks."""
    return "\n".join(_CONTROL.sub(" ", line).rstrip() for line in text.splitlines())


def export_command(suite_path: str, test: str) -> str:
    """What makes a page of one test that needs nothing else."""
    return f"tapml export {shlex.quote(suite_path)} {shlex.quote(test)} --html repro.html"
