"""Exported tests back into suites: one of its own, or beside the tests of another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tapml.devices.messages import digest_now
from tapml.errors import InputError
from tapml.files import json_bytes, sha256, unique, why
from tapml.program import Graph
from tapml.program.program import Program
from tapml.results.base import REPORTED_DEVICE
from tapml.results.validation import TestResult, ValidationDocument, counts
from tapml.results.verdicts import SEVERITY
from tapml.sharing.document import Report, carved_ref, carved_tolerance
from tapml.sharing.repro import REPORTED, Repro
from tapml.suite import CarvedTest, Suite, SuiteWriter
from tapml.suite.imported import add_imported
from tapml.suite.suite import IMPORTED, write_kernel
from tapml.validation.events import now
from tapml.validation.operatorwise import save_validation
from tapml.validation.results import identity, keep


def new_suite(repro: Repro, path: Path, *, overwrite: bool = False) -> Suite:
    """A suite that holds this one test, and what was reported of it as a result.

    Raises InputError where `path` is taken or cannot be written.
    """
    return new_suite_of([repro], path, overwrite=overwrite)


def new_suite_of(repros: Sequence[Repro], path: Path, *, overwrite: bool = False) -> Suite:
    """The same of several tests of one model."""
    first = repros[0].document
    tests, graphs = [], []
    with SuiteWriter(path, overwrite=overwrite) as writer:
        for number, repro in enumerate(repros):
            document = repro.document
            for digest in repro.digests:
                writer.tensors.put_pieces(digest, repro.pieces(digest))
            write_kernel(writer.folder, document.kernel, {file.name: file.text for file in document.files})
            test = _test(repro, f"n{number:03d}", document.test.kernel)
            tests.append(test)
            graphs.append(repro.graph(test.node))
        manifest = {
            "name": path.name.removesuffix(".suite"),
            "created": now(),
            "model": {**first.model.model_dump(), "kind": IMPORTED, "notes": [_origin(repro) for repro in repros]},
            "synthetic": any(repro.document.suite.synthetic for repro in repros),
            "reference": first.reference.model_dump(),
            "generator": first.kernel["compiler"],
            "parameters": {},
            "arguments": [],
            "steps": [],
            "oracle": None,
            "oracle_missing": "an exported test comes without its model",
            "doubts": list(dict.fromkeys(doubt for repro in repros for doubt in repro.document.suite.doubts)),
            "model_tolerance": None,
            "seconds": {},
        }
        suite = writer.finish(manifest, Program.of(_beside(graphs)), tests, {})
    _keep_reports(suite, list(zip(repros, tests, strict=True)))
    return suite


def add_to_suite(repro: Repro, suite: Suite) -> str:
    """Add the test beside those of `suite`; gives its id there, the same one when it is there already.

    Its kernel keeps its name where none of that name is there, or the same one; else it gets a number. Raises
    InputError where the suite cannot be written to.
    """
    return add_all([repro], suite)[0]


def add_all(repros: Sequence[Repro], suite: Suite) -> list[str]:
    """The same of several tests."""
    ids: list[str] = []
    added: list[CarvedTest] = []
    reported: list[tuple[Repro, CarvedTest]] = []
    kernels: dict[str, str] = {}
    imports = []
    try:
        for repro in repros:
            key = sha256(json_bytes([repro.document.kernel, [file.sha256 for file in repro.document.files]]))
            kernel = kernels.get(key) or _same_kernel(repro, suite)
            if kernel is not None and (known := _same_test(repro, kernel, [*suite.tests, *added])):
                ids.append(known.id)
                reported.append((repro, known))
                continue
            for digest in repro.digests:
                suite.tensors.put_pieces(digest, repro.pieces(digest))
            kernels[key] = kernel = kernel or _add_kernel(repro, suite)
            node = f"i{len(suite.imported.tests) + len(added):03d}"
            test = _test(repro, node, kernel)
            source = {"test": test.id, "from": _origin(repro), "added": now()}
            imports.append((repro.graph(node, kernel), test, source, repro.document.suite.doubts))
            added.append(test)
            ids.append(test.id)
            reported.append((repro, test))
        if imports:
            add_imported(suite.folder, imports)
    except OSError as error:
        raise InputError(f"cannot write to {suite.path}: {why(error)}") from error
    _keep_reports(Suite(suite.path), reported)
    return ids


def _beside(graphs: Sequence[Graph]) -> Graph:
    """Calls that have nothing to do with each other, as one graph."""
    values = {name: value for graph in graphs for name, value in graph.values.items()}
    nodes = [node for graph in graphs for node in graph.nodes]
    inputs = tuple(name for graph in graphs for name in graph.inputs)
    outputs = tuple(name for graph in graphs for name in graph.outputs)
    return Graph(values, nodes, inputs, outputs)


def _origin(repro: Repro) -> str:
    document = repro.document
    return f"imported: test {document.test.id} of {document.suite.name} ({document.model.title}), {document.created}"


def _test(repro: Repro, node: str, kernel: str) -> CarvedTest:
    document = repro.document
    refs = [carved_ref(tensor) for tensor in document.arguments]
    count = len(document.inputs)
    return CarvedTest(
        id=f"{node}.s0",
        node=node,
        kernel=kernel,
        step=0,
        inputs=tuple(refs[:count]),
        outputs=tuple(refs[count:]),
        tolerances=tuple(carved_tolerance(output.tolerance) for output in document.outputs),
        sizes=document.test.sizes,
    )


def _same_kernel(repro: Repro, suite: Suite) -> str | None:
    """The suite's kernel that is this one, WGSL and all."""
    document = repro.document
    texts = {file.name: file.text for file in document.files}
    for name in suite.kernels:
        if name != document.test.kernel and not name.startswith(f"{document.test.kernel}_"):
            continue
        bundle = suite.bundle(name)
        wanted, wanted_texts = _renamed(document.kernel, texts, document.test.kernel, name)
        there = {} if bundle["unsupported"] else {file.name: file.text for file in suite.kernel_files(name)}
        if bundle == wanted and there == wanted_texts:
            return name
    return None


def _same_test(repro: Repro, kernel: str, tests: Iterable[CarvedTest]) -> CarvedTest | None:
    digests = [tensor.digest for tensor in repro.document.tensors]
    for test in tests:
        if test.kernel == kernel and [ref.digest for ref in test.refs] == digests:
            return test
    return None


def _add_kernel(repro: Repro, suite: Suite) -> str:
    """Write the kernel under a name that is free."""
    old = repro.document.test.kernel
    texts = {file.name: file.text for file in repro.document.files}
    name = unique(old, lambda name: suite.folder.taken(f"kernels/{name}.json") or _taken(suite, texts, old, name), "_")
    bundle, files = _renamed(repro.document.kernel, texts, old, name)
    write_kernel(suite.folder, bundle, files)  # before anything names it
    return name


def _taken(suite: Suite, texts: dict[str, str], old: str, name: str) -> bool:
    return any(suite.folder.taken(f"kernels/{_renamed_file(file, old, name)}") for file in texts)


def _renamed(
    bundle: dict[str, Any], texts: dict[str, str], old: str, name: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """A kernel under another name, its files too; entry points keep theirs, which stand in the WGSL."""
    renamed = json.loads(json.dumps(bundle))
    renamed["kernel"] = name
    for variant in renamed["variants"]:
        for entry in variant["entry_points"]:
            entry["file"] = _renamed_file(entry["file"], old, name)
    return renamed, {_renamed_file(file, old, name): text for file, text in texts.items()}


def _renamed_file(file: str, old: str, name: str) -> str:
    if old == name:
        return file
    return name + file.removeprefix(old) if file.startswith(old) else f"{name}.{file}"


def _keep_reports(suite: Suite, tests: Sequence[tuple[Repro, CarvedTest]]) -> None:
    """What was reported, as the latest results of devices of their own: told apart from what runs here."""
    by_device: dict[str, list[tuple[Report, CarvedTest]]] = {}
    for repro, test in tests:
        if (report := repro.document.report) is not None:
            by_device.setdefault(report.device["name"] + REPORTED, []).append((report, test))
    for name, reports in by_device.items():
        if problem := keep(suite, save_validation, _reported(suite, name, reports)):
            ids = ", ".join(test.id for _, test in reports)
            raise InputError(f"the test is in {suite.path} as {ids}, but what was reported of it is not: {problem}")


def _reported(suite: Suite, name: str, reports: Sequence[tuple[Report, CarvedTest]]) -> ValidationDocument:
    """All that this import brings of one device; `save_validation` lays it beside what was reported of it before."""
    results: dict[str, TestResult] = {}
    for report, test in reports:
        known = results.get(test.id)
        # Of calls that are the same test, the worst.
        if known is None or SEVERITY.index(report.result["verdict"]) > SEVERITY.index(known["verdict"]):
            results[test.id] = {**report.result, **identity(test, REPORTED_DEVICE)}
    tests = [*results.values()]
    last, _ = reports[-1]
    return {
        "format": "tapml.validation/1",
        "suite": suite.id,
        "suite_name": suite.name,
        "synthetic": suite.synthetic,
        "doubts": suite.doubts,
        "created": last.created,
        "interrupted": False,
        "edited_kernels": sorted({t["kernel"] for t in tests if t["edited"]}),
        "devices": [{**last.device, "id": REPORTED_DEVICE, "name": name}],
        "run": None,
        "kernel_digests": {name: digest_now(suite, name) for name in sorted({test["kernel"] for test in tests})},
        "tests": tests,
        "summary": {**counts(tests), "seconds": 0.0, "devices": {}},
        "earlier": {},
        "not_run": {},
    }
