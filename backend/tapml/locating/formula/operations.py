"""Changes of a formula's operations, conditions and sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tapml.locating.formula.build import Formula
from tapml.locating.formula.nodes import Node, argument_of_erf, argument_of_sigmoid, argument_of_tanh
from tapml.locating.formula.words import Words
from tapml.locating.regions import ordinal
from tapml.operators.program import FLOATS

Change = tuple[str, Node, str, int, dict[str, Any]]
"""Pattern, the new node, in words, cost, details (edits.py)."""

_NEIGHBOURS = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq"}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_OPPOSITES = {"add": "sub", "sub": "add", "mul": "div", "div": "mul", "max": "min", "min": "max"}
_OTHERS = {
    "exp": ("exp2",), "exp2": ("exp",), "rsqrt": ("sqrt", "log"), "sqrt": ("rsqrt", "log"), "sin": ("cos",),
    "cos": ("sin",), "tanh": ("sin",),
    "log": ("log2", "log1p"), "log2": ("log",), "floor": ("ceil", "trunc", "round"), "ceil": ("floor",),
    "round": ("floor", "trunc"), "nearbyint": ("floor", "trunc"), "trunc": ("floor", "round"),
}  # fmt: skip
_TILES = (4, 8, 16, 32, 64)
_RANGES = ((-1, 1), (-6, 6), (0, 6), (0, 1), (0, None), (None, 0), (None, 1), (-10, 10))


def instead(words: Words, pattern: str, old: Node, new: Node, cost: int) -> Change:
    """One thing in place of another."""
    return pattern, new, f"{words.of(new)} in place of {words.of(old)}", cost, {}


def operation_changes(formula: Formula, words: Words, node: Node, used_by: Sequence[str]) -> Iterator[Change]:
    """Of one node; `used_by`: the kinds of those that it is an operand of. Integers of indices are changed by what
    reads there (indices.py)."""
    kind, dtype = node.kind, node.dtype
    if kind in _NEIGHBOURS:
        yield from _conditions(formula, words, node)
    if kind in ("select", "if_then_else"):
        x = argument_of_tanh(node)
        if x is not None:
            yield _left_out(words, node, x, "tanh(...)")
        condition, yes, no = node.operands
        said = words.of(condition)
        yield instead(words, "wrong-condition", node, formula.nodes.make(kind, dtype, (condition, no, yes)), 4)
        yield "wrong-condition", yes, f"the condition {said} always true", 3, {}
        yield "wrong-condition", no, f"the condition {said} never true", 3, {}
    if dtype not in FLOATS:
        return
    if kind == "call":
        yield from _calls(formula, words, node)
    elif kind in _OPPOSITES:
        yield from _arithmetic(formula, words, node)
    if kind == "read":
        # Whatever makes a sum 0, it is no more than that which the values say.
        cost = 1 if node.operands[0].value.kind == "add" else 3
        yield "constant", formula.nodes.constant(0.0, dtype), f"0 in place of {words.of(node)}", cost, {"value": 0}
    if kind in ("load", "read", "call", "sub", "div"):
        negative = formula.nodes.make("sub", dtype, (formula.nodes.constant(0.0, dtype), node))
        yield "wrong-operation", negative, f"-{words.of(node)} in place of {words.of(node)}", 3, {}
        yield instead(words, "wrong-operation", node, formula.nodes.make("call", dtype, (node,), "fabs"), 4)
    narrower = kind in ("read", "sub", "add", "mul") and {"call", "sub"} & set(used_by)
    if node is formula.root or kind == "load" or narrower:
        yield from _limits(formula, words, node)


def _calls(formula: Formula, words: Words, node: Node) -> Iterator[Change]:
    make = formula.nodes.make
    (first, *rest) = node.operands
    if not rest:
        yield _left_out(words, node, first, f"{node.value}(...)")
        nothing = make("call", node.dtype, (formula.nodes.constant(0.0, node.dtype),), node.value)
        yield instead(words, "wrong-operation", node, nothing, 2)
    if node.value in ("rsqrt", "sqrt"):  # the root forgotten
        one = formula.nodes.constant(1.0, node.dtype)
        plain = first if node.value == "sqrt" else make("div", node.dtype, (one, first))
        yield instead(words, "wrong-operation", node, plain, 3)
    for other in _OTHERS.get(str(node.value), ()):
        yield instead(words, "wrong-operation", node, make("call", node.dtype, node.operands, other), 3)


def _arithmetic(formula: Formula, words: Words, node: Node) -> Iterator[Change]:
    make, kind, dtype = formula.nodes.make, node.kind, node.dtype
    a, b = node.operands
    x = argument_of_sigmoid(node)
    if x is not None:
        yield _left_out(words, node, x, "sigmoid(...)")
        yield instead(words, "wrong-operation", node, make("call", dtype, (x,), "tanh"), 3)
    x = argument_of_erf(node)
    if x is not None:
        yield _left_out(words, node, x, "erf(...)")
        yield instead(words, "wrong-operation", node, make("call", dtype, (x,), "tanh"), 3)
    if kind in ("max", "min") and b.kind == "constant" and a.kind == "add":
        for one, other in (a.operands, a.operands[::-1]):  # an activation before the bias
            limited = make("add", dtype, (make(kind, dtype, (one, b)), other))
            yield instead(words, "wrong-operation", node, limited, 3)
    if kind == "mul" and a is b:
        yield instead(words, "wrong-operation", node, make("call", dtype, (a,), "fabs"), 3)
    if kind in ("sub", "div"):
        yield instead(words, "wrong-operation", node, make(kind, dtype, (b, a)), 2)
    cost = 3 if kind in ("mul", "div") else 2
    yield instead(words, "wrong-operation", node, make(_OPPOSITES[kind], dtype, (a, b)), cost)
    if kind in ("max", "min", "add", "mul") and b.kind != "constant":
        yield _left_out(words, node, b, words.of(a))
    if a.kind != "constant":
        yield _left_out(words, node, a, words.of(b))
    yield from _one_operand(formula, words, node)
    # fma(a, b, c), its operands in another order, or one of them in the place of two
    for product, summand in ((a, b), (b, a)):
        if kind == "add" and product.kind == "mul":
            for one, other in (product.operands, product.operands[::-1]):
                for changed in (
                    make("add", dtype, (make("mul", dtype, (one, summand)), other)),
                    make("add", dtype, (product, one)),
                    make("add", dtype, (make("mul", dtype, (one, one)), summand)),
                    make("add", dtype, (one, summand)),
                    make("add", dtype, (make("add", dtype, (one, other)), summand)),
                ):
                    yield instead(words, "wrong-operation", node, changed, 4)


def _one_operand(formula: Formula, words: Words, node: Node) -> Iterator[Change]:
    """One operand in the place of both, and operations that are not the opposite."""
    a, b = node.operands
    make, kind, dtype = formula.nodes.make, node.kind, node.dtype
    if "constant" in (a.kind, b.kind) or a is b:
        return
    for one in (a, b) if kind in ("add", "mul") else ():
        yield instead(words, "wrong-operation", node, make(kind, dtype, (one, one)), 4)
    for other in ("add", "sub", "mul", "div"):
        if kind in ("add", "sub", "mul", "div") and other not in (kind, _OPPOSITES[kind]):
            yield instead(words, "wrong-operation", node, make(other, dtype, (a, b)), 5)


def _left_out(words: Words, node: Node, kept: Node, what: str) -> Change:
    constant = any(operand.kind == "constant" and operand is not kept for operand in node.operands)
    return (
        "wrong-constant" if constant else "wrong-operation",
        kept,
        f"{what} left out of {words.of(node)}",
        2,
        {"left_out": what},
    )


def _limits(formula: Formula, words: Words, node: Node) -> Iterator[Change]:
    """Values that stop somewhere."""
    what = "the result" if node is formula.root else words.of(node)
    for low, high in _RANGES:
        changed = node
        if low is not None:
            least = formula.nodes.constant(float(low), node.dtype)
            changed = formula.nodes.make("max", node.dtype, (changed, least))
        if high is not None:
            most = formula.nodes.constant(float(high), node.dtype)
            changed = formula.nodes.make("min", node.dtype, (changed, most))
        ends = f"to {low} to {high}"
        if low is None or high is None:
            ends = f"to at most {high}" if low is None else f"to at least {low}"
        yield "saturation", changed, f"{what} limited {ends}", 4, {"least": low, "most": high}


def _conditions(formula: Formula, words: Words, node: Node) -> Iterator[Change]:
    make, kind = formula.nodes.make, node.kind
    a, b = node.operands
    if kind in ("eq", "ne") and a.dtype in FLOATS:
        return
    yield instead(words, "wrong-condition", node, make(_NEIGHBOURS[kind], node.dtype, node.operands), 2)
    if kind in _MIRRORED:
        yield instead(words, "wrong-condition", node, make(_MIRRORED[kind], node.dtype, node.operands), 3)
    said = words.of(node)
    yield "wrong-condition", make("not", "bool", (node,)), f"the condition {said} turned round", 3, {}
    if b.dtype not in FLOATS and b.dtype != "bool":
        for number in (1, -1, 2, -2, 3, -3, 4, -4, 8, -8):
            if a.kind == "constant":
                moved = (formula.nodes.constant(int(a.value) - number, a.dtype), b)
            elif b.kind == "constant":
                moved = (a, formula.nodes.constant(int(b.value) + number, b.dtype))
            else:
                moved = (a, make("add", b.dtype, (b, formula.nodes.constant(number, b.dtype))))
            cost = 3 if abs(number) == 1 else 4
            yield instead(words, "wrong-condition", node, make(kind, node.dtype, moved), cost)


# ------------------------------------------------ reductions


def reduction_changes(formula: Formula, words: Words, node: Node) -> Iterator[Change]:
    """Terms that are left out, and a maximum that begins too high."""
    make, terms = formula.nodes.make, node.value.terms
    if terms < 2:
        return
    term, start = node.operands
    neutral = start
    if node.value.kind == "add":
        neutral = formula.nodes.constant(0.0 if node.dtype in FLOATS else 0, node.dtype)
    if node.value.kind == "add":
        nothing = make("reduce", node.dtype, (formula.nodes.constant(0, term.dtype), start), node.value)
        yield "constant", nothing, f"0 in place of {words.of(node)}", 1, {"value": 0}
    yield from _beyond(formula, words, node)
    for places, which in _parts(terms):
        changed = make("some", term.dtype, (neutral, term), places)
        new = make("reduce", node.dtype, (changed, start), node.value)
        details = {"first": places[0], "last": places[-1], "step": places.step, "of": terms}
        yield "wrong-terms", new, f"{which} of {terms} left out of {words.of(node)}", 3, details
    if node.value.kind != "add" and node.dtype in FLOATS:
        new = make("reduce", node.dtype, (term, formula.nodes.constant(0.0, node.dtype)), node.value)
        yield "wrong-terms", new, f"{words.of(node)} beginning at 0", 3, {"start": 0.0}


def _beyond(formula: Formula, words: Words, node: Node) -> Iterator[Change]:
    """A sum that goes on beyond its end, by one, or until a tile is full: into the next row, or what lies there."""
    reduction = node.value
    place = max(range(len(reduction.axes)), key=lambda axis: (reduction.axes[axis][1], -axis))
    name, extent = reduction.axes[place]
    for more in sorted({1, *(-extent % size for size in _TILES)} - {0}):
        axes = (*reduction.axes[:place], (name, extent + more), *reduction.axes[place + 1 :])
        new = formula.nodes.make("reduce", node.dtype, node.operands, replace(reduction, axes=axes))
        text = f"{words.of(node)} going on beyond its end, to {extent + more} in place of {extent}"
        yield "wrong-terms", new, text, 3, {"beyond": more, "of": extent}


def _parts(terms: int) -> Iterator[tuple[range, str]]:
    """Terms that kernels leave out, and in words."""
    yield range(terms - 1, terms), "the last term"
    yield range(1), "the first term"
    for size in (2, 4, 8, 16):
        if terms > size and terms % size == 0:
            part = terms // size
            yield range(terms - part, terms), f"the last {part} terms"
            yield range(part), f"the first {part} terms"
            yield range(size - 1, terms, size), f"every {ordinal(size)} term"
