"""A model that came from a stranger runs nothing of its own: under offload, reduce and locate."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from computing_device import ComputingDevice

from tapml.errors import InputError
from tapml.locating import Locate
from tapml.locating.reduce import Reduce
from tapml.sharing import export
from tapml.sharing.repro import of_suite
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.offload import Offload

# Both ran, when the model was text for TVM's parser.
ATTRIBUTE = """\
from tvm.script import ir as I, tirx as T, relax as R
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def matmul(x: T.Buffer((1,), "float32")):
        T.func_attr({{"tirx.noalias": True, "x": T.external_kernel.os.system("touch {mark}")}})
        x[0] = T.float32(0)
"""
DECORATOR = """\
@I.ir_module
class Module:
    @T.prim_func(private=True, x=I.entry.inspect.builtins.exec("open('{mark}', 'w')"))
    def matmul(x: T.Buffer((1,), "float32")):
        x[0] = T.float32(0)
"""

Change = Callable[[Suite, str], None]


def as_earlier(suite: Suite, text: str) -> None:
    """As an earlier tapml would have written it."""
    shutil.rmtree(suite.path / "model" / "operators")
    (suite.path / "model" / "module.tvmscript").write_text(text)


def beside(suite: Suite, text: str) -> None:
    (suite.path / "model" / "module.tvmscript").write_text(text)


def as_program(suite: Suite, text: str) -> None:
    for path in (suite.path / "model" / "operators").iterdir():
        path.write_text(text)


def in_program(suite: Suite, text: str) -> None:
    """Wherever a program has text."""
    for path in (suite.path / "model" / "operators").iterdir():
        document = json.loads(path.read_text())
        document["blocks"][0] |= {"name": text.split("\n")[0], "annotations": {"schedule_rule": text}}
        path.write_text(json.dumps({**document, "pattern": text}))


@pytest.mark.parametrize("payload", [ATTRIBUTE, DECORATOR])
@pytest.mark.parametrize("change", [as_earlier, beside, as_program, in_program])
def test_nothing_of_a_model_is_evaluated(suite: Suite, tmp_path: Path, payload: str, change: Change) -> None:
    right = ComputingDevice(suite)
    wrong = ComputingDevice(suite, {suite.kernels[0]: lambda inputs, right, before: right + np.float32(1)})
    mark = tmp_path / "mark"
    change(suite, payload.format(mark=mark))
    test = next(test.id for test in suite.tests if test.kernel == suite.kernels[0])
    runs = [
        lambda: Offload(JobContext(suite, [right.device], right.blobs)),
        lambda: Locate(JobContext(suite, [right.device], right.blobs)).run(),
        lambda: Reduce(JobContext(suite, [wrong.device], wrong.blobs), test).run(),
    ]
    for run in runs:
        with contextlib.suppress(InputError):
            run()
        assert not mark.exists()


def test_a_suite_of_an_earlier_tapml_serves_for_all_that_needs_no_program(suite: Suite, tmp_path: Path) -> None:
    device = ComputingDevice(suite)
    as_earlier(suite, "")
    earlier = Suite(suite.path)
    earlier.verify()
    assert earlier.kernels
    export(of_suite(earlier, earlier.tests[0].id), "html", tmp_path / "one.html")
    document = Locate(JobContext(earlier, [device.device], device.blobs)).run()
    assert document["kernels"] == []
    assert document["model"]["verdict"] == "error"
    assert "wrote the model as TVMScript; that is code" in document["model"]["text"]
    with pytest.raises(InputError, match=r"carved by an earlier tapml.* carve the model again"):
        Offload(JobContext(earlier, [device.device], device.blobs))
    with pytest.raises(InputError, match=r"carved by an earlier tapml.* carve the model again"):
        Reduce(JobContext(earlier, [device.device], device.blobs), earlier.tests[0].id)


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


@pytest.mark.parametrize(
    "arguments", [lambda found: found[::-1], lambda found: found[:-1], lambda found: [*found, *found]]
)
def test_arguments_that_are_not_the_graph_s_are_refused(suite: Suite, arguments: Callable[[Any], Any]) -> None:
    device = ComputingDevice(suite)
    rewritten(suite.path / "suite.json", lambda found: found.update(arguments=arguments(found["arguments"])))
    with pytest.raises(InputError, match=r"suite\.json: arguments: others than the graph has"):
        Offload(JobContext(Suite(suite.path), [device.device], device.blobs))


def test_a_program_of_other_tensors_than_its_nodes_is_refused(suite: Suite) -> None:
    device = ComputingDevice(suite)
    program = suite.path / "model" / "operators" / f"{suite.kernels[0]}.json"
    rewritten(program, lambda found: found["parameters"][1].update(shape=[32, 16]))
    with pytest.raises(InputError, match="but node n000 of the graph gives it"):
        Offload(JobContext(suite, [device.device], device.blobs))


def test_a_missing_program_is_named(suite: Suite) -> None:
    device = ComputingDevice(suite)
    (suite.path / "model" / "operators" / f"{suite.kernels[0]}.json").unlink()
    with pytest.raises(InputError, match=rf"{suite.kernels[0]}\.json is missing"):
        Offload(JobContext(suite, [device.device], device.blobs))
