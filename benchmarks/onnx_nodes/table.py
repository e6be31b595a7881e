"""What became of the cases, as a table for people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.carved import Record, built, built_wrong, outcome, said_by_devices

_OUTCOMES = ("right", "no kernel", "refused", "wrong", "traceback", "abort", "hang")


def show(records: Sequence[Record]) -> None:
    console = Console(width=160, markup=False, highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("operator", "cases", *_OUTCOMES):
        table.add_column(column, justify="left" if column == "operator" else "right")
    for operator, counts in _by_operator(records):
        if counts["right"] < counts.total():
            table.add_row(operator, str(counts.total()), *(str(counts[name] or "") for name in _OUTCOMES))
    total = Counter(map(outcome, records))
    table.add_row("all", str(total.total()), *(str(total[name]) for name in _OUTCOMES))
    console.print(table)
    console.print(f"of the wrong ones {sum(bool(record.get('noticed')) for record in records)} are noticed")


def markdown(records: Sequence[Record]) -> str:
    """A line for each operator, and one for all."""
    return "".join(_lines(records))


def _lines(records: Sequence[Record]) -> Iterable[str]:
    yield "| operator | opsets | cases | right | built | no kernel | refused | wrong (noticed) | why not |\n"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[record["operator"]].append(record)
    for operator, found in [*sorted(groups.items()), ("**all**", list(records))]:
        counts = Counter(map(outcome, found))
        opsets = "" if len(found) == len(records) else ", ".join(map(str, sorted({r["opset"] for r in found})))
        why = Counter(sentence(record) for record in found if outcome(record) != "right")
        wrong = counts.total() - counts["right"] - counts["no kernel"] - counts["refused"]
        noticed = sum(bool(record.get("noticed")) for record in found)
        agree = sum("cpu" in built(record) and not built_wrong(record) for record in found)
        cells = [operator, opsets, counts.total(), counts["right"], agree or ""]
        cells += [counts["no kernel"] or "", counts["refused"] or ""]
        cells += [
            f"{wrong} ({noticed})" if wrong else "",
            "" if not opsets else why.most_common(1)[0][0] if why else "",
        ]
        yield f"| {' | '.join(map(str, cells))} |\n"


def sentence(record: Record) -> str:
    """Why a case is not right."""
    text = record["why"] or "; ".join((*said_by_devices(record), *built_wrong(record)))
    return text.strip().splitlines()[-1].removeprefix("model.onnx: ").replace("|", "\\|")[:200]


def _by_operator(records: Sequence[Record]) -> list[tuple[str, Counter[str]]]:
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        groups[record["operator"]][outcome(record)] += 1
    return sorted(groups.items())
