"""`tapml import` of what a page captured of a deployed model (docs/capture.md)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tapml.cli.suites import opened
from tapml.reports.console import Table
from tapml.reports.progress import ProgressReport
from tapml.reports.terminal import COLOURS, mark, warn_doubts
from tapml.results.base import adapter_name
from tapml.results.verdicts import FAILING
from tapml.sharing.capture import Capture, CaptureDocument
from tapml.sharing.captured import CapturedVerdict, judge
from tapml.sharing.imports import add_all, new_suite_of
from tapml.suite import Suite
from tapml.suite.writer import check_place
from tapml.text import one_line

_MOST_NAMED = 4
_LONGEST = 5000


def import_captured(capture: Capture, options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Say of each call whether its GPU was right, and add them to a suite, or make one of them. 1 where one was not."""
    suite = None if options.into is None else opened(options.into, progress)
    warn_doubts(progress, options.file, capture.document.model.doubts)
    path = options.output or Path(options.file.name).with_suffix(".suite")
    if suite is None:
        check_place(path, options.force)
    with ProgressReport(progress) as report:
        found = judge(capture, suite, lambda done, total: report.update("comparing", done, total))
    _show(console, capture, found)
    repros = [one.repro for one in found if one.repro is not None]
    if not repros:
        return 1
    if suite is not None:
        ids = add_all(repros, suite)
        path = suite.path
        distinct = list(dict.fromkeys(ids))
        tests = f"tests {distinct[0]} to {distinct[-1]}" if len(distinct) > 1 else f"test {distinct[0]}"
        console.print(f"{tests} of {path}", soft_wrap=True)
    else:
        ids = [test.id for test in new_suite_of(repros, path, overwrite=options.force).tests]
        console.print(f"they are the suite {path}", soft_wrap=True)
    written = Suite(path)
    verdicts = [one.verdict for one in found if one.repro is not None]
    wrong = dict.fromkeys(
        written.test(test).kernel for test, verdict in zip(ids, verdicts, strict=True) if verdict in FAILING
    )
    kernels = "".join(f" --kernel {kernel}" for kernel in list(wrong)[:_MOST_NAMED])
    console.print(f"run them again: tapml validate {path}{kernels}; look at them: tapml serve {path}", soft_wrap=True)
    return int(any(one.verdict in FAILING for one in found))


def _show(console: Console, capture: Capture, found: Sequence[CapturedVerdict]) -> None:
    document = capture.document
    device = document.device
    adapter = adapter_name(device["adapter"])
    sizes = "".join(f", {name} {size}" for name, size in document.sizes.items())
    where = f"{device['name']} ({adapter})" if adapter else device["name"]
    console.print(f"{document.model.title or document.model.name}, {document.function}{sizes}, on {where}")
    table = Table("node", "kernel", "variant", "verdict", "")
    common = _common_notes(found)
    for one in found:
        shown = Text("? suspicious", style=COLOURS["suspicious"]) if one.suspicious else mark(one.verdict)
        own = [note for note in one.notes if note not in common[one.call.kernel]]
        remarks = "; ".join(filter(None, (one.message, _worst(one), one.suspicious, *own)))
        table.add_row(one.call.node or "-", one.call.kernel, one.call.variant, shown, remarks)
    console.print(table)
    for kernel, notes in common.items():
        for note in notes:
            console.print(f"{kernel}: {note}", soft_wrap=True)
    for kernel in common:
        calls = [one for one in found if one.call.kernel == kernel]
        wrong = sum(one.verdict == "fail" for one in calls)
        if wrong:
            console.print(f"{kernel} is wrong on {device['name']}: {wrong} of {len(calls)} calls", style="red")
    if text := left_out_text(document):
        console.print(text, style="yellow", soft_wrap=True)


def left_out_text(document: CaptureDocument) -> str:
    """Which calls are not in the file, and why; empty where all are."""
    if not document.left_out:
        return ""
    calls_are = "1 call was" if document.left_out == 1 else f"{document.left_out} calls were"
    verb = "is" if document.left_out == 1 else "are"
    why = f": {'; '.join(document.why)}" if document.why else ""
    return one_line(f"{calls_are} chosen, and {verb} not in the file{why}", _LONGEST)


def _common_notes(found: Sequence[CapturedVerdict]) -> dict[str, list[str]]:
    """By kernel, what is to be known of all of its calls: it is said once."""
    calls: dict[str, list[CapturedVerdict]] = {}
    for one in found:
        calls.setdefault(one.call.kernel, []).append(one)
    return {
        kernel: [note for note in ones[0].notes if all(note in one.notes for one in ones)]
        for kernel, ones in calls.items()
    }


def _worst(one: CapturedVerdict) -> str:
    worst = one.measured and one.measured["worst"]
    if not worst or one.verdict != "fail":
        return ""
    index = ", ".join(map(str, worst["index"]))
    got, expected, bound = (_number(worst[key]) for key in ("got", "expected", "bound"))
    return f"worst at [{index}]: {got} instead of {expected}, and may differ by {bound}"


def _number(value: float | str | None) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)
