"""Tensors in parts: versions of a state, of which what is the same is stored once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask import Flask

from tapml.devices import Blobs
from tapml.errors import InputError
from tapml.files import sha256
from tapml.server.pages import blob_response
from tapml.suite import TensorRef, TensorStore
from tapml.suite.parts import MOST_TENSOR

HEADS, CAPACITY, WIDTH = 3, 64, 16


def growing(steps: int, prompt: int = 7) -> list[np.ndarray]:
    """A cache: empty, with a prompt, and with a token more each time."""
    rows = np.random.default_rng(0).standard_normal((HEADS, CAPACITY, WIDTH)).astype(np.float32)
    places = np.arange(CAPACITY)[None, :, None]
    return [np.where(places < count, rows, 0) for count in (0, *range(prompt, prompt + steps + 1))]


def turning(steps: int, window: int = 8) -> list[np.ndarray]:
    """A ring: a new token takes the place of the oldest."""
    rows = np.random.default_rng(0).standard_normal((HEADS, steps, WIDTH)).astype(np.float32)
    found = [np.zeros((HEADS, window, WIDTH), np.float32)]
    for step in range(steps):
        found.append(found[-1].copy())
        found[-1][:, step % window] = rows[:, step]
    return found


def stored_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("versions", [growing(40), turning(40), growing(0)[:1], [np.zeros((2, 9, 4), np.int32)] * 3])
def test_versions_are_read_back(tmp_path: Path, versions: list[np.ndarray]) -> None:
    refs = TensorStore(tmp_path / "tensors").put_versions(versions)
    store = TensorStore(tmp_path / "tensors")
    for ref, version in zip(refs, versions, strict=True):
        assert ref.digest == sha256(version.tobytes())
        np.testing.assert_array_equal(store.get(ref), version)
        assert b"".join(store.pieces(ref.digest)) == version.tobytes()
        store.verify(ref)


@pytest.mark.parametrize(("versions", "rows"), [(growing(40), 47), (turning(40), 40)])
def test_a_row_is_stored_once(tmp_path: Path, versions: list[np.ndarray], rows: int) -> None:
    store = TensorStore(tmp_path / "tensors")
    refs = store.put_versions(versions)
    sources = {path.stat().st_size for path in tmp_path.rglob("*.bin")}
    assert sources == {HEADS * rows * WIDTH * 4}
    assert stored_bytes(tmp_path) < sum(version.nbytes for version in versions) / 3
    assert store.in_parts
    store.put(versions[-1])
    assert len(list(tmp_path.rglob("*.bin"))) == 1, "what is there in parts is not stored again"
    assert len({ref.digest for ref in refs}) == len(list(tmp_path.rglob("*.json")))


@pytest.mark.parametrize(
    "versions",
    [
        [np.random.default_rng(n).standard_normal((4, 8)).astype(np.float32) for n in range(3)],
        [np.arange(n, n + 4, dtype=np.int32) for n in range(3)],
        [np.array(n, np.int32) for n in range(2)],
    ],
)
def test_what_has_nothing_in_common_is_stored_as_ever(tmp_path: Path, versions: list[np.ndarray]) -> None:
    store = TensorStore(tmp_path / "tensors")
    refs = store.put_versions(versions)
    assert not store.in_parts
    assert {path.stem for path in tmp_path.rglob("*.*")} == {ref.digest for ref in refs}


def test_a_server_sends_the_tensor(tmp_path: Path) -> None:
    versions = growing(4)
    store = TensorStore(tmp_path / "tensors")
    refs = store.put_versions(versions)
    blobs = Blobs()
    blobs.add_store(store)
    with Flask("blobs").test_request_context():
        answer = blob_response("+".join(ref.digest for ref in refs), blobs.find)
        assert b"".join(answer.iter_encoded()) == b"".join(version.tobytes() for version in versions)
        assert answer.content_length == sum(version.nbytes for version in versions)


Change = Callable[[dict[str, Any]], object]
CHANGES: dict[str, tuple[Change, str]] = {
    "a part behind the end": (lambda d: d["parts"][0].__setitem__(1, 1 << 40), "ends behind .*; copy the suite again"),
    "other ranges": (lambda d: d["parts"].reverse(), "is corrupted"),
    "too few": (lambda d: d["parts"].pop(), "is corrupted"),
    "endless zeros": (lambda d: d["parts"].append([MOST_TENSOR]), f"has at most {MOST_TENSOR}"),
    "endless parts": (lambda d: d.update(parts=[[1]] * 1_100_000), "lists and objects|bytes, and at most"),
    "a part of three": (lambda d: d["parts"].append([1, 2, 3]), r"parts\[\d+\]"),
    "a part of none": (lambda d: d["parts"].append([]), r"parts\[\d+\]"),
    "a negative offset": (lambda d: d["parts"][0].__setitem__(1, -4), r"parts\[0\]\[1\]"),
    "a negative size": (lambda d: d["parts"][0].__setitem__(0, -4), r"parts\[0\]\[0\]"),
    "text": (lambda d: d.update(parts="all"), "parts"),
    "a path": (lambda d: d.update(source="../../etc/passwd"), "source"),
    "itself": (lambda d: d.update(source=sha256(growing(3)[-1].tobytes())), r"\.bin is missing"),
    "another format": (lambda d: d.update(format="tapml.repro/1"), "not a tensor in parts"),
    "a newer format": (lambda d: d.update(format="tapml.parts/2"), "newer tapml"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_damaged_document_is_one_sentence(tmp_path: Path, name: str) -> None:
    change, said = CHANGES[name]
    store = TensorStore(tmp_path / "tensors")
    ref = store.put_versions(growing(3))[-1]
    path = store.path(ref.digest).with_suffix(".json")
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    for read in (store.verify, store.get):
        with pytest.raises(InputError, match=said) as raised:
            read(ref)
        assert "\n" not in str(raised.value)


def test_what_is_missing_or_changed_is_named(tmp_path: Path) -> None:
    store = TensorStore(tmp_path / "tensors")
    refs = store.put_versions(growing(3))
    store.verify(refs[-1])
    (source,) = tmp_path.rglob("*.bin")
    source.write_bytes(b"\1" * source.stat().st_size)
    with pytest.raises(InputError, match=f"tensor {refs[-1].digest} is corrupted"):
        store.verify(refs[-1])
    source.unlink()
    with pytest.raises(InputError, match=r"\.bin is missing"):
        store.get(refs[-1])
    store.path(refs[0].digest).with_suffix(".json").unlink()
    with pytest.raises(InputError, match=f"tensor {refs[0].digest} is missing"):
        store.get(refs[0])


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    store = TensorStore(tmp_path / "tensors")
    ref = store.put_versions(growing(3))[-1]
    path = store.path(ref.digest).with_suffix(".json")
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(InputError, match="symbolic link"):
        store.get(ref)


def test_a_tensor_is_no_larger_than_its_reference(tmp_path: Path) -> None:
    """However many zeros a document asks for: nothing of it is read."""
    store = TensorStore(tmp_path / "tensors")
    ref = store.put_versions(growing(3))[-1]
    path = store.path(ref.digest).with_suffix(".json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "parts": [[MOST_TENSOR]]}))
    with pytest.raises(InputError, match="is corrupted"):
        store.get(TensorRef(ref.digest, ref.dtype, ref.shape))
