"""What a page captured: computed here, compared, and added to a suite."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tapml as tml
from captures import Json, capture_of, replaced
from helpers import FakeRunner, all_pass
from preloaded import tapml
from tapml.devices import Blobs, DeviceHub
from tapml.errors import InputError
from tapml.sharing import load_repro
from tapml.sharing.capture import read_capture
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

Tensors = dict[str, bytes]


def wrong_element(document: Json, tensors: Tensors) -> None:
    """The first call's output is off in one element, by a thousandth."""
    output = document["calls"][0]["outputs"][0]
    array = np.frombuffer(tensors[output["digest"]], np.float32).copy()
    array[5] = array[5] * 1.001 + 1e-3
    replaced(output, tensors, array.tobytes())


def test_each_captured_call_is_compared_and_becomes_a_test(suite: Suite, tmp_path: Path) -> None:
    path = capture_of(suite, tmp_path / "page.capture", change=wrong_element)
    before = len(suite.tests)
    first, *others = tml.import_capture(path, suite.path)
    assert (first.call.node, first.verdict, first.message) == (
        "n000",
        "fail",
        "1 of 192 elements are outside their bounds",
    )
    assert first.measured is not None
    assert first.measured["worst"]["index"] == [0, 5]
    assert {one.verdict for one in others} == {"pass"}
    assert not any(one.suspicious or one.notes for one in (first, *others))
    joined = Suite(suite.path)
    # The suite has the very tests; what the device gave of them is new.
    assert len(joined.tests) == before
    assert joined.kernels == suite.kernels
    (reported,) = joined.results("validation")
    assert [found["verdict"] for found in reported["tests"]] == ["fail", *["pass"] * (before - 1)]


def test_what_the_device_gave_is_a_result_of_the_test(suite: Suite, tmp_path: Path) -> None:
    def other_input(document: Json, tensors: Tensors) -> None:
        """A softmax of zeros."""
        call = next(call for call in document["calls"] if call["kernel"] == "softmax")
        document["calls"] = [call]
        replaced(call["inputs"][0], tensors, bytes(4 * 6 * 16))
        replaced(call["outputs"][0], tensors, np.full((6, 16), 1 / 16, np.float32).tobytes())

    path = capture_of(suite, tmp_path / "page.capture", change=other_input)
    ran = tapml("import", path, "--into", suite.path)
    assert (ran.code, ran.err.count("Traceback")) == (0, 0)
    assert "✓ pass" in ran.out
    assert "test i000.s0 of" in ran.out
    joined = Suite(suite.path)
    (added,) = joined.imported.tests
    joined.verify(added.refs)
    (reported,) = joined.results("validation")
    assert reported["devices"][0]["name"] == "Chromium 156 (reported)"
    assert [(found["id"], found["verdict"], found["variant"]) for found in reported["tests"]] == [
        ("i000.s0", "pass", "256")
    ]
    document = OperatorRun(JobContext(joined, [FakeRunner(DeviceHub(), all_pass).device], Blobs())).run()
    assert document["summary"]["pass"] == len(suite.tests) + 1
    again = tapml("import", path, "--into", suite.path)
    assert "test i000.s0 of" in again.out
    assert len(Suite(suite.path).imported.tests) == 1


def test_another_wgsl_is_another_kernel_and_is_said(suite: Suite, tmp_path: Path) -> None:
    def edited(document: Json, tensors: Tensors) -> None:
        wrong_element(document, tensors)
        document["wgsl"] = [text + "// another\n" for text in document["wgsl"]]

    ran = tapml("import", capture_of(suite, tmp_path / "page.capture", change=edited), "--into", suite.path)
    assert ran.code == 1
    assert "fused_matmul_add_gelu is wrong on Chromium 156: 1 of 2 calls" in ran.out
    # Once for each kernel, however many of its calls there are.
    assert (
        ran.out.count("fused_matmul_add_gelu: the WGSL of") == ran.out.count("fused_matmul_add_gelu.wgsl is not") == 1
    )
    assert not [line for line in ran.out.splitlines() if line != line.rstrip()]
    shown = tapml("show", suite.path).out
    assert f"({len(suite.graph.kernel_nodes)} kernel calls), " in shown
    assert f"tests, {len(suite.tests)} of them imported" in shown
    assert "--kernel fused_matmul_add_gelu_2" in ran.out
    joined = Suite(suite.path)
    assert joined.edited_kernels == [f"{kernel}_2" for kernel in suite.kernels]
    assert len(joined.imported.tests) == len(suite.tests)


def test_errors_that_rounding_does_not_explain_are_suspicious(suite: Suite, tmp_path: Path) -> None:
    def biased(document: Json, tensors: Tensors) -> None:
        for call in document["calls"]:
            if call["kernel"] == "softmax":
                output = call["outputs"][0]
                array = np.frombuffer(tensors[output["digest"]], np.float32)
                replaced(output, tensors, (array * np.float32(1 + 1.5e-6)).tobytes())

    found = tml.import_capture(capture_of(suite, tmp_path / "page.capture", change=biased), suite)
    assert {one.call.kernel for one in found if one.suspicious} == {"softmax"}
    assert all(one.verdict == "pass" for one in found)
    assert all("x what rounding explains" in one.suspicious for one in found if one.suspicious)


def test_without_a_suite_the_file_has_to_have_all(suite: Suite, tmp_path: Path) -> None:
    path = capture_of(suite, tmp_path / "page.capture")
    assert "has digests of weights, and not their bytes" in tapml("import", path, "-o", tmp_path / "a.suite").err
    path = capture_of(suite, tmp_path / "page.capture", weights=True)
    ran = tapml("import", path, "-o", tmp_path / "a.suite")
    assert ran.code == 0, ran.err
    alone = Suite(tmp_path / "a.suite")
    assert (len(alone.tests), alone.kernels) == (len(suite.tests), suite.kernels)
    assert not alone.edited_kernels
    assert "exists: choose another name" in tapml("import", path, "-o", tmp_path / "a.suite").err
    path = capture_of(suite, path, weights=True, change=lambda found, _: found.update(operators={}))
    with pytest.raises(InputError, match=r"the program of \w+ did not come along"):
        tml.import_capture(path, alone)


def test_weights_that_are_others_on_the_device_are_named(suite: Suite, tmp_path: Path) -> None:
    def damaged(document: Json, tensors: Tensors) -> None:
        tensor = next(tensor for tensor in document["calls"][0]["inputs"] if tensor["weight"])
        data = bytes(np.prod(tensor["shape"]) * 4)
        replaced(tensor, tensors, data)

    first, *_ = tml.import_capture(capture_of(suite, tmp_path / "page.capture", change=damaged), suite)
    assert first.verdict == "fail"
    assert "a weight, has other bytes there than in" in first.notes[0]

    def lost(document: Json, tensors: Tensors) -> None:
        damaged(document, tensors)
        tensors.clear()
        document["calls"] = [document["calls"][0]]
        for tensor in (*document["calls"][0]["inputs"], *document["calls"][0]["outputs"]):
            if not tensor["weight"]:
                replaced(tensor, tensors, bytes(4 * np.prod(tensor["shape"])))

    (first,) = tml.import_capture(capture_of(suite, tmp_path / "page.capture", change=lost), suite)
    assert (first.verdict, first.repro) == ("error", None)
    assert "weights: true" in first.message


def test_a_capture_of_another_model_is_refused(suite: Suite, tmp_path: Path) -> None:
    def other(document: Json, _: Tensors) -> None:
        document["model"]["sha256"] = "1" * 64

    path = capture_of(suite, tmp_path / "page.capture", change=other)
    ran = tapml("import", path, "--into", suite.path)
    assert ran.code == 2
    assert "is of the model small (SHA-256 1111111111111111...)" in ran.err
    assert "give the suite that the page's model was built from" in " ".join(ran.err.split())


@pytest.fixture(scope="module")
def lookup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of a table by their numbers."""
    path = tmp_path_factory.mktemp("lookup") / "lookup.onnx"
    table = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3) ** 2, "table")
    x = helper.make_tensor_value_info("x", TensorProto.INT32, [5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 3])
    graph = helper.make_graph([helper.make_node("Gather", ["table", "x"], ["y"])], "lookup", [x], [y], [table])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    np.savez(path.with_suffix(".npz"), x=np.int32([0, 3, 1, 2, 3]))
    suite = path.with_suffix(".suite")
    ran = tapml("carve", path, "--inputs", path.with_suffix(".npz"), "-o", suite)
    assert ran.code == 0, ran.err
    return suite


@pytest.mark.parametrize("anything_else", [False, True])
def test_an_index_outside_of_a_tensor_accuses_no_kernel(anything_else: bool, lookup: Path, tmp_path: Path) -> None:
    shutil.copytree(lookup, tmp_path / "lookup.suite")
    suite = Suite(tmp_path / "lookup.suite")
    # TVM clamps what ONNX's Gather is given; the rows of MiniLM's tables are taken as they are.
    operator = suite.path / "model" / "operators" / "take.json"
    program = json.loads(operator.read_text())
    program["blocks"][0]["body"][0][3][2] = ["cast", "int64", ["load", program["parameters"][1]["name"], "v_i0"]]
    operator.write_text(json.dumps(program))

    def strange(document: Json, tensors: Tensors) -> None:
        """Two numbers of rows are none, and the device gives 7 for those."""
        call = next(call for call in document["calls"] if any(tensor["weight"] for tensor in call["inputs"]))
        document["calls"] = [call]
        numbers = next(tensor for tensor in call["inputs"] if tensor["dtype"] == "int32")
        replaced(numbers, tensors, np.int32([0, 9, 1, -7, 3]).tobytes())
        output = call["outputs"][0]
        rows = np.frombuffer(tensors[output["digest"]], np.float32).reshape(5, 3).copy()
        rows[[1, 3]] = 7
        rows[0, 0] += anything_else
        replaced(output, tensors, rows.tobytes())

    (found,) = tml.import_capture(capture_of(suite, tmp_path / "page.capture", change=strange), suite)
    assert found.verdict == ("fail" if anything_else else "unbounded")
    assert "have an index that is outside of a tensor" in found.notes[0]
    assert found.measured is not None
    assert (found.measured["mismatched"], found.measured["unbounded"]) == (int(anything_else), 6)
    (added,) = Suite(suite.path).imported.tests
    assert added.tolerances[0].bound is not None


def first_call(document: Json) -> Json:
    return document["calls"][0]


Change = Callable[[Json, Tensors], object]
HOSTILE: list[tuple[str, Change]] = [
    ("there is no kernel nothing", lambda d, _: first_call(d).update(kernel="nothing")),
    ("has no variant 1024", lambda d, _: first_call(d).update(variant="1024")),
    ("a text 9 that is not there", lambda d, _: entry_of(d).update(wgsl=9)),
    ("a name stands twice", lambda d, _: d["kernels"].append(d["kernels"][0])),
    ("calls", lambda d, _: d.update(calls=d["calls"] * 1000)),
    ("calls", lambda d, _: d.update(calls=[])),
    ("a size is given for n", lambda d, _: first_call(d).update(sizes={"n": 3})),
    ("and the kernel takes", lambda d, t: replaced_output(d, t, [3, 64])),
    ("more than 1073741824 bytes", lambda d, _: first_call(d)["outputs"][0].update(shape=[2**20, 2**20])),
    ("is not that of its bytes", lambda d, _: d["calls"][1]["inputs"][0].update(shape=[1])),
    ("lacks the bytes of x", lambda d, t: t.pop(first_call(d)["outputs"][0]["digest"])),
    ("damaged on their way", lambda d, t: t.update({first_call(d)["outputs"][0]["digest"]: bytes(768)})),
    ("has 4 bytes, not 768", lambda d, t: t.update({first_call(d)["outputs"][0]["digest"]: bytes(4)})),
    ("digest", lambda d, _: first_call(d)["outputs"][0].update(digest="../../etc/passwd")),
    ("kernel", lambda d, _: d["kernels"][0].update(kernel="../up")),
    ("is two texts", lambda d, _: two_texts(d)),
    ("newer tapml", lambda d, _: d.update(format="tapml.capture/2")),
    ("unknown", lambda d, _: d.update(unknown=1)),
    ("created", lambda d, _: d.update(created="yesterday")),
    ("why", lambda d, _: d.update(why=["x"] * 101)),
]


def entry_of(document: Json) -> Json:
    return document["kernels"][0]["variants"][0]["entry_points"][0]


def replaced_output(document: Json, tensors: Tensors, shape: list[int]) -> None:
    output = first_call(document)["outputs"][0]
    replaced(output, tensors, bytes(4 * shape[0] * shape[1]))
    output["shape"] = shape


def two_texts(document: Json) -> None:
    entries = document["kernels"][0]["variants"][0]["entry_points"]
    entries.append({**entries[0], "name": "other", "wgsl": 1})


@pytest.mark.parametrize(("sentence", "change"), HOSTILE, ids=[sentence for sentence, _ in HOSTILE])
def test_what_is_wrong_is_one_sentence_and_nothing_is_added(
    sentence: str, change: Change, suite: Suite, tmp_path: Path
) -> None:
    path = capture_of(suite, tmp_path / "page.capture", change=change)
    with pytest.raises(InputError) as refused:
        tml.import_capture(path, suite)
    assert sentence in str(refused.value)
    assert not Suite(suite.path).imported.tests


def test_a_capture_is_no_exported_test_nor_the_other_way_round(suite: Suite, tmp_path: Path) -> None:
    path = capture_of(suite, tmp_path / "page.safetensors")
    with pytest.raises(InputError, match="was captured in a page"):
        load_repro(path)
    exported = tmp_path / "one.safetensors"
    assert tapml("export", suite.path, suite.tests[0].id, "--safetensors", exported).code == 0
    assert read_capture(exported) is None
    with pytest.raises(InputError, match="is no captured call"):
        tml.import_capture(exported, suite)
    whole = path.read_bytes()
    for data, sentence in [(whole[:-1], "its tensors are"), (whole[:1000], "and 992 of them are there")]:
        path.write_bytes(data)
        with pytest.raises(InputError, match=f"no readable safetensors file: it is cut short: .*{sentence}") as refused:
            read_capture(path)
        assert "or capture the call" in str(refused.value)


@pytest.mark.parametrize(
    ("left_out", "why", "said"),
    [
        (1, [], "1 call was chosen, and is not in the file\n"),
        (2, ["too\nlarge", "odd"], "2 calls were chosen, and are not in the file: too large; odd\n"),
    ],
)
def test_calls_that_were_left_out_are_said_with_the_reason(
    left_out: int, why: list[str], said: str, suite: Suite, tmp_path: Path
) -> None:
    path = capture_of(suite, tmp_path / "page.capture", change=lambda d, _: d.update(left_out=left_out, why=why))
    assert said in tapml("import", path, "--into", suite.path).out


def test_a_compiled_model_is_no_suite_to_import_into(suite: Suite, tmp_path: Path) -> None:
    compiled = tmp_path / "small.tapml"
    compiled.mkdir()
    (compiled / "model.json").write_text("{}")
    ran = tapml("import", capture_of(suite, tmp_path / "page.capture"), "--into", compiled)
    assert ran.code == 2
    assert "is a compiled model, and no suite: give the suite that it was built from" in " ".join(ran.err.split())
