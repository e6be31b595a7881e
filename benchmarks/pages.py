"""Parts of Markdown pages that benchmarks write."""

from __future__ import annotations

from pathlib import Path


def between(path: Path, name: str, text: str) -> None:
    """Put a text between the marks of this name in a Markdown file. Raises ValueError where there are none."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    found = path.read_text()
    if begin not in found or end not in found:
        raise ValueError(f"{path} has no marks {begin} and {end}: write them where the table is to stand")
    head, tail = found.split(begin)[0], found.split(end)[1]
    path.write_text(f"{head}{begin}\n\n{text.strip()}\n\n{end}{tail}")
