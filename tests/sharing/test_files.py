"""Every form of an exported test: written whole, read again, and harmless whatever names it holds."""

from __future__ import annotations

import html.parser
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from bounded import INDICES, bounded_suite
from repro_helpers import keep_result, nasty, read_data
from tapml.devices.messages import digest_now
from tapml.errors import InputError
from tapml.sharing import Repro, export, file_name, load_repro, of_suite
from tapml.sharing.document import checked
from tapml.sharing.html_file import html_file
from tapml.sharing.imports import add_to_suite, new_suite
from tapml.suite import Suite

READABLE = {"html": "x.html", "safetensors": "x.safetensors", "python": "x.py", "wgsl": "x"}


@pytest.mark.parametrize("form", READABLE)
def test_a_test_comes_back_whole(repro: Repro, form: str, tmp_path: Path) -> None:
    path = tmp_path / READABLE[form]
    written = export(repro, form, path)
    assert all(found.exists() for found in written)
    again = load_repro(path)
    assert again.document == repro.document
    for array, expected in zip(again.inputs + again.expected, repro.inputs + repro.expected, strict=True):
        np.testing.assert_array_equal(array, expected)


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Suite, dict[str, str]]:
    return bounded_suite(tmp_path_factory.mktemp("bounded") / "bounded.suite")


@pytest.mark.parametrize("case", ["open", "ties"])
@pytest.mark.parametrize("form", READABLE)
def test_bounds_and_ties_come_along(
    bounded: tuple[Suite, dict[str, str]], form: str, case: str, tmp_path: Path
) -> None:
    suite, cases = bounded
    repro = of_suite(suite, cases[case])
    export(repro, form, tmp_path / READABLE[form])
    again = load_repro(tmp_path / READABLE[form])
    assert again.document == repro.document
    np.testing.assert_array_equal(again.bounds[0], repro.bounds[0])
    got = INDICES + 1
    if case == "open":
        assert np.isinf(again.bounds[0]).sum() == 2
    else:
        assert again.tied(0, got).tolist() == [True, True, *[False] * 6]
    assert new_suite(again, tmp_path / "new.suite").tests[0].tolerances == suite.test(cases[case]).tolerances
    assert add_to_suite(again, Suite(suite.path)) == cases[case], "it is there already"


def test_the_formats_own_library_reads_the_safetensors_file(repro: Repro, tmp_path: Path) -> None:
    export(repro, "safetensors", tmp_path / "x.safetensors")
    arrays = load_file(tmp_path / "x.safetensors")
    assert arrays.keys() == repro.arrays.keys()
    for name, array in repro.arrays.items():
        np.testing.assert_array_equal(arrays[name], array)


def test_a_document_of_before_there_were_bounds_is_read(repro: Repro) -> None:
    found = json.loads(repro.document.model_dump_json())
    for output in found["outputs"]:
        output["tolerance"] = {"absolute": 0.5, "relative": 0.25, "reasons": []}
    for field in ("unbounded", "tied"):
        del found["report"]["result"][field]
    for element in ("first", "worst"):
        del found["report"]["result"][element]["bound"]
    document = checked("old", found)
    assert len(document.tensors) == len(document.arguments)
    expected = repro.expected[0].astype(np.float64)
    np.testing.assert_array_equal(Repro(document, repro.pieces).bounds[0], 0.5 + 0.25 * np.abs(expected))


@pytest.mark.parametrize("form", [*READABLE, "markdown"])
def test_what_exists_is_replaced_only_when_told_to(repro: Repro, form: str, tmp_path: Path) -> None:
    path = tmp_path / READABLE.get(form, "x.md")
    export(repro, form, path)
    with pytest.raises(InputError, match="exists"):
        export(repro, form, path)
    export(repro, form, path, overwrite=True)
    assert not [left for left in tmp_path.iterdir() if left.name.startswith(".")]


def test_a_folder_with_something_else_in_it_is_never_replaced(repro: Repro, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("ten years of work")
    with pytest.raises(InputError, match="will not be replaced"):
        export(repro, "wgsl", tmp_path, overwrite=True)
    assert (tmp_path / "thesis.tex").exists()


def test_a_missing_folder_is_named_and_not_made(repro: Repro, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        export(repro, "html", tmp_path / "new" / "x.html")
    assert not (tmp_path / "new").exists()


def test_what_people_take_for_an_exported_test_is_told_from_one(suite: Suite, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a suite, not an exported test"):
        load_repro(suite.path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="no folder that"):
        load_repro(tmp_path / "folder")
    with pytest.raises(InputError, match="is a link: open it in a browser"):
        load_repro("http://127.0.0.1:8808/s/abc")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load_repro(tmp_path / "nothing.html")


def test_wgsl_changed_in_the_folder_counts_as_edited(repro: Repro, tmp_path: Path) -> None:
    export(repro, "wgsl", tmp_path / "x")
    (name,) = repro.document.wgsl_names
    path = tmp_path / "x" / name
    path.write_text(path.read_text() + "// mine\n")
    assert not repro.document.files[0].edited
    again = load_repro(tmp_path / "x").document
    assert again.report is None, "it is of the WGSL before"
    (file,) = again.files
    assert file.edited
    assert file.text.endswith("// mine\n")


class _Elements(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.scripts.append(dict(attrs))


def test_names_and_wgsl_cannot_break_out_of_the_html_file(repro: Repro, tmp_path: Path) -> None:
    harmless, harmful = html_file(repro), html_file(nasty(repro))
    parsed = []
    for data in (harmless, harmful):
        elements = _Elements()
        elements.feed(data.decode("cp1252", "replace"))
        parsed.append(elements.scripts)
        assert b"alert(1)</script" not in data
    runs = [[s for s in scripts if s.get("type") in (None, "module")] for scripts in parsed]
    assert len(runs[0]) == len(runs[1]) == 1, "one script runs, the template's"
    assert len(parsed[0]) == len(parsed[1])
    assert read_data("x", harmful, tmp_path).document == nasty(repro).document


def test_the_html_file_may_fetch_nothing(repro: Repro) -> None:
    text = html_file(repro)[:2000].decode("ascii")
    assert "default-src 'none'" in text
    assert "connect-src" not in text
    assert "script-src 'sha256-" in text


def test_the_html_file_is_hardly_larger_than_its_tensors(repro: Repro) -> None:
    assert len(html_file(repro)) < sum(len(repro.read(digest)) for digest in repro.digests) + 300_000


def damaged_tensor(data: bytes) -> bytes:
    place = data.index(b'data-block="') + 60
    return data[:place] + bytes([data[place] ^ 1 or 1]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (damaged_tensor, "damaged on its way"),
        (lambda data: data.replace(b'id="repro">{', b'id="repro">{"x": 1,'), "x"),
        (lambda data: data.replace(b'"tapml.repro/2"', b'"tapml.repro/9"'), "newer tapml"),
        (lambda data: data.replace(b"text/wgsl", b"text/lost"), "lacks the WGSL"),
        (lambda data: data.replace(b"data-digest", b"data-lost"), "lacks the tensor"),
        (lambda data: data[: data.index(b'id="repro"')], "no exported test"),
        (lambda data: b"<!doctype html><p>my homepage", "no exported test"),
        (lambda data: b"GIF89a", "no exported test"),
        (lambda data: b"", "no exported test"),
    ],
)
def test_a_damaged_file_is_one_clear_error(repro: Repro, change: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read_data("somebody.html", change(html_file(repro)), tmp_path)
    assert "somebody.html" in str(caught.value)


CHANGES: dict[str, tuple[Any, str]] = {
    "kernel with a path": (lambda d: d["test"].update(kernel="../../etc/cron.d/x"), "kernel"),
    "file with a path": (lambda d: d["files"][0].update(name="../x.wgsl"), "files"),
    "entry point's file with a path": (
        lambda d: d["kernel"]["variants"][0]["entry_points"][0].update(file="../x.wgsl"), "file",
    ),
    "another kernel described": (lambda d: d["kernel"].update(kernel="other"), "describes 'other'"),
    "a dtype WebGPU lacks": (lambda d: d["inputs"][0].update(dtype="float64"), "dtype"),
    "a shape the kernel does not take": (lambda d: d["inputs"][0].update(shape=[1]), "dtypes and shapes"),
    "an infinite tolerance": (lambda d: d["outputs"][0]["tolerance"].update(absolute=1e999), "absolute"),
    "a bound of another shape": (
        lambda d: d["outputs"][0]["tolerance"].update(bound={"digest": "0" * 64, "dtype": "float32", "shape": [1]}),
        r"outputs\[0\].tolerance\.bound: float32\[1\], and its output.s shape wants float32",
    ),
    "ties of an output of floats": (
        lambda d: d["outputs"][0]["tolerance"].update(ties={"digest": "0" * 64, "dtype": "int32", "shape": [1, 3]}),
        "ties are for integers",
    ),
    "a negative step": (lambda d: d["test"].update(step=-1), "step"),
    "no output": (lambda d: d.update(outputs=[]), "outputs"),
    "a verdict of its own": (lambda d: d["report"]["result"].update(verdict="great"), "verdict"),
    "a field nobody knows": (lambda d: d.update(extra=1), "extra"),
    "another format": (lambda d: d.update(format="tapml.suite/1"), "not an exported test"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_each_wrong_field_is_named(repro: Repro, name: str) -> None:
    change, said = CHANGES[name]
    found = json.loads(repro.document.model_dump_json())
    change(found)
    with pytest.raises(InputError, match=said):
        checked("x.html", found)


def test_the_worst_device_is_reported_unless_one_is_named(suite: Suite, test_id: str) -> None:
    keep_result(suite, test_id, "pass", "Good 1")
    keep_result(suite, test_id, "fail", "Bad 1")
    report = of_suite(suite, test_id).document.report
    assert report is not None
    assert report.device["name"] == "Bad 1"
    report = of_suite(suite, test_id, "good").document.report
    assert report is not None
    assert report.result["verdict"] == "pass"
    with pytest.raises(InputError, match="there are results of Bad 1, Good 1"):
        of_suite(suite, test_id, "ugly")


def test_no_verdict_goes_along_with_other_wgsl_than_it_is_of(suite: Suite, test_id: str) -> None:
    kernel = suite.test(test_id).kernel
    keep_result(suite, test_id, "pass", "Good 1", kernels={kernel: digest_now(suite, kernel)})
    keep_result(suite, test_id, "fail", "Early 1")  # of an earlier version of tapml, which kept no digests
    file = suite.path / "kernels" / suite.kernel_files(kernel)[0].name
    text = file.read_text()
    file.write_text(f"{text}// edited\n")
    found = of_suite(suite, test_id).document
    assert found.report is not None
    assert (found.report.device["name"], found.others) == ("Early 1", [])
    with pytest.raises(InputError, match=f"what Good 1 said of test .* is of other WGSL: {kernel} was edited since"):
        of_suite(suite, test_id, "good")
    # It is of the same text again.
    file.write_text(text)
    report = of_suite(suite, test_id, "good").document.report
    assert report is not None
    assert report.result["verdict"] == "pass"


def test_a_file_name_is_fit_for_every_system(repro: Repro) -> None:
    assert file_name(repro, "html") == f"{repro.document.test.kernel}-{repro.document.test.id}.html"
