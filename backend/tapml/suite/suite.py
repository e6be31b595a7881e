"""Reading a suite's folder, and writing results and kernels into it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from tapml.errors import InputError
from tapml.expressions import ExpressionError
from tapml.files import json_bytes, meant_beside, sha256, slug
from tapml.folder import Folder, Held, Overlaid
from tapml.formats import MOST_BYTES, REMEDY, format_version, read_json
from tapml.kernels.document import DOCUMENTED, argument_types, kernel_document
from tapml.program import Graph, Node, TensorType
from tapml.program.generation import Generation, GenerationDocument
from tapml.program.program import SymbolicType
from tapml.results.base import label_of
from tapml.results.locate import LocateDocument
from tapml.results.offload import OffloadDocument
from tapml.results.validation import ValidationDocument
from tapml.suite.collecting import not_collecting
from tapml.suite.imported import FILE as IMPORTED_FILE
from tapml.suite.imported import read_imported
from tapml.suite.kernels import KernelFile, SuiteKernel, kernel_files, kernels_id
from tapml.suite.manifest import read_manifest
from tapml.suite.program_document import read_main, read_program
from tapml.suite.results import checked_result, read_results
from tapml.suite.tensors import TensorRef, TensorStore
from tapml.suite.tests import CarvedTest
from tapml.suite.tests_document import check_ids, read_tests
from tapml.text import listed, meant

FORMAT = "tapml.suite/3"
WITHOUT_PARTS = "tapml.suite/2"
"""What a suite is that has no tensor in parts (parts.py): earlier versions of tapml read it."""

TOKENIZER = "model/tokenizer.json"
"""What makes the model's inputs of texts, where the model brought one (of Hugging Face's tokenizers)."""

IMPORTED = "imported"
"""`model.kind` of a suite that was made of exported tests and has no model."""

# A file's name has at most 255 bytes on Linux and macOS, and a variant and an ending come behind the kernel's.
_LONGEST_NAME = 200

MOST_KERNEL_BYTES = 8_000_000
_MOST_PROGRAM_BYTES = 8_000_000


class Suite:
    """A suite opened for reading. Results and kernels are all that is ever written into an existing suite.

    `graphs` has that of each step, `model_graph` the calls of all of the model's functions beside each other, at the
    sizes of the first steps, and `graph` also those that were imported.
    """

    def __init__(self, path: Path, trial: Mapping[str, bytes] | None = None) -> None:
        """`trial`: bytes in the place of files of these names, such as "kernels/softmax.wgsl"; nothing is written into
        such a suite.

        Raises InputError where `path` is no suite, is damaged or was written by a newer tapml."""
        self.path = path
        self.on_trial = trial is not None
        self.folder = Folder(path) if trial is None else Overlaid(path, trial)
        """Its files: whoever reads or writes one goes through this."""
        if not path.is_dir() or not self.folder.taken("suite.json"):
            if path.exists():
                raise InputError(f"{path} is not a suite (it has no suite.json): `tapml carve` makes one of a model")
            if (path.parent / "model.json").is_file():
                raise InputError(f"{path} does not exist: a compiled model is given as its folder, {path.parent}")
            like = meant_beside(path, ".suite") or ":"
            raise InputError(f"{path} does not exist{like} make it with `tapml carve MODEL -o {path}`")
        with not_collecting():
            self._read()

    def held(self) -> Suite:
        """The same suite, of which each kernel stays what it is when it is first read: a job runs one text of it from
        beginning to end, whoever edits it meanwhile."""
        if self.on_trial:
            return self
        found = copy.copy(self)
        found.folder = Held(self.folder, "kernels")
        return found

    def _read(self) -> None:
        path = self.path
        manifest = read_json(self.folder, "suite.json")
        format_version(path / "suite.json", manifest, FORMAT, "a suite")
        self.manifest: dict[str, Any] = manifest
        self._program_file = "program.json" if self.folder.taken("program.json") else "graph.json"
        read = read_program if self._program_file == "program.json" else read_main
        self.program = read(path / self._program_file, read_json(self.folder, self._program_file))
        self.parameters, self.graphs, self.model_graph = read_manifest(path / "suite.json", manifest, self.program)
        self.imported = read_imported(self.folder)
        self.graph = self.imported.joined(self.model_graph)
        self.tensors = TensorStore(path / "tensors")
        tests = read_tests(path / "tests.json", read_json(self.folder, "tests.json"), self.graphs)
        self.tests = [*tests, *self.imported.tests]
        check_ids(path / IMPORTED_FILE, self.tests)

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def folder_name(self) -> str:
        """What its folder is called: it tells a copy from what it was copied from, which has the same name."""
        return self.path.resolve().name.removesuffix(".suite")

    @property
    def synthetic(self) -> bool:
        """Carved from made-up inputs."""
        return bool(self.manifest["synthetic"])

    @property
    def doubts(self) -> list[str]:
        """Why the reference run is not to be believed, a sentence each: what comes of such a suite says nothing. Of an
        imported test the sentence names it."""
        imported = self.imported.doubts.items()
        return [
            *self._own_doubts,
            *(f"test {test}, which was imported: {why}" for test, found in imported for why in found),
        ]

    def doubts_of(self, test: CarvedTest) -> list[str]:
        """Those that are about one test."""
        imported = any(found.id == test.id for found in self.imported.tests)
        return list(self.imported.doubts.get(test.id, ())) if imported else self._own_doubts

    @property
    def _own_doubts(self) -> list[str]:
        oracle = self.manifest["oracle"]
        found = [str(doubt) for doubt in self.manifest.get("doubts", [])]
        if oracle and not oracle["agrees"] and not found:  # one of a former tapml's
            found.append(f"the reference run disagrees with {oracle['name']}")
        return found

    @cached_property
    def id(self) -> str:
        """Digest of graph and tests: the same model carved from the same input has the same id, wherever it lies."""
        return sha256(b"".join(self.folder.read(name, MOST_BYTES) for name in (self._program_file, "tests.json")))[:16]

    @property
    def kernels(self) -> list[str]:
        return self.graph.kernels

    def test(self, test_id: str) -> CarvedTest:
        """Raises InputError for an unknown id."""
        for test in self.tests:
            if test.id == test_id:
                return test
        like = meant(test_id, (test.id for test in self.tests))
        raise InputError(f"{self.path} has no test {test_id[:200]!r}{like or ':'} `tapml show {self.path}` lists them")

    def bundle(self, kernel: str) -> dict[str, Any]:
        """`kernels/NAME.json` as tapml.kernel/4, whatever version lies there.

        Raises InputError for an unknown kernel, and for a damaged file by its path and field.
        """
        nodes = self._nodes.get(kernel)
        if nodes is None:
            like = meant(kernel, self.kernels)
            raise InputError(
                f"{self.path} has no kernel {kernel[:200]!r}{like or ';'} it has {listed(self.kernels, 8)}"
            )
        name = f"kernels/{kernel}.json"
        document = kernel_document(self.path / name, read_json(self.folder, name, most=MOST_KERNEL_BYTES))
        self._check_calls(self.path / name, kernel, nodes, document)
        return document

    @cached_property
    def _nodes(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self.graph.kernel_nodes:
            found.setdefault(node.kernel, []).append(node)
        return found

    @cached_property
    def _tests_of(self) -> dict[str, list[CarvedTest]]:
        found: dict[str, list[CarvedTest]] = {}
        for test in self.tests:
            found.setdefault(test.node, []).append(test)
        return found

    def sizes_of(self, node: str, graph: Graph) -> dict[str, int]:
        """Of the symbols of a node's kernel, at the first call that was carved of it at the sizes of `graph`."""
        steps = {number for number, found in enumerate(self.graphs) if found is graph or found.sizes == graph.sizes}
        return dict(next((test.sizes for test in self._tests_of.get(node, ()) if test.step in steps), {}))

    def _check_calls(self, path: Path, kernel: str, nodes: Sequence[Node], document: Mapping[str, Any]) -> None:
        """Raise InputError unless the kernel is this one and takes what its nodes give."""
        if document["kernel"] != kernel:
            raise InputError(f"{path}: kernel: it describes {document['kernel']!r}{DOCUMENTED}")
        fixed = None if document["symbols"] else argument_types(document, {})
        # A deep model calls one kernel a hundred times, at the same few sizes.
        known: dict[tuple[tuple[str, int], ...], list[TensorType]] = {}
        for node in nodes:
            # Tests were held against the graphs of their steps.
            given = [([ref.type for ref in (*t.inputs, *t.outputs)], t.sizes) for t in self._tests_of.get(node.id, ())]
            if not given and fixed is not None:
                given = [([self.graph.values[value].type for value in (*node.inputs, *node.outputs)], {})]
            for types, sizes in given:
                at = (*sorted(sizes.items()),)
                try:
                    takes = known.get(at) or (argument_types(document, sizes) if fixed is None or sizes else fixed)
                except ExpressionError as error:
                    raise InputError(f"{path}: a call of node {node.id}: {error}{DOCUMENTED}") from None
                known[at] = takes
                # How a kernel that there is not would take them nobody knows.
                if takes != ([found.logical for found in types] if document["unsupported"] else types):
                    text = ", ".join(map(str, types))
                    raise InputError(f"{path}: arguments: node {node.id} calls it with {text}{DOCUMENTED}")

    def kernel_files(self, kernel: str) -> list[KernelFile]:
        """The WGSL of all entry points of all variants, in the bundle's order, as it lies in the folder now."""
        return self.kernel(kernel).files

    def kernel(self, name: str) -> SuiteKernel:
        """Its document and its WGSL. Raises InputError as `bundle`, and for a text that is not there."""
        bundle = self.bundle(name)
        return SuiteKernel(bundle, kernel_files(self.folder, bundle))

    @property
    def edited_kernels(self) -> list[str]:
        """Kernels that are others than were generated: a WGSL file, or how it is launched; or were written by hand."""
        return [name for name in self.kernels if self.kernel(name).edited]

    @property
    def kernels_id(self) -> str:
        """Digest of all kernels' WGSL as it lies in the folder now: another one after an edit."""
        return kernels_id({name: self.kernel_files(name) for name in self.kernels})

    def require_model(self) -> None:
        """Raises InputError for a suite that was made of exported tests."""
        if self.manifest["model"]["kind"] == IMPORTED:
            raise InputError(f"{self.path} holds imported tests and no model: to offload, carve the model")

    @property
    def model_arguments(self) -> list[str]:
        """Value ids of the arguments of the model's functions, in order: their inputs, then all parameters.

        Raises InputError where the manifest has others.
        """
        self.require_model()
        graph, arguments = self.model_graph, [*self.manifest["arguments"]]
        expected = {*graph.inputs, *(value.id for value in graph.parameters)}
        inputs = arguments[: len(graph.inputs)]
        if len(arguments) != len(expected) or {*arguments} != expected or inputs != [*graph.inputs]:
            raise InputError(f"{self.path / 'suite.json'}: arguments: others than the graph has{REMEDY}")
        return arguments

    def operator_document(self, name: str) -> tuple[Path, Any]:
        """The program of one of the model's operators (tapml.operator/2) as it lies in the suite, and where.

        Raises InputError where there is none: also for a suite that an earlier tapml carved, which wrote programs as
        text that TVM would evaluate.
        """
        self.require_model()
        place = f"model/operators/{name}.json"
        if not self.folder.taken("model/operators") and self.folder.taken("model/module.tvmscript"):
            raise InputError(
                f"{self.path} was carved by an earlier tapml, which wrote the model as TVMScript; that is code, and is "
                "not read any more: carve the model again"
            )
        return self.path / place, read_json(self.folder, place, most=_MOST_PROGRAM_BYTES)

    @property
    def tokenizer(self) -> bytes | None:
        """The model's tokenizer.json as it lies there. Raises InputError for what is no file of the suite's."""
        return self.folder.read(TOKENIZER, MOST_BYTES) if self.folder.taken(TOKENIZER) else None

    def arguments_of(self, graph: Graph) -> list[str]:
        """Those of the function that this is the graph of."""
        own = {*graph.inputs, *(value.id for value in graph.parameters)}
        return [value for value in self.model_arguments if value in own]

    @property
    def step_functions(self) -> list[str]:
        """The name of the function that each step is a call of."""
        return [self.program.function_name(step.get("function")) for step in self.manifest["steps"]]

    def output_names(self, function: str) -> list[str]:
        """The model's own names of a function's outputs; made of their places where the suite is of a former version,
        or has one twice."""
        found = iter([str(name) for name in self.manifest.get("outputs", [])])
        names = {name: [*islice(found, len(of.outputs))] for name, of in self.program.functions.items()}[function]
        count = len(self.program.functions[function].outputs)
        return names if len(names) == count == len(set(names)) else [f"output{place}" for place in range(count)]

    @property
    def generation(self) -> Generation | None:
        """How tokens are generated with the model; None where it is no language model."""
        found = self.manifest.get("generation")
        return None if found is None else GenerationDocument.model_validate(found)

    def limits(self, function: str) -> dict[int, str]:
        """Places among a function's outputs of those that are not 0 where a call asks for more than the model can do,
        with what is wrong then. Raises InputError where such an output is not one int32."""
        found = {}
        names, of = self.output_names(function), self.program.functions[function]
        for name, cause in self.manifest.get("limits", {}).items():
            value = of.outputs[names.index(name)] if name in names else None
            if value is None or of.values[value].type != SymbolicType((1,), "int32"):
                raise InputError(f"{self.path / 'suite.json'}: limits.{name}: no output that is one int32{REMEDY}")
            found[names.index(name)] = str(cause)
        return found

    def refs(self) -> Iterator[TensorRef]:
        """Every tensor the suite refers to, as often as it does."""
        yield from self.parameters.values()
        for test in self.tests:
            yield from test.refs
        for step in self.manifest["steps"]:
            yield from (TensorRef.from_json(ref) for ref in (*step["inputs"].values(), *step["outputs"]))

    def digests(self) -> set[str]:
        """Every tensor the suite refers to."""
        return {ref.digest for ref in self.refs()}

    def verify(self, refs: Iterable[TensorRef] | None = None) -> None:
        """Raise InputError naming the first missing or corrupted tensor among `refs` (default: all)."""
        found = {(ref.digest, ref.type.nbytes): ref for ref in (self.refs() if refs is None else refs)}
        for key in sorted(found):
            self.tensors.verify(found[key])

    def nbytes(self) -> int:
        """Bytes of all files of the suite."""
        return self.folder.nbytes()

    # ------------------------------------------------------------ results

    def save_result(self, document: ValidationDocument | OffloadDocument | LocateDocument) -> Path:
        """Keep it as the latest result of its kind on its device: results/KIND.DEVICE.json. Two tabs of one browser are
        two devices.

        Raises InputError for one that could not be read again, and OSError where it cannot be written."""
        kind = document["format"].partition("/")[0].removeprefix("tapml.")
        name = f"results/{kind}.{slug(label_of(document['devices'][0]), 'device')[:_LONGEST_NAME]}.json"
        checked_result(name, kind, document)
        self.folder.write(name, json_bytes(document))
        return self.path / name

    def read_results(self, kind: str) -> tuple[list[Any], list[str]]:
        """The latest results of `kind` ("validation", "offload", "locate"), one for each device it ran on; and a
        sentence for each that is left out because it is no such document."""
        return read_results(self.folder, kind)

    def results(self, kind: str) -> list[Any]:
        """Those that are not left out."""
        return self.read_results(kind)[0]


def write_kernel(folder: Folder, document: Mapping[str, Any], files: Mapping[str, str]) -> None:
    """WGSL files by name, then `kernels/NAME.json`, in a suite's folder. Raises InputError for a name that is too long
    for a file: TVM names a fused operator after all that it is made of; and OSError."""
    if (length := len(document["kernel"])) > _LONGEST_NAME:
        raise InputError(
            f"operator {document['kernel'][:60]}... is fused from so many that its name has {length} characters, and a "
            f"file's at most {_LONGEST_NAME}: split what joins them (a concat of many tensors, say) in the model"
        )
    for name, text in files.items():
        folder.write(f"kernels/{name}", text.encode())
    folder.write(f"kernels/{document['kernel']}.json", json_bytes(document))
