"""A kernel that writes its output into the bytes of an input, everywhere that kernels run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

import tapml as tml
from everywhere import check_everywhere
from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.compiled.instructions import Dispatch
from tapml.devices.messages import digest_now
from tapml.importing.assemble import assemble
from tapml.importing.cached_attention import cache_append
from tapml.importing.inputs import RawStep
from tapml.importing.kernel_calls import call
from tapml.lowering.by_hand import by_hand
from tapml.server import Server
from tapml.sharing import of_suite
from tapml.sharing.files import export, load_repro
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.offload import Offload
from tapml.validation.operatorwise import OperatorRun

HEADS, CAPACITY, WIDTH = 2, 9, 3
CALLS = ((0, 2), (2, 4), (4, 6))
"""From which position to which rows are put."""


def appending() -> Any:
    """A state that rows are put into, and, as an output, twice what it was before with twice the rows."""
    builder = relax.BlockBuilder()
    cache = relax.Var("cache", relax.TensorType((HEADS, CAPACITY, WIDTH), "float32"))
    rows = relax.Var("rows", relax.TensorType((HEADS, 2, WIDTH), "float32"))
    places = relax.Var("places", relax.TensorType((2,), "int32"))

    def appended(to: Any, what: Any) -> Any:
        given = [to, what, places]
        return call(builder, cache_append, given, name="cache_append", alone=True, attributes=by_hand("cache_append"))

    with builder.function("main", [rows, places, cache]):
        with builder.dataflow():
            two = relax.const(2.0, "float32")
            after = appended(cache, rows)
            doubled = appended(builder.emit(relax.op.multiply(cache, two)), builder.emit(relax.op.multiply(rows, two)))
            out = builder.emit_output(relax.Tuple([doubled, after]))
        builder.emit_func_output(out)
    return builder.finalize()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    cache = random.normal(size=(HEADS, CAPACITY, WIDTH)).astype(np.float32)
    steps, expected = [], []
    for begin, end in CALLS:
        rows = random.normal(size=(HEADS, end - begin, WIDTH)).astype(np.float32)
        arrays = {"rows": rows, "places": np.arange(begin, end, dtype=np.int32), "cache": cache}
        steps.append(RawStep(f"rows {begin} to {end}", arrays, synthetic=True))
        cache = cache.copy()
        cache[:, begin:end] = rows
        expected.append([2 * cache, cache])
    model = assemble(
        appending(),
        tensors=[],
        steps=steps,
        expected=expected,
        outputs=["doubled", "after"],
        states={"cache": 1},
        oracle="numpy",
        oracle_missing=None,
        provenance={"kind": "test", "source": "test", "sha256": "0" * 64, "title": "test"},
    )
    path = tmp_path_factory.mktemp("in_place") / "appending.suite"
    carve(model, path, name="appending")
    return path


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture
def suite(made: Path, tmp_path: Path) -> Suite:
    shutil.copytree(made, tmp_path / "appending.suite")
    return Suite(tmp_path / "appending.suite")


def verdicts(suite: Suite, server: Server) -> dict[str, tuple[str, str]]:
    result = OperatorRun(JobContext(suite, [server.state.device("node-dawn")], server.state.blobs)).run()
    return {test["id"]: (test["verdict"], test["message"]) for test in result["tests"]}


def append_tests(suite: Suite) -> list[str]:
    return [test.id for test in suite.tests if test.kernel.startswith("cache_append")]


def test_it_begins_as_the_input_and_the_rest_stays(suite: Suite, server: Server) -> None:
    (kernel,) = {test.kernel for test in suite.tests if test.id in append_tests(suite)}
    assert [found.get("overwrites") for found in suite.bundle(kernel)["arguments"]] == [None, None, None, 0]
    found = verdicts(suite, server)
    assert len(append_tests(suite)) == 2 * len(CALLS)
    assert {verdict for verdict, _ in found.values()} == {"pass"}


def test_what_a_kernel_disturbs_is_told_as_such(suite: Suite, server: Server) -> None:
    """A row behind its own is written, too: on each head one that the operator leaves alone."""
    name = next(test.kernel for test in suite.tests if test.id in append_tests(suite))
    path = suite.path / "kernels" / f"{name}.wgsl"
    text = path.read_text()
    (line,) = [line for line in text.splitlines() if line.strip().startswith("cache[")]
    wrong = line.replace("cache[place]", f"cache[place + {2 * WIDTH}]", 1)
    assert wrong != line
    path.write_text(text.replace(line, f"{line}\n{wrong}"))
    found = verdicts(Suite(suite.path), server)
    for test in append_tests(suite):
        verdict, message = found[test]
        assert verdict == "fail"
        disturbed = HEADS * WIDTH * 2
        assert f"{disturbed} of {HEADS * CAPACITY * WIDTH} elements differ" in message
        assert f"{disturbed} of them the operator leaves as they were: the kernel writes where it must not" in message
    # Rows that are wrong themselves are nothing that it had to leave alone.
    path.write_text(text.replace(line, line.replace("= added", "= 1.0 + added")))
    for test in append_tests(suite):
        verdict, message = verdicts(Suite(suite.path), server)[test]
        assert (verdict, "leaves as they were" in message) == ("fail", False)


def test_it_is_offloaded_step_by_step(suite: Suite, server: Server) -> None:
    events: list[dict[str, Any]] = []
    found = Offload(JobContext(suite, [server.state.device("node-dawn")], server.state.blobs, events.append)).run()
    assert found["kernel_digests"] == {name: digest_now(suite, name) for name in suite.kernels}
    assert [event["digests"] for event in events if event["type"] == "kernels"] == [found["kernel_digests"]]
    assert [(step["kernel"], step["message"]) for step in found["steps"] if not step["kept"]] == []
    assert found["final"]["verdict"] == "pass", found["final"]


def test_a_compiled_model_overwrites_what_nobody_reads_and_copies_the_rest(suite: Suite, server: Server) -> None:
    """The state is read behind the first call, so that call is of a copy; the product is overwritten where it lies."""
    (main,) = build(suite, suite.path.parent / "appending.tapml").model.functions.values()
    each = [found.each if isinstance(found, Dispatch) else [found] for found in main.code]
    operations = [instruction.op for instructions in each for instruction in instructions]
    assert sorted(operations) == ["copy", "copy", "dispatch", "dispatch", "dispatch", "dispatch"]
    check_everywhere(suite, server)


def test_an_exported_test_says_so(suite: Suite, tmp_path: Path) -> None:
    test = append_tests(suite)[0]
    export(of_suite(suite, test), "safetensors", tmp_path / "test.safetensors")
    document = load_repro(tmp_path / "test.safetensors").document
    assert document.kernel["arguments"][3]["overwrites"] == 0
    with tml.webgpu("node-dawn") as device:
        kernel = tml.upload(tml.compile(tml.load_repro(tmp_path / "test.safetensors"), target=device), device)
        repro = tml.load_repro(tmp_path / "test.safetensors")
        inputs = [tml.tensor(array, device) for array in repro.inputs]
        output = tml.allocate(document.outputs[0].shape, "float32", device)
        kernel[document.test.kernel](*inputs, output)
        np.testing.assert_array_equal(output.numpy(), repro.expected[0])
        # What the input held is another tensor here, and stays.
        np.testing.assert_array_equal(inputs[0].numpy(), repro.inputs[0])


def arguments(**changes: Any) -> Any:
    def change(document: Any) -> None:
        document["arguments"][3].update(changes)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (arguments(overwrites=3), "arguments[3].overwrites: argument 3 is no input"),
        (arguments(overwrites=9), "arguments[3].overwrites: argument 9 is no input"),
        (arguments(overwrites=1), "arguments[3].overwrites: argument 1 has another dtype, shape or encoding"),
        (arguments(overwrites=-1), "arguments[3].overwrites: "),
        (arguments(role="input"), "arguments[3].overwrites: only an output can be written into an input's bytes"),
        (
            lambda document: document["variants"][0]["launches"][0]["operands"].__setitem__(0, {"argument": 0}),
            "launches[0].operands[0].argument: argument 3 overwrites argument 0: bind 3 instead",
        ),
    ],
)  # fmt: skip
def test_a_document_that_cannot_be_is_refused_by_its_field(suite: Suite, change: Any, words: str) -> None:
    name = next(test.kernel for test in suite.tests if test.id in append_tests(suite))
    path = suite.path / "kernels" / f"{name}.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(tml.InputError) as refused:
        Suite(suite.path).bundle(name)
    assert words in str(refused.value)
