"""Exported tests, inputs and baselines: files that are named on the command line or opened in the page."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.hostile import mutate
from benchmarks.hostile.case import Case


def _exported(case: Case) -> Path:
    """A copy of the exports that may be changed."""
    folder = case.checks.out / "exports"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(case.checks.good / "exports", folder)
    return folder


_DOCUMENT = re.compile(rb'(<script type="application/json" id="repro">)([^<]*)(</script>)')


def _html(case: Case) -> None:
    path = _exported(case) / "one.html"
    data = path.read_bytes()
    what = case.choose.randrange(10)
    if what < 6:
        found = _DOCUMENT.search(data)
        assert found
        document = mutate.mutate_json(json.loads(found[2]), case.choose, case.outside).replace(b"<", b"\\u003c")
        data = data[: found.start(2)] + document + data[found.end(2) :]
    elif what < 9:
        # In the elements behind the page's script.
        begin = data.index(b'id="repro"')
        data = data[:begin] + mutate.mutate_bytes(data[begin:], case.choose)
    else:
        data = mutate.mutate_bytes(data, case.choose)
    path.write_bytes(data)
    case.checks.exported(path, case.suite, case.outcome, case.choose)


def safetensors_bytes(data: bytes, case: Case) -> bytes:
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    what = case.choose.randrange(10)
    if what < 6:
        inner = json.loads(header["__metadata__"]["tapml"])
        changed = mutate.mutate_json(inner, case.choose, case.outside).decode("utf-8", "replace")
        header["__metadata__"]["tapml"] = changed
        text = json.dumps(header).encode("utf-8", "replace")
    elif what < 8:
        text = mutate.mutate_json(header, case.choose, case.outside)
    else:
        return mutate.mutate_bytes(data, case.choose)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def _safetensors(case: Case) -> None:
    path = _exported(case) / case.choose.choice(("one.safetensors", "script.safetensors"))
    path.write_bytes(safetensors_bytes(path.read_bytes(), case))
    case.checks.exported(path if path.stem == "one" else path.with_suffix(".py"), case.suite, case.outcome, case.choose)


def _wgsl_folder(case: Case) -> None:
    folder = _exported(case) / "folder"
    path = case.choose.choice(sorted(path for path in folder.iterdir() if path.name != "README.md"))
    if case.choose.random() < 0.3:
        mutate.special_file(path, case.choose, case.outside)
    else:
        path.write_bytes(case.mutated(path.read_bytes()))
    case.checks.exported(folder, case.suite, case.outcome, case.choose)


# ------------------------------------------------------------------ inputs and baselines


def _npy_bytes(data: bytes, case: Case) -> bytes:
    """Another header of the same or another length, or bytes."""
    if case.choose.random() < 0.4:
        return mutate.mutate_bytes(data, case.choose)
    text = case.choose.choice(
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
            "{'descr': '|O', 'fortran_order': False, 'shape': (6, 16), }",
            "{'descr': '<f4', 'shape': (6, 16), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-6, -16), }",
            "__import__('os').system('id')",
            "[" * 3000,
            "{'descr': [('a', '<f4', (1000000,) * 9)], 'fortran_order': False, 'shape': (6, 16), }",
            "",
            "1" * 6000,
            "{'descr': '<U999999999', 'fortran_order': True, 'shape': (6, 16), }",
            "{'descr': '<f4', 'fortran_order': 1, 'shape': (6.0, True), }",
            "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (6, 16), }",
        )
    ).encode()
    version = case.choose.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    length = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + length + text + data[128:]


def _npy(case: Case) -> None:
    path = case.checks.out / "x.npy"
    path.unlink(missing_ok=True)
    shutil.copy(case.checks.good / "x.npy", path)
    if case.choose.random() < 0.1:
        mutate.special_file(path, case.choose, case.outside, links=False)
    else:
        path.write_bytes(_npy_bytes(path.read_bytes(), case))
    case.checks.inputs(path, case.outcome)


def _npz(case: Case) -> None:
    path = case.checks.out / "inputs.npz"
    path.unlink(missing_ok=True)
    source = case.checks.good / case.choose.choice(("inputs.npz", "packed.npz"))
    if case.choose.random() < 0.5:
        path.write_bytes(mutate.mutate_bytes(source.read_bytes(), case.choose))
    else:
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                data = old.read(name)
                new.writestr(name, _npy_bytes(data, case) if case.choose.random() < 0.7 else data)
            if case.choose.random() < 0.2:
                new.writestr(case.choose.choice(("../evil.npy", "/tmp/evil.npy", "x", "x.npy", "\x1b[31m.npy")), b"x")
    case.checks.inputs(path, case.outcome)


def _baseline(case: Case) -> None:
    path = case.checks.out / "baseline.json"
    path.unlink(missing_ok=True)
    shutil.copy(case.checks.good / "baseline.json", path)
    if case.choose.random() < 0.1:
        mutate.special_file(path, case.choose, case.outside, links=False)
    else:
        path.write_bytes(case.mutated(path.read_bytes()))
    case.checks.baseline(path, case.outcome)


READERS: dict[str, Callable[[Case], None]] = {
    "exported .html": _html,
    "exported .safetensors": _safetensors,
    "exported folder": _wgsl_folder,
    ".npy": _npy,
    ".npz": _npz,
    "baselines": _baseline,
}
"""Format -> what makes a document of it and has it read."""
