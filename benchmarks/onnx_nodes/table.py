"""What became of the cases, as a table for people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_OUTCOMES = ("right", "no kernel", "refused", "wrong", "traceback", "abort", "hang")
_BEGIN, _END = "<!-- made by make bench-onnx -->", "<!-- end -->"


def broken(record: dict[str, Any]) -> bool:
    """Whether a case shows a fault of tapml's: wrong and not noticed, or no sentence."""
    return outcome(record) not in ("right", "no kernel", "refused") and not record.get("noticed")


def outcome(record: dict[str, Any]) -> str:
    """Right is what is right on the reference and passes on every device, or needs a feature that it lacks."""
    found = str(record["outcome"])
    if found != "right":
        return found
    said = [line for lines in record["verdicts"].values() for line in lines]
    if any(not line.startswith("unsupported") for line in said):
        return "wrong"
    return "no kernel" if any("needs the feature" not in line for line in said) else "right"


def show(records: Sequence[dict[str, Any]]) -> None:
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


def write(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """Write the generated part of a page anew."""
    text = path.read_text()
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    path.write_text(f"{before}{_BEGIN}\n\n{''.join(_lines(records))}\n{_END}{after}")


def _lines(records: Sequence[dict[str, Any]]) -> Iterable[str]:
    yield "| operator | opsets | cases | right | no kernel | refused | wrong (noticed) | why not |\n"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        groups[record["operator"]].append(record)
    for operator, found in [*sorted(groups.items()), ("**all**", list(records))]:
        counts = Counter(map(outcome, found))
        opsets = "" if len(found) == len(records) else ", ".join(map(str, sorted({r["opset"] for r in found})))
        why = Counter(_sentence(record) for record in found if outcome(record) != "right")
        wrong = counts.total() - counts["right"] - counts["no kernel"] - counts["refused"]
        noticed = sum(bool(record.get("noticed")) for record in found)
        cells = [operator, opsets, counts.total(), counts["right"], counts["no kernel"] or "", counts["refused"] or ""]
        cells += [
            f"{wrong} ({noticed})" if wrong else "",
            "" if not opsets else why.most_common(1)[0][0] if why else "",
        ]
        yield f"| {' | '.join(map(str, cells))} |\n"


def _sentence(record: dict[str, Any]) -> str:
    # What all devices say alike is said once.
    text = record["why"] or "; ".join(dict.fromkeys(line for lines in record["verdicts"].values() for line in lines))
    return text.strip().splitlines()[-1].removeprefix("model.onnx: ").replace("|", "\\|")[:200]


def _by_operator(records: Sequence[dict[str, Any]]) -> list[tuple[str, Counter[str]]]:
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        groups[record["operator"]][outcome(record)] += 1
    return sorted(groups.items())
