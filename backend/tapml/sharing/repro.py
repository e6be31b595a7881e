"""An exported test in memory: its document, and its tensors by digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tapml.compare.elements import bound_of, tied
from tapml.devices.messages import digest_now, validations_now
from tapml.errors import InputError
from tapml.program import Graph, Node, NodeKind, Value, ValueKind
from tapml.protocol.base import TensorRef
from tapml.results.validation import ValidationDocument
from tapml.results.verdicts import SEVERITY
from tapml.sharing.document import FORMAT, ReproDocument, carved_ref, checked, nbytes
from tapml.suite import CarvedTest, Suite
from tapml.text import listed
from tapml.validation.events import now


@dataclass(frozen=True)
class Repro:
    """One carved test by itself. `pieces` gives a tensor's bytes by digest, checked, piece by piece: what was read from
    a file stays there. Raises InputError where that file has changed since.
    """

    document: ReproDocument
    pieces: Callable[[str], Iterable[bytes]]

    def read(self, digest: str) -> bytes:
        """A tensor's bytes, whole."""
        return b"".join(self.pieces(digest))

    @cached_property
    def inputs(self) -> list[np.ndarray]:
        """Arrays as carved, in the order of the kernel's arguments."""
        return [self._array(tensor) for tensor in self.document.inputs]

    @cached_property
    def expected(self) -> list[np.ndarray]:
        """The reference's outputs."""
        return [self._array(tensor) for tensor in self.document.outputs]

    @cached_property
    def bounds(self) -> list[np.ndarray]:
        """What each element of each output may differ by, in float64; infinite where WGSL promises nothing."""
        pairs = zip(self.document.outputs, self.expected, strict=True)
        return [bound_of(output.tolerance, expected, self._array) for output, expected in pairs]

    def tied(self, number: int, got: np.ndarray) -> np.ndarray:
        """A mask: elements of output `number` that differ and are right, as the operator may choose among equals."""
        return tied(self.document.outputs[number].tolerance, got, self.expected[number], self._array)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All tensors by the names that files give them."""
        return {name: self._array(tensor) for name, tensor in self.document.named_tensors.items()}

    @property
    def digests(self) -> list[str]:
        """Of all tensors, each once."""
        return list(dict.fromkeys(tensor.digest for tensor in self.document.tensors))

    def graph(self, node: str = "n000", kernel: str | None = None) -> Graph:
        """The call as a graph of one node; `kernel`: under another name."""
        document = self.document
        values = []
        for role, tensors in (("in", document.inputs), ("out", document.outputs)):
            kind = ValueKind.INPUT if role == "in" else ValueKind.INTERMEDIATE
            for number, tensor in enumerate(tensors):
                values.append(Value(f"{node}.{role}{number}", tensor.name, carved_ref(tensor).type, kind))
        names = tuple(value.id for value in values)
        count = len(document.inputs)
        call = Node(node, NodeKind.KERNEL, kernel or document.test.kernel, names[:count], names[count:])
        return Graph({value.id: value for value in values}, [call], names[:count], names[count:])

    def _array(self, tensor: TensorRef) -> np.ndarray:
        return carved_ref(tensor).type.decoded(self.read(tensor.digest))


def of_memory(where: Path | str, document: ReproDocument, tensors: Mapping[str, bytes]) -> Repro:
    """With tensors by digest. Raises InputError as `of_pieces` does."""
    return of_pieces(where, document, lambda digest: [tensors[digest]] if digest in tensors else None)


def of_pieces(where: Path | str, document: ReproDocument, find: Callable[[str], Iterable[bytes] | None]) -> Repro:
    """With the tensors that `find` gives by digest, None for one that is not there. Each is read once to see whether it
    is whole, and again whenever it is needed.

    Raises InputError for one that is missing, damaged or of another size, before more of it is read than it says.
    """
    named = {tensor.digest: tensor for tensor in document.tensors}

    def pieces(digest: str) -> Iterator[bytes]:
        tensor = named[digest]
        what = f"the tensor {tensor.name[:100]} ({digest[:16]}...)"
        try:
            found = find(digest)
            if found is None:
                raise InputError(f"{where} lacks {what}: export the test again")
            yield from _checked_pieces(found, digest, nbytes(tensor))
        except ValueError as error:
            remedy = "get the file again, as a file and not as text"
            raise InputError(f"{where}: {what} was damaged on its way ({error}): {remedy}") from error
        except OSError as error:
            raise InputError(f"{where}: {what} cannot be read: {error.strerror}") from error

    for digest in named:
        for _ in pieces(digest):
            pass
    return Repro(document, pieces)


def _checked_pieces(pieces: Iterable[bytes], digest: str, size: int) -> Iterator[bytes]:
    """The same; ValueError where they are more, fewer or others."""
    found, seen = hashlib.sha256(), 0
    for piece in pieces:
        seen += len(piece)
        if seen > size:
            raise ValueError(f"more than the {size} bytes of its dtype and shape")
        found.update(piece)
        yield piece
    if seen < size:
        raise ValueError(f"{seen} bytes instead of the {size} of its dtype and shape")
    if found.hexdigest() != digest:
        raise ValueError("other bytes than its digest says")


def of_suite(
    suite: Suite, test_id: str, device: str | None = None, left_out: Callable[[str], None] = lambda problem: None
) -> Repro:
    """A suite's test as it is now, WGSL edits included, with a device's latest result of it.

    `device`: by name, or the beginning of it ("chromium"); default: the device with the worst verdict.
    `left_out` is told of results that cannot be read, a sentence each.
    Raises InputError for an unknown test or device, and for a tensor that is missing, damaged or of a dtype WebGPU
    lacks.
    """
    test = suite.test(test_id)
    kernel = suite.bundle(test.kernel)
    node = next(node for node in suite.graph.nodes if node.id == test.node)
    names = [suite.graph.values[value].name for value in (*node.inputs, *node.outputs)]
    refs = [{"name": n, **ref.to_json()} for n, ref in zip(names, (*test.inputs, *test.outputs), strict=True)]
    suite.verify(test.refs)
    inputs, outputs = refs[: len(test.inputs)], refs[len(test.inputs) :]
    texts = {} if kernel["unsupported"] else {file.name: file for file in suite.kernel_files(test.kernel)}
    model = suite.manifest["model"]
    found = {
        "format": FORMAT,
        "created": now(),
        "tapml": version("tapml"),
        "suite": {
            "id": suite.id,
            "name": suite.name,
            "synthetic": suite.synthetic,
            "doubts": suite.doubts_of(test),
        },
        "model": {
            "title": str(model.get("title") or suite.name),
            "source": str(model["source"]),
            "sha256": str(model["sha256"]),
        },
        "reference": {key: str(suite.manifest["reference"][key]) for key in ("platform", "device")},
        "test": {"id": test.id, "node": test.node, "kernel": test.kernel, "step": test.step, "sizes": dict(test.sizes)},
        "inputs": inputs,
        "outputs": [
            {**ref, "tolerance": tolerance.to_json()} for ref, tolerance in zip(outputs, test.tolerances, strict=True)
        ],
        "kernel": kernel,
        "files": [
            {"name": file.name, "sha256": file.digest, "edited": file.edited, "text": file.text}
            for file in texts.values()
        ],
        **_reports(suite, test, device, left_out),
    }
    document = checked(f"test {test.id} of {suite.path}", found)
    return Repro(document, suite.tensors.pieces)


REPORTED = " (reported)"
"""Ends the name of a device whose results came with an imported test."""


def _reports(suite: Suite, test: CarvedTest, device: str | None, left_out: Callable[[str], None]) -> dict[str, Any]:
    """Whose result goes along, and what the other devices said: of the WGSL that goes along, never of an older one."""
    every = []
    older = []
    now_digest = digest_now(suite, test.kernel)
    documents: list[ValidationDocument]
    documents, problems = suite.read_results("validation")
    for problem in problems:
        left_out(problem)
    documents = validations_now(suite, documents)
    names = [document["devices"][0]["name"] for document in documents]
    # A name as it stands is that device, though another one's begins with it.
    begins = "" if device is None else device.lower()
    whole = device in names
    for document in documents:
        described = document["devices"][0]
        wanted = described["name"] == device if whole else described["name"].lower().startswith(begins)
        for result in document["tests"]:
            if result["id"] == test.id and document["suite"] == suite.id:
                # An imported test's report is its first owner's.
                original = {**described, "name": described["name"].removesuffix(REPORTED)}
                report: Any = {"created": document["created"], "device": original, "result": result}
                # Earlier versions did not say which text a result is of.
                if document["kernel_digests"].get(test.kernel, now_digest) == now_digest:
                    every.append((wanted, report))
                elif wanted:
                    older.append(described["name"])
    found = [report for wanted, report in every if wanted]
    if not found and device is not None and older:
        raise InputError(
            f"{suite.path}: what {listed(older, 4)} said of test {test.id} is of other WGSL: {test.kernel} was edited "
            "since; run `tapml validate` again"
        )
    if not found and device is not None:
        have = f"there are results of {', '.join(names)}" if names else "there are none yet"
        raise InputError(f"{suite.path} has no result of test {test.id} on {device}: {have}; run `tapml validate`")
    chosen = max(found, key=lambda report: SEVERITY.index(report["result"]["verdict"]), default=None)
    others = [
        {"device": report["device"]["name"], "verdict": report["result"]["verdict"], "created": report["created"]}
        for _, report in every
        if report is not chosen
    ]
    return {"report": chosen, "others": others}
