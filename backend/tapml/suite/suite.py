"""Reading and writing a suite's folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from tapml.errors import InputError
from tapml.files import sha256, slug, write_json, write_text
from tapml.graph import Graph
from tapml.suite.formats import format_version, read_json
from tapml.suite.imported import read_imported
from tapml.suite.kernel_document import kernel_document
from tapml.suite.tensors import TensorRef, TensorStore
from tapml.suite.tests import CarvedTest

FORMAT = "tapml.suite/1"
IMPORTED = "imported"
"""`model.kind` of a suite that was made of exported tests and has no model."""

# A file's name has at most 255 bytes on Linux and macOS, and a variant and an ending come behind the kernel's.
_LONGEST_NAME = 200


@dataclass(frozen=True)
class KernelFile:
    """One WGSL file of a kernel as it is now. `edited`: it differs from what was generated, or never was."""

    name: str
    text: str
    edited: bool

    @property
    def digest(self) -> str:
        return sha256(self.text)


class Suite:
    """A suite opened for reading. Only results are ever written into an existing suite."""

    def __init__(self, path: Path) -> None:
        """Raises InputError where `path` is no suite, is damaged or was written by a newer tapml."""
        self.path = path
        if not (path / "suite.json").is_file():
            what = "is not a suite (it has no suite.json)" if path.exists() else "does not exist"
            raise InputError(f"{path} {what}: make one with `tapml carve MODEL -o {path}`")
        manifest = read_json(path / "suite.json")
        self.manifest: dict[str, Any] = manifest if isinstance(manifest, dict) else {}
        format_version(path / "suite.json", self.manifest.get("format"), FORMAT, "a suite")
        self.model_graph = Graph.from_json(read_json(path / "graph.json"))
        self.imported = read_imported(path)
        self.graph = self.imported.joined(self.model_graph)
        self.tensors = TensorStore(path / "tensors")
        try:
            self.parameters = {k: TensorRef.from_json(v) for k, v in self.manifest["parameters"].items()}
            self.tests = [CarvedTest.from_json(test) for test in read_json(path / "tests.json")["tests"]]
            self.tests += self.imported.tests
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path} is not a readable suite: {error!r}; carve it again") from error

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def synthetic(self) -> bool:
        """Carved from made-up inputs."""
        return bool(self.manifest["synthetic"])

    @cached_property
    def id(self) -> str:
        """Digest of graph and tests: the same model carved from the same input has the same id, wherever it lies."""
        return sha256((self.path / "graph.json").read_bytes() + (self.path / "tests.json").read_bytes())[:16]

    @property
    def kernels(self) -> list[str]:
        return self.graph.kernels

    def test(self, test_id: str) -> CarvedTest:
        """Raises InputError for an unknown id."""
        for test in self.tests:
            if test.id == test_id:
                return test
        raise InputError(f"{self.path} has no test {test_id!r}: `tapml show {self.path}` lists them")

    def bundle(self, kernel: str) -> dict[str, Any]:
        """`kernels/NAME.json` as tapml.kernel/2, whatever version lies there.

        Raises InputError for an unknown kernel, and for a damaged file by its path and field.
        """
        if kernel not in self.kernels:
            known = ", ".join(self.kernels[:8]) + (", ..." if len(self.kernels) > 8 else "")
            raise InputError(f"{self.path} has no kernel {kernel!r}; it has {known}")
        path = self.path / "kernels" / f"{kernel}.json"
        return kernel_document(path, read_json(path))

    def kernel_files(self, kernel: str) -> list[KernelFile]:
        """The WGSL of all entry points of all variants, in the bundle's order, as it lies in the folder now."""
        files = []
        for variant in self.bundle(kernel)["variants"]:
            for entry_point in variant["entry_points"]:
                path = self.path / "kernels" / entry_point["file"]
                try:
                    text = path.read_text()
                except (OSError, UnicodeDecodeError) as error:
                    where = f"kernel {kernel}, variant {variant['name']}"
                    raise InputError(f"{where} cannot be read from {path}: {error}") from error
                files.append(KernelFile(path.name, text, sha256(text) != entry_point["generated_sha256"]))
        return files

    @property
    def edited_kernels(self) -> list[str]:
        """Kernels of which a WGSL file differs from what was generated, or was written by hand."""
        return [kernel for kernel in self.kernels if any(file.edited for file in self.kernel_files(kernel))]

    def require_model(self) -> None:
        """Raises InputError for a suite that was made of exported tests."""
        if self.manifest["model"]["kind"] == IMPORTED:
            raise InputError(f"{self.path} holds imported tests and no model: to offload, carve the model")

    @property
    def module_text(self) -> str:
        """The lowered model as TVMScript. Raises InputError where there is none."""
        self.require_model()
        path = self.path / "model" / "module.tvmscript"
        try:
            return path.read_text()
        except OSError as error:
            raise InputError(f"{path} is missing: carve the suite again") from error

    def digests(self) -> set[str]:
        """Every tensor the suite refers to."""
        refs = list(self.parameters.values())
        for test in self.tests:
            refs += test.refs
        for step in self.manifest["steps"]:
            refs += [TensorRef.from_json(ref) for ref in (*step["inputs"].values(), *step["outputs"])]
        return {ref.digest for ref in refs}

    def verify(self, digests: Sequence[str] | None = None) -> None:
        """Raise InputError naming the first missing or corrupted tensor among `digests` (default: all)."""
        for digest in sorted(self.digests() if digests is None else set(digests)):
            self.tensors.verify(digest)

    def nbytes(self) -> int:
        """Bytes of all files of the suite."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    # ------------------------------------------------------------ results

    def write_kernel(self, document: Mapping[str, Any], files: Mapping[str, str]) -> None:
        """A further kernel, for an imported test: its files lie there before anything names them."""
        write_kernel(self.path, document, files)

    def save_result(self, kind: str, device_name: str, document: Mapping[str, Any]) -> Path:
        """Keep the latest result of `kind` ("validation", "offload") on a device: results/KIND.DEVICE.json."""
        path = self.path / "results" / f"{kind}.{slug(device_name, 'device')}.json"
        write_json(path, document)
        return path

    def results(self, kind: str) -> list[dict[str, Any]]:
        """The latest results of `kind`, one for each device it ran on."""
        paths = sorted((self.path / "results").glob(f"{kind}.*.json"))
        return [read_json(path) for path in paths]


def write_kernel(folder: Path, document: Mapping[str, Any], files: Mapping[str, str]) -> None:
    """WGSL files by name, then `kernels/NAME.json`, below a suite's folder. Raises InputError for a name that is too
    long for a file: TVM names a fused operator after all that it is made of."""
    if (length := len(document["kernel"])) > _LONGEST_NAME:
        raise InputError(
            f"operator {document['kernel'][:60]}... is fused from so many that its name has {length} characters, and a "
            f"file's at most {_LONGEST_NAME}: split what joins them (a concat of many tensors, say) in the model"
        )
    for name, text in files.items():
        write_text(folder / "kernels" / name, text)
    write_json(folder / "kernels" / f"{document['kernel']}.json", document)


class SuiteWriter:
    """Writes a suite into a temporary folder beside its place; `finish` puts it there whole.

    Leaving the `with` block without `finish` removes everything, so no half-written suite is ever seen.
    """

    def __init__(self, path: Path, overwrite: bool = False) -> None:
        """Raises InputError where `path` exists and is no suite, or is one and `overwrite` is false."""
        if path.exists():
            if not (path / "suite.json").is_file():
                raise InputError(f"{path} exists and is not a suite: choose another name with -o")
            if not overwrite:
                raise InputError(f"{path} exists: choose another name with -o, or replace it with --force")
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        except OSError as error:
            raise InputError(f"cannot write to {path.parent}: {error.strerror}") from error
        self._folder.chmod(0o755)
        self.tensors = TensorStore(self._folder / "tensors")

    def __enter__(self) -> SuiteWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def write_kernel(self, document: Mapping[str, Any], files: Mapping[str, str]) -> None:
        """`kernels/NAME.json` and its WGSL files by name."""
        write_kernel(self._folder, document, files)

    def finish(
        self, manifest: Mapping[str, Any], graph: Graph, tests: Sequence[CarvedTest], module_text: str | None
    ) -> Suite:
        """Write the rest and move the folder to its place, in one rename. `module_text`: None where no model is.

        Of a suite that is replaced, the history of its results and the tests behind shared links stay.
        """
        if module_text is not None:
            write_text(self._folder / "model" / "module.tvmscript", module_text)
        write_json(self._folder / "graph.json", graph.to_json())
        write_json(self._folder / "tests.json", {"tests": [test.to_json() for test in tests]})
        write_json(self._folder / "suite.json", {"format": FORMAT, **manifest})
        if self._path.exists():
            self._keep_records()
            old = Path(tempfile.mkdtemp(dir=self._path.parent, prefix=f".{self._path.name}.old."))
            self._path.replace(old / "suite")
            self._folder.replace(self._path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            self._folder.replace(self._path)
        return Suite(self._path)

    def _keep_records(self) -> None:
        """What others count on: links that were given away, and results that no run can bring back."""
        for kept in (*self._path.glob("shares/*"), *self._path.glob("results/history.sqlite3*")):
            place = self._folder / kept.relative_to(self._path)
            place.parent.mkdir(exist_ok=True)
            shutil.copy2(kept, place)
