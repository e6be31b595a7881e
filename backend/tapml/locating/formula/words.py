"""Formulas in words, as short as they can be told apart."""

from __future__ import annotations

from collections.abc import Mapping

from tapml.locating.evidence import short
from tapml.locating.formula.nodes import Node, argument_of_erf, argument_of_sigmoid, argument_of_tanh

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "floordiv": "//", "floormod": "mod", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "and", "or": "or", "bitwise_and": "&",
    "bitwise_or": "|", "bitwise_xor": "^", "shift_left": "<<", "shift_right": ">>",
}  # fmt: skip
_REDUCED = {"add": "sum", "max": "max", "min": "min"}
_LONGEST = 64
_FUNCTIONS = {"sigmoid": argument_of_sigmoid, "tanh": argument_of_tanh, "erf": argument_of_erf}


class Words:
    """`names`: buffers as people call them."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._known: dict[Node, str] = {}

    def of(self, node: Node) -> str:
        """Such as "exp(x - max(x))"; parts that would make it long are left out: "exp(...)"."""
        if node not in self._known:
            text = ""
            for depth in (4, 3, 2, 1):
                text = self._said(node, depth, node)
                if len(text) <= _LONGEST:
                    break
            self._known[node] = text if len(text) <= 2 * _LONGEST else text[: 2 * _LONGEST - 3] + "..."
        return self._known[node]

    def buffer(self, name: str) -> str:
        return self._names.get(name, name)

    def _said(self, node: Node, depth: int, top: Node) -> str:
        kind = node.kind
        if kind == "constant":
            return _number(node)
        if kind == "variable":
            return str(node.value).removeprefix("v_")
        if kind == "load":
            return self.buffer(node.value)
        if kind == "placed":
            return self.buffer(node.value[0])
        if kind == "read":
            return self._said(node.operands[0], depth, top)
        if kind == "shifted":
            return self._said(node.operands[0], depth, top)
        if depth == 0:
            return "..."
        if kind == "reduce":
            return f"{_REDUCED[node.value.kind]}({self._said(node.operands[0], depth - 1, node.operands[0])})"
        if kind in ("some", "rounded", "cast"):
            return self._said(node.operands[0], depth, top)
        for name, argument_of in _FUNCTIONS.items():
            x = argument_of(node)
            if x is not None:
                return f"{name}({_bare(self._said(x, depth - 1, top))})"
        operands = [self._said(operand, depth - 1, top) for operand in node.operands]
        if kind in _INFIX:
            text = f"{operands[0]} {_INFIX[kind]} {operands[1]}"
            return text if node is top else f"({text})"
        if kind in ("select", "if_then_else"):
            return f"({operands[1]} if {operands[0]} else {operands[2]})"
        name = str(node.value) if kind == "call" else kind
        return f"{name}({', '.join(_bare(operand) for operand in operands)})"


def _bare(text: str) -> str:
    """Without parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text


def _number(node: Node) -> str:
    if node.dtype == "bool":
        return str(node.value).lower()
    return short(float(node.value))
