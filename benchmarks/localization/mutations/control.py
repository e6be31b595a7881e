"""Mistakes of control: guards, masks, and where sums begin and end."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.localization.mutations.edit import Edit, shown
from benchmarks.localization.wgsl_text import Code, Span


def _conditions(code: Code) -> Iterator[Span]:
    """Those of branches in which no barrier stands: a barrier in one does not compile."""
    for match in code.matches(r"if \("):
        start = match.end() - 1
        end = code.closing(start)
        closed = _block_end(code.text, code.text.index("{", end))
        if "workgroupBarrier" not in code.text[end:closed]:
            yield Span(start + 1, end)


def _block_end(text: str, position: int) -> int:
    depth = 0
    for place in range(position, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return len(text)


def dropped_guard(code: Code) -> Iterator[Edit]:
    for span in _conditions(code):
        # Of one that leaves the function, what it keeps out goes on.
        leaves = code.text[_block(code, span) :].lstrip().startswith("return")
        yield span, "false" if leaves else "true", f"guard {shown(code[span])} dropped"


def inverted_guard(code: Code) -> Iterator[Edit]:
    for span in _conditions(code):
        yield span, f"!({code[span]})", f"guard {shown(code[span])} inverted"


def accumulation_start(code: Code) -> Iterator[Edit]:
    for start in code.starts:
        yield start.number, start.other, f"{start.name} starts from {start.other} instead of {code[start.number]}"


def reduction_bound(code: Code) -> Iterator[Edit]:
    for loop in code.loops:
        if loop.bound > 1:
            yield loop.bound_at, str(max(loop.bound - loop.step, 0)), f"loop over {loop.bound} ends one early"
            yield loop.begins, loop.later, f"loop over {loop.bound} begins one late"
    for span, bound in code.steps:
        if bound > 1:
            yield span, str(bound - 1), f"reduction step over {bound} ends one early"


def mask_off_by_one(code: Code) -> Iterator[Edit]:
    """What is chosen between reaches one further, or one less far."""
    steps = [span for span in _conditions(code) if code.text[_block(code, span) :].lstrip().startswith(code.shared)]
    for binary in code.binaries:
        inside = any(span.start - 1 <= binary.whole.start < span.end for span in steps)
        if binary.operator in _NEIGHBOUR and not inside and ";" not in code[binary.left]:
            other = _NEIGHBOUR[binary.operator]
            span = Span(binary.left.end, binary.right.start)
            yield span, f" {other} ", f"{binary.operator} became {other} in {shown(code[binary.whole])}"


_NEIGHBOUR = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


def _block(code: Code, condition: Span) -> int:
    """Where the statements begin that stand under a condition."""
    return code.text.index("{", condition.end) + 1
