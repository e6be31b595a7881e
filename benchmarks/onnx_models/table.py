"""What became of the models, as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.onnx_models.models import MODELS, Model
from benchmarks.pages import between

_MB = 1_000_000


def good(record: Mapping[str, Any]) -> bool:
    """Carved, its reference right, every operator validated everywhere, the whole model run on a device."""
    return (
        not record["problem"]
        and record["agrees"]
        and all(map(_all_pass, record["validated"].values()))
        and record.get("offload", {}).get("verdict", "pass") == "pass"
    )


def sentence(record: Mapping[str, Any]) -> str:
    """What is wrong first, or that nothing is."""
    if record["problem"]:
        return str(record["problem"])
    problems = [] if record["agrees"] else ["its reference does not agree with its oracle"]
    for device, found in record["validated"].items():
        if not _all_pass(found):
            first = found["problems"][0] if found["problems"] else ""
            problems.append(f"{device}: {len(found['problems'])} tests do not pass ({first})")
    offload = record.get("offload")
    if offload and offload["verdict"] != "pass":
        problems.append(f"whole model on {offload['device']}: {offload['verdict']}: {offload['message']}")
    return "; ".join(problems) or f"all right: {record['nodes']} operators"


MARK = "made by make bench-models"


def write(path: Path, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the generated part of a page anew. Models that have no record here keep the lines that they have there."""
    between(path, MARK, "".join(_lines(records, path.read_text().splitlines())))


_FACTS = ["model", "package", "licence", "operators", "kernels", "carved in", "memory", "commit"]


def _lines(records: Mapping[str, Mapping[str, Any]], page: Sequence[str]) -> Iterator[str]:
    before = next((line.strip("| ").split(" | ") for line in page if line.startswith(f"| {' | '.join(_FACTS)} |")), [])
    found = [device for record in records.values() for device in record["validated"]]
    devices = list(dict.fromkeys([*before[len(_FACTS) : -1], *found]))
    columns = [*_FACTS, *devices, "whole model"]
    more = " | not tried" * (len(columns) - len(before))
    yield f"| {' | '.join(columns)} |\n"
    yield f"| {' | '.join('---' for _ in columns)} |\n"
    for model in MODELS:
        if record := records.get(model.name):
            yield f"| {' | '.join(_cells(model, record, devices))} |\n"
            continue
        for line in page:
            if line.startswith(f"| {model.name}: "):
                cells, _, whole = line.removesuffix(" |").rpartition(" | ")
                yield f"{cells}{more} | {whole} |\n"
    yield "\n"
    known = (found for record in records.values() for found in record["validated"].values())
    if said := dict.fromkeys(found["device"] for found in known if "device" in found):
        yield f"Those with a commit ran in {', '.join(said)}.\n\n"
    for model in MODELS:
        if (record := records.get(model.name)) and not good(record):
            yield f"- {model.name}: {sentence(record)[:400]}\n"
        elif record is None:
            yield from (f"{line}\n" for line in page if line.startswith(f"- {model.name}: "))


def _cells(model: Model, record: Mapping[str, Any], devices: list[str]) -> Iterator[str]:
    package = model.package
    yield f"{model.name}: {model.what}"
    yield f"{package.registry}: {package.name} {package.version}"
    yield package.licence
    if record["problem"]:
        yield from ["refused", *[""] * 3, record.get("commit", ""), *[""] * (1 + len(devices))]
        return
    yield str(record["nodes"])
    yield str(record["kernels"])
    yield f"{record['carve_seconds']:.0f} s"
    yield f"{record['carve_bytes'] / _MB:,.0f} MB ({record['recorded_bytes'] / _MB:,.0f} MB of values)"
    yield record.get("commit", "")
    for device in devices:
        if device not in record["validated"]:
            yield "not tried"
            continue
        counts = record["validated"][device]["counts"]
        yield f"{counts['pass']} of {counts['total']} pass" if counts else "does not run"
    yield record["offload"]["verdict"] if record.get("offload") else "not tried"


def _all_pass(found: Mapping[str, Any]) -> bool:
    counts = found["counts"]
    return bool(counts) and counts["pass"] == counts["total"] > 0
