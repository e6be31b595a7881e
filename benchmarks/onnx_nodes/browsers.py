"""A sample of the ONNX backend node tests in browsers (`make bench-onnx-browsers`; `make bench-onnx` runs it as well).

Of each operator one case is drawn of every ten that it has, begun ones too: the same ones each time. All cases of a
worker run in one page of each browser. The records are kept in build/bench-onnx-browsers.jsonl.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.carved import Benchmark, Record, built_wrong, outcome, said_by_devices
from benchmarks.onnx_nodes import table
from benchmarks.onnx_nodes.cases import Case, cases, facts

_EACH = 10
"""Of so many cases of an operator one is drawn."""


def drawn(found: Mapping[str, Case]) -> list[str]:
    """Names of cases, by name: who is drawn follows from the names of an operator's cases alone."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(found, key=lambda name: hashlib.sha256(name.encode()).digest()):
        groups[found[name].operator].append(name)
    return sorted(name for names in groups.values() for name in names[: -(-len(names) // _EACH)])


def markdown(records: Sequence[Record]) -> str:
    """A sentence, a line for each browser, and what is not right."""
    return "\n".join(_lines(records)) + "\n"


def _lines(records: Sequence[Record]) -> Iterator[str]:
    operators = len({record["operator"] for record in records})
    yield f"{len(records)} cases of {operators} operators: of each operator one of every ten."
    yield ""
    yield "| browser | right | built | lacks a feature | no kernel | refused | wrong |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name, device in _devices(records).items():
        seen = [_on(record, name) for record in records]
        counts = Counter(map(outcome, seen))
        wrong = counts.total() - counts["right"] - counts["no kernel"] - counts["refused"]
        agree = sum(record.get("built", {}).get(name) == "" for record in seen)
        lacks = sum(outcome(record) == "right" and bool(said_by_devices(record)) for record in seen)
        cells = [device, counts["right"], agree, lacks, counts["no kernel"], counts["refused"], wrong]
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""
    for record in records:
        if outcome(record) != "right":
            yield f"- {record['operator']}, `{record['name']}`: {_why(record)}"


def _devices(records: Sequence[Record]) -> dict[str, str]:
    """What the browsers said of themselves, by their names here: a benchmark that went on may have had two versions."""
    found: dict[str, list[str]] = defaultdict(list)
    for record in records:
        for name, device in record.get("devices", {}).items():
            found[name].append(device)
    return {name: ", ".join(dict.fromkeys(devices)) for name, devices in found.items()}


def _on(record: Record, name: str) -> Record:
    """What is recorded of one device."""
    verdicts = {key: lines for key, lines in record.get("verdicts", {}).items() if key == name}
    built = {key: why for key, why in record.get("built", {}).items() if key in ("build", "cpu", name)}
    return {**record, "verdicts": verdicts, "built": built}


def _why(record: Record) -> str:
    if record["outcome"] != "right":
        return table.sentence(record)
    lines = [
        f"{name}: {line}"
        for name in record["verdicts"]
        for seen in [_on(record, name)]
        for line in dict.fromkeys([*said_by_devices(seen), *built_wrong(seen)])
    ]
    return "; ".join(lines)[:400]


BENCHMARK = Benchmark(
    name="bench-onnx-browsers",
    description=__doc__,
    cases=lambda: drawn(cases()),
    worker="benchmarks.onnx_nodes.worker",
    seconds=120.0,
    facts=facts,
    said=table.show,
    table=markdown,
    devices="chromium,firefox",
    processes=1,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
