"""Is what locate says of a mutated kernel what is wrong with it?

- "good": it names the mistake, or what it does to the values, such that one knows where to look;
- "vague": it is true, and says little: where, how many, how far;
- "misleading": it names a cause that is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.localization.cases import Bug
from tapml.locating.evidence import Finding
from tapml.results.locate import FoundPattern, Suspect

GOOD, VAGUE, MISLEADING = "good", "vague", "misleading"
GRADES = (GOOD, VAGUE, MISLEADING)

_FACTS = frozenset({"race", "unwritten", "uninitialised", "error"})
"""Of the kernel's runs, not of values: they are never guessed."""

_SAYS_LITTLE = frozenset(
    {"stride", "tile-edge", "tail", "scattered", "noise", "mask", "ties", "unbounded", "one-number"}
)

_DESCRIBES = frozenset(
    {"sign", "scale", "offset", "constant", "saturation", "nan-range", "shift", "transpose", "broadcast", "repeat-row"}
)
"""What the values are, as a function of those expected: true, and more or less of a cause."""

_VALUES = {"wrong-constant", "scale", "offset"}
_MOVED = {"wrong-index", "shift", "transpose", "broadcast", "repeat-row", "wrong-terms"}
_GUARD = {"wrong-condition", "wrong-terms", "wrong-index", "constant", "broadcast", "repeat-row", "shift"}
_SUMMED = {"wrong-terms", "wrong-index", "wrong-operation", "scale", "offset"}
_COMPUTED = {"wrong-operation", "wrong-constant", "scale", "offset", "constant", "nan-range"}
_FURTHER: Sequence[tuple[Sequence[str], set[str]]] = (
    (("cut off", "narrow sums", "narrow products", "narrow tiles", "few bits"), {"dtype-conversion"}),
    (("lost step", "step twice", "step of other lanes", "wrong lane", "idle lane"), _SUMMED),
    (("tile stored elsewhere", "tile not stored", "stale tile", "neighbour tile"), _SUMMED),
    (("reversed tiles", "tile read elsewhere", "swapped lanes", "other register"), _MOVED),
    (("factor of an index", "shift of an index", "offset of an index", "other axis"), _GUARD),
    (("other buffer", "first element", "other shift", "stored elsewhere"), _MOVED | _VALUES | {"constant"}),
    (("idle workgroup", "idle invocations", "tighter guard"), _GUARD),
    (("statement lost", "statement twice", "lost summand", "other summand"), _SUMMED | {"constant"}),
    (("other operation", "not a number", "approximation"), _COMPUTED),
    (("doubled or negative constant", "scaled result", "no limit"), _COMPUTED | {"sign", "saturation"}),
)
_CAUSES: Mapping[str, set[str]] = {
    "index off by one": _MOVED,
    "swapped axes": _MOVED,
    "mirrored index": _MOVED,
    "swapped pairs": _MOVED | {"wrong-operation"},
    "stale rows": _MOVED,
    "tile column": _MOVED,
    "missing last tile": _GUARD | {"tile-edge", "tail"},
    "swapped operands": {"wrong-operation", "sign"},
    "sign": {"wrong-operation", "sign"},
    "removed max-subtraction": {"wrong-operation", "nan-range"},
    "dropped barrier": {"wrong-terms", "wrong-index"},
    "wrong epsilon": {"wrong-constant"},
    "other epsilon": {"wrong-constant"},
    "wrong constant": _VALUES,
    "rounded constant": _VALUES,
    "saturated value": {"saturation", "constant"},
    "dropped guard": _GUARD,
    "inverted guard": _GUARD,
    "mask off by one": _GUARD,
    "wrong accumulation start": {"wrong-terms", "offset"},
    "wrong reduction bound": {"wrong-terms"},
    "dtype conversion": {"dtype-conversion"},
    "narrow arithmetic": {"dtype-conversion"},
    **{name: causes for names, causes in _FURTHER for name in names},
    "start of a maximum": {"wrong-terms", "wrong-constant", "nan-range"},
}
_TYPES = {
    "f16": ("float16",), "bfloat16": ("bfloat16",), "i32": ("integer", "whole"), "float16": ("float16",),
    "TF32": ("TF32", "float16"), "uint8": ("2^8",), "coarse float": ("",), "unsigned": ("",),
}  # fmt: skip


def grade(bug: Bug, suspect: Suspect) -> str:
    """Of the sentence, which begins with the strongest finding, and goes on with what the program says where the output
    alone says as much."""
    if not suspect["findings"]:
        return VAGUE
    grades = [_grade(bug, finding) for finding in suspect["findings"] if is_said(finding, suspect)]
    if MISLEADING in grades:
        return MISLEADING
    return GOOD if GOOD in grades else VAGUE


def grade_by_kind(causes: set[str], finding: Finding) -> str:
    """Of a finding that says no formula, where these patterns are no wrong names for the mistake."""
    if finding.pattern in _FACTS or (finding.pattern in causes and finding.pattern not in _SAYS_LITTLE):
        return GOOD
    return VAGUE if finding.pattern in _SAYS_LITTLE | _DESCRIBES else MISLEADING


def is_said(finding: FoundPattern, suspect: Suspect) -> bool:
    edit = finding["details"].get("edit")
    return finding is suspect["findings"][0] or bool(edit and edit in suspect["reason"])


def _grade(bug: Bug, finding: FoundPattern) -> str:
    pattern, text = finding["pattern"], finding["text"]
    if pattern in _FACTS:
        return GOOD
    causes = _CAUSES[bug.mutant.operator]
    if "left_out" in finding["details"] and "guard" in bug.mutant.operator:
        return VAGUE  # what an invocation stores that should not
    if pattern not in causes:
        two = ", or with " in text  # of which it cannot be told which it is
        return VAGUE if two or pattern in _SAYS_LITTLE | _DESCRIBES else MISLEADING
    if pattern == "dtype-conversion":
        described = bug.mutant.description
        wanted = next((names for kind, names in _TYPES.items() if kind in described), ("",))
        return GOOD if any(name in text for name in wanted) else MISLEADING
    return GOOD
