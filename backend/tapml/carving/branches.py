"""Branches that no given input takes.

A reference run computes both sides of each, so that all of their operators are carved; but an oracle knows the outputs,
and of these only the side that was taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapml.carving.prepare import Prepared
from tapml.carving.runs import Run
from tapml.operators.choice import is_choice
from tapml.program import Node, NodeKind
from tapml.program.branches import Sides, branched
from tapml.text import counted


def never_taken(opened: Prepared, runs: Sequence[Run]) -> list[str]:
    """A note for people, where there are such."""
    choosing = {name for name, program in opened.reference.programs.items() if is_choice(program)}
    found = [
        item
        for name, function in opened.lowered.model.functions.items()
        for item, sides in branched(function, choosing)
        if isinstance(item, Node)
        and item.kind is NodeKind.KERNEL
        and not any(_taken(run, sides) for run in runs if opened.functions[run.number] == name)
    ]
    if not found:
        return []
    calls = f"{counted(len(found), 'operator call')} (the first: {found[0].kernel}, node {found[0].id})"
    return [
        f"no given input takes the branches of {calls}: they were carved with what they would be given, and no oracle "
        "holds what they give; give an input that takes them, too"
    ]


def _taken(run: Run, sides: Sides) -> bool:
    return all((run.arrays[choice.number].item() == 0) == bool(side) for choice, side in sides)
