"""The fault gallery: bugs of the field, each as a carved test with a correct and a faulty kernel or device.

An entry is a folder with `entry.py`, which defines `FAULT`, and the WGSL that was written by hand
(docs/fault-gallery.md lists all of them; how to add one is written there).
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from operators import BYSTANDER
from tapml.carving.carve import carve
from tapml.importing import ImportedModel
from tapml.kernels.bundle import bindings, requirements, workgroup_size
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Wgsl:
    """A kernel by hand: a file of the entry's folder. Its buffers are the operator's arguments in their order.

    `scalars`: int32 values of each dispatch, in the uniform behind the buffers. `requires`: what it states to need;
    None for what its text asks for.
    """

    file: str
    dispatches: tuple[tuple[int, int, int], ...] = ((1, 1, 1),)
    scalars: tuple[tuple[int, ...], ...] = ()
    requires: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Edit:
    """The correct kernel with one piece of its text replaced, wherever it stands."""

    old: str
    new: str


@dataclass(frozen=True)
class Case:
    """A kernel on a device and what must come of it. `kernel` None: as TVM generates it, or as the correct one is.

    `verdicts`: of the step's tests, in order. `words` stand in the message of the first test that does not pass, whose
    first wrong element is `first`. `race`: each of the tests may pass or not, as it comes; at least one does not.
    """

    kernel: Wgsl | Edit | None = None
    device: str = "node-dawn"
    verdicts: tuple[str, ...] = ("pass",)
    words: tuple[str, ...] = ()
    first: tuple[int, ...] | None = None
    race: bool = False


@dataclass(frozen=True)
class Fault:
    """A bug. `sources`: where it was found; `how` it is reproduced here.

    `pattern`: the strongest that locating finds, `says`: words of its sentence about the kernel; none where nothing is
    wrong. `tied`: elements of the faulty case that are another one of equals. `everywhere`: the device is to blame, so
    that each kernel on it is wrong. `grid`: what the generated kernel is launched with, where it is another.
    `elsewhere`: by browser, the verdicts of the correct and of the faulty case where they are others there.
    """

    title: str
    sources: tuple[str, ...]
    how: str
    model: Callable[[], ImportedModel]
    correct: Case
    faulty: Case
    pattern: str | None = None
    says: str = ""
    tied: int = 0
    everywhere: bool = False
    grid: tuple[int, int, int] | None = None
    elsewhere: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)


SLUGS = sorted(path.parent.name for path in FOLDER.glob("*/entry.py"))


def load(slug: str) -> Fault:
    """The entry in the folder of this name."""
    spec = importlib.util.spec_from_file_location(f"faults_{slug.replace('-', '_')}", FOLDER / slug / "entry.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fault: Fault = module.FAULT
    return fault


def carved(slug: str, fault: Fault, folder: Path) -> Path:
    """The entry's suite as it is carved, with TVM's kernels."""
    path = folder / f"{slug}.suite"
    carve(fault.model(), path, name=slug)
    return path


def suspect(suite: Suite) -> str:
    """The kernel that the entry is about: the other one is a bystander."""
    (name,) = (kernel for kernel in suite.kernels if kernel != BYSTANDER)
    return name


def prepared(slug: str, fault: Fault, case: Case, suite: Path, folder: Path) -> Suite:
    """A copy of the entry's suite with the case's kernel in it."""
    path = folder / f"{slug}.suite"
    shutil.copytree(suite, path)
    name = suspect(Suite(path))
    kernels = [fault.correct.kernel] if case is fault.correct else [fault.correct.kernel, case.kernel]
    if fault.grid:
        described = path / "kernels" / f"{name}.json"
        document = json.loads(described.read_text())
        document["variants"][0]["launches"][0]["grid"] = fault.grid
        described.write_text(json.dumps(document))
    for kernel in kernels:
        if isinstance(kernel, Wgsl):
            _install(path, name, (FOLDER / slug / kernel.file).read_text(), kernel)
        elif isinstance(kernel, Edit):
            wgsl = path / "kernels" / f"{name}.wgsl"
            text = wgsl.read_text()
            assert kernel.old in text, f"{slug}: {kernel.old!r} is not in the correct kernel"
            wgsl.write_text(text.replace(kernel.old, kernel.new))
    return Suite(path)


def validated(server: Server, suite: Suite, device: str) -> dict[str, list[dict[str, Any]]]:
    """The results on a device that the server starts or has, by kernel."""
    run = OperatorRun(JobContext(suite, [server.state.device(device)], server.state.blobs))
    by_kernel: dict[str, list[dict[str, Any]]] = {kernel: [] for kernel in suite.kernels}
    for result in run.run()["tests"]:
        by_kernel[result["kernel"]].append(result)
    return by_kernel


def check_verdicts(
    results: Mapping[str, Sequence[Mapping[str, Any]]],
    suite: Suite,
    verdicts: Sequence[str],
    *,
    race: bool,
    innocent: bool,
) -> None:
    """The suspect has these verdicts (some of them, where it is a race), and the bystander passes if it is innocent."""
    found = [result["verdict"] for result in results[suspect(suite)]]
    told = [(result["verdict"], result["message"]) for result in results[suspect(suite)]]
    if race:
        assert set(found) - {"pass"} == set(verdicts) - {"pass"}, told
    else:
        assert found == list(verdicts), told
    if innocent:
        assert {result["verdict"] for result in results[BYSTANDER]} == {"pass"}, results[BYSTANDER]


def _install(suite: Path, name: str, text: str, kernel: Wgsl) -> None:
    """As docs/suite-format.md describes it under "A variant by hand"."""
    path = suite / "kernels" / f"{name}.json"
    document = json.loads(path.read_text())
    size = workgroup_size(text)
    buffers = [binding for binding in bindings(text) if binding["access"] != "uniform"]
    assert len(buffers) == len(document["arguments"]), f"{name} has other arguments than {kernel.file}"
    scalars = kernel.scalars or ((),) * len(kernel.dispatches)
    entry_point = f"{name}_kernel"
    document["variants"] = [
        {
            "name": "by-hand",
            "requires": kernel.requires or requirements([text], 0),
            "entry_points": [
                {
                    "name": entry_point,
                    "file": f"{name}.wgsl",
                    "workgroup_size": size,
                    "bindings": bindings(text),
                }
            ],
            "launches": [
                {
                    "entry_point": entry_point,
                    "operands": [{"argument": number} for number in range(len(buffers))],
                    "uniforms": [
                        {"name": f"s{number}", "dtype": "int32", "value": scalar} for number, scalar in enumerate(given)
                    ],
                    "grid": list(grid),
                }
                for grid, given in zip(kernel.dispatches, scalars, strict=True)
            ],
            "temporaries": [],
        }
    ]
    document["unsupported"] = None
    path.write_text(json.dumps(document, indent=2))
    # The entry point of a hand-written file is `main`.
    (suite / "kernels" / f"{name}.wgsl").write_text(text.replace("fn main(", f"fn {entry_point}("))
