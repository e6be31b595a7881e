"""Trends and timelines as text."""

from __future__ import annotations

import datetime

from rich.console import Console

from tapml.reports.console import Table
from tapml.reports.terminal import mark, number
from tapml.results.headline import share_text
from tapml.results.history import HistoryPoint, SuiteHistoryDocument, TestHistoryDocument, Trend


def show_trends(console: Console, document: SuiteHistoryDocument, limit: int | None, place: str) -> None:
    """A row a test and device, what needs a look first."""
    trends = document["trends"]
    if not trends:
        _empty(console, f"{document['suite_name']} has no recorded runs", place)
        return
    numbers = ("flaky", "runs", "GPU time")
    table = Table("test", "kernel", "device", "verdict", "since", "first failed", *numbers, right=numbers)
    # What fails or is flaky stands first, and is never cut off.
    attention = sum(trend["state"] == "failing" or trend["flaky_runs"] > 0 for trend in trends)
    limit = limit and max(limit, attention)
    for trend in trends[:limit]:
        failed = trend["first_failing"]
        table.add_row(
            *(trend[key] for key in ("test", "kernel")),
            _device(trend),
            mark(trend["last"]["verdict"]),
            _since(trend),
            f"{_date(failed['created'])} {failed['device']}" if failed else "never",
            _share(trend),
            str(trend["runs"]),
            _time(trend["gpu_seconds"]["median"]),
        )
    console.print(table)
    _rest(console, len(trends), limit, "tests")
    states = [trend["state"] for trend in trends]
    new = sum(trend["new_failure"] for trend in trends)
    flaky = sum(trend["flaky_runs"] > 0 for trend in trends)
    failing = f"{states.count('failing')} failing ({new} passed before)" if "failing" in states else "none failing"
    console.print(f"{document['runs']} runs in {place}; of {len(trends)} trends {failing}, {flaky} flaky")


def show_timeline(console: Console, document: TestHistoryDocument, limit: int | None, place: str) -> None:
    """For each device the test's runs, newest first, then what is known of it."""
    if not document["devices"]:
        _empty(console, f"test {document['test']} has no recorded runs", place)
    for entry in document["devices"]:
        trend, points = entry["trend"], entry["points"]
        title = f"{document['test']} {document['kernel']} on {_device(trend)}"
        numbers = ("out of tolerance", "of its bound", "max abs error", "GPU time", "mean of its batch")
        table = Table("run", "device", "verdict", *numbers, "", right=numbers, title=title)
        for point in points[::-1][:limit]:
            table.add_row(
                _date(point["created"]),
                point["device"],
                mark(point["verdict"]),
                f"{point['mismatched']} of {point['total']}",
                "-" if point["bound_share"] is None else share_text(float(point["bound_share"])),
                number(point["max_abs_error"]),
                *(_time(point[key]) for key in ("gpu_seconds", "seconds")),
                _remarks(point),
            )
        console.print(table)
        _rest(console, len(points), limit, "runs")
        console.print(_summary(trend))


def _empty(console: Console, text: str, place: str) -> None:
    console.print(f"{text} in {place}: run `tapml validate` or `tapml test`, and look again")


def _rest(console: Console, count: int, limit: int | None, what: str) -> None:
    if limit is not None and count > limit:
        console.print(f"... and {count - limit} more {what}: see --limit or --json")


def _device(trend: Trend) -> str:
    return f"{trend['device']} ({trend['gpu']})" if trend["gpu"] else str(trend["device"])


def _since(trend: Trend) -> str:
    since = trend["since"]
    new = ("kernel changed",) * since["kernel_changed"] + ("another version",) * since["device_changed"]
    return f"{_date(since['created'])} {since['device']}" + (f", {' and '.join(new)}" if new else "")


def _share(trend: Trend) -> str:
    return f"{100 * trend['flaky_rate']:.0f}%" if trend["flaky_runs"] else "-"


def _summary(trend: Trend) -> str:
    parts = [f"{trend['state']} since {_since(trend)}"]
    if trend["first_failing"]:
        parts.append(f"first failed {_date(trend['first_failing']['created'])} in {trend['first_failing']['device']}")
    if trend["flaky_runs"]:
        parts.append(f"flaky in {trend['flaky_runs']} of {trend['runs']} runs")
    if trend["gpu_seconds"]["median"] is not None:
        parts.append(f"median GPU time {_time(trend['gpu_seconds']['median'])}")
    elif trend["seconds"]["median"] is not None:
        parts.append(f"median time {_time(trend['seconds']['median'])} (each the mean of its batch)")
    return "; ".join(parts)


def _remarks(point: HistoryPoint) -> str:
    remarks = ["kernel changed"] if point["kernel_changed"] else []
    if point["flaky"]:
        remarks.append("flaky" + (f" ({', '.join(point['attempts'])})" if point["attempts"] else ""))
    if point["message"]:
        remarks.append(point["message"].splitlines()[0][:120])
    return "; ".join(remarks)


def _date(created: str) -> str:
    """In the reader's own time zone; as it is where it is none, for a suite's history may be a stranger's."""
    try:
        return datetime.datetime.fromisoformat(created).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return created[:20]


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"
