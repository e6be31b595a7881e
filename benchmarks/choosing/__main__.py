"""How far what is chosen is behind exhaustive search, and how long choosing takes; and the tables to choose by.

    python -m benchmarks.choosing measure node-dawn small minilm -o swiftshader-1.json
    python -m benchmarks.choosing result plan.json.gz result.jsonl -o h200.json      (plan.py says how)
    python -m benchmarks.choosing ship swiftshader-1.json swiftshader-2.json h200.json
    python -m benchmarks.choosing report swiftshader-1.json swiftshader-2.json
    python -m benchmarks.choosing search minilm model.onnx

`ship` writes what comes with tapml: a table of each class, and the coefficients of the model. `report` chooses by the
tables that were not measured in the same run, by those that come with tapml, and by a model that was fitted without
the operator, and says how much slower that is than the fastest of the run. `search` says how long a build takes to
choose the kernels of models.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import tapml.compilers.auto.expected as expected
from benchmarks.choosing.model import Sample, fitted
from benchmarks.choosing.model import behind as model_behind
from benchmarks.choosing.operators import operators_of
from benchmarks.choosing.report import Behind, behind, line
from benchmarks.choosing.search import HEAD, searched
from benchmarks.choosing.tables import least, measured, of_result, worth_keeping
from tapml.compilers.auto.cost import cost
from tapml.compilers.auto.digest import digest, judged_sizes
from tapml.compilers.auto.space import Candidate, candidates
from tapml.compilers.auto.table import Tuned, read_table, shipped
from tapml.kernels.device_class import GPU, SOFTWARE
from tapml.lowering.operator import Operator
from tapml.tuning.tune import Told

AUTO = Path(expected.__file__).parent
Operators = Mapping[str, tuple[str, Operator, Sequence[Candidate]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=("measure", "result", "ship", "report", "search"))
    parser.add_argument("given", nargs="+")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.work in ("measure", "result"):
        made = (
            measured(options.given[0], options.given[1:] or ["small", "minilm"], _told)
            if options.work == "measure"
            else least(
                [of_result(Path(p), Path(r)) for p, r in zip(options.given[::2], options.given[1::2], strict=True)]
            )
        )
        options.output.write_text(made.model_dump_json(exclude_none=True))
        return
    if options.work == "search":
        print(HEAD)
        for model in options.given:
            print(searched(model), flush=True)
        return
    tables = [read_table(Path(path)) for path in options.given]
    operators = _operators(tables)
    if options.work == "ship":
        _ship(tables, operators)
    else:
        _report(tables, operators)


def _told(one: Told) -> None:
    print(f"{one.done} of {one.total}: {one.name}: {one.best}", flush=True)


def _operators(tables: Sequence[Tuned]) -> Operators:
    wanted = {key for table in tables for key in table.by_operator}
    found: dict[str, tuple[str, Operator, Sequence[Candidate]]] = {}
    for model in ("minilm", "small", "works"):
        if wanted <= found.keys():
            break
        for name, operator, _ in operators_of(model):
            key = digest(operator)
            if key in wanted and key not in found:
                found[key] = name, operator, candidates([operator]).get(operator.name, [])
    return found


def _samples(table: Tuned, operators: Operators) -> list[Sample]:
    found = []
    for key, (_, operator, own) in operators.items():
        kernel = table.by_operator.get(key)
        times = {(one.name, one.text): one.microseconds for one in kernel.candidates} if kernel else {}
        for one in own:
            spent = times.get((one.name, one.key))
            counted = cost(one.kernel, one.variant, judged_sizes(operator)) if spent else None
            if spent and counted is not None:
                found.append(Sample(key, one.name, counted, spent))
    return found


def _by_class(tables: Sequence[Tuned]) -> dict[str, Tuned]:
    names = dict.fromkeys(table.classes[0] for table in tables)
    return {name: least([table for table in tables if table.classes[0] == name]) for name in names}


def _ship(tables: Sequence[Tuned], operators: Operators) -> None:
    merged = _by_class(tables)
    (AUTO / "tables").mkdir(exist_ok=True)
    for name, table in zip(merged, worth_keeping([*merged.values()]), strict=True):
        path = AUTO / "tables" / f"{name.replace('/', '-')}.json"
        path.write_text(table.model_dump_json(exclude_none=True, exclude_defaults=True) + "\n")
        print(f"{path}: {len(table.kernels)} operators, {path.stat().st_size} bytes")
    model = {}
    for kind in (GPU, SOFTWARE):
        samples = [one for table in merged.values() if kind in table.classes for one in _samples(table, operators)]
        if samples:
            model[kind] = fitted(samples)
    (AUTO / "model.json").write_text(json.dumps(model, indent=1) + "\n")


def _report(tables: Sequence[Tuned], operators: Operators) -> None:
    heads = ("device", "chosen by", "operators", "median", "9 of 10", "worst", "5 % behind TVM's", "to TVM's at most")
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for place, table in enumerate(tables):
        device = table.classes[0]
        others = [one for at, one in enumerate(tables) if at != place and one.classes[0] == device]
        if others:
            found = behind(operators, table, [least(others)])
            print(line("a table of another run", device, found))
            _worst(found)
        print(line("the tables that come with tapml", device, behind(operators, table, shipped())))
        samples = _samples(table, operators)
        guessed = _held_out(samples, operators)
        print(line("the model, fitted without the operator", device, guessed))
        _worst(guessed)


def _worst(found: Sequence[Behind]) -> None:
    for one in sorted(found, key=lambda one: -one.share)[:3]:
        if one.share > 0.05:
            print(f"<!-- {one.operator}: {one.candidate} {one.microseconds:.1f} us, {one.fastest:.1f} us -->")


def _held_out(samples: Sequence[Sample], operators: Operators) -> list[Behind]:
    found = []
    for key in dict.fromkeys(one.operator for one in samples):
        own = [one for one in samples if one.operator == key]
        share = model_behind(fitted([one for one in samples if one.operator != key]), own)[key]
        fastest = min(one.microseconds for one in own)
        tvm = next((one.microseconds for one in own if one.candidate == "tvm"), None)
        found.append(Behind(operators[key][0], "", fastest * (1 + share), fastest, tvm))
    return found


if __name__ == "__main__":
    main()
