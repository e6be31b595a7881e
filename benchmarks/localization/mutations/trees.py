"""Mistakes of sums that several invocations make together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.localization.mutations.edit import Edit, shown
from benchmarks.localization.wgsl_text import Code, Span

_STEP = re.compile(r"  if \(i32\(threadIdx\.x\) < (\d+)i\) \{\n +(red_buf\w+)\[.*\n +\}\n")


def lost_step(code: Code) -> Iterator[Edit]:
    for match in _STEP.finditer(code.text):
        yield Span(match.start(), match.end()), "", f"the step of {match[1]} lanes of {match[2]} is lost"


def step_elsewhere(code: Code) -> Iterator[Edit]:
    """A step adds the lanes of another one: some are counted twice, others never."""
    for match in _STEP.finditer(code.text):
        size = int(match[1])
        for other in (size // 2, size * 2, size - 1):
            if other != size and other > 0:
                text = match[0].replace(f" + {size}i)]", f" + {other}i)]")
                yield Span(match.start(), match.end()), text, f"a step of {size} lanes adds those {other} on"


def wrong_lane(code: Code) -> Iterator[Edit]:
    """The result is taken from another lane."""
    for match in code.matches(r"= (red_buf\w+)\[0i\]"):
        for lane in (1, 2):
            yield Span(match.start(), match.end()), f"= {match[1]}[{lane}i]", f"the result is that of lane {lane}"


def step_twice(code: Code) -> Iterator[Edit]:
    for match in _STEP.finditer(code.text):
        text = match[0] + "  workgroupBarrier();\n" + match[0]
        yield Span(match.start(), match.end()), text, f"the step of {match[1]} lanes runs twice"


def idle_lane(code: Code) -> Iterator[Edit]:
    """Some invocations bring nothing, or what their neighbour has."""
    for match in code.matches(r"(red_buf\w+)\[i32\(threadIdx\.x\)\] = (in_thread\w+)\[0i\];"):
        lane = f"{match[1]}[i32(threadIdx.x)] = "
        for condition, what in (("(threadIdx.x & 7u) == 7u", "every eighth"), ("threadIdx.x == 0u", "the first")):
            text = f"{lane}select({match[2]}[0i], 0.0f, {condition});"
            yield Span(match.start(), match.end()), text, f"{what} invocation brings nothing to {match[1]}"
    for match in code.matches(r"(in_thread\w+\[0i\]) = \((in_thread\w+\[0i\]) \+ (.+)\);"):
        span = Span(match.start(), match.end())
        yield span, f"{match[0]} {match[0]}", f"{shown(match[3])} is added twice"
        yield span, "", f"{shown(match[3])} is not added"
