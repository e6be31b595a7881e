"""Somebody's test as a suite, and beside the tests of another suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import FakeRunner, all_pass
from repro_helpers import keep_result
from tapml.devices import Blobs, DeviceHub
from tapml.errors import InputError
from tapml.sharing import Repro, of_suite
from tapml.sharing.imports import add_to_suite, new_suite
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.hybrid import carved_choices
from tapml.validation.offload import Offload
from tapml.validation.operatorwise import OperatorRun


def test_an_opened_test_is_a_suite_that_validates(repro: Repro, tmp_path: Path) -> None:
    suite = new_suite(repro, tmp_path / "one.suite")
    (test,) = suite.tests
    assert suite.kernels == [repro.document.test.kernel]
    assert suite.bundle(test.kernel) == repro.document.kernel
    device = FakeRunner(DeviceHub(), all_pass).device
    document = OperatorRun(JobContext(suite, [device], Blobs())).run()
    assert document["summary"]["pass"] == 1
    again = of_suite(suite, test.id)
    assert again.document.inputs == repro.document.inputs
    assert again.document.outputs == repro.document.outputs
    assert again.document.files == repro.document.files


def test_what_was_reported_comes_along_as_a_result(repro: Repro, tmp_path: Path) -> None:
    suite = new_suite(repro, tmp_path / "one.suite")
    (document,) = suite.results("validation")
    assert document["devices"][0]["name"] == "Fake 1 (reported)"
    (result,) = document["tests"]
    assert (result["id"], result["verdict"], result["mismatched"]) == ("n000.s0", "fail", 6)
    report = of_suite(suite, "n000.s0").document.report
    assert report is not None
    assert report.result["message"] == "6 of 96 elements differ"


def test_an_opened_test_has_no_model_to_offload(repro: Repro, tmp_path: Path) -> None:
    suite = new_suite(repro, tmp_path / "one.suite")
    with pytest.raises(InputError, match="no model"):
        Offload(JobContext(suite, [FakeRunner(DeviceHub(), all_pass).device], Blobs()))


def test_a_test_joins_a_suite_and_the_model_stays_as_it_is(repro: Repro, suite: Suite, tmp_path: Path) -> None:
    stranger = new_suite(repro, tmp_path / "one.suite")
    kernel = stranger.path / "kernels" / repro.document.wgsl_names[0]
    kernel.write_text(kernel.read_text() + "// another implementation\n")
    before, identity = len(suite.tests), suite.id
    test_id = add_to_suite(of_suite(stranger, "n000.s0"), suite)
    joined = Suite(suite.path)
    assert (len(joined.tests), joined.id) == (before + 1, identity)
    assert joined.model_graph.to_json() == suite.graph.to_json()
    added = joined.test(test_id)
    assert added.kernel == f"{repro.document.test.kernel}_2", "the suite has another kernel of that name"
    assert joined.kernel_files(added.kernel)[0].text.endswith("// another implementation\n")
    assert joined.kernel_files(repro.document.test.kernel)[0].text == repro.document.files[0].text
    joined.verify()
    document = OperatorRun(JobContext(joined, [FakeRunner(DeviceHub(), all_pass).device], Blobs())).run()
    assert document["summary"]["pass"] == before + 1
    assert carved_choices(joined, joined.graphs[0], joined.tests) == {}, "its node is none of the model's"


def test_a_test_that_is_there_already_is_not_added_again(repro: Repro, suite: Suite, tmp_path: Path) -> None:
    assert add_to_suite(repro, suite) == repro.document.test.id
    stranger = new_suite(repro, tmp_path / "one.suite")
    kernel = stranger.path / "kernels" / repro.document.wgsl_names[0]
    kernel.write_text(kernel.read_text() + "// another implementation\n")
    other = of_suite(stranger, "n000.s0")
    first = add_to_suite(other, suite)
    assert add_to_suite(other, Suite(suite.path)) == first
    assert len(Suite(suite.path).imported.tests) == 1


def test_what_was_reported_of_another_text_of_a_kernel_does_not_stay(suite: Suite) -> None:
    """As with validations: results stand beside each other where they are of one text of their kernel."""
    first, second, other = (
        *(test.id for test in suite.tests if test.kernel == "softmax"),
        next(test.id for test in suite.tests if test.kernel != "softmax"),
    )

    def reported() -> dict[str, str]:
        (found,) = (found for found in suite.results("validation") if "(reported)" in found["devices"][0]["name"])
        return {test["id"]: test["verdict"] for test in found["tests"]}

    for test in (first, other):
        keep_result(suite, test)
        add_to_suite(of_suite(suite, test), suite)
    assert reported() == {first: "fail", other: "fail"}
    file = suite.path / "kernels" / "softmax.wgsl"
    file.write_text(file.read_text() + "\n// another kernel now\n")
    keep_result(suite, second, "pass")
    add_to_suite(of_suite(suite, second), suite)
    assert reported() == {second: "pass", other: "fail"}


def test_a_damaged_list_of_imports_is_named(repro: Repro, suite: Suite) -> None:
    (suite.path / "imported.json").write_text('{"format": "tapml.imported/1", "tests": 3}')
    with pytest.raises(InputError, match=r"imported\.json"):
        Suite(suite.path)
    (suite.path / "imported.json").write_text('{"format": "tapml.imported/9"}')
    with pytest.raises(InputError, match="newer tapml"):
        Suite(suite.path)
