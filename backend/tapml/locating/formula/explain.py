"""Findings that come of an operator's program: which small change of it gives what the device gave."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tapml.locating.classes import classes
from tapml.locating.evidence import Evidence, Finding, short
from tapml.locating.formula.arithmetic import narrow_arithmetic
from tapml.locating.formula.build import Formula, formula
from tapml.locating.formula.edits import Edit, Edits
from tapml.locating.formula.evaluate import Values
from tapml.locating.formula.gathers import gathers
from tapml.locating.formula.narrow import NARROW, WHOLE
from tapml.locating.formula.nodes import NotAFormula
from tapml.locating.formula.not_finite import not_finite
from tapml.locating.formula.sample import Sample, sample
from tapml.locating.formula.search import Explanation, Search
from tapml.locating.formula.sums import Pool, readers, worked_back
from tapml.locating.formula.terms import Terms
from tapml.locating.formula.wanted import Wanted
from tapml.locating.formula.words import Words
from tapml.locating.formula.work import Work
from tapml.operators.program import FLOATS, OperatorProgram

WORK = 800_000_000
"""What the search for one output may compute (work.py), and again that for what is wrong with its sums."""

_TESTED = 12.0
"""Where all wrong elements follow from one number, of a row say, they are one test of a hypothesis. Of a thousand, one
that is wrong fits this often: exp(-12)."""

_TESTED_A_LITTLE = 5.0
"""Enough for the few that are made most often, of `_COMMON` cost at most."""

_COMMON = 2

_PREDICTS = 0.9
"""Of the elements that it was not made from an explanation has to give so much to be said: what is refuted in more
places is at best near the cause. Roundings differ from device to device, and may give less (search.py)."""

_FORMATS = frozenset(NARROW) - frozenset(WHOLE)

_ALIKE = 0.6
_MORE = 0.05
"""Of the wrong elements, so many have one value; an explanation has to give so many more."""

_MOSTLY = 0.9
"""So many of the wrong elements are NaN or Infinity: it is asked where that comes from."""

_TELLS_WHERE = 0.98
"""Of the right elements so many stay as they are."""


def detect(evidence: Evidence) -> list[Finding]:
    """The best explanation by a change of the operator's program; none where no change explains half of it."""
    if evidence.program is None or not evidence.count:
        return []
    if evidence.count + max((trial.count for trial in evidence.trials), default=0) < 2:
        return []
    found: list[Finding] = []
    with contextlib.suppress(NotAFormula, RecursionError, MemoryError):
        found = list(_found(evidence, evidence.program, WORK))
        if not any(finding.details.get("edit") or finding.pattern == "dtype-conversion" for finding in found):
            found += itertools.islice(_of_classes(evidence, evidence.program), 1)
    return found


def _of_classes(evidence: Evidence, program: OperatorProgram) -> Iterator[Finding]:
    """What explains those wrong elements that a register of each thread's tile makes, every fourth column say, where
    nothing explains all of them."""
    for one in classes(evidence):
        for finding in _found(one.of(evidence), program, WORK // 4):
            if finding.details.get("edit") and finding.details["share"] >= _PREDICTS:
                text = f"in {one.words}, where {one.count} of {evidence.count} wrong elements are, {finding.text}"
                details = {**finding.details, "class": one.to_json()}
                yield replace(finding, text=text, strength=0.93 * finding.strength, details=details)


def _found(evidence: Evidence, program: OperatorProgram, most: int) -> Iterator[Finding]:
    """`most`: what the search may compute."""
    found = formula(program, len(evidence.inputs), evidence.output)
    work = Work(most)
    calls = []
    for each in (evidence, *evidence.beside, *evidence.trials):
        if math.prod(found.shape) == each.got.size:
            values = Values(found, each.inputs, work=work)
            parts = _affordable(each, found, values)
            if parts is not None:
                calls.append((values, parts))
            elif each is evidence:
                return
    words = Words({buffer: evidence.name(place) for buffer, place in found.inputs.items()})
    edits = Edits(found, words)
    if int((evidence.wrong & ~np.isfinite(evidence.g)).sum()) >= _MOSTLY * evidence.count:
        source = not_finite(evidence, found, edits, words, calls[0][1])
        if source is not None:
            yield source
    search = Search(edits, *calls[0], calls[1:], work)
    pools = list(_pools(found, calls, edits))
    row = next((pool for pool in pools if pool.shared), None)
    best: list[Explanation] = []
    if row is None or row.information >= _TESTED:
        best = search.best(
            edits.rounded_inputs(),
            edits.operations(),
            search.numbers(),
            edits.indices(),
            gathers(edits, found, words, calls[0][0], calls[0][1].fitted),
            edits.roundings(),
            Wanted(edits, found.nodes, words, calls[0][0], calls[0][1].fitted, work).found(),
        )
        if not best or not best[0].enough:
            work.more(most)
            best = sorted([*best, *_of_sums(found, pools, words, edits, search, work)], key=lambda one: one.key)
    elif row.information >= _TESTED_A_LITTLE:
        best = search.best(search.numbers(plain=True), (edit for edit in edits.operations() if edit.cost <= _COMMON))
    best = [one for one in best if one.share >= _PREDICTS or one.edit.details.get("dtype") in _FORMATS]
    # One value is easily had: from what explains no more than that, no cause follows.
    counts = np.unique(evidence.g[evidence.wrong], return_counts=True)[1]
    alike = float(counts.max()) / evidence.count
    if len(counts) == 1 or alike >= _ALIKE:
        tells = len(calls[0][1].right) > 0
        best = [
            one
            for one in best
            if one.edit.pattern == "constant"
            or (len(counts) > 1 and one.share > min(alike + _MORE, 0.99))
            or (tells and one.unchanged >= _TELLS_WHERE)
        ]
    if best:
        yield _finding(best, found)
    if not best or best[0].share < 0.9:
        made = narrow_arithmetic(found, list(evidence.inputs), calls[0][1].every_wrong)
        if made is not None:
            yield made
            return
    if row is not None and (not best or best[0].share < 0.9):
        yield _of_rows(row, words)


def _pools(found: Formula, calls: Sequence[tuple[Values, Sample]], edits: Edits) -> Iterator[Pool]:
    """Of each sum that alone makes the output what it is."""
    for whole, reader in readers(found.root):
        if whole.value.kind != "add" or whole.dtype not in FLOATS:
            continue
        sums = [worked_back(edits, whole, reader, values, parts.every_wrong) for values, parts in calls if parts]
        known = [one for one in sums if one is not None and (one.consistent is None or one.consistent >= 0.9)]
        if known and sums[0] is not None:
            yield Pool(known)


def _of_sums(
    found: Formula, pools: Sequence[Pool], words: Words, edits: Edits, search: Search, work: Work
) -> Iterator[Explanation]:
    for pool in pools:
        if work.over():
            return
        unchanged = 1.0  # of what no formula says, as far as others that say as much tell
        for one in Terms(pool, found, words, work).found()[:4]:
            edit = Edit(one.pattern, one.text, found.root, one.cost, one.details)
            if one.whole is None:
                yield Explanation(edit, one.share, unchanged)
            else:
                tested = search.tested(replace(edit, root=edits.uses.replaced(pool.whole, one.whole)))
                if tested is not None:
                    unchanged = min(unchanged, tested.unchanged)
                    yield tested


def _of_rows(pool: Pool, words: Words) -> Finding:
    """That nothing but one number, of a row say, is another."""
    with np.errstate(all="ignore"):
        times = (pool.results + pool.off) / pool.results
    times = times[np.isfinite(times)]
    low, high = (float(f"{edge:.6g}") for edge in (times.min(initial=np.inf), times.max(initial=-np.inf)))
    size = f" {short(low)}" + (f" to {short(high)}" if high != low else "") + " times as large" if times.size else ""
    if low == high == 1.0:  # of a large sum little is wrong
        size = f" off by {short(float(pool.off[np.argmax(np.abs(pool.off))]))} at most"
    text = f"got follows from one wrong number for each sum, such as {words.of(pool.whole)}{size}"
    share = "all" if pool.consistent == 1.0 else f"{pool.consistent:.0%}"
    text += f" ({share} of the wrong elements that it was tested on)"
    details = {"edit": "", "share": round(pool.consistent, 4), "least": low, "most": high}
    return Finding("one-number", text, 0.93 * pool.consistent, details)


def _affordable(evidence: Evidence, found: Formula, values: Values) -> Sample | None:
    """Elements whose values the program gives as they are expected; fewer where each is much to compute. None where it
    does not give them."""
    for most in (1.0, 0.25, 0.05):
        parts = sample(evidence, most)
        try:
            for part in (parts.fitted, parts.held, parts.right):
                if len(part) and part.unchanged(values.at(found.root, part.places)) < 0.9:
                    return None
        except NotAFormula:
            continue
        return parts
    return None


def _finding(best: list[Explanation], found: Formula) -> Finding:
    first, *rest = best
    edit = first.edit
    share = "all" if first.share == 1.0 else f"{first.share:.0%}"
    # float16 and TF32 keep as many digits: they differ for large numbers and for tiny ones only.
    either = edit.text.replace("float16", "TF32")
    if edit.details.get("dtype") == "float16" and any(one.edit.text == either for one in rest):
        rest = [one for one in rest if one.edit.text != either]
        edit = replace(edit, text=edit.text.replace("float16", "float16 or TF32"))
    alike = [one.edit for one in rest if one.key[:2] == first.key[:2] and one.edit.cost == edit.cost]
    same = [other.text for other in alike if other.text != edit.text]
    also = f", or with {same[0]}" if same else ""
    text = (
        f"got is what the operator gives with {edit.text}{also} ({share} of the wrong elements that it was tested on)"
    )
    if first.unchanged < 0.95:
        text += f", where it is wrong: {1 - first.unchanged:.0%} of the right elements would be wrong with it, too"
    strength = (0.915 if same else 0.955) * first.share
    details = {
        **edit.details,
        "edit": edit.text,
        "share": round(first.share, 4),
        "unchanged": round(first.unchanged, 4),
        "others": [one.edit.text for one in rest[:3]],
    }
    said = None if edit.root is found.root else edit.root  # of the steps of a sum none says it
    return Finding(edit.pattern, text, strength, details, said)
