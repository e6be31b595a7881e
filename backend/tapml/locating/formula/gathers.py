"""Where an input must have been read: found from what the elements are, for changes of indices that nobody foresaw."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tapml.locating.evidence import explained
from tapml.locating.formula.build import Formula
from tapml.locating.formula.edits import Edit, Edits
from tapml.locating.formula.evaluate import Values
from tapml.locating.formula.nodes import Node, NotAFormula, within
from tapml.locating.formula.sample import Part
from tapml.locating.formula.words import Words
from tapml.locating.moves import Move, moves

_MOST = 1 << 18
"""Elements times places of an input that are tried for them."""

_MOST_USES = 4


def gathers(edits: Edits, formula: Formula, words: Words, values: Values, part: Part) -> Iterator[Edit]:
    """Each input, read at other indices than it should be, such that most elements of the part come out."""
    for node in within(formula.root):
        if node.kind != "load" or not 2 <= math.prod(formula.shapes[str(node.value)]) <= _MOST // max(1, len(part)):
            continue
        every = formula.nodes.make("every", node.dtype, (), node.value)
        for _, use, put in edits.uses_of(node, _MOST_USES):
            try:
                predicted = values.beside(put(every), part.places)
                before = [values.at(index, part.places) for index in node.operands]
            except NotAFormula:
                continue
            got, expected, bound = (array[:, None] for array in (part.got, part.expected, part.bound))
            shape = formula.shapes[str(node.value)]
            for move in moves(shape, before, np.asarray(explained(got, predicted, expected, bound))):
                text = f"{words.of(node)} read {move.words(shape)}{use}"
                yield Edit(
                    "wrong-index", text, put(_moved(formula, node, move)), move.cost + bool(use), {"read": node.value}
                )


def _moved(formula: Formula, node: Node, move: Move) -> Node:
    nodes = formula.nodes
    if move.block:
        return nodes.make("placed", node.dtype, node.operands, (node.value, "mirrored", move.block))
    operands = []
    for (how, number), index in zip(move.axes, node.operands, strict=True):
        by = nodes.constant(number, index.dtype)
        if how == "always":
            operands.append(by)
        elif how == "minus":
            operands.append(nodes.make("sub", index.dtype, (by, index)))
        else:
            operands.append(nodes.make("add", index.dtype, (index, by)) if number else index)
    return nodes.with_operands(node, tuple(operands))
