"""What a kernel's text shows: workgroup memory that is written and read with no barrier between."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tapml.kernels.wgsl_tokens import is_name, tokens
from tapml.locating.formula.work import Work
from tapml.locating.invocations import MOST_INVOCATIONS, Invocations
from tapml.locating.matrices import SUBGROUP, element_bytes, uses_matrices
from tapml.locating.ordering import Module, Unordered, Unreadable, Walk

_MOST_CHARACTERS = 1 << 20
_MOST_VARIABLES = 64

WORK = 400_000_000
"""What the reading of one text may compute: hundreds of times what kernels take."""

_DEEPEST = 127
"""Blocks in blocks that WGSL lets a function have."""

SHARED = re.compile(r"var\s*<\s*workgroup\s*>")
"""Before each variable in workgroup memory."""

_BARRIERS = ("workgroupBarrier", "workgroupUniformLoad")


def unordered(wgsl: str) -> Unordered | None:
    """The first such pair, as statements follow on each other and loops begin again.

    None where no invocation reads what another one wrote, as far as the text tells: by the values that indices and
    conditions have in each invocation of a workgroup where these are known, and else by how indices are spelled (an
    element that is read as it was written is the same invocation's). None also for what is no WGSL, has more than a
    mebibyte, or takes more than `WORK` to read: whatever a text holds, it takes a few seconds at most.
    """
    if len(wgsl) > _MOST_CHARACTERS or not SHARED.search(wgsl):
        return None
    found = tokens(wgsl)
    if found is None:
        return None
    try:
        texts = [*(token.text for token in found), ""]
        return _unordered(texts, [*(token.line for token in found), 0])
    except Unreadable:
        return None


def _unordered(texts: Sequence[str], lines: Sequence[int]) -> Unordered | None:
    work = Work(WORK)  # of all functions together
    shared = dict(_shared(texts))
    if len(shared) > _MOST_VARIABLES:
        raise Unreadable
    functions = list(_functions(texts))
    barriers = _coming_to_a_barrier(texts, functions)
    module = Module(texts, lines, shared, barriers, any(text in _BARRIERS for text in texts), work)
    subgroup = SUBGROUP if uses_matrices(texts) else None
    for start, body, end in functions if shared else ():
        found = Walk(module, body, end, _invocations(texts, start, body, work, subgroup)).unordered()
        if found is not None:
            return found
    return None


def _shared(texts: Sequence[str]) -> Iterator[tuple[str, int | None]]:
    """Variables in workgroup memory and the bytes of an array's element, but for atomics, which are ordered by
    themselves."""
    for number in range(len(texts) - 5):
        if texts[number] == "var" and texts[number + 1] == "<" and texts[number + 2] == "workgroup":
            declared = texts[number + 4 : number + 60]
            declared = declared[: declared.index(";")] if ";" in declared else declared
            if declared and "atomic" not in declared and is_name(declared[0]):
                yield declared[0], element_bytes(declared[1:])


def _functions(texts: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Of each: `fn`, what is behind the brace that opens, and the one that closes."""
    depth, start, body = 0, -1, 0
    for number, text in enumerate(texts):
        if text == "fn" and depth == 0:
            start = number
        elif text == "{":
            depth += 1
            if depth == 1:
                body = number + 1
            elif depth > _DEEPEST + 1:
                raise Unreadable
        elif text == "}":
            depth -= 1
            if depth < 0:
                raise Unreadable
            if depth == 0 and start >= 0:
                yield start, body, number
                start = -1
    if depth:
        raise Unreadable


def _coming_to_a_barrier(texts: Sequence[str], functions: Sequence[tuple[int, int, int]]) -> frozenset[str]:
    callers: dict[str, list[str]] = {}
    for start, body, end in functions:
        for number in range(body, end):
            if texts[number + 1] == "(" and is_name(texts[number]):
                callers.setdefault(texts[number], []).append(texts[start + 1])
    found, todo = set(_BARRIERS), list(_BARRIERS)
    while todo:
        for caller in callers.get(todo.pop(), ()):
            if caller not in found:
                found.add(caller)
                todo.append(caller)
    return frozenset(found)


def _invocations(texts: Sequence[str], start: int, body: int, work: Work, subgroup: int | None) -> Invocations | None:
    """Of an entry point; None for a function that others call, or where it is not known how many there are."""
    behind = max(
        (number for number in range(max(0, start - 30), start) if texts[number] == "workgroup_size"), default=0
    )
    given = "".join(texts[behind + 1 : start]).partition(")")[0].strip("(").split(",") if behind else [""]
    if any(re.fullmatch(r"[0-9]{1,5}[iu]?", one) is None for one in given if one or not behind):
        return None
    x, y, z = [*(int(one.rstrip("iu")) for one in given if one), 1, 1, 1][:3]
    builtins = {
        texts[number + 5]: texts[number + 3]
        for number in range(start, body - 5)
        if texts[number] == "@" and texts[number + 1] == "builtin"
    }
    known = 0 < x * y * z <= MOST_INVOCATIONS
    return Invocations(texts, (x, y, z), builtins, work, subgroup=subgroup) if known else None
