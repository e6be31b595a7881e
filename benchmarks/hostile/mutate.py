"""Good documents turned bad: JSON by its structure, bytes by their place, files by what they are."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECRET = "canary-5d1c0f77"
"""Stands in every file that nothing may read, and must never come out again."""

ESCAPES = "\x1b[2J\x1b]0;x\x07\x9b31m\u202e[red]x[/red] <script>canary()</script> `|` \r\n::error::x"
_DEEP = 30_000
_LONG = 5_000


class Raw:
    """Text that JSON's writer would not write."""

    def __init__(self, text: str) -> None:
        self.text = text


def values(outside: Path) -> list[Any]:
    """What a field may be replaced by. `outside`: a folder that nothing may touch."""
    numbers = [
        0,
        -0.0,
        -1,
        1.5,
        2**31,
        2**53 + 1,
        -(2**63),
        10**40,
        1e308,
        1e-320,
        float("nan"),
        float("inf"),
        Raw("1e999"),
        Raw("-" + "9" * 5000),
        True,
        False,
    ]
    texts = [
        "",
        "6",
        "null",
        "NaN",
        "a" * 100_000,
        "\x00",
        "\ud800",
        ESCAPES,
        "é" * 300,
        "con",
        ".",
        "..",
        "/",
        "%s%n{0}",
        "../../outside/secret.txt",
        "../../../outside",
        str(outside / "secret.txt"),
        f"file://{outside}/secret.txt",
        "kernels/../../outside/secret.txt",
        "http://127.0.0.1:9/x",
        "javascript:canary()",
        "__proto__",
        "__import__('os').system('touch canary')",
        "tapml.suite/99",
        "tapml.kernel/1",
        "tapml.kernel/2",
        "n",
        "ceildiv",
        "/dev/zero",
        "/dev/stdin",
        "0" * 64,
        "2026-11-21T10:00:00",
        "9999-99-99",
        "float32",
        "float64",
        "object",
        "O",
        "U9",
        "bool",
        "bfloat16",
        "int4",
        "handle",
    ]
    whole = [
        None,
        [],
        {},
        [[]],
        [None],
        {"": None},
        [1, 2, 3],
        [2**40, 2**40],
        [-1],
        [0],
        [1.5],
        ["x"],
        {"digest": 1},
        Raw("[" * _DEEP + "]" * _DEEP),
        Raw('{"a":' * _DEEP + "1" + "}" * _DEEP),
        Raw('{"a":1,"a":2}'),
        [0] * 200_000,
    ]
    return [*numbers, *texts, *whole]


def mutate_json(found: Any, choose: random.Random, outside: Path, count: int | None = None) -> bytes:
    """One to four changes of a document, each at a random place; the bytes need not be JSON any more."""
    tree = json.loads(json.dumps(found))
    for _ in range(count or choose.choice((1, 1, 1, 2, 4))):
        holder, key = choose.choice(_places(tree) or [([tree], 0)])
        _change(tree, holder, key, choose, outside)
    data = _dumps(tree)
    return mutate_bytes(data, choose) if choose.random() < 0.12 else data


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key), the shallow ones no rarer than the many deep ones."""
    levels: list[list[tuple[Any, Any]]] = []
    level = [tree]
    while level:
        places = [
            (holder, key)
            for holder in level
            for key in (holder if isinstance(holder, dict) else range(len(holder)))
            if not isinstance(holder[key], Raw)
        ]
        if places:
            levels.append(places)
        level = [holder[key] for holder, key in places if isinstance(holder[key], dict | list)]
    return [place for places in levels for place in (places * (1 + 400 // len(places)))[:400]]


def _change(tree: Any, holder: Any, key: Any, choose: random.Random, outside: Path) -> None:
    value = holder[key]
    what = choose.randrange(10)
    if what < 4:
        holder[key] = choose.choice(values(outside))
    elif what == 4:
        del holder[key]
    elif what == 5 and isinstance(holder, dict):
        holder[choose.choice(["", "__class__", "x", ESCAPES, key + " ", "format", "\ud800"])] = holder.pop(key)
    elif what == 5 or (what == 6 and isinstance(holder, list)):
        # A few megabytes at most: making the document shall not take what reading it may not.
        holder[key:key] = [value] * (1000 if _length(value) < _LONG and choose.random() < 0.33 else 2)
    elif what == 6:
        other, place = choose.choice(_places(tree))
        found = other[place]
        holder[key] = json.loads(json.dumps(found, default=lambda raw: None)) if _length(found) < 100 * _LONG else None
    elif what == 7 and isinstance(value, int | float):
        holder[key] = choose.choice((-value, value + 1, value - 1, value * 2**20, str(value), [value], value + 0.5))
    elif what == 7 and isinstance(value, str):
        holder[key] = choose.choice(
            (value[:-1], value + value, value.upper(), value + "\x00", value + ESCAPES, [value])
        )
    elif what == 7:
        holder[key] = choose.choice(([value], {"x": value}, json.dumps(value, default=str), [], {}))
    elif what == 8 and isinstance(holder, dict):
        text = json.dumps(str(key))
        holder[key] = Raw(f"{json.dumps(value, default=lambda raw: None)},{text}:null")
    else:
        holder[key] = choose.choice(values(outside))


def _length(value: Any) -> int:
    return len(json.dumps(value, default=lambda raw: raw.text))


def _dumps(tree: Any) -> bytes:
    raw: list[str] = []

    def place(value: Any) -> str:
        raw.append(value.text)
        return f"@@raw{len(raw) - 1}@@"

    text = json.dumps(tree, default=place)
    # In one pass: there may be a thousand of them in a few megabytes.
    text = re.sub(r'"@@raw(\d+)@@"', lambda found: raw[int(found[1])], text)
    return text.encode("utf-8", "surrogatepass")


def mutate_bytes(data: bytes, choose: random.Random) -> bytes:
    """Cut, flipped, repeated, with another encoding, or something else altogether."""
    if not data:
        return b"\x00"
    at = choose.randrange(len(data))
    what = choose.randrange(12)
    if what == 0:
        return data[:at]
    if what in (1, 2, 3):
        changed = bytearray(data)
        for _ in range(choose.choice((1, 1, 8, 64))):
            changed[choose.randrange(min(len(data), 400) if what == 1 else len(data))] ^= 1 << choose.randrange(8)
        return bytes(changed)
    if what == 4:
        return data[:at] + choose.randbytes(choose.choice((1, 8, 300))) + data[at:]
    if what == 5:
        return data[:at] + data[at + choose.choice((1, 8, 300)) :]
    if what == 6:
        return data + data[at:]
    if what == 7:
        return choose.choice(
            (b"", b"\x00", b"null", b"[]", b"{}", b"1", b'"x"', b"\xff\xfe", b"[" * _DEEP, b'{"a":' * _DEEP)
        )
    if what == 8:
        return b"\xef\xbb\xbf" + data
    if what == 9:
        return data.decode("latin-1").encode("utf-16")
    if what == 10:
        return data[:at] + choose.choice((b"\xff", b"\xed\xa0\x80", b"\x00", b"\x1b[31m", b"NaN")) + data[at + 1 :]
    size = choose.choice((4, 8))
    number = choose.choice((0, 2**31, 2**size - 1, 2 ** (8 * size) - 1, 2 ** (8 * size - 1) - 1))
    packed = struct.pack("<Q", number % 2**64)[:size]
    return data[:at] + packed + data[at + size :]


def mutate_wgsl(text: str, choose: random.Random) -> str:
    """A kernel with something in it that takes a reader of its text long, or somewhere that it should not go. What is
    put in stands behind a variable in workgroup memory and a barrier, without which nobody would read it."""
    many = choose.choice((3, 130, 20_000, 100_000))
    line = "tile[i] = tile[i + 1u]; "
    inside = choose.choice(
        (
            "{" * many + line + "}" * many,
            "for (;;) {" * many + line + "}" * many,
            "if (i < 4u) {" * many + line + "}" * many,
            "{" * many,
            "}" * many,
            "tile[" * many + "0" + "]" * many + " = 1.0;",
            "tile[" * many + "] = 1.0;",
            "(" * many + "tile[0]" + ")" * many + ";",
            line * many,
            "; " * many,
            "/*" * many + line + "*/" * many,
            "/*" * many + line,
            "/* */ " * many + line,
            "//" * many + line,
            "let i0 = i; " + "".join(f"let i{n + 1} = i{n} * i{n} + i{n}; " for n in range(min(many, 20_000))) + line,
            "".join(f"tile[i * {n}u] = tile[i + {n}u]; " for n in range(min(many, 20_000))),
            "tile[" + "i + " * many + "i] = tile[" + "i * " * many + "2u];",
            "if (i < 1u) { " + line + "} " + "else if (i < 2u) { " * many + line,
            "x." * many + line,
            "i" * many + line,
            "1" * many + line,
            "&" * many + line,
            "workgroupUniformLoad(" * many + line,
            "tile[99999999999999999999u] = tile[-i / 0u << 99u % 0x];",
            "\r\u2028\x0b" * many + line,
            "loop { continuing { " * many + line,
        )
    )
    shared = "var<workgroup> tile : array<f32, 64>;\n"
    if choose.random() < 0.1:
        shared += "".join(f"var<workgroup> tile{n} : array<f32, 4>;\n" for n in range(min(many, 20_000)))
    begun = "@compute @workgroup_size(64)\nfn hostile(@builtin(local_invocation_index) i : u32) { workgroupBarrier(); "
    whole = text + shared + begun + inside + choose.choice(("}", "}}", "", "\n", "/*"))
    at = choose.randrange(len(whole))
    return choose.choice((whole, whole, whole[:at] + choose.choice('{}[]()/*;"\x00\u202e') + whole[at:]))


def special_file(path: Path, choose: random.Random, outside: Path, *, links: bool = True) -> str:
    """Put something else than a plain file where `path` is; says what. `links`: also links to files outside, which
    whoever names a file on the command line may well use."""
    kinds: dict[str, Callable[[], None]] = {
        "link to a secret": lambda: path.symlink_to(outside / "secret.txt"),
        "link to a file that is not there": lambda: path.symlink_to(outside / "new.txt"),
        "link to itself": lambda: path.symlink_to(path.name),
        "link to a folder": lambda: path.symlink_to(outside),
        "link to /dev/zero": lambda: path.symlink_to("/dev/zero"),
        "FIFO": lambda: os.mkfifo(path),
        "socket": lambda: _socket(path),
        "folder": path.mkdir,
        "empty": path.touch,
        "device": lambda: os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5)),
        "sparse, 3 GB": lambda: _sparse(path, 3 << 30),
        "gone": lambda: None,
        "link to its copy outside": lambda: path.symlink_to(_copied(data, outside / "copy.txt")),
    }
    data = path.read_bytes()
    what = choose.choice(
        [kind for kind in kinds if links or (not kind.startswith("link to a") and "outside" not in kind)]
    )
    path.unlink()
    try:
        kinds[what]()
    except PermissionError:  # no device files without root
        path.touch()
    return what


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # an address has at most 108 bytes
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def _sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _copied(data: bytes, path: Path) -> Path:
    path.write_bytes(data)
    return path


def linked_folder(path: Path, outside: Path) -> None:
    """A folder of the suite moved out of it, with a link in its place."""
    path.rename(outside / "moved")
    path.symlink_to(outside / "moved")
