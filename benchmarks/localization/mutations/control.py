"""Mistakes of control: guards, masks, and where sums begin and end."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.localization.mutations.edit import LEAST, Edit, shown
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
        yield span, "true", f"guard {shown(code[span])} dropped"


def inverted_guard(code: Code) -> Iterator[Edit]:
    for span in _conditions(code):
        yield span, f"!({code[span]})", f"guard {shown(code[span])} inverted"


def accumulation_start(code: Code) -> Iterator[Edit]:
    starts = {"0.000000e+00f": "1.000000e+00f", "0i": "1i"}
    for match in code.matches(rf"(\w+)\[[^=]*\] = (0\.000000e\+00f|0i|{LEAST});"):
        span, start = Span(match.start(2), match.end(2)), starts.get(match[2], "0.000000e+00f")
        yield span, start, f"{match[1]} starts from {start} instead of {match[2]}"


def reduction_bound(code: Code) -> Iterator[Edit]:
    for match in code.matches(r"for \(var (\w+) : i32 = (0i); \1 < (\d+)i; \1\+\+\)"):
        bound = int(match[3])
        if bound > 1:
            yield Span(match.start(3), match.end(3)), str(bound - 1), f"loop over {bound} ends one early"
            yield Span(match.start(2), match.end(2)), "1i", f"loop over {bound} begins one late"
    for match in code.matches(r"if \(i32\(threadIdx\.x\) < (\d+)i\) \{"):
        bound = int(match[1])
        if bound > 1 and code.text[match.end() :].lstrip().startswith("red_buf"):
            yield Span(match.start(1), match.end(1)), str(bound - 1), f"reduction step over {bound} ends one early"


def mask_off_by_one(code: Code) -> Iterator[Edit]:
    """What is chosen between reaches one further, or one less far."""
    steps = [span for span in _conditions(code) if code.text[_block(code, span) :].lstrip().startswith("red_buf")]
    for binary in code.binaries:
        inside = any(span.start - 1 <= binary.whole.start < span.end for span in steps)
        if binary.operator in _NEIGHBOUR and not inside and ";" not in code[binary.left]:
            other = _NEIGHBOUR[binary.operator]
            span = Span(binary.left.end, binary.right.start)
            yield span, f" {other} ", f"{binary.operator} became {other} in {shown(code[binary.whole])}"


_NEIGHBOUR = {"<": "<=", "<=": "<"}


def _block(code: Code, condition: Span) -> int:
    """Where the statements begin that stand under a condition."""
    return code.text.index("{", condition.end) + 1
