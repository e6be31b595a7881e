"""Where NaN or Infinity comes from: which operation of the program gives it for an argument that it must not have."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from tapml.locating.evidence import Evidence, Finding, short
from tapml.locating.formula.build import Formula
from tapml.locating.formula.edits import Edits
from tapml.locating.formula.evaluate import Values
from tapml.locating.formula.narrow import NARROW
from tapml.locating.formula.nodes import Node, NotAFormula, in_order
from tapml.locating.formula.sample import Part, Sample
from tapml.locating.formula.words import Words
from tapml.operators.program import FLOATS

_ALL = 0.98
_MOST_USES = 8
_MOST = 3
"""Causes that are named: of more, none is."""


def not_finite(evidence: Evidence, formula: Formula, edits: Edits, words: Words, sample: Sample) -> Finding | None:
    """The operations that give NaN, Infinity and numbers where the device gave them, and leave right elements numbers;
    None where there are none, or too many to tell."""
    values = Values(formula, list(evidence.inputs), NARROW["float32"])  # which overflows
    causes: list[str] = []
    tried = list(_causes(formula, words))
    for node, new, text in tried:
        # Wherever the value stands, what is written alike at another place included, or at one of its uses.
        alike = {id(other): made for other, made, said in tried if said == text}
        everywhere = formula.nodes.rewritten(formula.root, partial(_put, alike))
        uses = (put(new) for _, _, put in edits.uses_of(node, _MOST_USES))
        for root in (everywhere, *uses) if text not in causes else ():
            with contextlib.suppress(NotAFormula):
                if _same(values, root, sample.every_wrong) and _same(values, root, sample.right):
                    causes.append(text)
                    break
    if not 0 < len(causes) <= _MOST:
        return None
    wrong = evidence.wrong & ~np.isfinite(evidence.g)
    kinds = [name for name, found in (("NaN", evidence.nan), ("Infinity", evidence.inf)) if found]
    where = "every element" if evidence.nan + evidence.inf == evidence.got.size else f"{int(wrong.sum())} elements"
    gives = evidence.e[wrong]
    expected = f"{short(gives.min())} to {short(gives.max())}"
    text = f"{' and '.join(kinds)} in {where}, where the reference gives {expected}: so does {' or '.join(causes)}"
    details = {"edit": causes[0], "share": 1.0, "unchanged": 1.0, "others": causes[1:]}
    return Finding("nan-range", text, 0.9 if len(causes) == 1 else 0.86, details)


def _put(alike: Mapping[int, Node], old: Node, operands: tuple[Node, ...]) -> Node | None:
    return alike.get(id(old))


def _same(values: Values, root: Node, part: Part) -> bool:
    """Is it NaN, Infinity, or a number where the device gave that?"""
    if not len(part):
        return True
    found = values.at(root, part.places).astype(np.float64)
    return float((_kind(found) == _kind(part.got)).mean()) >= _ALL


def _kind(array: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(array), 2, np.where(np.isposinf(array), 1, np.where(np.isneginf(array), -1, 0)))


def _causes(formula: Formula, words: Words) -> Iterator[tuple[Node, Node, str]]:
    """(a node, what it would be, in words)."""
    make = formula.nodes.make
    for node in in_order(formula.root):
        if node.dtype not in FLOATS or node.kind not in ("call", "div"):
            continue
        said, zero = words.of(node), formula.nodes.constant(0.0, node.dtype)
        if node.kind == "div":
            yield node, make("div", node.dtype, (node.operands[0], zero)), f"{said}, divided by 0"
            continue
        x = node.operands[0]
        below = make("sub", node.dtype, (zero, make("call", node.dtype, (x,), "fabs")))
        if node.value in ("sqrt", "rsqrt", "log", "log2", "log10"):
            yield node, make("call", node.dtype, (below,), node.value), f"{said} of a negative number"
            yield node, make("call", node.dtype, (zero,), node.value), f"{said} of 0"
        if node.value in ("exp", "exp2", "exp10"):
            if x.kind == "sub":
                plain = make("call", node.dtype, (x.operands[0],), node.value)
                yield node, plain, f"{said} that overflows, with nothing subtracted"
            most = formula.nodes.constant(1e6, node.dtype)
            yield node, make("call", node.dtype, (most,), node.value), f"{said} that overflows"
