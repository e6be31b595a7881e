"""What changed between two runs, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from tapml.reports.console import Table, show_facts
from tapml.reports.terminal import mark, number
from tapml.results.comparison import ComparedOutcome, ComparedTest, Comparison, RunSide
from tapml.results.headline import share_text
from tapml.results.verdicts import SEVERITY
from tapml.text import counted, listed, one_line

_MOST_NAMED = 8
_TELLING = 2
"""Times as large or small, from which on an error is another one."""


def show_comparison(console: Console, found: Comparison) -> None:
    """A row a kernel of which something changed: verdicts, errors, the GPU's time; then one line of sums."""
    show_facts(console, [("before", side_text(found["before"])), ("after", side_text(found["after"]))])
    rows: dict[str, list[ComparedTest]] = {}
    for test in found["tests"]:
        rows.setdefault(test["kernel"], []).append(test)
    changed = {kernel: tests for kernel, tests in rows.items() if any(map(_differs, tests))}
    if changed:
        errors = ("of its bound", "max abs error")
        table = Table("kernel", "tests", "before", "after", *errors, "time", right=("tests",))
        for kernel, tests in changed.items():
            _add(table, kernel, tests)
        console.print()
        console.print(table)
    console.print()
    show_facts(console, [("in all", one_line(summary_line(found), 5000))])


def side_text(side: RunSide) -> str:
    """For people: when, on what, how many tests."""
    on = f"{side['device']} ({side['adapter']})" if side["adapter"] else side["device"]
    when = side["created"][:19].replace("T", " ")
    return one_line(f"{when}, {on}, {counted(side['tests'], 'test')}, {side['run'][:40]}", 2000)


def summary_line(found: Comparison) -> str:
    """How many of what, and the time of all."""
    summary = found["summary"]
    words = {
        "worse": "worse",
        "better": "better",
        "other": "with another verdict",
        "added": "only in the second run",
        "removed": "only in the first run",
        "same": "with the same verdict",
    }
    text = ", ".join(f"{summary[key]} {word}" for key, word in words.items() if summary[key])  # type: ignore[literal-required]
    text = f"{counted(len(found['tests']), 'test')}: {text or 'none'}"
    if kernels := summary["kernels_changed"]:
        text += f"; other WGSL of {listed(kernels, _MOST_NAMED)}"
    old, new = summary["seconds"]
    if old and new:
        text += f"; {'GPU ' if summary['gpu'] else ''}time {_seconds(old)}, then {_seconds(new)} ({_times(old, new)})"
    return text


def _differs(test: ComparedTest) -> bool:
    if test["change"] in ("worse", "better", "other") or test["kernel_changed"]:
        return True
    if test["before"] is None or test["after"] is None:
        return False
    return _another_error(test["before"], test["after"])


def _another_error(before: ComparedOutcome, after: ComparedOutcome) -> bool:
    """By the share of the bound where both tell it."""
    old, new = before["bound_share"], after["bound_share"]
    if old is None or new is None:
        old, new = before["max_abs_error"], after["max_abs_error"]
    if old is None or new is None:
        return old is not new
    return max(float(old), float(new)) > _TELLING * min(float(old), float(new))


def _add(table: Table, kernel: str, tests: Sequence[ComparedTest]) -> None:
    olds = [test["before"] for test in tests if test["before"] is not None]
    news = [test["after"] for test in tests if test["after"] is not None]
    edited = " (other WGSL)" if any(test["kernel_changed"] for test in tests) else ""
    shares = " → ".join(map(_share, (olds, news)))
    errors = " → ".join(number(max(known, default=None)) for known in map(_errors, (olds, news)))
    times = [_sum(side) for side in (olds, news)]
    time = " → ".join("-" if seconds is None else _seconds(seconds) for seconds in times)
    table.add_row(kernel + edited, str(len(tests)), _worst(olds), _worst(news), shares, errors, time)


def _share(side: Sequence[ComparedOutcome]) -> str:
    """Of the worst."""
    known = [float(found["bound_share"]) for found in side if found["bound_share"] is not None]
    return share_text(max(known)) if known else "-"


def _errors(side: Sequence[ComparedOutcome]) -> list[float]:
    return [found["max_abs_error"] for found in side if found["max_abs_error"] is not None]


def _worst(side: Sequence[ComparedOutcome]) -> Text:
    if not side:
        return Text("-")
    worst = max((found["verdict"] for found in side), key=SEVERITY.index)
    count = sum(found["verdict"] == worst for found in side)
    return mark(worst) if count == len(side) else mark(worst) + Text(f" {count} of {len(side)}")


def _sum(side: Sequence[ComparedOutcome]) -> float | None:
    """The GPU's time, where it is known of all."""
    known = [found["gpu_seconds"] for found in side]
    return sum(filter(None, known)) if known and None not in known else None


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _times(old: float, new: float) -> str:
    ratio = new / old
    return f"{ratio:.2f} × as long"
