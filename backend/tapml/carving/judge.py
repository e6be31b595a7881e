"""Whether a reference run can be believed, and what is said where it cannot."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tapml.carving.by_operator import ByOperator, Held
from tapml.carving.grouped import Group
from tapml.carving.oracle import Comparison, OracleComparison
from tapml.carving.paired import strangers
from tapml.carving.prepare import Prepared, lowered_with_documents, prepared
from tapml.carving.repeated import irreproducible
from tapml.carving.runs import Run
from tapml.errors import InputError
from tapml.importing import ImportedModel
from tapml.importing.model import Intermediate
from tapml.lowering.lower import Model
from tapml.memory import give_back
from tapml.operators.program import OperatorProgram
from tapml.program import Graph, Node
from tapml.text import listed
from tapml.threads import one_blas_thread

_MOST_ELEMENTS = 50_000_000
"""Of all values together: with more the second oracle, numpy for the most part, takes minutes."""

_MOST_TURNS = 2**29
"""Of the loops of all calls, up to which a model is imported once more in detail: with more that takes minutes."""


@dataclass(frozen=True)
class Judgement:
    """`oracle`: of the suite's manifest; null where there is none. `doubts`: a sentence for each reason not to believe
    the run."""

    oracle: dict[str, Any] | None
    doubts: list[str]


def judged(opened: Prepared, runs: Sequence[Run], folder: Path | None = None) -> Judgement:
    """Hold a reference run against its oracle, as a whole and each operator by itself, and against itself. The oracle's
    values lie in a file in `folder` meanwhile, or where temporary files do. Functions beside the model have none."""
    model = opened.reference.model
    doubts = irreproducible(opened.reference, runs, opened.models)
    runs = runs[: len(model.steps)]
    if model.oracle is None:
        return Judgement(None, doubts)
    found, who = OracleComparison(opened.reference, runs, opened.models).compared(), model.oracle
    second = None if found.agrees else _second(opened, runs)
    if second is not None:
        found, who = second
    held: dict[str, Any] = {}
    if not found.agrees:
        doubts = [*doubts, _disagreement(model, found)]
    elif not doubts:
        give_back()
        with one_blas_thread():
            held, doubts = _by_operator(opened, runs, folder or Path(tempfile.gettempdir()))
    agrees = found.agrees and not (held and doubts)
    return Judgement({"name": who, **found.found.to_json(), "agrees": agrees, **held}, doubts)


def _by_operator(opened: Prepared, runs: Sequence[Run], folder: Path) -> tuple[dict[str, Any], list[str]]:
    """How many operator calls were held against the oracle's own values, for the manifest; and what is wrong."""
    model = opened.reference.model
    none = {"operators": {"held": 0, "of": sum(len(run.graph.kernel_nodes) for run in runs)}}
    if model.intermediates is None or model.oracle is None:
        return none, []
    by_operator = ByOperator(opened.reference, opened.models, model.oracle, folder)
    try:
        held = _held(by_operator, opened, runs, model.intermediates)
    except InputError:  # what gives the outputs need not give what is between
        return none, []
    wrong = held.wrong
    if not wrong and held.unclear and model.in_detail is not None and _turns(opened, runs) <= _MOST_TURNS:
        wrong = _in_detail(runs, opened.models, model.in_detail, folder)
    listed_first = [f"{said}; {_wrong_import(model)}" for said in [*wrong.values()][:1]]
    more = [f"{len(wrong) - 1} more operators give other values than {model.oracle}"] if len(wrong) > 1 else []
    return {"operators": {"held": held.operators, "of": held.of}}, [*listed_first, *more]


def _held(
    by_operator: ByOperator,
    opened: Prepared,
    runs: Sequence[Run],
    values: Callable[[bool], Iterable[Intermediate]],
    *,
    choosing_together: bool = True,
) -> Held:
    """What only one of two oracles gives is that one's own: ONNX Runtime and PyTorch have kernels that are coarse.
    `values`: those of the first, or of the second (true). Raises InputError where the first gives none."""
    held = by_operator.held(runs, values(False), choosing_together=choosing_together)
    if held.wrong and (other := _asked_second(opened, runs)) is not None:
        _, asked = other
        with contextlib.suppress(InputError):
            again = by_operator.held(asked, values(True), choosing_together=choosing_together)
            held.wrong = {name: said for name, said in held.wrong.items() if name in again.wrong}
    return held


def _in_detail(
    runs: Sequence[Run], models: Mapping[Graph, Model], in_detail: Callable[[], ImportedModel], folder: Path
) -> dict[str, str]:
    """What is wrong where every value of the oracle's is one of ours, so that none has to be found: there, or in
    `runs`, whose operators give nothing else than what more of them, one after the other, give."""
    try:
        model = in_detail()
        opened = prepared(model, *lowered_with_documents(model))
        detailed = opened.reference.record(opened.graphs)
    except InputError:  # as one graph it can be imported, in pieces it need not be
        return {}
    who = model.oracle or "the oracle"
    by_operator = ByOperator(opened.reference, opened.models, who, folder)
    if wrong := _held(by_operator, opened, detailed, lambda _: [], choosing_together=False).wrong:
        return wrong
    found = _strangers(runs, models, detailed)
    if found:
        # Where more would be too many buffers for a kernel, one may end within an operator of the oracle's.
        with contextlib.suppress(InputError):
            opened = prepared(model, *lowered_with_documents(model, fusing=False))
            found = _strangers(runs, models, opened.reference.record(opened.graphs))
    return found


def _strangers(runs: Sequence[Run], models: Mapping[Graph, Model], others: Sequence[Run]) -> dict[str, str]:
    no_other = "which nothing in the model gives"
    return {
        value: f"{node.kernel} (node {node.id}) gives {run.graph.values[value].name}, {no_other}"
        for run, other in zip(runs, others, strict=True)
        for node, value in strangers(run, other, partial(_jumps, models[run.graph]))
    }


def _jumps(model: Model, node: Node) -> bool:
    return Group("", (node,)).jumps(model)


def _turns(opened: Prepared, runs: Sequence[Run]) -> int:
    """Of all loops of all calls whose operator is data."""
    called = (opened.models[run.graph].programs[node.kernel] for run in runs for node in run.graph.kernel_nodes)
    return sum(program.turns for program in called if isinstance(program, OperatorProgram))


def _elements(runs: Sequence[Run]) -> int:
    return sum(array.size for run in runs for array in run.arrays.values())


def _second(opened: Prepared, runs: Sequence[Run]) -> tuple[Comparison, str] | None:
    """Agreement with another oracle, where the first is at fault itself: ONNX Runtime has bugs of its own."""
    if (other := _asked_second(opened, runs)) is None:
        return None
    name, asked = other
    found = OracleComparison(opened.reference, asked, opened.models).compared()
    return (found, f"{name} ({opened.reference.model.oracle} gives something else)") if found.agrees else None


def _asked_second(opened: Prepared, runs: Sequence[Run]) -> tuple[str, list[Run]] | None:
    """Another oracle's name, and the runs with what it expects; None where there is none."""
    model = opened.reference.model
    if model.second is None or _elements(runs) > _MOST_ELEMENTS:
        return None
    try:
        name, expected = model.second()
    except InputError:
        return None
    return name, [
        replace(run, step=replace(run.step, expected=list(outputs)))
        for run, outputs in zip(runs, expected, strict=True)
    ]


def _disagreement(model: ImportedModel, found: Comparison) -> str:
    first, count = found.differences[0], len(found.differences)
    more = f" (and {count - 1} more outputs)" if count > 1 else ""
    said = f"the reference run disagrees with {model.oracle}: {first}{more}"
    return f"{said}; {_cause(model)}"


def _cause(model: ImportedModel) -> str:
    if model.again is not None and not _same(model):
        return f"{model.oracle} itself gives something else each time, so the model draws random numbers: fix them"
    wrong = _wrong_import(model)
    if model.in_detail is None:
        return wrong
    try:
        # Every value is an output: nothing is fused, and the first that differs comes of right ones.
        detailed = model.in_detail()
        opened = prepared(detailed, *lowered_with_documents(detailed))
        runs = opened.reference.record(opened.graphs)
        differences = OracleComparison(opened.reference, runs, opened.models).compared().differences
    except InputError:  # as one graph it can be imported, in pieces it need not be
        return wrong
    if not differences:
        return f"each of its operators agrees by itself, and what joins them does not; {wrong}"
    return f"the first value that differs is {differences[0].output}: {differences[0].said}; {wrong}"


def _wrong_import(model: ImportedModel) -> str:
    wrong = "tapml does not import this model rightly: please report it"
    if model.functions:
        wrong = f"one of your functions ({listed([*model.functions], 5)}) gives something else, or {wrong}"
    return wrong


def _same(model: ImportedModel) -> bool:
    """Whether the oracle says the same again."""
    assert model.again is not None
    try:
        again = model.again()
    except InputError:
        return True
    return all(
        np.array_equal(np.asarray(one), np.asarray(two), equal_nan=np.asarray(one).dtype.kind == "f")
        for step, outputs in zip(model.steps, again, strict=True)
        for one, two in zip(step.expected or outputs, outputs, strict=True)
    )


def require_oracle(model: ImportedModel) -> None:
    """Raise InputError where there is none."""
    if model.oracle is None:
        why = model.oracle_missing or "nothing else computes such a model"
        raise InputError(f"nothing can check the reference run, for there is no oracle: {why}")


def checked(model: ImportedModel, *, keep_disagreeing: bool = False, no_oracle: bool = False) -> list[str]:
    """Run a model's steps on this machine. Raises InputError where there is no oracle, or a doubt: with
    `keep_disagreeing` doubts are given back."""
    if not no_oracle:
        require_oracle(model)
    opened = prepared(model, *lowered_with_documents(model))
    doubts = judged(opened, opened.reference.record(opened.graphs)).doubts
    if doubts and not keep_disagreeing:
        raise InputError("; ".join(doubts))
    return doubts
