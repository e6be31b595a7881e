"""What became of configurations, for the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapml.zoo.code import DEFAULT, codes, compiler_of

Record = Mapping[str, Any]


def table(records: Sequence[Record]) -> str:
    """In Markdown, a row a configuration. A column for each place where one was run: how many tokens are transformers'
    there, and whether kernels fail; empty where this one was not. Below it stands which code they are of, beside each
    where they are not all of the same, and the compiler where it is not TVM alone."""
    places = list(dict.fromkeys(place for record in records for place in record.get("tokens", {})))
    mixed = len({tuple(codes(record)) for record in records}) > 1
    columns = [
        "configuration",
        "kernels",
        "tests",
        "different tokens",
        *places,
        *(["code"] if mixed else []),
        "outcome",
    ]
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for record in records:
        told = f"{outcome(record)}: {found}" if (found := why(record).replace("|", "\\|")) else outcome(record)
        counts = [record.get(name) or "" for name in ("kernels", "calls", "distinct")]
        of = [", ".join(each.split()[0] for each in codes(record))] if mixed else []
        cells = [record["name"], *counts, *(_at(record, place) for place in places), *of, told]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    all_codes = dict.fromkeys(each for record in records for each in codes(record))
    compilers = [name for name in dict.fromkeys(map(compiler_of, records)) if name != DEFAULT]
    kernels = f" Kernels: `--compiler {'`, `--compiler '.join(compilers)}`." if compilers else ""
    return "\n".join([*lines, "", f"Code: {'; '.join(all_codes)}.{kernels}"])


def _at(record: Record, place: str) -> str:
    equal = record.get("tokens", {}).get(place)
    if equal is None:
        return ""
    return f"{equal} of {record['wanted']}{', kernels fail' if record['verdicts'].get(place) else ''}"


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
