"""Parts of Markdown pages that benchmarks write."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tapml.results.base import DeviceFacts, adapter_name


def between(path: Path, name: str, text: str) -> None:
    """Put a text between the marks of this name in a Markdown file. Raises ValueError where there are none, and OSError
    for a file that cannot be read or written."""
    begin, end = _marks(name)
    found = path.read_text()
    if begin not in found or end not in found:
        raise ValueError(f"{path} has no marks {begin} and {end}: write them where the table is to stand")
    head, tail = found.split(begin)[0], found.split(end)[1]
    path.write_text(f"{head}{begin}\n\n{text.strip()}\n\n{end}{tail}")


def device_words(device: DeviceFacts) -> str:
    """With its version and what its GPU is called: "Chromium 156 on google swiftshader"."""
    return " on ".join(filter(None, (device["name"], adapter_name(device["adapter"]))))


def check_docs(parser: argparse.ArgumentParser, path: Path | None, name: str) -> None:
    """End the command with a sentence where `between` could not write to this page: before the hours that its table
    takes, not behind them."""
    if path is None:
        return
    try:
        found = path.read_text()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        parser.error(f"--docs {path}: {why}: give a Markdown page with the marks {' and '.join(_marks(name))}")
    if not os.access(path, os.W_OK):
        parser.error(f"--docs {path}: it cannot be written")
    if any(mark not in found for mark in _marks(name)):
        parser.error(
            f"--docs {path}: it has no marks {' and '.join(_marks(name))}: write them where the table is to stand"
        )


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->", f"<!-- end of {name} -->"
