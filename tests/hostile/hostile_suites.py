"""Suites as an attacker would send them: a name, what is done to a copy of a good suite, and what is said of it.

Each spoils one thing only, so that nothing else can be the reason of a refusal. Suites are small where they lie.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class HostileSuite:
    """`spoil(suite, outside)` makes a copy of a good suite hostile; `outside` is a folder of somebody else's with files
    that are neither read, changed nor removed.

    `said`: a regular expression of what opening it is refused with; None where it opens all the same, for what is wrong
    is looked at later or does not matter. `left_out`: results that it has, and none is read.
    """

    spoil: Callable[[Path, Path], object]
    said: str | None = None
    left_out: bool = False


def hostile_suites() -> dict[str, HostileSuite]:
    """All of them by name."""
    return {
        **{
            f"{file}: {name}": _document(file, name)
            for file in _DOCUMENTS
            for name in _TEXTS
            if file == "suite.json" or name in _FEW
        },
        **{f"manifest: {name}": _changed("suite.json", change, said) for name, (change, said) in _MANIFESTS.items()},
        **{
            f"graph: {name}": _changed("program.json", _of_main(change), said)
            for name, (change, said) in _GRAPHS.items()
        },
        **{f"program: {name}": _changed("program.json", change, said) for name, (change, said) in _PROGRAMS.items()},
        **{f"tests: {name}": _changed("tests.json", change, said) for name, (change, said) in _TESTS.items()},
        **{f"kernel: {name}": _changed("kernels/softmax.json", change, None) for name, change in _KERNELS.items()},
        **{f"{kind} {name}": case for name in _PLACES for kind, case in _in_place_of(name).items()},
        **{f"result: {name}": HostileSuite(_result(text), left_out=True) for name, text in _RESULTS.items()},
        **{f"journal: {name}": HostileSuite(_journal(*made)) for name, made in _JOURNALS.items()},
        **{f"imported: {name}": case for name, case in _IMPORTED.items()},
        **{f"history: {name}": HostileSuite(make) for name, make in _HISTORIES.items()},
        **{f"share: {name}": HostileSuite(_share(text)) for name, text in _SHARES.items()},
        **{f"folders: {name}": HostileSuite(make) for name, make in _FOLDERS.items()},
    }


# ---------------------------------------------------------------- any document

_TEXTS: dict[str, bytes] = {
    "empty": b"",
    "a list": b"[]",
    "null": b"null",
    "a number": b"7",
    "cut off": b'{"format": "tapml.suite/1", "nam',
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a little too deep": b'{"x":' + b"[" * 990 + b"]" * 990 + b"}",
    "NaN": b'{"format": NaN}',
    "too large a number": b'{"format": 1e999}',
    "digits": b'{"format": ' + b"9" * 10_000 + b"}",
    "no UTF-8": b'{"format": "\xff\xfe"}',
    "UTF-16": '{"format": 1}'.encode("utf-16"),
    "NUL": b"\0" * 1000,
    "a name twice": b'{"format": "a", "format": "b"}',
    "format of digits that are none": '{"format": "tapml.suite/²"}'.encode(),
    "format of a million digits": b'{"format": "tapml.suite/' + b"1" * 1_000_000 + b'"}',
    "format that is a list": b'{"format": ["tapml.suite/1"]}',
    "a name of a megabyte": b'{"format": "' + b"x" * 1_000_000 + b'"}',
    "lists by the million": b"[" + b"[]," * 3_000_000 + b"[]]",
}


# One parser reads them all: the whole list once, and of the others what every reader has to stand.
_FEW = ("empty", "a list", "null", "deep lists", "a little too deep", "NaN", "no UTF-8", "lists by the million")

_DOCUMENTS = {
    "suite.json": tuple(_TEXTS),
    "program.json": _FEW,
    "tests.json": _FEW,
    "kernels/softmax.json": _FEW,
    "imported.json": _FEW,
}


def _document(file: str, name: str) -> HostileSuite:
    return HostileSuite(_write(file, _TEXTS[name]), None if file.startswith("kernels/") else rf"{file}")


def _write(name: str, data: bytes) -> Callable[[Path, Path], object]:
    def spoil(suite: Path, outside: Path) -> None:
        place = suite / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    return spoil


def _changed(file: str, change: Callable[[Json], object], said: str | None) -> HostileSuite:
    def spoil(suite: Path, outside: Path) -> None:
        document = json.loads((suite / file).read_text())
        change(document)
        (suite / file).write_text(json.dumps(document))

    return HostileSuite(spoil, said)


def _put(value: Any, *path: str | int) -> Callable[[Json], object]:
    """Set a field, or remove it where `value` is Ellipsis."""

    def change(document: Any) -> None:
        for part in path[:-1]:
            document = document[part]
        if value is ...:
            del document[path[-1]]
        else:
            document[path[-1]] = value

    return change


_NO_SIZES: dict[str, Any] = {
    "true": True, "text": "6", "a fraction": 1.5, "negative": -1, "beyond 64 bits": 2**70, "null": None, "a list": [6],
    "as large as a GPU": 2**41,
}  # fmt: skip

_MANIFESTS: dict[str, tuple[Callable[[Json], object], str | None]] = {
    "no name": (_put(..., "name"), r"suite\.json: name: Field required"),
    "a name that is a number": (_put(7, "name"), r"suite\.json: name"),
    "a name of a megabyte": (_put("x" * 1_000_000, "name"), r"suite\.json: name"),
    "half of a pair in a name": (_put("\ud800", "name"), None),
    "control characters in a name": (_put("\x1b[2J\x00\u202e\n<script>", "name"), None),
    "a date that is none": (_put("yesterday", "created"), r"suite\.json: created"),
    "synthetic by a number": (_put(1, "synthetic"), r"suite\.json: synthetic"),
    "a generator without a name": (_put(..., "generator", "name"), None),
    "a generator whose name is a list": (_put([], "generator", "name"), r"suite\.json: generator\.name"),
    "no model": (_put(..., "model"), r"suite\.json: model"),
    "a model that is a list": (_put([], "model"), r"suite\.json: model"),
    "a model without source": (_put(..., "model", "source"), r"suite\.json: model\.source"),
    "notes that are objects": (_put([{}], "model", "notes"), r"suite\.json: model\.notes\[0\]"),
    "no reference": (_put({}, "reference"), r"suite\.json: reference\.platform"),
    "a parameter of no value": (_put({}, "parameters", "v001"), r"suite\.json: parameters\.v001"),
    "an unknown parameter": (
        lambda d: d["parameters"].update(v999=d["parameters"]["v001"]),
        r"parameters\.v999: the graph has no value v999",
    ),
    "a parameter of another type": (
        _put([32, 16], "parameters", "v001", "shape"),
        r"parameters\.v001: float32\[32, 16\]",
    ),
    "a digest that is a path": (
        _put("../../../../etc/passwd", "parameters", "v001", "digest"),
        r"parameters\.v001\.digest",
    ),
    "an unknown argument": (_put("v999", "arguments", 0), r"arguments\[0\]: the graph has no value v999"),
    "arguments that are one": (_put("v000", "arguments"), r"suite\.json: arguments"),
    "steps that are none": (_put(7, "steps"), r"suite\.json: steps"),
    "a step without inputs": (_put({}, "steps", 0, "inputs"), r"steps\[0\]\.inputs: 0 tensors"),
    "a step's output of another type": (
        _put("int32", "steps", 0, "outputs", 0, "dtype"),
        r"steps\[0\]\.outputs: int32",
    ),
    "an oracle that is text": (_put("trust me", "oracle"), r"suite\.json: oracle"),
    "an oracle's cosine that is text": (_put("1", "oracle", "cosine"), r"suite\.json: oracle\.cosine"),
    "a negative tolerance": (_put(-1.0, "model_tolerance", "max_abs_error"), r"model_tolerance\.max_abs_error"),
    "of tomorrow": (_put("tapml.suite/99", "format"), "newer tapml"),
    **{
        f"a shape with {name}": (_put(size, "parameters", "v002", "shape", 0), r"suite\.json: parameters\.v002")
        for name, size in _NO_SIZES.items()
    },
}


def _view(document: Json) -> Json:
    """Make the last node a view of its first input."""
    node: Json = document["nodes"][-1]
    node |= {"kind": "view", "kernel": "reshape", "inputs": node["inputs"][:1]}
    return node


def _value(document: Json, name: str) -> Json:
    found: Json = next(value for value in document["values"] if value["id"] == name)
    return found


def _of_main(change: Callable[[Json], object]) -> Callable[[Json], object]:
    return lambda document: change(document["functions"]["main"])


_GRAPHS: dict[str, tuple[Callable[[Json], object], str | None]] = {
    "no values": (_put(..., "values"), r"program\.json: functions\.main\.values"),
    "values that are an object": (_put({}, "values"), r"program\.json: functions\.main\.values"),
    "a value twice": (lambda d: d["values"].append(d["values"][0]), "stands twice"),
    "a node twice": (_put("n000", "nodes", 1, "id"), "n000 stands twice"),
    "a node that reads itself": (
        lambda d: _put([d["nodes"][0]["outputs"][0]], "nodes", 0, "inputs")(d),
        "nothing before it",
    ),
    "nodes upside down": (lambda d: d["nodes"].reverse(), "nothing before it"),
    "an unknown value": (_put("v999", "nodes", 0, "inputs", 0), "v999"),
    "an id that is a list": (
        _put(["v000"], "nodes", 0, "inputs", 0),
        r"program\.json: functions\.main\.nodes\[0\]\.inputs\[0\]",
    ),
    "an empty id": (_put("", "nodes", 0, "id"), r"nodes\[0\]\.id"),
    "an unknown kind": (_put("magic", "nodes", 0, "kind"), r"nodes\[0\]\.kind"),
    "a node without outputs": (_put([], "nodes", 0, "outputs"), r"nodes\[0\]\.outputs"),
    "a kernel that is a path": (_put("../suite", "nodes", 0, "kernel"), r"nodes\[0\]\.kernel"),
    "a kernel that is absolute": (_put("/etc/passwd", "nodes", 0, "kernel"), r"nodes\[0\]\.kernel"),
    "a kernel with a NUL": (_put("a\0b", "nodes", 0, "kernel"), r"nodes\[0\]\.kernel"),
    "an unknown dtype": (_put("float128", "values", 0, "dtype"), r"values\[0\]\.dtype"),
    "a dtype of objects": (_put("object", "values", 0, "dtype"), r"values\[0\]\.dtype"),
    "an unknown output": (_put(["v999"], "outputs"), "v999"),
    "a view of two values": (lambda d: _view(d).update(inputs=["v000", "v001"]), "not one input and one output"),
    "a view of other elements": (
        lambda d: _value(d, _view(d)["inputs"][0]).update(shape=[7, 16]),
        "which has other elements",
    ),
    "a view of another dtype": (
        lambda d: _value(d, _view(d)["outputs"][0]).update(dtype="int32"),
        "which has other elements",
    ),
    "a tensor of 2^70 bytes": (_put([2**32, 2**32], "values", 0, "shape"), "at most"),
    "extents by the thousand": (_put([1] * 1000, "values", 0, "shape"), r"values\[0\]\.shape"),
    "a name of half a pair": (_put("\udfff", "values", 0, "name"), None),
    **{
        f"a shape with {name}": (_put(size, "values", 0, "shape", 0), r"program\.json: .*(values\[0\]|v000)")
        for name, size in _NO_SIZES.items()
    },
}

_N = {"name": "n", "minimum": 1, "maximum": 64}


def _nested(levels: int) -> Json:
    return ["add", _nested(levels - 1), 1] if levels else 1


def _sized(expression: Json, *symbols: Json) -> Callable[[Json], object]:
    """A first value whose shape is an expression, over these symbols."""

    def change(document: Json) -> None:
        document["symbols"] = list(symbols)
        document["functions"]["main"]["values"][0]["shape"] = [expression, 16]

    return change


_NO_CALLS = {"values": [], "nodes": [], "inputs": [], "outputs": []}


def _of_others(main: Json, kind: Callable[[str], str]) -> Json:
    """The same function, of values of these kinds."""
    return {**main, "values": [{**value, "kind": kind(value["kind"])} for value in main["values"]], "outputs": []}


def _another(main: Json) -> Json:
    parameter: Json = next(value for value in main["values"] if value["kind"] == "parameter")
    return {**parameter, "dtype": "int32"}


_PROGRAMS: dict[str, tuple[Callable[[Json], object], str | None]] = {
    "no functions": (_put(..., "functions"), r"program\.json: functions: Field required"),
    "no function at all": (lambda d: d["functions"].clear(), "it has no function"),
    "a function under another name": (lambda d: d["functions"].update(other=d["functions"].pop("main")), None),
    "functions of which none is meant": (
        lambda d: d["functions"].update(other=_NO_CALLS, others=d["functions"].pop("main")),
        r"steps\[0\]: there is no function main: it has other, others",
    ),
    "a node of two functions": (
        lambda d: d["functions"].update(other=_of_others(d["functions"]["main"], lambda kind: "parameter")),
        "is one of main and of other",
    ),
    "a value of two functions": (
        lambda d: d["functions"].update(other={**_of_others(d["functions"]["main"], lambda kind: kind), "nodes": []}),
        "is one of main and of other, and no parameter",
    ),
    "a value that is another in another function": (
        lambda d: d["functions"].update(other={**_NO_CALLS, "values": [_another(d["functions"]["main"])]}),
        "is another in main than in other",
    ),
    "no symbols": (_put(..., "symbols"), r"program\.json: symbols: Field required"),
    "a symbol upside down": (_sized("n", {**_N, "minimum": 65}), "is above its maximum"),
    "a symbol twice": (_sized("n", _N, _N), "a symbol stands twice"),
    "a symbol that is a path": (_sized("n", {**_N, "name": "../n"}), r"symbols\[0\]\.name"),
    "an unknown symbol": (_sized("m", _N), "there is no symbol m here"),
    "a size without a value": (_sized("n", _N), "no size is given for n"),
    "a division by zero": (_sized(["floordiv", 6, 0]), "divides by zero"),
    "an overflow": (_sized(["mul", 2**52, 2**52]), "is beyond 2\\^53"),
    "a negative extent": (_sized(["sub", 0, 6]), "must be at least 0"),
    "an operation that is none": (_sized(["system", 6, 1]), "is no expression"),
    "a deep expression": (_sized(_nested(40)), "levels deep"),
}

_TESTS: dict[str, tuple[Callable[[Json], object], str | None]] = {
    "no tests": (_put(..., "tests"), r"tests\.json: tests"),
    "tests that are numbers": (_put([1, 2], "tests"), r"tests\.json: tests\[0\]"),
    "an id twice": (_put("n000.s0", "tests", 1, "id"), "n000.s0: its id stands twice"),
    "an id that is a number": (_put(7, "tests", 0, "id"), r"tests\[0\]\.id"),
    "a node that is not there": (_put("n999", "tests", 0, "node"), "no node n999"),
    "another node's kernel": (_put("softmax", "tests", 0, "kernel"), "that calls softmax"),
    "no kernel": (_put(None, "tests", 0, "kernel"), r"tests\[0\]\.kernel"),
    "a step that is text": (_put("0", "tests", 0, "step"), r"tests\[0\]\.step"),
    "a negative step": (_put(-1, "tests", 0, "step"), r"tests\[0\]\.step"),
    "one input less": (lambda d: d["tests"][0]["inputs"].pop(), r"n000\.s0: inputs: 2 tensors"),
    "no output": (_put([], "tests", 0, "outputs"), r"n000\.s0: outputs: 0 tensors"),
    "an input of another shape": (_put([16, 6], "tests", 0, "inputs", 0, "shape"), r"inputs\[0\]: float32\[16, 6\]"),
    "an output of another dtype": (_put("int32", "tests", 0, "outputs", 0, "dtype"), r"outputs\[0\]: int32"),
    "no tolerance": (_put([], "tests", 0, "tolerances"), "tolerances: 0 for 1 outputs"),
    "a negative tolerance": (_put(-1.0, "tests", 0, "tolerances", 0, "absolute"), r"tolerances\[0\]\.absolute"),
    "a tolerance that is text": (_put("NaN", "tests", 0, "tolerances", 0, "relative"), r"tolerances\[0\]\.relative"),
    "a bound of another shape": (
        _put([2, 3], "tests", 0, "tolerances", 0, "bound", "shape"),
        r"tolerances\[0\]\.bound: float32\[2, 3\]",
    ),
    "ties of floats": (
        lambda d: d["tests"][0]["tolerances"][0].update(ties=d["tests"][0]["outputs"][0]),
        r"tolerances\[0\]\.ties",
    ),
    "sizes of a kernel that has none": (lambda d: d["tests"][0].update(sizes={"n": 1}), None),
    "a size that is text": (lambda d: d["tests"][0].update(sizes={"n": "1"}), r"tests\[0\]\.sizes\.n"),
    "a size by another name": (lambda d: d["tests"][0].update(sizes={"a b": 1}), r"tests\[0\]\.sizes"),
    "a digest that is short": (_put("ab", "tests", 0, "inputs", 0, "digest"), r"inputs\[0\]\.digest"),
    "a digest that is no text": (_put(7, "tests", 0, "inputs", 0, "digest"), r"inputs\[0\]\.digest"),
    **{
        f"a shape with {name}": (_put(size, "tests", 0, "inputs", 0, "shape", 0), r"tests\.json: tests\[0\]")
        for name, size in _NO_SIZES.items()
    },
}

_FIRST = ("variants", 0)


def _nested(depth: int) -> Any:
    return 1 if depth == 0 else ["add", 1, _nested(depth - 1)]


def _wide(levels: int) -> Any:
    return 1 if levels == 0 else ["add", _wide(levels - 1), _wide(levels - 1)]


_KERNELS: dict[str, Callable[[Json], object]] = {
    "a file that is a path": _put("../suite.json", *_FIRST, "entry_points", 0, "file"),
    "a file that is absolute": _put("/etc/passwd.wgsl", *_FIRST, "entry_points", 0, "file"),
    "a file that goes up": _put("a/../../b.wgsl", *_FIRST, "entry_points", 0, "file"),
    "a file that is hidden": _put(".bashrc.wgsl", *_FIRST, "entry_points", 0, "file"),
    "a file that is missing": _put("nothing.wgsl", *_FIRST, "entry_points", 0, "file"),
    "another kernel's": _put("matmul", "kernel"),
    "a kernel that is a path": _put("../../x", "kernel"),
    "arguments of another shape": _put([1], "arguments", 0, "shape"),
    "an argument less": lambda d: d["arguments"].pop(),
    "a grid of 2^70": _put([2**70, 1, 1], *_FIRST, "launches", 0, "grid"),
    "a grid that is true": _put([True, 1, 1], *_FIRST, "launches", 0, "grid"),
    "a grid divided by zero": _put([["floordiv", 1, 0], 1, 1], *_FIRST, "launches", 0, "grid"),
    "a grid of a symbol": _put(["n", 1, 1], *_FIRST, "launches", 0, "grid"),
    "a grid nested deeply": _put([_nested(900), 1, 1], *_FIRST, "launches", 0, "grid"),
    "a grid of many operations": _put([_wide(16), 1, 1], *_FIRST, "launches", 0, "grid"),
    "symbols by the hundred thousand": _put(
        [{"name": f"n{n}", "minimum": 1, "maximum": 2} for n in range(100_000)], "symbols"
    ),
    "a symbol that no call gives": _put([{"name": "n", "minimum": 1, "maximum": 2}], "symbols"),
    "a compiler that is text": _put("tvm", "compiler"),
    "a temporary of -1 bytes": _put([-1], *_FIRST, "temporaries"),
    "a limit that is text": _put("1", *_FIRST, "requires", "limits", "maxBufferSize"),
    "numerics that are text": _put("none", "numerics", "accumulation_length"),
    "launches by the hundred thousand": lambda d: d["variants"][0].update(
        launches=d["variants"][0]["launches"] * 100_000
    ),
    "entry points by the ten thousand": lambda d: d["variants"][0].update(
        entry_points=[{**d["variants"][0]["entry_points"][0], "name": f"e{n}"} for n in range(10_000)]
    ),
    "no variants": _put([], "variants"),
    "unsupported by a number": _put(7, "unsupported"),
}


# ---------------------------------------------------------------- files that are no files

_PLACES = {
    "suite.json": r"suite\.json",
    "program.json": r"program\.json",
    "tests.json": r"tests\.json",
    "imported.json": r"imported\.json",
    "kernels": None,
    "kernels/softmax.json": None,
    "kernels/softmax.wgsl": None,
    "tensors": None,
    "tensors/*": None,
    "tensors/*/*.bin": None,
    "model": None,
    "results": None,
    "results/running": None,
    "results/validation.Fake-1.json": None,
    "results/history.sqlite3": None,
    "results/history.sqlite3-wal": None,
    "results/history.sqlite3-journal": None,
    "shares": None,
}


def _in_place_of(name: str) -> dict[str, HostileSuite]:
    said = _PLACES[name]
    kinds: dict[str, Callable[[Path, Path], object]] = {
        "a link for": lambda place, outside: place.symlink_to(outside if not place.suffix else outside / "secret"),
        "a link to nowhere for": lambda place, outside: place.symlink_to(outside / "nothing"),
        "a loop for": lambda place, outside: place.symlink_to(place.name),
        "a FIFO for": lambda place, outside: os.mkfifo(place),
        "/dev/zero for": lambda place, outside: place.symlink_to("/dev/zero"),
        "a socket for": lambda place, outside: _listen(place),
        "a folder for": lambda place, outside: place.mkdir() if place.suffix else place.write_bytes(b"no folder"),
        "three gigabytes for": lambda place, outside: _sparse(place),
    }
    # A hard link is a regular file: only what it holds counts.
    return {kind: HostileSuite(_replace(name, make), said) for kind, make in kinds.items()}


def _replace(name: str, make: Callable[[Path, Path], object]) -> Callable[[Path, Path], object]:
    def spoil(suite: Path, outside: Path) -> None:
        places = sorted(suite.glob(name)) if "*" in name else [suite / name]
        for place in places:
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.exists():
                place.rename(outside / f"moved-{place.name}")
            make(place, outside)

    return spoil


def _listen(place: Path) -> None:
    """A path of a socket has at most a hundred bytes."""
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(place.parent):
        listening.bind(place.name[:80])
        Path(place.name[:80]).rename(place.name)


def _sparse(place: Path) -> None:
    place.touch()
    os.truncate(place, 3 << 30)


# ---------------------------------------------------------------- results, journals, imported tests, shares

_RESULT: Json = {
    "id": "n000.s0", "node": "n000", "kernel": "fused_matmul_add_gelu", "step": 0, "device": "d1", "edited": False,
    "tolerances": [], "verdict": "fail", "max_abs_error": 0.5, "max_rel_error": 0.25, "max_ulp": 4096.0,
    "ulp_histogram": [90, 5, 1], "mismatched": 6, "total": 96, "nan": 0, "inf": 0, "first": None, "worst": None,
    "seconds": {"run": 0.001}, "message": "6 of 96 elements differ", "variant": "256", "error": None, "diagnostics": [],
}  # fmt: skip
_DEVICE: Json = {
    "id": "d1", "name": "Fake 1", "runtime": "tests", "user_agent": "Fake/1", "features": [], "limits": {},
    "adapter": {"vendor": "nobody", "architecture": "", "device": "", "description": ""},
}  # fmt: skip
_VALIDATION: Json = {
    "format": "tapml.validation/1", "suite": "0" * 16, "suite_name": "small", "synthetic": False,
    "created": "2026-11-21T10:00:00+00:00", "interrupted": False, "edited_kernels": [], "devices": [_DEVICE],
    "tests": [_RESULT],
    "summary": {"total": 1, "pass": 0, "fail": 1, "error": 0, "unsupported": 0, "unbounded": 0, "failing_kernels": [],
                "seconds": 0.1, "devices": {}},
}  # fmt: skip


def _with(document: Json, value: Any, *path: str | int) -> bytes:
    copied = json.loads(json.dumps(document))
    _put(value, *path)(copied)
    return json.dumps(copied).encode()


_RESULTS: dict[str, bytes] = {
    **{name: _TEXTS[name] for name in _FEW},
    "no devices": _with(_VALIDATION, [], "devices"),
    "a device that is text": _with(_VALIDATION, ["d1"], "devices"),
    "a device without a name": _with(_VALIDATION, ..., "devices", 0, "name"),
    "an adapter that is a list": _with(_VALIDATION, [], "devices", 0, "adapter"),
    "no tests": _with(_VALIDATION, ..., "tests"),
    "tests that are text": _with(_VALIDATION, "all passed", "tests"),
    "a test without id": _with(_VALIDATION, ..., "tests", 0, "id"),
    "a test of an unknown device": _with(_VALIDATION, "d2", "tests", 0, "device"),
    "a test twice": _with(_VALIDATION, [_RESULT, _RESULT], "tests"),
    "an unknown verdict": _with(_VALIDATION, "excellent", "tests", 0, "verdict"),
    "a verdict that is a list": _with(_VALIDATION, ["pass"], "tests", 0, "verdict"),
    "counts that are text": _with(_VALIDATION, "6", "tests", 0, "mismatched"),
    "counts that are negative": _with(_VALIDATION, -6, "tests", 0, "mismatched"),
    "seconds that are a list": _with(_VALIDATION, [], "tests", 0, "seconds"),
    "no summary": _with(_VALIDATION, ..., "summary"),
    "kernels that are numbers": _with(_VALIDATION, [7], "summary", "failing_kernels"),
    "a date that is none": _with(_VALIDATION, "soon", "created"),
    "a suite that is a number": _with(_VALIDATION, 7, "suite"),
    "digests that are a list": _with(_VALIDATION, [], "kernel_digests"),
}


def _result(text: bytes) -> Callable[[Path, Path], object]:
    def spoil(suite: Path, outside: Path) -> None:
        for kind in ("validation", "offload", "locate"):
            data = text.replace(b"tapml.validation/1", f"tapml.{kind}/1".encode())
            _write(f"results/{kind}.Fake-1.json", data)(suite, outside)

    return spoil


_HEADER = {key: value for key, value in _VALIDATION.items() if key not in ("tests", "summary")}


def _lines(*lines: Any) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


_GONE = "Fake-1.999999999.0abc.jsonl"
_JOURNALS: dict[str, tuple[str, bytes]] = {
    **{f"begins with {name}": (_GONE, text + b"\n") for name, text in _TEXTS.items() if name in _FEW[1:]},
    "a header without fields": (_GONE, _lines({"format": "tapml.validation/1"}, _RESULT)),
    "a header without devices": (_GONE, _lines({**_HEADER, "devices": []}, _RESULT)),
    "lines of another shape": (_GONE, _lines(_HEADER, [], "pass", {"id": 7})),
    "a result of another device": (_GONE, _lines(_HEADER, {**_RESULT, "device": "d2"})),
    "a verdict that is an object": (_GONE, _lines(_HEADER, {**_RESULT, "verdict": {}})),
    "a line that is no UTF-8": (_GONE, _lines(_HEADER) + b'{"id": "\xff"}\n'),
    "a name without a number": ("x.jsonl", _lines(_HEADER, _RESULT)),
    "a number beyond all": ("x.99999999999999999999999.a.jsonl", _lines(_HEADER, _RESULT)),
    "digits of another script": ("x.\u0663.0.jsonl", _lines(_HEADER, _RESULT)),
    "a negative number": ("x.-1.0.jsonl", _lines(_HEADER, _RESULT)),
    "somebody's diary": ("diary.1999.12.jsonl", b"Dear diary"),
}


def _journal(name: str, text: bytes) -> Callable[[Path, Path], object]:
    return _write(f"results/running/{name}", text)


def _imported(**changes: Any) -> Callable[[Path, Path], object]:
    def spoil(suite: Path, outside: Path) -> None:
        document = {"format": "tapml.imported/1", "graph": _EMPTY, "tests": [], "sources": []} | changes
        (suite / "imported.json").write_text(json.dumps(document))

    return spoil


_EMPTY: Json = {"values": [], "nodes": [], "inputs": [], "outputs": []}


def _imported_again(suite: Path, outside: Path) -> None:
    """The model's own tests as imported ones."""
    program, tests = (json.loads((suite / name).read_text()) for name in ("program.json", "tests.json"))
    _imported(graph=program["functions"]["main"], tests=tests["tests"])(suite, outside)


_IMPORTED = {
    "no graph": HostileSuite(_imported(graph=None), r"imported\.json: graph"),
    "a graph of another type": HostileSuite(_imported(graph={"values": 7}), r"imported\.json: values"),
    "tests of no graph": HostileSuite(
        _imported(tests=[{"id": "i000.s0", "node": "i000", "kernel": "x", "step": 0, "inputs": [], "outputs": [],
                          "tolerances": []}]),
        "no node i000",
    ),
    "sources that are text": HostileSuite(_imported(sources=["me"]), r"imported\.json: sources"),
    "what the model has already": HostileSuite(_imported_again, r"imported\.json"),
}  # fmt: skip

_FACTS = {"format": "tapml.share/1", "test": "n000.s0", "kernel": "k", "device": None, "verdict": None,
          "created": "2026-11-21T10:00:00+00:00", "expires": None}  # fmt: skip
_SHARES: dict[str, bytes] = {
    **{name: _TEXTS[name] for name in _FEW},
    "a test that is a list": _with(_FACTS, [], "test"),
    "a date that is a number": _with(_FACTS, 7, "expires"),
    "a date without a zone": _with(_FACTS, "2026-11-21T10:00:00", "expires"),
    "a date before time": _with(_FACTS, "0001-01-01T00:00:00+14:00", "expires"),
    "a snapshot that is none": json.dumps(_FACTS).encode(),
}


def _share(text: bytes) -> Callable[[Path, Path], object]:
    def spoil(suite: Path, outside: Path) -> None:
        _write(f"shares/{SHARE_NAME}.json", text)(suite, outside)
        _write(f"shares/{SHARE_NAME}.safetensors", b"\0" * 100)(suite, outside)

    return spoil


SHARE_ID = "A" * 22
"""Of a link to a share that the suite may have."""

SHARE_NAME = hashlib.sha256(SHARE_ID.encode()).hexdigest()


# ---------------------------------------------------------------- histories


def _database(*statements: str) -> Callable[[Path, Path], object]:
    def make(suite: Path, outside: Path) -> None:
        place = suite / "results" / "history.sqlite3"
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(place)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return make


_ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS version FROM n WHERE x < 0"


def _names_another(suite: Path, outside: Path) -> None:
    """A journal that SQLite would play back, and remove what it names in the end."""
    _database("CREATE TABLE t (x)")(suite, outside)
    magic = bytes.fromhex("d9d505f920a163d7")

    def number(value: int) -> bytes:
        return value.to_bytes(4, "big")

    victim = str(outside / "secret").encode()
    header = (magic + number(0) + number(1) + number(2) + number(512) + number(4096)).ljust(512, b"\0")
    pending = number(0x40000000 // 4096 + 1)
    end = pending + victim + number(len(victim)) + number(sum(victim)) + magic
    (suite / "results" / "history.sqlite3-journal").write_bytes(header + end)


_HISTORIES: dict[str, Callable[[Path, Path], object]] = {
    "garbage": _write("results/history.sqlite3", b"nothing that SQLite has written " * 100),
    "empty": _write("results/history.sqlite3", b""),
    "other tables": _database("CREATE TABLE tapml_history (version TEXT)", "INSERT INTO tapml_history VALUES ('1')"),
    "a view that never ends": _database(f"CREATE VIEW tapml_history AS {_ENDLESS}"),
    "a view that takes all memory": _database("CREATE VIEW tapml_history AS SELECT zeroblob(900000000) AS version"),
    "a journal that names another file": _names_another,
    "a log that is garbage": lambda suite, outside: (
        _database("CREATE TABLE t (x)", "PRAGMA journal_mode=wal")(suite, outside),
        _write("results/history.sqlite3-wal", b"\x37\x7f\x06\x82" + b"\xff" * 10_000)(suite, outside),
        _write("results/history.sqlite3-shm", b"\xff" * 32_768)(suite, outside),
    ),
}

# ---------------------------------------------------------------- folders


def _deep(suite: Path, outside: Path) -> None:
    with contextlib.chdir(suite):
        for _ in range(1500):
            Path("d").mkdir()
            os.chdir("d")


_FOLDERS: dict[str, Callable[[Path, Path], object]] = {
    "a thousand in each other": _deep,
    "a link to the root": lambda suite, outside: (suite / "everything").symlink_to("/"),
    "names that are no UTF-8": lambda suite, outside: (suite / os.fsdecode(b"\xff\xfe")).mkdir(),
    "results of a thousand devices": lambda suite, outside: [
        _write(f"results/validation.{number}.json", b"{")(suite, outside) for number in range(1000)
    ],
    "what no writer of ours left": lambda suite, outside: (
        (suite / "results").mkdir(exist_ok=True)
        or (suite / "results" / f".x.{'0' * 16}.tapml").symlink_to(outside / "secret")
    ),
}
