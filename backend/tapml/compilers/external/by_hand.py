"""Documents and WGSL from folders: they serve the operators that they are written for, whoever computes those here.

Such a document (tapml.kernel/4) is named after the operator: its type in the model's file (MatMulNBits), or the name
that the suite's kernel has (softmax). Where it has symbols, they become what the operator's shapes give them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tapml.compilers.base import Progress, described
from tapml.errors import InputError
from tapml.expressions import ExpressionError, Symbol, check_sizes, evaluate, substituted
from tapml.files import sha256
from tapml.folder import Folder
from tapml.formats import read_json
from tapml.kernels.bundle import CompiledKernel, WgslFile
from tapml.kernels.document import kernel_document
from tapml.lowering.operator import Operator
from tapml.program.program import SymbolicType
from tapml.protocol.base import MAX_WGSL_BYTES
from tapml.text import listed, meant

_MOST_BYTES = 8_000_000


class ByHand:
    """One of the compilers (tapml.compilers.base): it knows what its folders hold, and who computes the operators that
    have no program."""

    name = "external"
    version = "1"

    def __init__(self, *folders: Path) -> None:
        """Raises InputError for a document that is wrong, by its path and field."""
        self._documents: list[tuple[Folder, str, dict[str, Any]]] = []
        for path in folders:
            folder = Folder(path)
            for name in sorted(found.name for found in path.glob("*.json")):
                document = kernel_document(path / name, read_json(folder, name, most=_MOST_BYTES))
                self._documents.append((folder, name, document))

    def compile(
        self, operators: Sequence[Operator], variants: Sequence[str], progress: Progress
    ) -> dict[str, CompiledKernel]:
        """As all compilers do; what lies in the folders is the kernel, whatever `variants` are asked for.

        Raises InputError where documents are named after an operator, and none takes its tensors.
        """
        return {operator.name: kernel for operator in operators if (kernel := self._kernel(operator)) is not None}

    def check(self, operators: Sequence[Operator], variants: Sequence[str]) -> None:
        """As `compile`, of which nothing takes time. Raises InputError also for a document that is for none of the
        operators, where nothing else in its folder is for one, or where it is called nearly as one: folders may hold
        kernels of other models."""
        self.compile(operators, variants, lambda done, total: None)
        known = dict.fromkeys(name for operator in operators for name in _names(operator))
        of_model = {folder.path for folder, _, document in self._documents if document["kernel"] in known}
        for folder, file, document in self._documents:
            if (name := document["kernel"]) in known:
                continue
            like = meant(name, known)
            if like or folder.path not in of_model:
                raise InputError(
                    f"{folder.path / file}: kernel: the model has no operator {name!r}{like or ':'} "
                    f"it has {listed([*known], 8)}"
                )

    def _kernel(self, operator: Operator) -> CompiledKernel | None:
        who = operator.external
        known = [found for found in self._documents if found[2]["kernel"] in _names(operator)]
        for folder, _, document in known:
            values = _values(document, operator)
            if values is not None:
                return self._filled(operator, folder, document, values)
        if known:
            folder, name, document = known[0]
            raise InputError(
                f"{folder.path / name}: arguments: it takes {_listed(document['arguments'])}, and the model gives "
                f"{operator.name} {_listed(operator.arguments)}: write one for these"
            )
        if who is None:
            return None
        why = f"computed by {who.who} only: there is no WGSL for it unless somebody writes it (tapml carve --external)"
        return CompiledKernel({**described(self, operator, reference=who.who), "unsupported": why}, [])

    def _filled(
        self, operator: Operator, folder: Folder, document: Mapping[str, Any], values: Mapping[str, Any]
    ) -> CompiledKernel:
        """The document with its symbols replaced, and its files named after the kernel."""
        files: list[WgslFile] = []

        def entry_point(found: Mapping[str, Any]) -> dict[str, Any]:
            text = folder.read_text(found["file"], MAX_WGSL_BYTES)
            name = f"{operator.name}.{len(files) + 1}.wgsl" if files else f"{operator.name}.wgsl"
            files.append(WgslFile(name, text))
            return {**found, "file": name, "generated_sha256": sha256(text)}

        variants = [
            {
                **variant,
                "entry_points": [entry_point(found) for found in variant["entry_points"]],
                "launches": [_launch(found, values) for found in variant["launches"]],
                "temporaries": [substituted(found, values) for found in variant["temporaries"]],
                "textures": [
                    {**found, "size": [substituted(extent, values) for extent in found["size"]]}
                    for found in variant.get("textures", [])
                ],
            }
            for variant in document["variants"]
        ]
        reference = {"reference": operator.external.who} if operator.external else {}
        said = ("encoding", "overwrites", "grows")
        stored = [{key: found[key] for key in said if found.get(key) is not None} for found in document["arguments"]]
        filled = {
            **described(self, operator, **reference),
            "arguments": [{**given, **own} for given, own in zip(operator.arguments, stored, strict=True)],
            "numerics": document["numerics"],
            "variants": variants,
        }
        return CompiledKernel(filled, files)


EXTERNAL = ByHand()
"""Without folders: it says who computes what has no program."""


def _names(operator: Operator) -> list[str]:
    """What a document for it may be called after: its name in a suite, and its type where it has no program."""
    return [operator.name, *([operator.external.name] if operator.external else [])]


def _values(document: Mapping[str, Any], operator: Operator) -> dict[str, Any] | None:
    """What the document's symbols are in the operator's sizes; None where it is for other tensors."""
    takes, given = document["arguments"], operator.arguments
    values: dict[str, Any] = {}
    if [(found["dtype"], found["role"], len(found["shape"])) for found in takes] != [
        (found["dtype"], found["role"], len(found["shape"])) for found in given
    ]:
        return None
    axes = [pair for a, b in zip(takes, given, strict=True) for pair in zip(a["shape"], b["shape"], strict=True)]
    # A symbol gets its value where it stands alone, and counts wherever it stands.
    for wanted, size in axes:
        if isinstance(wanted, str):
            values.setdefault(wanted, size)
    try:
        if any(substituted(wanted, values) != size for wanted, size in axes):
            return None
        for end in ("minimum", "maximum"):
            sizes = {symbol.name: getattr(symbol, end) for symbol in operator.symbols}
            check_sizes(
                [Symbol.model_validate(symbol) for symbol in document["symbols"]],
                {name: evaluate(value, sizes) for name, value in values.items()},
            )
    except ExpressionError:
        return None
    return values


def _launch(launch: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    uniforms = [{**found, "value": substituted(found["value"], values)} for found in launch["uniforms"]]
    return {**launch, "grid": [substituted(found, values) for found in launch["grid"]], "uniforms": uniforms}


def _listed(arguments: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{found['role']} {SymbolicType(tuple(found['shape']), found['dtype'])}" for found in arguments)
