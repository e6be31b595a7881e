"""Suites and exported tests of former versions, as the code of then wrote them, still open, run and are exported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tapml.errors import InputError
from tapml.kernels.document import kernel_document
from tapml.server import Server
from tapml.sharing.files import export, load_repro
from tapml.sharing.imports import new_suite
from tapml.sharing.repro import of_suite
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

FORMER = Path(__file__).parents[1] / "former"
Document = dict[str, Any]


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """A copy of a suite with documents of tapml.kernel/2."""
    return Path(shutil.copytree(FORMER / "kernel-2", tmp_path / "former.suite"))


def version_2() -> Document:
    document: Document = json.loads((FORMER / "kernel-2/kernels/softmax.json").read_text())
    assert document["format"] == "tapml.kernel/2"
    return document


def version_1() -> Document:
    """As tapml wrote it before there were variants."""
    document = version_2()
    (variant,) = document.pop("variants")
    shapes = [argument["shape"] for argument in document["arguments"]]
    launched = {"shapes": shapes, "launches": variant["launches"], "temporaries": variant["temporaries"]}
    stated = {"entry_points": variant["entry_points"], "dispatches": [launched], "requires": variant["requires"]}
    return {**document, **stated, "format": "tapml.kernel/1"}


def read(document: Document) -> Document:
    return kernel_document(Path("softmax.json"), document)


def test_every_kernel_reads_as_what_is_generated_today(former: Path, carved: Path) -> None:
    before, now = Suite(former), Suite(carved)
    assert before.kernels == now.kernels
    for kernel in before.kernels:
        was, fresh = before.bundle(kernel), now.bundle(kernel)
        assert {**was, "compiler": None} == {**fresh, "compiler": None}
        # What tells an edit of its launches former versions did not write.
        generated = {"generated_sha256": fresh["compiler"]["generated_sha256"]}
        assert {**was["compiler"], **generated} == fresh["compiler"]
    assert before.edited_kernels == []
    assert json.loads((former / "kernels/softmax.json").read_text()) == version_2(), "left as it was"


def test_version_1_reads_as_version_2_does() -> None:
    assert read(version_1()) == read(version_2())
    unsupported = {**version_1(), "entry_points": [], "dispatches": [], "requires": {}, "unsupported": "no WGSL"}
    assert read(unsupported)["variants"] == []


def test_a_former_suite_runs_and_so_does_what_is_exported_of_it(former: Path, tmp_path: Path) -> None:
    suite = Suite(former)
    file = tmp_path / "softmax.html"
    export(of_suite(suite, "n002.s0"), "html", file)
    again = new_suite(load_repro(file), tmp_path / "again.suite")
    with Server() as server:
        for found in (suite, again):
            result = OperatorRun(JobContext(found, [server.state.device("node-dawn")], server.state.blobs)).run()
            assert [test["verdict"] for test in result["tests"]] == ["pass"] * len(found.tests)
    assert again.bundle("softmax") == suite.bundle("softmax")


@pytest.mark.parametrize("name", ["repro-1.html", "repro-1.safetensors"])
def test_a_former_exported_test_opens(name: str) -> None:
    document = load_repro(FORMER / name).document
    assert [document.format, document.kernel["format"], dict(document.test.sizes)] == [
        "tapml.repro/2", "tapml.kernel/4", {},
    ]  # fmt: skip
    assert document.kernel == read(version_2())


def launched(document: Document, arguments: list[Document], types: list[str], dispatch: list[int]) -> Document:
    variant = document["variants"][0]
    variant["launches"][0] |= {"arguments": arguments, "dispatch": dispatch}
    variant["entry_points"][0]["info"]["arg_types"] = types
    return document


def test_scalars_and_folded_grids_mean_what_they_meant() -> None:
    arguments = [{"argument": 1}, {"scalar": 7.0, "dtype": "int32"}, {"scalar": 0.5, "dtype": "float32"}]
    types = ["handle", "int32", "float32", "handle", "uint32"]
    more = [{"argument": 0}, {"scalar": 4e9, "dtype": "uint32"}]
    made = read(launched(version_2(), [*arguments, *more], types, [200_001, 2, 1]))["variants"][0]
    (launch,) = made["launches"]
    assert launch["operands"] == [{"argument": 1}, {"argument": 0}]
    assert [(uniform["dtype"], uniform["value"]) for uniform in launch["uniforms"]] == [
        ("int32", 7), ("float32", 0.5), ("uint32", 4_000_000_000), ("uint32", 200_001),
    ]  # fmt: skip
    assert launch["grid"] == [50_001, 2, 4], "halved twice, as devices did"
    accesses = [binding["access"] for binding in made["entry_points"][0]["bindings"]]
    assert accesses == ["read_write", "read", "uniform"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["variants"][0]["entry_points"][0].pop("info"), "variants[0].entry_points[0].info"),
        (lambda d: d["variants"][0]["launches"][0]["arguments"].pop(), "launches[0].arguments: 1 given"),
        (lambda d: d["variants"][0]["launches"][0].update(dispatch=[1, -1, 1]), "launches[0].dispatch[1]"),
        (lambda d: d["variants"][0]["launches"][0].update(dispatch=[2**70, 1, 1]), "launches[0].dispatch[0]"),
        (lambda d: d["variants"][0]["launches"][0]["arguments"][0].update(argument=9), "operands[0].argument"),
        (lambda d: d["variants"][0]["entry_points"][0].update(bindings=[{"binding": [0]}], file=3), "file"),
        (lambda d: d.pop("generator"), "generator"),
        (lambda d: d.update(variants={}), "variants"),
    ],
)
def test_damage_names_file_and_field(change: Any, words: str) -> None:
    document = version_2()
    change(document)
    with pytest.raises(InputError) as caught:
        read(document)
    assert "softmax.json: " in str(caught.value)
    assert words in str(caught.value)
