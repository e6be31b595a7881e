"""Validations, offloads and suites as text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from tapml.protocol.base import JsonNumber
from tapml.reports.console import Table, show_facts
from tapml.reports.fusion import fusion, fusion_text
from tapml.reports.moves import moves_of, moves_texts
from tapml.reports.plain import generation_text
from tapml.results.base import DeviceDocument, DeviceFacts, Header, ModelMetric, distrust, label_of
from tapml.results.checks import RESULTS
from tapml.results.headline import headed, share_of, share_text
from tapml.results.offload import OffloadDocument, fate
from tapml.results.validation import TestResult, ValidationDocument
from tapml.results.verdicts import FAILING, SEVERITY, VERDICTS
from tapml.suite import Suite
from tapml.text import counted, indented, listed, one_line, size

COLOURS = {
    "pass": "green", "fail": "red", "error": "magenta", "unsupported": "yellow", "unbounded": "dark_cyan",
    "expected": "cyan", "suspicious": "yellow",
}  # fmt: skip
_SIGNS = {"pass": "✓", "fail": "✗", "error": "!", "unsupported": "-", "unbounded": "∞", "expected": "~"}
_MOST_MESSAGES = 12
_MOST_IDS = 4
"""Of a kernel's tests, on its line."""


def mark(verdict: str) -> Text:
    """A verdict with its sign, in its colour; another word as it is, for a history may hold any."""
    return Text(f"{_SIGNS[verdict]} {verdict}", style=COLOURS[verdict]) if verdict in _SIGNS else Text(verdict)


def number(value: JsonNumber | None) -> str:
    """Short scientific notation; a dash where there is none."""
    return (value or "-") if isinstance(value, str | None) else f"{value:.2e}"


def gpu_name(device: DeviceFacts) -> str:
    """For people; empty where it is not named, as in Firefox."""
    adapter = device["adapter"]
    return " ".join(filter(None, (adapter["vendor"], adapter["architecture"] or adapter["description"])))


def show_validation(console: Console, document: ValidationDocument) -> None:
    """A row a kernel and device with its worst numbers, then the messages of what did not pass."""
    _banner(console, document)
    for device in document["devices"]:
        tests = [test for test in document["tests"] if test["device"] == device["id"]]
        _validation_table(console, device, tests)
    bad = [test for test in document["tests"] if test["verdict"] != "pass"]
    names = {device["id"]: label_of(device) for device in document["devices"]}
    for test in bad[:_MOST_MESSAGES]:
        where = one_line(f"{test['id']} {test['kernel']} on {names[test['device']]}")
        console.print(mark(test["verdict"]) + Text(f" {where}: {indented(headed(test))}"))
    if len(bad) > _MOST_MESSAGES:
        console.print(f"... and {len(bad) - _MOST_MESSAGES} more: see --json or the web page")
    console.print(one_line(summary_line(document), 5000))


def summary_line(document: ValidationDocument) -> str:
    """One line: how many of what, which kernels fail."""
    summary = document["summary"]
    counts = ", ".join(f"{summary[v]} {v}" for v in VERDICTS if summary[v])
    text = f"{counted(summary['total'], 'test')}: {counts or 'none'} in {summary['seconds']:.1f} s"
    if summary["failing_kernels"]:
        wrong = summary["fail"] or summary["error"]
        what = "failing or unbounded" if wrong and summary["unbounded"] else "failing" if wrong else "unbounded"
        text += f"; {what} kernels: {', '.join(summary['failing_kernels'])}"
    if document["doubts"]:
        text += "; DO NOT TRUST them: the suite's reference is in doubt"
    if document["interrupted"]:
        missing = sum(map(len, document["not_run"].values()))
        text += f"; interrupted: {counted(missing, 'test')} did not run, and what ran is kept"
    return text


def _validation_table(console: Console, device: DeviceDocument, tests: list[TestResult]) -> None:
    gpu = gpu_name(device)
    errors = ("of its bound", "max abs error", "max rel error")
    title = label_of(device) + (f" ({gpu})" if gpu else "")
    table = Table("kernel", "tests", "verdict", *errors, right=("tests", *errors), title=title)
    for kernel, rows in _by_kernel(tests).items():
        verdicts = [test["verdict"] for test in rows]
        worst = max(verdicts, key=SEVERITY.index)
        count = f"{verdicts.count(worst)} of {len(rows)}" if worst != "pass" else str(len(rows))
        edited = " (edited)" if any(test["edited"] for test in rows) else ""
        share = _most(share_of(row["worst"], row["tolerances"], row["max_abs_error"]) for row in rows)
        table.add_row(
            kernel + edited,
            count,
            mark(worst),
            "-" if share is None else share_text(share),
            *(number(_most(row[key] for row in rows)) for key in ("max_abs_error", "max_rel_error")),
        )
    console.print(table)


def _by_kernel(tests: list[TestResult]) -> dict[str, list[TestResult]]:
    found: dict[str, list[TestResult]] = defaultdict(list)
    for test in tests:
        found[test["kernel"]].append(test)
    return found


def _most(found: Iterable[float | None]) -> float | None:
    return max((value for value in found if value is not None), default=None)


def show_offload(console: Console, document: OffloadDocument) -> None:
    """The trace: a row a kernel, then the whole model."""
    _banner(console, document)
    title = f"offload to {document['devices'][0]['name']}"
    model = ("model cosine", "model max error", "now on the device")
    table = Table("kernel", "nodes", "operator", *model, right=("nodes", *model), title=title)
    total = document["summary"]["nodes"]
    for step in document["steps"]:
        cosine, error = _metric(step["model_metric"])
        where = f"{step['offloaded_nodes']}/{total} nodes" if step["kept"] else fate(step)
        table.add_row(
            step["kernel"],
            str(len(step["nodes"])),
            mark(step["operator_verdict"]),
            cosine,
            error,
            where,
        )
    console.print(table)
    for step in document["steps"]:
        if step["message"]:
            console.print(f"{one_line(step['kernel'])}: {indented(step['message'])}")
    final = document["final"]
    cosine, error = _metric(final["model_metric"])
    how = {"compiled": ", as `tapml build` makes it", "virtual-machine": " in TVM's virtual machine"}
    text = f" whole model{how.get(final['mode'], '')}: cosine {cosine}, max error {error}"
    console.print(mark(final["verdict"]) + Text(text + (f": {indented(final['message'])}" if final["message"] else "")))
    if kept := final["kept_on_reference"]:
        _kept(console, document, kept)


def _kept(console: Console, document: OffloadDocument, kept: list[str]) -> None:
    """The last word, for a whole model may pass with a broken kernel in it."""
    broken = [step["kernel"] for step in document["steps"] if not step["kept"] and step["operator_verdict"] in FAILING]
    text = f"{len(kept)} of {document['summary']['kernels']} kernels are on the reference: {listed(kept, 8)}"
    if broken and document["final"]["verdict"] == "pass":
        text += "; the whole model ran with what is broken all the same, and its output does not show it"
    console.print(mark("fail" if broken else "unsupported") + Text(" " + one_line(text, 2000)))


def _metric(found: Mapping[str, Any] | ModelMetric | None) -> tuple[str, str]:
    """Cosine and largest error; dashes where nothing was compared. A document has none of what is NaN or infinite."""
    if found is None:
        return "-", "-"
    cosine, error = found["cosine"], found["max_abs_error"]
    return "NaN" if cosine is None else f"{cosine:.9f}", "not finite" if error is None else number(error)


def warn_synthetic(console: Console, synthetic: bool) -> None:
    """Say so where what is shown comes of made-up inputs."""
    if synthetic:
        console.print("SYNTHETIC INPUTS: this suite was carved from made-up data", style="yellow")


def warn_doubts(console: Console, what: object, doubts: Sequence[str]) -> None:
    """Say so where a suite was kept although its reference is not to be believed."""
    for line in distrust(str(what), doubts):
        console.print(line, style="red")


def _banner(console: Console, document: Header) -> None:
    warn_synthetic(console, document["synthetic"])
    if document["edited_kernels"]:
        text = f"edited kernels (not what was generated): {', '.join(document['edited_kernels'])}"
        console.print(one_line(text, 5000), style="yellow")


def show_suite(console: Console, suite: Suite, *, tests: bool = False, compiler: str | None = None) -> None:
    """`tapml show`: provenance, graph, kernels with the compilers that made them, tests, sizes. `tests`: all ids, not
    only as many as fit on a kernel's line. `compiler`: what was asked for, where that is known."""
    manifest = suite.manifest
    model = manifest["model"]
    warn_synthetic(console, suite.synthetic)
    warn_doubts(console, suite.path, suite.doubts)
    generator = manifest["generator"]
    graph, captured = suite.model_graph, len(suite.imported.tests)
    imported = f", {captured} of them imported" if captured else ""
    fused = fusion(suite)
    rows = [
        ("suite", f"{suite.name} ({suite.path})"),
        ("model", f"{model.get('title', '')} from {model['source']}, sha256 {str(model['sha256'])[:16]}..."),
        ("reference", manifest["reference"]["device"]),
        ("oracle", oracle_text(manifest)),
        ("inputs", "; ".join(step["description"] for step in manifest["steps"])),
        ("carved", f"{manifest['created']}, {generator.get('name', 'tvm')} {generator['version']}"),
        (
            "graph",
            f"{counted(len(graph.nodes), 'node')} ({counted(len(graph.kernel_nodes), 'kernel call')}), "
            f"{counted(len(suite.kernels), 'kernel')}, {counted(len(suite.tests), 'test')}{imported}",
        ),
        *(("fused", fusion_text(found, len(fused) > 1)) for found in fused),
        *(("moves", text) for text in moves_texts(moves_of(suite))),
        ("size", f"{size(suite.nbytes())}, {len(suite.digests())} distinct tensors"),
    ]
    rows += [("state", f"{state.name} {state.type}") for state in suite.program.states]
    rows += [("generation", generation_text(suite.generation))] if suite.generation else []
    rows += [("note", note) for note in model.get("notes", [])]
    rows += [("left out", problem) for kind in RESULTS for problem in suite.read_results(kind)[1]]
    makers = {name: _makers(suite.bundle(name)) for name in suite.kernels}
    rows.append(("compiler", _compiler_text(makers, compiler)))
    # A column only where it tells kernels apart.
    several = len(set(makers.values())) > 1
    show_facts(console, ((name, one_line(text, 2000)) for name, text in rows))
    console.print()
    numbers = ("nodes", "sum of", "workgroup")
    kernels = Table("kernel", *(["by"] if several else []), *numbers, "output", "", right=numbers)
    edited, without = set(suite.edited_kernels), {}
    for name in suite.kernels:
        bundle = suite.bundle(name)
        node = suite.graph.nodes_of(name)[0]
        names = [variant["name"] for variant in bundle["variants"]]
        base = bundle["variants"][-1]["entry_points"][0] if names else None
        variants = f"variants {', '.join(names)}" if len(names) > 1 else ""
        if bundle["unsupported"]:
            without[name] = bundle["unsupported"]
        remarks = ["no WGSL" if bundle["unsupported"] else "", "edited" if name in edited else "", variants]
        kernels.add_row(
            name,
            *([", ".join(makers[name]) or "-"] if several else []),
            str(len(suite.graph.nodes_of(name))),
            str(bundle["numerics"]["accumulation_length"]),
            "x".join(map(str, base["workgroup_size"])) if base else "-",
            str(suite.graph.values[node.outputs[0]].type),
            Text("; ".join(filter(None, remarks)), style="yellow"),
        )
    console.print(kernels)
    for name, why in without.items():
        console.print(f"{one_line(name)}: {one_line(why, 2000)}", style="yellow")
    console.print()
    _show_tests(console, suite, everything=tests)


def _makers(bundle: Mapping[str, Any]) -> tuple[str, ...]:
    """Who made a kernel's variants. Documents of version 1 do not say it, and nobody but TVM could."""
    own = bundle["compiler"]["name"] or "tvm"
    return tuple(dict.fromkeys(str(variant.get("compiler") or own) for variant in bundle["variants"]))


def _compiler_text(makers: Mapping[str, Sequence[str]], asked: str | None) -> str:
    """What was asked for, and where several made kernels, or another one did, how many are whose."""
    counts = Counter(name for names in makers.values() for name in names)
    if not counts or [*counts] == [asked]:
        return asked or "-"
    if len(counts) == 1 and counts.total() == len(makers):
        text = next(iter(counts)) if asked is None else f"all kernels by {next(iter(counts))}"
    else:
        parts = (f"{count} by {name}" for name, count in counts.most_common())
        text = f"of {counted(len(makers), 'kernel')} {', '.join(parts)}"
    return text if asked is None else f"{asked}: {text}"


def _show_tests(console: Console, suite: Suite, *, everything: bool) -> None:
    by_kernel: dict[str, list[str]] = {name: [] for name in suite.kernels}
    for test in suite.tests:
        by_kernel[test.kernel].append(test.id)
    table = Table("kernel", "tests")
    widest = max(map(len, by_kernel), default=0)
    for name, ids in by_kernel.items():
        table.add_row(name, " ".join(ids) if everything else fitting(ids, console.width - widest - 2))
    console.print(table)
    if not everything and any(len(ids) > _MOST_IDS for ids in by_kernel.values()):
        console.print(f"all ids: tapml show {suite.path} --tests", style="dim", soft_wrap=True)


def fitting(ids: Sequence[str], width: int) -> str:
    """The first of them, four at most, and how many more there are, within so many columns where one fits."""
    for shown in range(min(len(ids), _MOST_IDS), 0, -1):
        more = f" and {len(ids) - shown} more" if len(ids) > shown else ""
        text = " ".join(ids[:shown]) + more
        if len(text) <= width or shown == 1:
            return text
    return ""


def oracle_text(manifest: Mapping[str, Any]) -> str:
    """Who checked the reference run, and how close it was."""
    oracle = manifest["oracle"]
    if oracle is None:
        return f"none: {manifest.get('oracle_missing') or 'no independent result'}"
    agrees = "agrees" if oracle["agrees"] else "DISAGREES"
    cosine, error = _metric(oracle)
    held = oracle.get("operators")
    each = f", {held['held']} of {held['of']} operator calls held against its own values" if held else ""
    return f"{oracle['name']} {agrees}: cosine {cosine}, max error {error}{each}"
