"""Good documents of every format, from real runs: what the fuzzed ones are made of."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from helpers import FakeRunner, all_pass, small_model
from tapml.carving.carve import carve
from tapml.ci.baseline import Baseline
from tapml.devices import Blobs, Device, DeviceHub
from tapml.history import Recorder
from tapml.locating import Locate
from tapml.locating.locate import save_locate
from tapml.results.run import BaselineEntry
from tapml.server import Server
from tapml.sharing import export, links, of_suite
from tapml.sharing.imports import add_to_suite
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

# No process has it: Linux ends at 2**22.
_DEAD_PROCESS = 4_999_999


def make(folder: Path, *, real: bool) -> None:
    """Fill `folder`: `good.suite` with results, history, a journal, links and an imported test; exports, a baseline,
    inputs. `real`: on node-dawn, the whole model too; else on a device that passes everything, in seconds."""
    path = folder / "good.suite"
    carve(small_model(), path, name="good")
    suite = Suite(path)
    if real:
        with Server([path]) as server:
            _run(suite, server.state.device("node-dawn"), server.state.blobs, whole=True)
    else:
        _run(suite, FakeRunner(DeviceHub(), all_pass).device, Blobs(), whole=False)
    suite = Suite(path)
    test = suite.tests[0].id
    facts: dict[str, Any] = {"test": test, "kernel": suite.tests[0].kernel}
    repro = of_suite(suite, test)
    (folder / "exports").mkdir()
    for form, name in (
        ("html", "one.html"),
        ("safetensors", "one.safetensors"),
        ("python", "script.py"),
        ("wgsl", "folder"),
    ):
        export(repro, form, folder / "exports" / name)
    facts["share"], _ = links.create(path, repro)
    _import_one(folder, suite)
    _leave_a_journal(suite)
    expected: BaselineEntry = {
        "suite": "good",
        "test": test,
        "kernel": facts["kernel"],
        "device": "chromium",
        "verdict": "fail",
        "reason": "a known bug",
        "expires": None,
    }
    Baseline(folder / "baseline.json", {}).write([expected])
    np.savez(folder / "inputs.npz", x=np.ones((6, 16), np.float32), ids=np.arange(3))
    np.savez_compressed(folder / "packed.npz", x=np.ones((6, 16), np.float32))
    np.save(folder / "x.npy", np.ones((6, 16), np.float32))
    (folder / "facts.json").write_text(json.dumps(facts))


def _run(suite: Suite, device: Device, blobs: Blobs, *, whole: bool) -> None:
    OperatorRun(JobContext(suite, [device], blobs), save=True, history=Recorder(None, "validate")).run()
    if not whole:
        return
    from tapml.validation.offload import Offload

    suite.save_result(Offload(JobContext(suite, [device], blobs)).run())
    # One that fails, for its evidence.
    kernel = next(iter(sorted((suite.path / "kernels").glob("softmax*.wgsl"))))
    text = kernel.read_text()
    kernel.write_text(text.replace("exp(", "1.5f*exp(0.5f*", 1))
    save_locate(suite, Locate(JobContext(suite, [device], blobs), model=False).run())
    OperatorRun(JobContext(suite, [device], blobs), save=True, history=Recorder(None, "validate")).run()
    kernel.write_text(text)


def _import_one(folder: Path, suite: Suite) -> None:
    """Of a copy whose kernel is another one, so that it is added and not found to be there already."""
    other = folder / "other.suite"
    shutil.copytree(suite.path, other)
    kernel = Suite(other).kernel_files(suite.tests[0].kernel)[0]
    (other / "kernels" / kernel.name).write_text(kernel.text + "// another\n")
    add_to_suite(of_suite(Suite(other), suite.tests[0].id), suite)
    shutil.rmtree(other)


def _leave_a_journal(suite: Suite) -> None:
    document = suite.results("validation")[0]
    lines = [{key: value for key, value in document.items() if key not in ("tests", "summary")}, *document["tests"]]
    journal = suite.path / "results" / "running" / f"node-dawn.{_DEAD_PROCESS}.0123abcd.jsonl"
    journal.parent.mkdir(exist_ok=True)
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
