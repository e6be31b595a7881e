"""The suite on disk: what is written is read back, damage is named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from helpers import small_model
from tapml.carving.carve import carve
from tapml.errors import InputError
from tapml.files import write_text
from tapml.suite import Suite, SuiteWriter, TensorStore
from tapml.suite.suite import write_kernel


def test_tensors_are_stored_once(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    first, second = store.put(array), store.put(array.copy())
    assert first == second
    assert len(list(tmp_path.rglob("*.bin"))) == 1
    np.testing.assert_array_equal(store.get(first), array)


def test_a_tensor_that_another_writer_left_half_written_is_written_whole(tmp_path: Path) -> None:
    store = TensorStore(tmp_path / "tensors", unseen=True)
    array = np.arange(6, dtype=np.float32)
    ref = store.put(array)
    store.path(ref.digest).write_bytes(b"ha")
    assert store.put(array) == ref
    np.testing.assert_array_equal(store.get(ref), array)


def test_transposed_and_big_endian_arrays_are_stored_dense_and_little_endian(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    array = np.arange(6, dtype=">f4").reshape(2, 3)
    assert store.put(array.T).digest == store.put(np.ascontiguousarray(array.T).astype("<f4")).digest


@pytest.mark.parametrize("digest", ["../../etc/passwd", "", "A" * 64, "0" * 63])
def test_only_digests_are_paths(tmp_path: Path, digest: str) -> None:
    with pytest.raises(InputError, match="no SHA-256 digest"):
        TensorStore(tmp_path).path(digest)


def test_a_suite_reads_back_what_was_carved(suite: Suite) -> None:
    assert [test.node for test in suite.tests] == [node.id for node in suite.graph.kernel_nodes]
    assert suite.program.to_json() == json.loads((suite.path / "program.json").read_text())
    assert {value.name for value in suite.graph.parameters} == {"layer.weight", "layer.bias", "head.weight"}
    suite.verify()


def test_disk_size_stays_near_the_tensors(suite: Suite) -> None:
    # The small model's text outweighs its tensors; the MiniLM number is in benchmarks/.
    tensors = sum(suite.tensors.path(digest).stat().st_size for digest in suite.digests())
    files = sum(path.stat().st_size for path in (suite.path / "tensors").rglob("*.bin"))
    assert files == tensors


def test_a_corrupted_tensor_is_named(suite: Suite) -> None:
    digest = suite.tests[0].outputs[0].digest
    path = suite.tensors.path(digest)
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=f"tensor {digest} is corrupted"):
        suite.verify()
    with pytest.raises(InputError, match=digest):
        suite.tensors.get(suite.tests[0].outputs[0])


def test_a_missing_tensor_is_named(suite: Suite) -> None:
    digest = suite.tests[0].inputs[0].digest
    suite.tensors.path(digest).unlink()
    with pytest.raises(InputError, match=f"tensor {digest} is missing"):
        suite.verify()


def test_a_newer_format_is_refused(suite: Suite) -> None:
    manifest = json.loads((suite.path / "suite.json").read_text())
    (suite.path / "suite.json").write_text(json.dumps({**manifest, "format": "tapml.suite/4"}))
    with pytest.raises(InputError, match=r"newer tapml .*pip install --upgrade"):
        Suite(suite.path)


@pytest.mark.parametrize("content", ["", "{", '{"format": "other/1"}', "[]"])
def test_what_is_no_suite_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "suite.json").write_text(content)
    with pytest.raises(InputError, match=r"suite.json"):
        Suite(tmp_path)


def test_an_edited_kernel_is_noticed(suite: Suite) -> None:
    assert suite.edited_kernels == []
    name = suite.kernels[0]
    path = suite.path / "kernels" / f"{name}.wgsl"
    path.write_text(path.read_text() + "// tuned\n")
    assert suite.edited_kernels == [name]


def test_unknown_names_say_what_there_is(suite: Suite) -> None:
    with pytest.raises(InputError, match=rf"no kernel 'nothing'.*{suite.kernels[0]}"):
        suite.bundle("nothing")
    with pytest.raises(InputError, match=r"no test 'n999\.s0'"):
        suite.test("n999.s0")


def test_nothing_is_left_when_writing_fails(tmp_path: Path) -> None:
    def write() -> None:
        with SuiteWriter(tmp_path / "half.suite") as writer:
            writer.tensors.put(np.zeros(3))
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        write()
    assert list(tmp_path.iterdir()) == []


def test_an_existing_suite_is_replaced_only_on_demand(suite: Suite) -> None:
    with pytest.raises(InputError, match="--force"):
        carve(small_model(), suite.path, name="small")
    (suite.path / "kernels" / "mine.txt").write_text("an edit")
    carve(small_model(), suite.path, name="other", overwrite=True)
    assert Suite(suite.path).name == "other"
    assert not (suite.path / "kernels" / "mine.txt").exists()


def test_a_folder_that_is_no_suite_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is not a suite"):
        SuiteWriter(tmp_path, overwrite=True)


def test_what_does_not_read_as_a_suite_is_not_left_on_disk(suite: Suite, tmp_path: Path) -> None:
    with SuiteWriter(tmp_path / "damaged.suite") as writer:
        for name in suite.kernels:
            write_kernel(writer.folder, {**suite.bundle(name), "arguments": []}, {})
        with pytest.raises(InputError, match=r"damaged\.suite/kernels/\w+\.json: variants"):
            writer.finish(suite.manifest, suite.program, [], {})
    assert [path.name for path in tmp_path.iterdir()] == [suite.path.name]


def test_a_suite_carved_again_keeps_history_and_links(suite: Suite) -> None:
    for name, text in (("shares/a.json", "a link"), ("results/history.sqlite3", "runs"), ("results/x.json", "old")):
        write_text(suite.path / name, text)
    with SuiteWriter(suite.path, overwrite=True) as writer:
        for name in suite.kernels:
            write_kernel(writer.folder, suite.bundle(name), {file.name: file.text for file in suite.kernel_files(name)})
        writer.finish(suite.manifest, suite.program, [], {})
    assert (suite.path / "shares" / "a.json").read_text() == "a link"
    assert (suite.path / "results" / "history.sqlite3").read_text() == "runs"
    assert not (suite.path / "results" / "x.json").exists(), "results of tests that are no more"
