"""Exported tests back into suites: one of its own, or beside the tests of another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tapml.errors import InputError
from tapml.files import unique, why
from tapml.program.program import Program
from tapml.results.validation import TestResult, ValidationDocument, counts
from tapml.sharing.document import carved_ref, carved_tolerance
from tapml.sharing.repro import REPORTED, Repro
from tapml.suite import CarvedTest, Suite, SuiteWriter
from tapml.suite.imported import add_imported
from tapml.suite.suite import IMPORTED, write_kernel
from tapml.validation.events import now
from tapml.validation.results import identity, keep

_REPORTED = "reported"


def new_suite(repro: Repro, path: Path, *, overwrite: bool = False) -> Suite:
    """A suite that holds this one test, and what was reported of it as a result.

    Raises InputError where `path` is taken or cannot be written.
    """
    document = repro.document
    with SuiteWriter(path, overwrite=overwrite) as writer:
        for digest in repro.digests:
            writer.tensors.put_pieces(digest, repro.pieces(digest))
        write_kernel(writer.folder, document.kernel, {file.name: file.text for file in document.files})
        test = _test(repro, "n000", document.test.kernel)
        manifest = {
            "name": path.name.removesuffix(".suite"),
            "created": now(),
            "model": {**document.model.model_dump(), "kind": IMPORTED, "notes": [_origin(repro)]},
            "synthetic": document.suite.synthetic,
            "reference": document.reference.model_dump(),
            "generator": document.kernel["compiler"],
            "parameters": {},
            "arguments": [],
            "steps": [],
            "oracle": None,
            "oracle_missing": "an exported test comes without its model",
            "doubts": list(document.suite.doubts),
            "model_tolerance": None,
            "seconds": {},
        }
        suite = writer.finish(manifest, Program.of(repro.graph(test.node)), [test], {})
    _keep_report(suite, repro, test)
    return suite


def add_to_suite(repro: Repro, suite: Suite) -> str:
    """Add the test beside those of `suite`; gives its id there, the same one when it is there already.

    Its kernel keeps its name where none of that name is there, or the same one; else it gets a number. Raises
    InputError where the suite cannot be written to.
    """
    kernel = _same_kernel(repro, suite)
    if kernel is not None and (known := _same_test(repro, suite, kernel)):
        return known
    try:
        for digest in repro.digests:
            suite.tensors.put_pieces(digest, repro.pieces(digest))
        if kernel is None:
            kernel = _add_kernel(repro, suite)
        node = f"i{len(suite.imported.tests):03d}"
        test = _test(repro, node, kernel)
        source = {"test": test.id, "from": _origin(repro), "added": now()}
        add_imported(suite.folder, repro.graph(node, kernel), test, source, repro.document.suite.doubts)
    except OSError as error:
        raise InputError(f"cannot write to {suite.path}: {why(error)}") from error
    _keep_report(Suite(suite.path), repro, test)
    return test.id


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


def _same_test(repro: Repro, suite: Suite, kernel: str) -> str | None:
    digests = [tensor.digest for tensor in repro.document.tensors]
    for test in suite.tests:
        if test.kernel == kernel and [ref.digest for ref in test.refs] == digests:
            return test.id
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


def _keep_report(suite: Suite, repro: Repro, test: CarvedTest) -> None:
    """What was reported, as the latest result of a device of its own: told apart from what runs here."""
    report = repro.document.report
    if report is None:
        return
    name = report.device["name"] + REPORTED
    result: TestResult = {**report.result, **identity(test, _REPORTED)}
    earlier = [found for found in suite.results("validation") if found["devices"][0]["name"] == name]
    tests = [*(t for found in earlier for t in found["tests"] if t["id"] != test.id), result]
    document: ValidationDocument = {
        "format": "tapml.validation/1",
        "suite": suite.id,
        "suite_name": suite.name,
        "synthetic": suite.synthetic,
        "doubts": suite.doubts,
        "created": report.created,
        "interrupted": False,
        "edited_kernels": sorted({t["kernel"] for t in tests if t["edited"]}),
        "devices": [{**report.device, "id": _REPORTED, "name": name}],
        "run": None,
        "kernel_digests": {},
        "tests": tests,
        "summary": {**counts(tests), "seconds": 0.0, "devices": {}},
    }
    if problem := keep(suite, Suite.save_result, document):
        raise InputError(f"the test is in {suite.path} as {test.id}, but what was reported of it is not: {problem}")
