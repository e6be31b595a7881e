"""What became of configurations, for the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]


def table(records: Sequence[Record]) -> str:
    """In Markdown, a row a configuration."""
    lines = [
        "| configuration | kernels | tests | tokens as transformers' | different ones | outcome |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for record in records:
        told = f"{outcome(record)}: {found}" if (found := why(record).replace("|", "\\|")) else outcome(record)
        of = record.get("wanted")
        equal = ", ".join(f"{where} {count} of {of}" for where, count in record.get("tokens", {}).items())
        counts = [record.get("kernels") or "", record.get("calls") or "", equal, record.get("distinct") or ""]
        lines.append(f"| {' | '.join(map(str, (record['name'], *counts, told)))} |")
    return "\n".join(lines)


def outcome(record: Record) -> str:
    """Right is what gives transformers' tokens everywhere, and passes its tests on every device."""
    return "wrong" if record["outcome"] == "right" and any(_lines(record)) else str(record["outcome"])


def why(record: Record) -> str:
    """Empty where all is right."""
    if record["outcome"] in ("right", "wrong"):
        return "; ".join(filter(None, (record["why"], *_lines(record))))[:300]
    return str(record["why"]).strip().splitlines()[-1][:300]


def _lines(record: Record) -> list[str]:
    """What tests on devices say that do not pass; what all say alike is said once."""
    return list(dict.fromkeys(line for lines in record["verdicts"].values() for line in lines))
