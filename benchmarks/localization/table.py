"""The benchmark's table, like the paper's Table 6, from the records of all cases."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.localization.baseline import TOLERANCES
from benchmarks.localization.counting import Count, by_operator
from benchmarks.localization.equivalence import CLASSES, DETECTABLE, EQUIVALENT, IMPLEMENTATION, WITHIN
from benchmarks.pages import between

Record = Mapping[str, Any]
Rows = list[list[str]]

_HEAD = [
    "model", "operators", "cases", "bugs", "equivalent", "within the bound", "suspicious", "implementation", "median s",
    "slowest s", "reports", "false pos.", "false neg.", "suspicious wrongly",
]  # fmt: skip
_BASELINE_HEAD = ["model", "rtol = atol", "reports", "false pos.", "false neg.", "median s"]
_OPERATOR_HEAD = ["mutation", *(f"{kind}, accused" + (", suspicious" if kind == WITHIN else "") for kind in CLASSES)]


def text(records: Sequence[Record]) -> str:
    """Everything, for a terminal."""
    return "\n\n".join(f"{title}\n{_plain(rows)}" for title, rows in _tables(records)) + "\n\n" + _details(records)


def markdown(records: Sequence[Record]) -> str:
    parts = [f"**{title}**\n\n{_pipes(rows)}" for title, rows in _tables(records)]
    return "\n\n".join(parts)


def mark(device: str, compiler: str) -> str:
    """What the marks of a table are called: by the device, and by whose kernels they are where these are not TVM's."""
    return device if compiler == "tvm" else f"{device}-{compiler}"


def write(path: Path, name: str, records: Sequence[Record]) -> None:
    """Put the tables between the marks of this name in a Markdown file. Raises ValueError where there are none."""
    between(path, name, markdown(records))


Said = tuple[Sequence[str], float, Sequence[str]]


def counted(records: Iterable[Record], accused: Callable[[Record], Said]) -> dict[str, Count]:
    """Model -> its count of mutated cases; `accused` gives the accused kernels, the seconds and the suspicious kernels
    of a record."""
    found: dict[str, Count] = defaultdict(Count)
    for record in records:
        if record["bugs"]:
            names, seconds, suspicious = accused(record)
            found[record["model"]].add(record["kernels"], record["bugs"], names, seconds, suspicious)
    return dict(found)


def _tables(records: Sequence[Record]) -> Iterable[tuple[str, Rows]]:
    located = counted(records, lambda record: (record["accused"], record["seconds"], list(record["suspicious"])))
    device = records[0]["device"]
    operators = {record["model"]: str(record["operators"]) for record in records}
    yield f"tapml locate, {device}", [_HEAD, *(_row(n, operators.get(n, ""), c) for n, c in _with_total(located))]
    yield "Random normal inputs with one tolerance, the same cases and device", [_BASELINE_HEAD, *_baseline(records)]
    clean = [record for record in records if not record["bugs"]]
    rows = [
        [
            r["model"],
            r["verdict"],
            *(", ".join(r[key]) or "none" for key in ("accused", "suspicious")),
            f"{r['seconds']:.1f}",
        ]
        for r in clean
    ]
    yield "Unmutated models", [["model", "verdict", "accused", "suspicious", "s"], *rows]
    yield "By mutation operator", [_OPERATOR_HEAD, *_operators(records)]


def _with_total(counts: Mapping[str, Count]) -> Iterable[tuple[str, Count]]:
    yield from counts.items()
    yield "all", sum(counts.values(), Count())


def _row(name: str, operators: str, count: Count) -> list[str]:
    return [
        name,
        operators,
        str(count.cases),
        str(count.injected),
        str(count.bugs[EQUIVALENT]),
        str(count.bugs[WITHIN]),
        str(count.suspicious[WITHIN]),
        str(count.bugs[IMPLEMENTATION]),
        f"{statistics.median(count.seconds):.1f}",
        f"{max(count.seconds):.1f}",
        str(count.reports),
        f"{count.accused} ({count.false_positive_share:.1%})",
        f"{count.missed} ({count.false_negative_share:.1%})",
        str(count.suspected),
    ]


def _baseline(records: Sequence[Record]) -> Iterable[list[str]]:
    for tolerance in TOLERANCES:

        def accused(record: Record, name: str = str(tolerance)) -> Said:
            return record["baseline"]["accused"][name], record["baseline"]["seconds"], ()

        for model, count in _with_total(counted(records, accused)):
            wrong, missed = count.false_positive_share, count.false_negative_share
            yield [
                model,
                f"{tolerance:g}",
                str(count.reports),
                f"{count.accused} ({wrong:.1%})",
                f"{count.missed} ({missed:.1%})",
                f"{statistics.median(count.seconds):.1f}",
            ]


def _operators(records: Sequence[Record]) -> Iterable[list[str]]:
    for name, kinds in sorted(by_operator(records).items()):
        yield [name, *(", ".join(map(str, kinds[kind][: 3 if kind == WITHIN else 2])) for kind in CLASSES)]


def _details(records: Sequence[Record]) -> str:
    """Each false positive, each false negative, and what hides inside its bound, one a line."""
    lines = []
    for record in records:
        mutated = {bug["kernel"] for bug in record["bugs"]}
        for found in record["suspects"]:
            if found["kernel"] in record["accused"] and found["kernel"] not in mutated:
                what = f"{found['verdict']}, excess {found['excess']}, {found['reason']}"
                lines.append(f"false positive: {record['case']} {found['kernel']}: {what}")
        for kernel, times in record["suspicious"].items():
            if kernel not in mutated:
                lines.append(f"suspicious wrongly: {record['case']} {kernel}: {times:.3g} x what rounding explains")
        for bug in record["bugs"]:
            if bug["class"] == DETECTABLE and bug["kernel"] not in record["accused"]:
                lines.append(f"false negative: {record['case']} {_bug(bug)}")
            known = bug["kernel"] in record["suspicious"]
            if (
                bug["class"] == WITHIN
                and not known
                and max(effect["change"] for effect in bug["effects"].values()) > 1e-3
            ):
                lines.append(f"hidden by its bound: {record['case']} {_bug(bug)}")
    return "\n".join(lines)


def _bug(bug: Mapping[str, Any]) -> str:
    effects = {name: (effect["excess"], effect["change"], effect["error"]) for name, effect in bug["effects"].items()}
    return f"{bug['kernel']} {bug['file']}:{bug['line']} {bug['operator']} ({bug['description']}) {effects}"


def _plain(rows: Rows) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _pipes(rows: Rows) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
