"""A model's inputs from files that lie about their size, their elements or themselves."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.lib import format as npy_format

from tapml.errors import InputError
from tapml.importing.inputs import InputSpec, gather_steps

X = np.arange(6, dtype=np.float32).reshape(2, 3)
SPECS = [InputSpec("x", "float32", ("rows", 3))]
SMALL = 32 << 20


def read(path: Path) -> np.ndarray:
    """As `tapml carve` does, by either option."""
    if path.suffix == ".npy":
        (step,) = gather_steps(SPECS, [], {"x": path}, False, 0)
    else:
        (step,) = gather_steps(SPECS, [path], {}, False, 0)
    return step.arrays["x"]


def refused(path: Path, said: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=said) as caught:
            read(path)
        assert tracemalloc.get_traced_memory()[1] < SMALL
    finally:
        tracemalloc.stop()
    assert path.name in str(caught.value)
    assert len(str(caught.value)) < 1000


# ---------------------------------------------------------------------- npy


def npy(text: str | bytes, data: bytes = b"", version: tuple[int, int] = (1, 0), length: int | None = None) -> bytes:
    header = text.encode() if isinstance(text, str) else text
    size = len(header) if length is None else length
    return npy_format.magic(*version) + struct.pack("<H" if version == (1, 0) else "<I", size) + header + data


def described(descr: Any = "<f4", shape: str = "(2, 3)", fortran: str = "False") -> str:
    return f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}}}\n"


def saved(array: np.ndarray) -> bytes:
    target = io.BytesIO()
    np.save(target, array)
    return target.getvalue()


HOSTILE_NPY: dict[str, tuple[bytes, str]] = {
    "4 TB": (npy(described(shape="(1000000000000, 3)"), b"x" * 100), "1073741824 bytes"),
    "900 MiB and no bytes": (npy(described(shape="(75000000, 3)")), "900000000 bytes, and holds 0"),
    "extents that overflow": (
        npy(described(shape="(4294967296, 4294967296, 4294967296)")),
        "1073741824 bytes",
    ),
    "impossible extents and no element": (
        npy(described(shape="(4294967296, 4294967296, 0)")),
        "1073741824 bytes",
    ),
    "forty dimensions": (npy(described(shape=str((1,) * 40)), bytes(4)), "more than|says"),
    "a negative extent": (npy(described(shape="(-2, -3)"), bytes(24)), "shape"),
    "true as an extent": (npy(described(shape="(True, 3)"), bytes(12)), "shape"),
    "1.5 as an extent": (npy(described(shape="(1.5, 3)"), bytes(24)), "header cannot be read"),
    "a number of 5000 digits": (npy(described(shape=f"({'9' * 5000}, 3)")), "header cannot be read|says"),
    "objects": (npy(described("|O"), bytes(48)), "no plain numbers"),
    "texts": (npy(described("<U4"), bytes(96)), "no plain numbers"),
    "dates": (npy(described("<M8[ns]"), bytes(48)), "no plain numbers"),
    "structures": (npy(described([("a", "<f4")]), bytes(24)), "no plain numbers"),
    "structures of objects": (npy(described([("a", "|O")]), bytes(48)), "no plain numbers"),
    "nameless bytes": (npy(described("|V4"), bytes(24)), "no plain numbers"),
    "a dtype that nobody knows": (npy(described("nonsense")), "header cannot be read"),
    "a dtype that runs": (npy(described("__import__('os').system('touch pwned')")), "header cannot be read"),
    "code for a header": (npy("__import__('os').system('touch pwned')\n"), "header cannot be read"),
    "deep brackets": (npy("(" * 9000 + "\n"), "header cannot be read"),
    "deep signs": (npy("-" * 9000 + "1\n"), "header cannot be read"),
    "many zeros": (npy("{'shape': " + "[" * 4000 + "]" * 4000 + "}\n"), "header cannot be read"),
    "a header of 4 GB": (npy("{", version=(2, 0), length=2**32 - 1), "header has 4294967295 bytes"),
    "a header of 60 kB": (npy(" " * 60_000), "header has 60000 bytes"),
    "a header that ends early": (npy("{'descr'", length=500), "header cannot be read"),
    "a header that is no text": (npy(bytes(range(256))), "header cannot be read"),
    "another version": (npy(described(), version=(9, 0)), "version|magic"),
    "nothing": (b"", "magic|not a readable"),
    "a byte": (b"\x93", "magic|not a readable"),
    "only the magic": (npy_format.magic(1, 0), "header cannot be read|says"),
    "cut short": (saved(X)[:-1], "24 bytes, and holds 23"),
    "something behind": (saved(X) + b"x", "24 bytes, and holds 25"),
    "a pickle": (b"\x80\x04K\x01.", "magic|not a readable"),
    "a zip": (b"PK\x03\x04" + bytes(100), "several arrays"),
    "a truth": (npy(described(fortran="'no'"), bytes(24)), "header cannot be read"),
}


@pytest.mark.parametrize("name", HOSTILE_NPY)
def test_a_hostile_npy_is_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data, said = HOSTILE_NPY[name]
    (tmp_path / "x.npy").write_bytes(data)
    refused(tmp_path / "x.npy", said)
    assert not (tmp_path / "pwned").exists()
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", data)
    refused(tmp_path / "x.npz", ".")


@pytest.mark.parametrize(
    "array",
    [X, np.asfortranarray(X), X.astype(">f4"), np.asfortranarray(X.astype(">f8")), X[:, ::-1][:, ::-1], X.astype("f2")],
    ids=["plain", "fortran", "big endian", "both", "views", "half"],
)
def test_what_numpy_writes_is_read(array: np.ndarray, tmp_path: Path) -> None:
    for version in ((1, 0), (2, 0), (3, 0)):
        with (tmp_path / "x.npy").open("wb") as file:
            npy_format.write_array(file, array, version=version)
        np.testing.assert_array_equal(read(tmp_path / "x.npy"), X)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "x.npz", x=array)
        np.testing.assert_array_equal(read(tmp_path / "x.npz"), X)
    assert read(tmp_path / "x.npz").flags.c_contiguous


def test_a_scalar_and_an_empty_array_are_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.float32(3), b=np.zeros((0, 4), np.int64))
    specs = [InputSpec("a", "float32", ()), InputSpec("b", "int64", (None, 4))]
    (step,) = gather_steps(specs, [tmp_path / "x.npz"], {}, False, 0)
    assert (step.arrays["a"].shape, step.arrays["b"].shape) == ((), (0, 4))


# ---------------------------------------------------------------------- npz


def zipped(*members: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED, **changes: int) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
        for member in archive.infolist():
            for field, value in changes.items():
                setattr(member, field, value)
    return target.getvalue()


def twice() -> bytes:
    with pytest.warns(UserWarning, match="Duplicate name"):
        return zipped(("x.npy", saved(X)), ("x.npy", saved(X + 1)))


def bomb() -> bytes:
    """3.6 MB that say, truly, that they are 3.6 GB; made of one block again and again."""
    header = npy(described(shape="(300000000, 3)"))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        file.write(header)
        file.write(bytes(10_000_000))
    data = bytearray(target.getvalue())
    # The list of contents says what zipfile believes.
    place = data.rindex(b"PK\x01\x02")
    data[place + 24 : place + 28] = struct.pack("<I", len(header) + 3_600_000_000)
    return bytes(data)


def large() -> bytes:
    """300 MB of zeros, all there."""
    target = io.BytesIO()
    with (
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w") as x,
    ):
        x.write(npy(described(shape="(25000000, 3)")))
        for _ in range(300):
            x.write(bytes(1_000_000))
    return target.getvalue()


HOSTILE_NPZ: dict[str, tuple[Callable[[], bytes], str]] = {
    "a bomb": (bomb, "1073741824 bytes"),
    "a smaller bomb": (large, "more than 268435456 bytes .*: save it with np.savez"),
    "a member that claims more": (lambda: zipped(("x.npy", saved(X)), file_size=10**9), "is 24 bytes, and holds"),
    "an unexpected name with a path": (lambda: zipped(("../../x.npy", saved(X))), "missing"),
    "one more with a path": (lambda: zipped(("x.npy", saved(X)), ("../y.npy", saved(X))), "there is no input"),
    "many members": (lambda: zipped(*((f"{i}.npy", saved(X)) for i in range(30_000))), "list of contents"),
    "a name twice": (twice, "stands twice"),
    "with and without ending": (lambda: zipped(("x.npy", saved(X)), ("x", saved(X))), "stands twice"),
    "bzip2": (lambda: zipped(("x.npy", saved(X)), compression=zipfile.ZIP_BZIP2), "compresses otherwise"),
    "LZMA": (lambda: zipped(("x.npy", saved(X)), compression=zipfile.ZIP_LZMA), "compresses otherwise"),
    "encrypted": (lambda: zipped(("x.npy", saved(X)), flag_bits=1), "encrypted"),
    "a member that is no array": (lambda: zipped(("x.npy", b"hello")), "magic|not a readable"),
    "a folder": (lambda: zipped(("x.npy/", b"")), "magic|missing|not a readable"),
    "a byte changed": (
        lambda: (data := zipped(("x.npy", saved(X)), compression=0))[: data.index(saved(X)) + 140] + b"\x7f"
        + data[data.index(saved(X)) + 141 :],
        "CRC",
    ),
    "no zip": (lambda: b"hello" * 100, "not a zip"),
    "nothing": (lambda: b"", "not a zip"),
    "cut short": (lambda: zipped(("x.npy", saved(X)))[:-30], "not a zip|readable"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_NPZ)
def test_a_hostile_npz_is_one_sentence(name: str, tmp_path: Path) -> None:
    make, said = HOSTILE_NPZ[name]
    (tmp_path / "x.npz").write_bytes(make())
    refused(tmp_path / "x.npz", said)


def test_zip64_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive, archive.open("x.npy", "w", force_zip64=True) as file:
        file.write(saved(X))
    np.testing.assert_array_equal(read(tmp_path / "x.npz"), X)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), form=st.sampled_from(["npz", "npy", "safetensors"]))
def test_no_damage_gives_a_traceback(data: st.DataObject, form: str, tmp_path: Path) -> None:
    whole = bytearray({"npz": zipped(("x.npy", saved(X))), "npy": saved(X), "safetensors": tensors()}[form])
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / f"x.{form}"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    with contextlib.suppress(InputError):
        read(path)


# -------------------------------------------------------------- safetensors


def tensors(data: bytes = bytes(24), **changes: Any) -> bytes:
    entry = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **changes}
    header = json.dumps({"x": entry}).encode()
    return struct.pack("<Q", len(header)) + header + data


HOSTILE_TENSORS: dict[str, tuple[bytes, str]] = {
    "a header of 2**63 bytes": (struct.pack("<Q", 2**63) + b"{}", "header is said to have"),
    "behind the end": (tensors(data_offsets=[0, 2**40], shape=[2**38, 1]), "readable"),
    "another shape": (tensors(shape=[4, 6], dtype="I8"), "expected x"),
    "float8, cut off": (tensors(bytes(5), dtype="F8_E4M3", data_offsets=[0, 5]), "readable"),
    "nothing": (b"", "readable"),
    "deep": (struct.pack("<Q", 60_000) + b"[" * 60_000, "readable"),
}


@pytest.mark.parametrize("name", HOSTILE_TENSORS)
def test_a_hostile_safetensors_file_is_one_sentence(name: str, tmp_path: Path) -> None:
    data, said = HOSTILE_TENSORS[name]
    (tmp_path / "x.safetensors").write_bytes(data)
    refused(tmp_path / "x.safetensors", said)


def test_whole_numbers_that_do_not_fit_are_found_without_an_object_each(tmp_path: Path) -> None:
    specs = [InputSpec("x", "int8", (None,)), InputSpec("b", "bool", (None,)), InputSpec("u", "int64", (None,))]
    many = np.zeros(2_000_000, np.int32)
    good = {"x": many, "b": np.array([0, 1]), "u": np.array([2**63 - 1], np.uint64)}
    np.savez(tmp_path / "x.npz", **good)
    tracemalloc.start()
    (step,) = gather_steps(specs, [tmp_path / "x.npz"], {}, False, 0)
    assert tracemalloc.get_traced_memory()[1] < SMALL
    tracemalloc.stop()
    assert [step.arrays[name].dtype for name in "xbu"] == [np.int8, np.bool_, np.int64]
    for name, wrong in (("x", np.array([128])), ("b", np.array([2])), ("u", np.array([2**63], np.uint64))):
        np.savez(tmp_path / "x.npz", **{**good, name: wrong})
        with pytest.raises(InputError, match=f"{name} has values that do not fit"):
            gather_steps(specs, [tmp_path / "x.npz"], {}, False, 0)
