"""Where the operators of a captured call come from: the suite that the page's model was built from, or the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from tapml.building.kernels import compiled_kernels
from tapml.compiled.model import CompiledKernel
from tapml.errors import InputError
from tapml.expressions import ExpressionError
from tapml.files import sha256
from tapml.kernels.document import FORMAT, kernel_document
from tapml.operators.external import External
from tapml.operators.numerics import Numerics, numerics
from tapml.operators.program import OperatorProgram
from tapml.operators.read import read_document
from tapml.sharing.capture import AGAIN, Capture, CapturedCall
from tapml.strict_json import parse_json
from tapml.suite import Suite
from tapml.suite.suite import IMPORTED


@dataclass(frozen=True)
class Kernel:
    """A kernel as the page ran it. `document`: tapml.kernel/4; `texts`: WGSL by file."""

    document: dict[str, Any]
    texts: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> list[dict[str, Any]]:
        """As an exported test has them."""
        generated = {
            entry["file"]: entry.get("generated_sha256")
            for variant in self.document["variants"]
            for entry in variant["entry_points"]
        }
        return [
            {"name": name, "sha256": sha256(text), "edited": generated[name] != sha256(text), "text": text}
            for name, text in self.texts.items()
        ]

    @property
    def edited(self) -> bool:
        return any(file["edited"] for file in self.files)


class Origin:
    """Programs and weights of the model. Raises InputError where `suite` has another model than the page ran."""

    def __init__(self, capture: Capture, suite: Suite | None) -> None:
        self._capture = capture
        # One that was made of exported tests has no model of its own: tests of any may lie there.
        self._suite = suite if suite is not None and suite.manifest["model"]["kind"] != IMPORTED else None
        model = capture.document.model
        if self._suite is not None and (have := self._suite.manifest["model"]["sha256"]) != model.sha256:
            raise InputError(
                f"{capture.where} is of the model {model.title or model.name} (SHA-256 {model.sha256[:16]}...), and "
                f"{self._suite.path} has another one ({have[:16]}...): give the suite that the page's model was built "
                "from"
            )
        if self._suite is None:
            tensors = (tensor for call in capture.document.calls for tensor in call.inputs if tensor.weight)
            if any(capture.pieces(tensor.digest) is None for tensor in tensors):
                raise InputError(
                    f"{capture.where} has digests of weights, and not their bytes: give the suite of the model with "
                    "--into, or capture with `weights: true`"
                )
        self._weights = {ref.digest for ref in self._suite.parameters.values()} if self._suite else set()
        self.kernel = cache(self._kernel)
        """The kernel of a name. Raises InputError for one that the suite's model has not."""

    @property
    def name(self) -> str:
        return str(self._suite.path if self._suite else self._capture.where)

    @property
    def doubts(self) -> list[str]:
        """Why what its programs give is not to be believed."""
        return self._suite.doubts if self._suite else self._capture.document.model.doubts

    def knows(self, digest: str) -> bool:
        """Is it a weight of the suite's model? Without a suite all are taken as they are."""
        return self._suite is None or digest in self._weights

    def weight(self, digest: str) -> Iterable[bytes] | None:
        """A weight's bytes by the suite; None where it has none of this digest."""
        return self._suite.tensors.pieces(digest) if self._suite and digest in self._weights else None

    def program(self, call: CapturedCall) -> OperatorProgram | External:
        """What the operator computes at the call's sizes. Raises InputError where that is not known."""
        where, document = self._program(call.kernel)
        try:
            return read_document(document, call.kernel, where, dict(call.sizes))
        except ExpressionError as error:
            raise InputError(f"{where}: {error}; {AGAIN}") from None

    def _program(self, kernel: str) -> tuple[str, Any]:
        if self._suite is not None:
            self._suite.bundle(kernel)  # one of its model's
            where, document = self._suite.operator_document(kernel)
            return str(where), document
        where_ = f"{self._capture.where}: the program of {kernel}"
        text = self._capture.document.operators.get(kernel)
        if text is None:
            raise InputError(
                f"{where_} did not come along, for the page's server has no operators/: give the suite of the model "
                "with --into"
            )
        return where_, parse_json(text, where_, AGAIN)

    def _kernel(self, name: str) -> Kernel:
        found = next(kernel for kernel in self._capture.document.kernels if kernel.kernel == name)
        texts = self._texts(found)
        if self._suite is None:
            document = self._alone(found, texts)
            return Kernel(kernel_document(self._capture.where, document), texts)
        own = self._suite.bundle(name)
        if _signature(own) != _signature(found.model_dump(mode="json")):
            raise InputError(
                f"{self._capture.where}: {name} takes other arguments in {self._suite.path}, which is of the same "
                "model and was carved for other sizes or by other options: give the suite that the page's model was "
                "built from; where `tapml build MODEL` made that model it kept none: carve one, build of it, capture "
                "again (docs/capture.md)"
            )
        note = f"the page's model has other variants of it than {self._suite.path}"
        if not own["unsupported"]:
            wgsl, (built,) = compiled_kernels(self._suite, {name: own})
            compiled = CompiledKernel.model_validate(built)
            if _without_texts(compiled) == _without_texts(found):
                entries = [entry for variant in compiled.variants for entry in variant.entry_points]
                other = [entry.file for entry in entries if wgsl[entry.wgsl] != texts[entry.file]]
                if not other:
                    return Kernel(own, {file.name: file.text for file in self._suite.kernel_files(name)})
                note = f"the WGSL of {', '.join(dict.fromkeys(other))} is not that of {self._suite.path}"
        document = {**own, "unsupported": None, "variants": _variants(found, texts, generated=False)}
        return Kernel(kernel_document(self._capture.where, document), texts, (note,))

    def _texts(self, kernel: CompiledKernel) -> dict[str, str]:
        texts: dict[str, str] = {}
        for entry in (entry for variant in kernel.variants for entry in variant.entry_points):
            text = self._capture.document.wgsl[entry.wgsl]
            if texts.setdefault(entry.file, text) != text:
                raise InputError(f"{self._capture.where}: {kernel.kernel}: {entry.file} is two texts; {AGAIN}")
        return texts

    def _alone(self, kernel: CompiledKernel, texts: Mapping[str, str]) -> dict[str, Any]:
        """A document as far as a compiled model tells."""
        call = next(call for call in self._capture.document.calls if call.kernel == kernel.kernel)
        program = self.program(call)
        if isinstance(program, External):
            raise InputError(
                f"{self._capture.where}: {program.who} computes {kernel.kernel}, and how its outputs may differ the "
                "suite of the model knows: give it with --into"
            )
        said: Numerics = numerics(program, call.sizes)
        arguments = [found.model_dump(mode="json", exclude_none=True) for found in kernel.arguments]
        return {
            "format": FORMAT,
            "kernel": kernel.kernel,
            "compiler": {"name": "captured", "version": self._capture.document.model.tapml},
            "symbols": [symbol.model_dump(mode="json") for symbol in kernel.symbols],
            "arguments": [
                {"name": tensor.name, **argument} for tensor, argument in zip(call.operands, arguments, strict=False)
            ],
            "numerics": {**asdict(said), "builtins": list(said.builtins)},
            "variants": _variants(kernel, texts, generated=True),
            "unsupported": None,
        }


def _signature(document: Mapping[str, Any]) -> Any:
    """Symbols and types of the arguments."""
    fields = ("dtype", "shape", "encoding")
    return document["symbols"], [[found.get(key) for key in fields] for found in document["arguments"]]


def _variants(kernel: CompiledKernel, texts: Mapping[str, str], *, generated: bool) -> list[dict[str, Any]]:
    """As tapml.kernel/4 has them. `generated`: nobody knows that they were edited."""
    variants = [variant.model_dump(mode="json") for variant in kernel.variants]
    for entry in (entry for variant in variants for entry in variant["entry_points"]):
        del entry["wgsl"]
        entry["generated_sha256"] = sha256(texts[entry["file"]]) if generated else None
    return variants


def _without_texts(kernel: CompiledKernel) -> dict[str, Any]:
    found = kernel.model_dump(mode="json")
    for variant in found["variants"]:
        for entry in variant["entry_points"]:
            del entry["wgsl"]
    return found
