"""A captured call held against this machine: each operator's outputs against the reference's, within derived bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any

import numpy as np

from tapml.errors import InputError
from tapml.expressions import ExpressionError
from tapml.files import sha256
from tapml.kernels.document import argument_types
from tapml.lowering.lower import Model
from tapml.operators.external import External
from tapml.operators.numerics import stated
from tapml.operators.program import OperatorProgram
from tapml.platforms.expected import Expected, ExpectedOutputs, Operator
from tapml.platforms.reference import Reference
from tapml.program import Graph, TensorType
from tapml.protocol.methods import Verdict
from tapml.results.validation import Measured
from tapml.sharing.capture import AGAIN, Capture, CapturedCall, CapturedTensor
from tapml.sharing.captured_kernel import Origin
from tapml.sharing.captured_outputs import Passing, measured_outputs, share_of, suspicious
from tapml.sharing.document import FORMAT, carved_ref, checked
from tapml.sharing.repro import Repro, of_pieces
from tapml.suite import Suite
from tapml.suite.ties import accepted_ties

_LONGEST = 2000
_SIMULATED = 2
"""Calls of a kernel that are held against simulated rounding: those that use most of their bounds."""

Progress = Callable[[int, int], None]
"""progress(done, total)"""


@dataclass(frozen=True)
class CapturedVerdict:
    """What one captured call of an operator came to. `message` is empty where it passed; `suspicious` where nothing is;
    `notes` say what else is to be known. `repro`: it as a test; None where it could not be computed here."""

    call: CapturedCall
    verdict: Verdict
    message: str = ""
    suspicious: str = ""
    notes: tuple[str, ...] = ()
    measured: Measured | None = None
    repro: Repro | None = None


def judge(
    capture: Capture, suite: Suite | None, progress: Progress = lambda done, total: None
) -> list[CapturedVerdict]:
    """Compute each captured call here, by the programs of `suite`'s model, or where there is no suite by those that the
    page sent along, and compare.

    Raises InputError where the suite's model is another one, a kernel is none of it, or the file is damaged.
    """
    origin = Origin(capture, suite)
    return _Judge(capture, origin).all(progress)


@dataclass
class _Judge:
    capture: Capture
    origin: Origin
    passing: dict[str, list[Passing]] = field(default_factory=dict)

    def all(self, progress: Progress) -> list[CapturedVerdict]:
        calls = self.capture.document.calls
        types = [self._types(call) for call in calls]
        self.programs: dict[tuple[str, frozenset[tuple[str, int]]], OperatorProgram | External] = {}
        for call in calls:
            if (key := _key(call)) not in self.programs:
                self.programs[key] = self.origin.program(call)
        models = [
            Model(Graph({}, [], (), (), sizes=dict(sizes)), [], {kernel: program})
            for (kernel, sizes), program in self.programs.items()
        ]
        self.reference = Reference(*models)
        self.outputs: dict[tuple[str, frozenset[tuple[str, int]]], ExpectedOutputs] = {}
        found = []
        for number, (call, kinds) in enumerate(zip(calls, types, strict=True)):
            found.append(self._one(number, call, kinds))
            progress(number + 1, len(calls))
        for kernel in self.passing.values():
            for one in kernel:
                found[one.number] = replace(found[one.number], suspicious=suspicious(one))
        return found

    def _types(self, call: CapturedCall) -> list[TensorType]:
        """Of the operands. Raises InputError unless the kernel takes them at the call's sizes."""
        types = [carved_ref(tensor).type for tensor in call.operands]
        try:
            takes = argument_types(self.origin.kernel(call.kernel).document, call.sizes)
        except ExpressionError as error:
            raise InputError(f"{self.capture.where}: {call.name}: {error}; {AGAIN}") from None
        if takes != types:
            given, wanted = (", ".join(map(str, found)) for found in (types, takes))
            raise InputError(f"{self.capture.where}: {call.name} has {given}, and the kernel takes {wanted}; {AGAIN}")
        return types

    def _one(self, number: int, call: CapturedCall, types: Sequence[TensorType]) -> CapturedVerdict:
        notes = self.origin.kernel(call.kernel).notes
        for tensor in call.inputs:
            if tensor.weight and not self.origin.knows(tensor.digest):
                what = f"{tensor.name}, a weight, has other bytes there than in {self.origin.name}"
                if self.capture.pieces(tensor.digest) is None:
                    return CapturedVerdict(
                        call, "error", f"{what}: capture it with its weights (`weights: true`)", notes=notes
                    )
                notes = (*notes, what)
        inputs = [self._array(tensor) for tensor in call.inputs]
        got = [self._array(tensor) for tensor in call.outputs]
        outputs = self._outputs(call, types[len(inputs) :])
        expected = outputs.of(inputs)
        kernel = self.origin.kernel(call.kernel)

        def compared(expected: Sequence[Expected]) -> Measured:
            ties = [_ties(outputs, found, given) for found, given in zip(expected, got, strict=True)]
            return measured_outputs(got, expected, ties, call.variant, kernel.edited)

        measured = compared(expected)
        if measured["verdict"] == "fail" and (promised := outputs.without_strays(inputs, expected)):
            expected, measured = promised, compared(promised)
            notes = (*notes, "its inputs have an index that is outside of a tensor: look at where they come from")
        program = self.programs[_key(call)]
        if measured["verdict"] == "pass" and isinstance(program, OperatorProgram):
            share = max(share_of(given, found) for given, found in zip(got, expected, strict=True))
            kept = self.passing.setdefault(call.kernel, [])
            kept.append(Passing(share, number, program, inputs, expected, got))
            kept.sort(key=lambda one: -one.share)
            del kept[_SIMULATED:]
        repro = self._repro(number, call, expected, dict(outputs.tensors), measured)
        return CapturedVerdict(call, measured["verdict"], measured["message"], "", notes, measured, repro)

    def _outputs(self, call: CapturedCall, types: Sequence[TensorType]) -> ExpectedOutputs:
        key = _key(call)
        if key not in self.outputs:
            kernel = self.origin.kernel(call.kernel)
            said = stated(kernel.document)
            operator = Operator(call.kernel, self.programs[key], types, call.sizes, list(kernel.texts.values()), said)
            self.outputs[key] = ExpectedOutputs(self.reference, operator)
        return self.outputs[key]

    def _array(self, tensor: CapturedTensor) -> np.ndarray:
        pieces = self._pieces(tensor.digest)
        if pieces is None:
            raise InputError(f"{self.capture.where} lacks the bytes of {tensor.name[:100]}; {AGAIN}")
        data = b"".join(pieces)
        if sha256(data) != tensor.digest:
            what = f"the bytes of {tensor.name[:100]} ({tensor.digest[:16]}...) were damaged on their way"
            raise InputError(f"{self.capture.where}: {what}: get the file again, as a file and not as text")
        return carved_ref(tensor).type.decoded(data)

    def _pieces(self, digest: str) -> Iterable[bytes] | None:
        found = self.capture.pieces(digest)
        return found if found is not None else self.origin.weight(digest)

    def _repro(
        self,
        number: int,
        call: CapturedCall,
        expected: Sequence[Expected],
        arrays: Mapping[str, np.ndarray],
        measured: Measured,
    ) -> Repro:
        """The call as a test, with what its device gave as the report."""
        document, kernel = self.capture.document, self.origin.kernel(call.kernel)
        tensors = {digest: array.tobytes() for digest, array in arrays.items()}
        outputs = []
        for tensor, found in zip(call.outputs, expected, strict=True):
            data = carved_ref(tensor).type.encoded(found.value).tobytes()
            tensors[sha256(data)] = data
            tolerance = {"bound": None, "ties": None, **found.tolerance.to_json()}
            outputs.append({**_entry(tensor), "digest": sha256(data), "tolerance": tolerance})
        model = document.model
        described: dict[str, Any] = {
            "format": FORMAT,
            "created": document.created,
            "tapml": version("tapml"),
            "suite": {
                "id": (model.suite or "")[:16],
                "name": f"{model.name}, captured",
                "synthetic": False,
                "doubts": list(self.origin.doubts),
            },
            "model": {
                "title": (model.title or model.name)[:_LONGEST],
                "source": model.source[:_LONGEST],
                "sha256": model.sha256[:_LONGEST],
            },
            "reference": {"platform": self.reference.platform, "device": self.reference.description},
            "test": {
                "id": f"{call.node or call.kernel}.call{number}"[:500],
                "node": call.node or call.kernel,
                "kernel": call.kernel,
                "step": 0,
                "sizes": dict(call.sizes),
            },
            "inputs": [_entry(tensor) for tensor in call.inputs],
            "outputs": outputs,
            "kernel": kernel.document,
            "files": kernel.files,
            "report": {"created": document.created, "device": document.device, "result": measured},
            "others": [],
        }
        where = f"{self.capture.where}: {call.name}"

        def find(digest: str) -> Iterable[bytes] | None:
            return [tensors[digest]] if digest in tensors else self._pieces(digest)

        return of_pieces(where, checked(where, described), find)


def _ties(outputs: ExpectedOutputs, found: Expected, got: np.ndarray) -> np.ndarray:
    """Elements that differ and are right, as the operator may choose among equals."""
    if found.tolerance.ties is None:
        return np.zeros(found.value.shape, bool)
    return accepted_ties(outputs.tensors[found.tolerance.ties.digest], got, found.value)


def _key(call: CapturedCall) -> tuple[str, frozenset[tuple[str, int]]]:
    return call.kernel, frozenset(call.sizes.items())


def _entry(tensor: CapturedTensor) -> dict[str, Any]:
    return tensor.model_dump(exclude={"weight"})
