"""Inject wrong references into small models, and count what the oracle lets pass (`make bench-references`).

A mutant is what an import or a lowering with one mistake would give: a wrong constant, attribute or flag in what is
imported, or in a kernel's program; the oracle computes the model as it is. A mutant that passes is *within rounding*
where it moves what the faulty operator gives by at most 4 units in the last place, with the right inputs.
The records are kept in build/bench-references: with names of models only these run again, and the table has all.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import between, check_docs
from benchmarks.references import models, mutate
from tapml.bounds import NotDerivable, rounded
from tapml.carving.judge import judged
from tapml.carving.prepare import Prepared, lowered_with_documents, prepared
from tapml.carving.runs import ReferenceRun
from tapml.errors import TapmlError
from tapml.importing import ImportedModel, import_model
from tapml.lowering.lower import Model
from tapml.operators.program import OperatorProgram
from tapml.platforms.reference import Reference

_WITHIN = 4.0
_UNIT = 2.0**-23


@dataclasses.dataclass(frozen=True)
class Record:
    model: str
    kind: str
    said: str
    outcome: str
    """refused, within rounding, or passed; right and accused are of models that nothing was done to."""
    units: float = float("nan")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-references", description=__doc__)
    parser.add_argument("models", nargs="*", help="only these")
    parser.add_argument("--docs", type=Path, help="page whose generated part is written anew")
    options = parser.parse_args()
    check_docs(parser, options.docs, "made by make bench-references")
    names = [*models.ONNX, *(f"{name} (torch)" for name in models.BLOCKS), "minilm"]
    kept = Path("build/bench-references")
    kept.mkdir(parents=True, exist_ok=True)
    for name in options.models or names:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = [*_of_model(name, Path(folder))]
        counts = Counter(record.outcome for record in found)
        print(f"{name}: {dict(counts)} in {time.monotonic() - began:.0f} s", flush=True)
        for record in found:
            if record.outcome in ("passed", "accused", "within rounding"):
                print(f"  {record.outcome}: {record.kind}, {record.said} ({record.units:.3g} units)", flush=True)
        (kept / f"{name}.json").write_text(json.dumps([dataclasses.asdict(record) for record in found]))
    files = [kept / f"{name}.json" for name in names]
    records = [Record(**found) for file in files if file.exists() for found in json.loads(file.read_text())]
    if options.docs:
        between(options.docs, "made by make bench-references", _markdown(records))
    return int(any(record.outcome in ("passed", "accused") for record in records))


def _of_model(name: str, folder: Path) -> Iterator[Record]:
    right, wrong_ones = _models(name, folder)
    opened = _opened(right)
    doubts = _doubts(opened)
    yield Record(name, "none", "; ".join(doubts), "accused" if doubts else "right")
    between, second = right.intermediates, _second(name, right)
    values = None if between is None else cache(lambda of_second: [*between(of_second)])
    for said, wrong in wrong_ones:
        if wrong is None:
            continue
        steps = [dataclasses.replace(w, expected=r.expected) for w, r in zip(wrong.steps, right.steps, strict=True)]
        mistaken = dataclasses.replace(
            wrong, steps=steps, intermediates=values, second=second, again=None,
            in_detail=partial(_mistaken_in_detail, name, right, wrong),
        )  # fmt: skip
        yield _record(name, "import", said, _refused(_opened, mistaken), _moved(opened, _opened(wrong)))
    yield from _of_kernels(name, opened)


def _second(name: str, right: ImportedModel) -> Any:
    """PyTorch's is fast: it is asked, too."""
    return right.second if name.endswith("(torch)") else None


def _of_kernels(name: str, opened: Prepared) -> Iterator[Record]:
    (run,) = opened.reference.record(opened.graphs)
    programs = opened.models[run.graph].programs
    for kernel, said, program in mutate.of_programs(programs):
        units = 0.0
        for node in run.graph.nodes_of(kernel):
            inputs = [run.arrays[value] for value in node.inputs]
            before = programs[kernel]
            assert isinstance(before, OperatorProgram)
            try:
                for one, two in zip(rounded(before, inputs, None), rounded(program, inputs, None), strict=True):
                    units = max(units, _units(np.asarray(one), np.asarray(two)))
            except NotDerivable:
                units = float("inf")
        changed = {**programs, kernel: program}
        yield _record(name, "kernel", f"{kernel[:40]}: {said}", _refused(_rebuilt, name, opened, changed), units)


def _record(name: str, kind: str, said: str, refused: bool, units: float) -> Record:
    outcome = "refused" if refused else "within rounding" if units <= _WITHIN else "passed"
    return Record(name, kind, said, outcome, units)


def _refused(build: Any, *arguments: Any) -> bool:
    try:
        return bool(_doubts(build(*arguments)))
    except TapmlError:
        return True


def _opened(model: ImportedModel) -> Prepared:
    return prepared(model, *lowered_with_documents(model))


def _rebuilt(name: str, opened: Prepared, programs: Mapping[str, Any]) -> Prepared:
    """With other programs: the values of the model in detail are right."""
    (graph,) = opened.graphs
    made = {graph: Model(graph, opened.models[graph].arguments, programs)}
    model = opened.reference.model
    model = dataclasses.replace(model, second=_second(name, model), again=None)
    reference = ReferenceRun(opened.lowered, model, programs, Reference(*made.values()))
    return dataclasses.replace(opened, models=made, reference=reference)


def _doubts(opened: Prepared) -> list[str]:
    return judged(opened, opened.reference.record(opened.graphs)).doubts


def _mistaken_in_detail(name: str, right: ImportedModel, wrong: ImportedModel) -> ImportedModel:
    """What a wrong import makes of every value, and what they should be."""
    assert right.in_detail is not None and wrong.in_detail is not None  # noqa: PT018
    wanted, found = right.in_detail(), wrong.in_detail()
    expected = [step.expected for step in wanted.steps]
    steps = [dataclasses.replace(step, expected=own) for step, own in zip(found.steps, expected, strict=True)]
    return dataclasses.replace(found, steps=steps, second=_second(name, wanted))


def _moved(right: Prepared, wrong: Prepared) -> float:
    """By how many units the first value differs of those that the operators of both give."""
    one, two = (opened.reference.record(opened.graphs)[0] for opened in (right, wrong))
    if [node.outputs for node in one.graph.nodes] != [node.outputs for node in two.graph.nodes]:
        return float("inf")
    for value in (value for node in one.graph.nodes for value in node.outputs):
        if one.arrays[value].shape != two.arrays[value].shape:
            return float("inf")
        if units := _units(one.arrays[value], two.arrays[value]):
            return units
    return 0.0


def _units(before: np.ndarray, after: np.ndarray) -> float:
    if before.dtype.kind != "f" or after.dtype.kind != "f":
        return 0.0 if np.array_equal(before, after) else float("inf")
    with np.errstate(invalid="ignore"):
        away = np.abs(before.astype(np.float64) - after)
    away, size = away[np.isfinite(away)], np.abs(before[np.isfinite(before)].astype(np.float64))
    return float(np.max(away) / (_UNIT * np.sqrt(np.mean(size**2)) + 1e-300)) if away.size and away.any() else 0.0


def _models(name: str, folder: Path) -> tuple[ImportedModel, Iterator[tuple[str, ImportedModel | None]]]:
    """The right one, and wrong ones with what is wrong; none where a mutant is no model."""
    if name == "minilm":
        return import_model("minilm", texts=["Good morning"]), iter(())
    if name in models.ONNX:
        path, inputs = models.ONNX[name](folder)
        return import_model(str(path), input_files=[inputs]), _wrong_onnx(path, inputs)
    from benchmarks.torch_models.cases import exported

    path, inputs = exported(f"{name.removesuffix(' (torch)')} (block)", folder)
    return import_model(str(path), input_files=[inputs]), _wrong_torch(path, inputs)


def _wrong_onnx(path: Path, inputs: Path) -> Iterator[tuple[str, ImportedModel | None]]:
    import onnx

    model = onnx.load(path)
    for said, wrong in mutate.of_onnx(model):
        onnx.save(wrong, other := path.with_name("wrong.onnx"))
        yield said, _imported(other, inputs)


def _wrong_torch(path: Path, inputs: Path) -> Iterator[tuple[str, ImportedModel | None]]:
    import torch

    program = torch.export.load(path)
    for said in mutate.of_torch(program):
        program.graph_module.recompile()
        torch.export.save(program, other := path.with_name("wrong.pt2"))
        yield said, _imported(other, inputs)


def _imported(path: Path, inputs: Path) -> ImportedModel | None:
    try:
        found = import_model(str(path), input_files=[inputs])
    except TapmlError:
        return None
    return found if found.oracle is not None else None


def _markdown(records: Sequence[Record]) -> str:
    lines = [
        "| model | nothing injected | in the import | in a kernel's program | refused | within rounding | passed |\n",
        "| --- | --- | --- | --- | --- | --- | --- |\n",
    ]
    for name in [*dict.fromkeys(record.model for record in records), "**all**"]:
        found = [record for record in records if name in (record.model, "**all**")]
        outcomes, kinds = Counter(r.outcome for r in found), Counter(r.kind for r in found)
        right = f"{outcomes['accused']} accused" if outcomes["accused"] else "right"
        cells = [name, right, kinds["import"], kinds["kernel"]]
        cells += [outcomes[outcome] for outcome in ("refused", "within rounding", "passed")]
        lines.append(f"| {' | '.join(map(str, cells))} |\n")
    return "".join(lines)


if __name__ == "__main__":
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.simplefilter("ignore")
    sys.exit(main())
