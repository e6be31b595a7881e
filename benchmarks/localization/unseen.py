"""Faults that explanations were written without: drawn afresh from a seed, and how what is said of them is judged.

A fault is drawn by its kind, then its model, kernel and place. What the sentence says as a formula is held against what
the
faulty kernel gives for inputs that neither the suite nor the search has: a wrong cause does not give that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from benchmarks.localization.cases import Bug
from benchmarks.localization.judging import GOOD, MISLEADING, VAGUE, grade_by_kind, is_said
from benchmarks.localization.mutate import Mutant
from benchmarks.localization.mutations import by_hand, chance
from benchmarks.localization.mutations.edit import Edit
from benchmarks.localization.wgsl_text import Code
from tapml.locating.classes import Class
from tapml.locating.evidence import Evidence, Finding
from tapml.locating.formula.build import formula
from tapml.locating.formula.evaluate import Values
from tapml.locating.formula.nodes import Node, NotAFormula
from tapml.locating.formula.sample import sample
from tapml.locating.suspects import Examined
from tapml.operators.program import OperatorProgram
from tapml.results.locate import Suspect
from tapml.suite import Suite

_TRIES = 40
_HOLDS = 0.9
_SOME = 0.5
_FEWEST = 4

Kind = Callable[[Code], Iterator[Edit]]

_PLACE = {"wrong-index", "wrong-terms", "shift", "transpose", "broadcast", "repeat-row", "constant", "wrong-condition"}
_VALUE = {"wrong-operation", "wrong-constant", "wrong-terms", "scale", "offset", "sign", "constant", "nan-range"}
_LIMIT = {"saturation", "constant", "wrong-operation"}
_CONTROL = {"wrong-terms", "wrong-condition", "wrong-index", "constant", "tail", "tile-edge", "unwritten"}

KINDS: Mapping[str, tuple[Kind, set[str]]] = {
    "number in an index": (by_hand.index_number, _PLACE),
    "term lost in an index": (by_hand.index_term_lost, _PLACE),
    "operator in an index": (by_hand.index_operator, _PLACE),
    "variable in an index": (by_hand.index_variable, _PLACE),
    "neighbour row": (by_hand.neighbour_row, _PLACE),
    "shared row": (by_hand.shared_row, _PLACE),
    "shared variable": (by_hand.shared_variable, _PLACE),
    "register": (by_hand.register, _PLACE),
    "other input": (chance.other_buffer, _PLACE | _VALUE),
    "place of the result": (by_hand.result_place, _PLACE),
    "operator": (by_hand.operator, _VALUE),
    "operand lost": (by_hand.operand_lost, _VALUE),
    "operand twice": (by_hand.operand_twice, _VALUE),
    "operands of fma": (by_hand.fma_operands, _VALUE),
    "function": (by_hand.function, _VALUE | _LIMIT),
    "constant": (by_hand.constant, _VALUE | _LIMIT),
    "sign or magnitude": (by_hand.sign, _VALUE),
    "number for an input": (by_hand.number_for_load, _VALUE),
    "saturation": (by_hand.saturation, _LIMIT),
    "scaled": (by_hand.scaled, _VALUE),
    "before the limit": (by_hand.before_the_limit, _VALUE),
    "infinite": (by_hand.infinite, _VALUE),
    "precision": (by_hand.precision, {"dtype-conversion"}),
    "guard": (by_hand.guard, _CONTROL),
    "loop": (by_hand.loop, _CONTROL),
    "start": (by_hand.start, {"wrong-terms", "offset", "scale", "wrong-constant", "constant", "nan-range"}),
    "mask": (by_hand.mask_value, _VALUE | _CONTROL),
    "statement": (by_hand.statement, _VALUE | _CONTROL),
    "one invocation": (by_hand.one_thread, _CONTROL),
    "barrier": (by_hand.barrier, {"wrong-terms", "wrong-index"}),
}
"""Kind -> (its edits, the patterns that are no wrong name for it)."""


def drawn(suites: Mapping[str, Suite], seed: int) -> Iterator[tuple[str, Bug]]:
    """Faults without end: (model, bug). The same for the same seed and suites."""
    chance = random.Random(f"unseen {seed}")
    places = {name: [(kernel, file) for kernel in suite.kernels for file in suite.kernel_files(kernel)]
              for name, suite in suites.items()}  # fmt: skip
    known: set[str] = set()
    while True:
        kind = chance.choice(sorted(KINDS))
        for _ in range(_TRIES):
            model = chance.choice(sorted(suites))
            kernel, file = chance.choice(places[model])
            code = Code(file.text)
            edits = [edit for edit in KINDS[kind][0](code) if code[edit[0]] != edit[1]]
            if edits:
                span, text, description = chance.choice(edits)
                mutant = Mutant(kind, code.line_of(span.start), description, span, text, file.text)
                if mutant.text not in known:
                    known.add(mutant.text)
                    yield model, Bug(kernel, file.name, mutant)
                    break


def graded(
    kind: str, found: Suspect, looked_at: Sequence[Examined], judged: Sequence[Sequence[Evidence]]
) -> tuple[str, str]:
    """(the grade of the sentence, by what). `judged`: what the faulty kernel gives for inputs that nobody has seen, for
    each call its outputs."""
    said = [one for one in found["findings"] if is_said(one, found)]
    if not said:
        return VAGUE, "nothing said"
    if said[0]["pattern"] == "race" and not found["differing"] and kind != "barrier":
        return MISLEADING, "no race"
    findings = {text: one for test in looked_at for one in test.found for text in (one[1].text,)}
    grades = []
    for one in said:
        text = one["text"].split(": ", 1)[1] if one["text"].startswith("output ") else one["text"]
        place, finding = findings.get(text, (0, Finding(one["pattern"], text, one["strength"])))
        program = looked_at[0].outputs[place].program if looked_at else None
        grades.append(grade(kind, finding, program, [outputs[place] for outputs in judged], first=one is said[0]))
    if worst := next((one for one in grades if one[0] == MISLEADING), None):
        return worst
    return next((one for one in grades if one[0] == GOOD), grades[0])


def grade(
    kind: str, finding: Finding, program: OperatorProgram | None, judged: Sequence[Evidence], *, first: bool
) -> tuple[str, str]:
    """(the grade, by what). `judged`: what the faulty kernel gives for inputs that nobody has seen; `first`: the
    sentence begins with it, and does not only say that wrong elements are what they are with it."""
    everywhere = first and "where it is wrong" not in finding.text
    shares = list(_shares(finding, program, judged, everywhere))
    if not shares:
        return grade_by_kind(KINDS[kind][1], finding), "kind"
    share = min(shares)
    if share >= _HOLDS:
        return GOOD, f"other inputs: {share:.0%}"
    near = share >= _SOME and finding.pattern in KINDS[kind][1]
    return VAGUE if near else MISLEADING, f"other inputs: {share:.0%}"


def _shares(
    finding: Finding, program: OperatorProgram | None, judged: Sequence[Evidence], everywhere: bool
) -> Iterator[float]:
    """Of the wrong elements that the finding's formula gives, and, where it is said of all, of the right ones that it
    leaves as they are."""
    for evidence in judged:
        if among := finding.details.get("class"):
            evidence = Class(**among, ndim=evidence.got.ndim, count=0).of(evidence)
        if not isinstance(finding.formula, Node) or program is None or evidence.count < _FEWEST:
            continue
        try:
            values = Values(formula(program, len(evidence.inputs), evidence.output), evidence.inputs)
            parts = sample(evidence)
            with np.errstate(all="ignore"):
                predicted = values.at(finding.formula, parts.every_wrong.places).astype(np.float64)
                yield float(parts.every_wrong.matches(predicted).mean())
                if everywhere and len(parts.right):
                    beside = values.at(finding.formula, parts.right.places).astype(np.float64)
                    yield parts.right.unchanged(beside)
        except NotAFormula:
            continue
