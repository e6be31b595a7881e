"""`tapml build`: a suite's model as a compiled model that a page loads (docs/build.md, docs/model-format.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tapml.building.functions import CompiledFunction, Parts, compiled_function, state_document, used_parameters
from tapml.building.growing import Grown, grown
from tapml.building.indices import Range, index_ranges, within
from tapml.building.kernels import compiled_kernels, kernel_documents
from tapml.building.side_by_side import side_by_side
from tapml.building.validated import validations
from tapml.building.weights import Weights, laid_out
from tapml.compiled.files import (
    DOCUMENT,
    CompiledFiles,
    document_bytes,
    is_compiled,
    read_model,
    single_pieces,
)
from tapml.compiled.model import FORMAT, CompiledModel
from tapml.compiled.stored import Stored, stored_as
from tapml.compiled.verify import verify
from tapml.errors import InputError
from tapml.expressions import Symbol
from tapml.files import cannot_write, json_bytes, sha256
from tapml.folder import Folder
from tapml.leftovers import put_in_place, sweep_beside, temporary_folder
from tapml.operators.choice import is_choice
from tapml.operators.of_suite import read_operator
from tapml.program.generation import INPUTS, POSITIONS, Generation
from tapml.suite import Suite, TensorRef
from tapml.text import listed

Progress = Callable[[str, int, int], None]
"""progress(phase, done, total)"""

_TOKENIZER = "tokenizer.json"
_MOST_OPERATOR_BYTES = 8_000_000
_FIXED = "there is none, for it was carved at one size: give `tapml carve` or `tapml build` inputs of several sizes"


@dataclass(frozen=True)
class Built:
    """A compiled model that was written."""

    path: Path
    model: CompiledModel
    bytes: int
    """Of all its files."""


def build(
    suite: Suite,
    output: Path,
    *,
    name: str | None = None,
    single: bool = False,
    ranges: Mapping[str, tuple[int, int]] = MappingProxyType({}),
    overwrite: bool = False,
    keep_disagreeing: bool = False,
    progress: Progress = lambda phase, done, total: None,
) -> Built:
    """Write the suite's model as a folder, or with `single` as one file, under the suite's name or another. The same
    suite gives the same bytes. `ranges`: of symbols that are to take fewer sizes than in the suite, least and most.

    What is written is read and verified before it is put in its place. Raises InputError where the suite has no model,
    is damaged or in doubt (unless `keep_disagreeing`), where a kernel has no WGSL, for what no host program can be made
    of, and where nothing can be written.
    """
    check_output(output, overwrite)
    suite.require_model()
    symbols = narrowed(suite.name, suite.program.symbols, ranges)
    if suite.doubts and not keep_disagreeing:
        raise InputError(
            f"DO NOT TRUST {suite.path}: {'; '.join(suite.doubts)}. Nothing is built of it; to build it all the same: "
            "--keep-disagreeing"
        )
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        sweep_beside(output)
        with temporary_folder(output) as folder:
            return _Writing(suite, name or suite.name, symbols, folder, progress).built(output, single=single)
    except OSError as error:
        raise InputError(f"{cannot_write(output, error)} with -o") from error


def narrowed(model: str, symbols: Sequence[Symbol], ranges: Mapping[str, tuple[int, int]]) -> list[Symbol]:
    """The symbols of a model with these ranges. Raises InputError for one that it has not, or not so far."""
    for name, (least, most) in ranges.items():
        known = next((symbol for symbol in symbols if symbol.name == name), None)
        if known is None:
            raise InputError(
                f"{model} has no size {name[:100]!r} that may differ: "
                + (f"it has {listed([symbol.name for symbol in symbols], 8)}" if symbols else _FIXED)
            )
        if not known.minimum <= least <= most <= known.maximum:
            raise InputError(
                f"{name} is from {known.minimum} to {known.maximum} in {model}: give a range inside that, which "
                f"{least} to {most} is not"
            )
    found = {name: {"minimum": least, "maximum": most} for name, (least, most) in ranges.items()}
    return [symbol.model_copy(update=found.get(symbol.name, {})) for symbol in symbols]


def check_output(path: Path, overwrite: bool) -> None:
    """Raise InputError where `path` is taken by something else than a compiled model, or by one and not `overwrite`."""
    if not path.exists() and not path.is_symlink():
        return
    if not is_compiled(path):
        raise InputError(f"{path} exists and is no compiled model: choose another name with -o")
    if not overwrite:
        raise InputError(f"{path} exists: choose another name with -o, or replace it with --force")


class _Writing:
    """A compiled model in a temporary folder."""

    def __init__(self, suite: Suite, name: str, symbols: Sequence[Symbol], folder: Path, progress: Progress) -> None:
        self._suite = suite
        self._name = name
        self._symbols = symbols
        self._path = folder
        self._folder = Folder(folder)
        self._progress = progress

    def built(self, output: Path, *, single: bool) -> Built:
        model = self._model()
        if single:
            # All of it again, beside the parts that it is made of.
            self._folder.write_pieces(output.name, single_pieces(model, self._part))
            written = self._path / output.name
        else:
            self._folder.write(DOCUMENT, document_bytes(model))
            written = self._path
        size = self._checked(written).nbytes
        put_in_place(written, output)
        return Built(output, model, size)

    def _checked(self, written: Path) -> CompiledFiles:
        """What was written is a compiled model that may run, with all of its parts."""
        files = CompiledFiles(written)
        verify(files.model)
        shards = files.model.weights.shards
        for number, shard in enumerate(shards):
            files.shard(shard)
            self._progress("verifying", number + 1, len(shards))
        for attachment in files.model.attachments:
            files.attachment(attachment.name)
        return files

    def _part(self, name: str) -> bytes:
        return self._folder.read(name, 2**28)

    def _model(self) -> CompiledModel:
        suite, program = self._suite, self._suite.program
        documents = kernel_documents(suite)
        used = {value for function in program.functions.values() for value in used_parameters(function)}
        parameters = {value: ref for value, ref in suite.parameters.items() if value in used}
        if missing := used - parameters.keys():
            raise InputError(f"{suite.path} has no tensor for parameter {min(missing)}: carve the model again")
        initial = [self._initial(state.initial, state) for state in program.states if state.initial is not None]
        held = (*parameters.values(), *initial)
        suite.verify(held)
        weights = laid_out([(ref.digest, ref.type.nbytes) for ref in held], stored=self._stored(held))
        digests = {value: ref.digest for value, ref in parameters.items()}
        programs = {name: read_operator(suite, name, suite.model_graph) for name in documents}
        choosing = {name for name, found in programs.items() if is_choice(found)}
        generation = self._generation()
        growing = grown(program, documents, self._symbols, generation.most_places if generation else None)
        beside = side_by_side(
            growing.functions, growing.documents, lambda name: [f.text for f in suite.kernel_files(name)], choosing
        )
        symbols = [*self._symbols, *([growing.symbol] if growing.symbol else [])]
        states = [state_document(state, weights, growing.name) for state in growing.states]
        parts = Parts(beside.documents, symbols, growing.states, weights, digests, choosing)
        functions = {
            name: compiled_function(
                function,
                suite.output_names(name),
                parts,
                suite.limits(name),
                partial(self._ranges, name, choosing),
                beside.nodes[name],
            )
            for name, function in beside.functions.items()
        }
        wgsl, kernels = compiled_kernels(suite, beside.documents, beside.texts)
        attachments = self._attachments(documents)
        document = {
            "format": FORMAT,
            "name": self._name,
            "title": suite.manifest["model"].get("title") or self._name,
            "provenance": self._provenance(documents, wgsl),
            "symbols": [symbol.model_dump() for symbol in symbols],
            "weights": {"buffers": list(weights.buffers), "shards": self._shards(weights)},
            "states": states,
            "wgsl": wgsl,
            "kernels": kernels,
            "functions": {name: found.document for name, found in functions.items()},
            "validation": validations(suite, documents, beside.made),
            "memory": {name: _memory(found) for name, found in functions.items()},
            "generation": generation and _generating(generation, growing),
            "tokenizer": {"file": _TOKENIZER, "kind": "huggingface"} if _TOKENIZER in attachments else None,
            "attachments": [
                {"name": name, "sha256": sha256(content), "bytes": len(content)}
                for name, content in attachments.items()
            ],
        }
        return read_model(suite.path, json_bytes(document))

    def _ranges(self, name: str, choosing: Collection[str]) -> dict[str, Range]:
        """Of inputs that are indices. Where a token stands is one of its places in the states, too, which are written
        there whether or not a table is read."""
        function, generation = self._suite.program.functions[name], self._suite.generation
        found = index_ranges(function, partial(_operator_at, self._suite, name), _tried(self._symbols), choosing)
        if generation is not None and name in (generation.prefill, generation.decode, generation.verify):
            blocks = generation.blocks
            most = {POSITIONS: generation.capacity, **({blocks.input: blocks.count} if blocks else {})}
            for value in function.inputs:
                if (count := most.get(function.values[value].name or "")) is not None:
                    found[value] = within(found.get(value), (0, count - 1))
        return found

    def _generation(self) -> Generation | None:
        """That of the suite, of calls with as many tokens as the model takes."""
        found = self._suite.generation
        if found is None:
            return None
        prefill = self._suite.program.functions[found.prefill]
        tokens = next(v.type.shape[-1] for v in prefill.values.values() if v.kind == "input" and v.name == INPUTS[0])
        symbol = next((symbol for symbol in self._symbols if symbol.name == tokens), None)
        if symbol is None:
            return found
        if symbol.minimum > 1:
            raise InputError(
                f"{self._name} generates token by token, and {tokens} is to be {symbol.minimum} or more: give a "
                f"--range {tokens}=1:{symbol.maximum}"
            )
        return found.model_copy(update={"chunk": min(found.chunk, symbol.maximum)})

    def _stored(self, weights: Sequence[TensorRef]) -> dict[str, Stored]:
        """By digest, how those lie in shards that 16 bits hold exactly."""
        digests = {ref.digest for ref in weights if ref.dtype == "float32" and ref.encoding is None}
        found = {digest: stored_as(self._suite.tensors.pieces(digest)) for digest in sorted(digests)}
        return {digest: kind for digest, kind in found.items() if kind is not None}

    def _initial(self, digest: str, state: Any) -> TensorRef:
        found = state.type.at({}, f"state {state.name}")
        return TensorRef(digest, found.dtype, found.shape, found.encoding)

    def _shards(self, weights: Weights) -> list[dict[str, Any]]:
        """Written, each once."""
        shards = []
        total = max(1, sum(weights.buffers))
        for shard, content in weights.shards(self._suite.tensors.pieces):
            name = f"weights/{shard.sha256}.bin"
            if self._folder.size(name) is None:
                self._folder.write(name, content)
            shards.append(shard.to_json())
            end = shard.offset + shard.bytes * (1 if shard.stored is None else 2)
            self._progress("weights", sum(weights.buffers[: shard.buffer]) + end, total)
        return shards

    def _attachments(self, documents: Mapping[str, Any]) -> dict[str, bytes]:
        """Written: the tokenizer, and the operators' programs, which this machine runs."""
        suite = self._suite
        found: dict[str, bytes] = {}
        if (tokenizer := suite.tokenizer) is not None:
            found[_TOKENIZER] = tokenizer
        for name in documents:
            found[f"operators/{name}.json"] = suite.folder.read(f"model/operators/{name}.json", _MOST_OPERATOR_BYTES)
        for name, content in found.items():
            self._folder.write(name, content)
        return found

    def _provenance(self, documents: Mapping[str, Mapping[str, Any]], wgsl: list[str]) -> dict[str, Any]:
        suite = self._suite
        model = suite.manifest["model"]
        compilers = {(found["name"], found["version"]) for found in (d["compiler"] for d in documents.values())}
        return {
            "tapml": version("tapml"),
            "model": {
                "kind": model["kind"],
                "source": model["source"],
                "sha256": model["sha256"],
                "title": model.get("title"),
                "notes": list(model.get("notes", [])),
            },
            "compilers": [{"name": name, "version": number} for name, number in sorted(compilers)],
            "suite": sha256(json_bytes([suite.id, suite.kernels_id, wgsl])),
            "doubts": suite.doubts,
            "edited": [name for name in documents if suite.kernel(name).edited],
        }


def _operator_at(suite: Suite, function: str, kernel: str, sizes: Mapping[str, int]) -> object:
    return read_operator(suite, kernel, suite.program.at(sizes, function))


def _tried(symbols: Sequence[Symbol]) -> list[Mapping[str, int]]:
    """Sizes of calls, at which no axis that can be longer is empty."""
    ends = [(max(found.minimum, min(1, found.maximum)), found.maximum) for found in symbols]
    between = [(least + most) // 2 for least, most in ends]
    each = ([least for least, _ in ends], between, [most for _, most in ends])
    return [dict(zip((found.name for found in symbols), sizes, strict=True)) for sizes in each[: 3 if symbols else 1]]


def _generating(found: Generation, growing: Grown) -> dict[str, Any]:
    return {**found.model_dump(), "places": growing.name}


def _memory(function: CompiledFunction) -> dict[str, Any]:
    plan = function.plan
    return {"strategy": plan.strategy, "naive": plan.naive, "planned": plan.bytes, "lower_bound": plan.lower_bound}
