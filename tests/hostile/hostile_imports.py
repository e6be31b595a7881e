"""Exported tests as an attacker would write them: a name, the file's bytes in pieces, and what must be said of it.

Each is made of a true exported test, so that nothing but the one wrong thing can be the reason of a refusal. Files may
be large where they are unpacked, never where they lie.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tapml.sharing import Repro, packing
from tapml.sharing.html_file import html_file
from tapml.sharing.tensor_file import safetensors_file

HTML = ".html"
SAFETENSORS = ".safetensors"


@dataclass(frozen=True)
class HostileImport:
    """One file: how its name ends, its bytes, and a regular expression of the refusal; None where it is imported all
    the same, for what is wrong in it is not looked at.
    """

    suffix: str
    data: Callable[[], Iterator[bytes]]
    said: str | None


def hostile_imports(repro: Repro) -> dict[str, HostileImport]:
    """All of them by name. `repro` is any exported test with a report."""
    found: dict[str, HostileImport] = {}
    for name, (change, said) in _DOCUMENTS.items():
        for suffix, form in ((HTML, _html), (SAFETENSORS, _safetensors)):
            found[f"{name} ({suffix})"] = HostileImport(suffix, _late(form, repro, change), said)
    for name, (change_file, said) in _HTML_FILES.items():
        found[f"html: {name}"] = HostileImport(HTML, _late(change_file, repro), said)
    for name, (change_file, said) in _SAFETENSORS_FILES.items():
        found[f"safetensors: {name}"] = HostileImport(SAFETENSORS, _late(change_file, repro), said)
    return found


def _late(make: Callable[..., Any], *arguments: Any) -> Callable[[], Iterator[bytes]]:
    def data() -> Iterator[bytes]:
        made = make(*arguments)
        yield from [made] if isinstance(made, bytes) else made

    return data


# ---------------------------------------------------------------- documents


def _html(repro: Repro, change: Callable[[str], str]) -> bytes:
    text = json.dumps(json.loads(_description(repro)))
    changed = change(text).replace("<", "\\u003c")
    return _with_document(repro, changed.encode("utf-8", "surrogatepass"))


def _with_document(repro: Repro, document: bytes) -> bytes:
    data = html_file(repro)
    start = data.index(b'id="repro">') + len(b'id="repro">')
    return data[:start] + document + data[data.index(b"</script>", start) :]


def _description(repro: Repro) -> str:
    return repro.document.model_dump_json()


def _safetensors(repro: Repro, change: Callable[[str], str]) -> bytes:
    header, data = _parts(repro)
    text = change(json.dumps(json.loads(header["__metadata__"]["tapml"])))
    header["__metadata__"]["tapml"] = text
    return _joined(header, data)


def _parts(repro: Repro) -> tuple[dict[str, Any], bytes]:
    data = b"".join(safetensors_file(repro))
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def _joined(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def _edit(**changes: Any) -> Callable[[str], str]:
    """Fields of the document by their path with dots written as double underscores; a value is JSON already where it is
    bytes, for what json.dumps would not write.
    """

    def change(text: str) -> str:
        document = json.loads(text)
        raw = []
        for path, value in changes.items():
            *outer, last = path.split("__")
            place = document
            for step in outer:
                place = place[int(step) if step.isdigit() else step]
            if isinstance(value, bytes):
                raw.append(value.decode())
                value = f"@@{len(raw) - 1}@@"
            place[int(last) if last.isdigit() else last] = value
        text = json.dumps(document)
        for number, piece in enumerate(raw):
            text = text.replace(f'"@@{number}@@"', piece)
        return text

    return change


_DEEP = b"[" * 50_000 + b"]" * 50_000
_DOCUMENTS: dict[str, tuple[Callable[[str], str], str]] = {
    "a tensor of 4 TB": (_edit(inputs__0__shape=[2**20, 2**20]), "1.1 GB|shape"),
    "a tensor of no bytes and impossible extents": (_edit(inputs__0__shape=[2**32] * 3 + [0]), "shape"),
    "a negative extent": (_edit(inputs__0__shape=[-1]), r"inputs\[0\]\.shape"),
    "true as an extent": (_edit(inputs__0__shape=[True]), r"inputs\[0\]\.shape"),
    "1.5 as an extent": (_edit(inputs__0__shape=[1.5]), r"inputs\[0\]\.shape"),
    "a text as an extent": (_edit(inputs__0__shape=["6"]), r"inputs\[0\]\.shape"),
    "forty dimensions": (_edit(inputs__0__shape=[1] * 40), r"inputs\[0\]\.shape"),
    "a digest with a path": (_edit(inputs__0__digest="../../../etc/passwd"), "digest"),
    "NaN": (_edit(outputs__0__tolerance__absolute=b"NaN"), "NaN is no number"),
    "NaN where anything may stand": (_edit(kernel__compiler={"x": b"@"}, kernel__compiler__x=b"NaN"), "NaN"),
    "infinity": (_edit(outputs__0__tolerance__absolute=b"Infinity"), "Infinity is no number"),
    "1e999 where anything may stand": (_edit(kernel__compiler__x=b"1e999"), "too large"),
    "a number of 400 digits": (_edit(kernel__compiler__x=b"1" + b"0" * 400), "too large"),
    "deep lists": (_edit(kernel__compiler__x=_DEEP), "nested"),
    "half a surrogate pair": (_edit(kernel__compiler__x=b'"\\ud800"'), "surrogate"),
    "a name twice": (lambda text: text.replace('"format":', '"format": "tapml.suite/1", "format":', 1), "stands twice"),
    "many lists": (_edit(kernel__compiler__x=b"[" + b"[]," * 4_000_000 + b"[]]"), "lists and objects|larger than"),
    "many objects": (
        _edit(kernel__compiler__x=b"[" + b'{"":0},' * 2_000_000 + b"0]"), "lists and objects|larger than",
    ),
    "no object": (lambda _: "[1, 2]", "no JSON object"),
    "nothing": (lambda _: "", "not valid JSON|no exported test"),
    "a step of 10**24": (_edit(test__step=10**24), "step"),
    "a number of kernels' extents": (_edit(kernel__arguments=5), "kernel|arguments"),
}  # fmt: skip


# --------------------------------------------------------------------- HTML


def _element(digest: str, nbytes: int, packed: bytes, length: int) -> bytes:
    head = (
        f'<script type="application/octet-stream" data-digest="{digest}" data-bytes="{nbytes}" data-block="{length}">'
    )
    return head.encode() + packed + b"</script>\n"


@cache
def _zeros(count: int) -> bytes:
    """`count` MiB of zeros as gzip has them, quickly: one block again and again."""
    block = bytes(1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    once = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    check = 0
    for _ in range(count):
        check = zlib.crc32(block, check)
    trailer = check.to_bytes(4, "little") + (count << 20 & 0xFFFFFFFF).to_bytes(4, "little")
    return gzip.compress(b"", mtime=0)[:10] + once * count + packer.flush() + trailer


def _packed(compressed: bytes) -> tuple[bytes, int]:
    for length in packing.BLOCKS:
        packed = packing._xor_blocks(np.frombuffer(compressed, np.uint8), length)
        if packed is not None:
            return packed, length
    raise AssertionError("a block of 84 bytes has a key")


def _bomb(repro: Repro, digest: str, count: int) -> bytes:
    """The true file with an element of `count` MiB in front of its tensors."""
    data = html_file(repro)
    place = data.index(b'<script type="application/octet-stream"')
    packed, length = _packed(_zeros(count))
    return data[:place] + _element(digest, count << 20, packed, length) + data[place:]


def _large(repro: Repro, extent: int, compressed: bytes) -> bytes:
    """The first input is said to be of `extent` bytes; its element holds `compressed`."""
    digest = "1" * 64
    document = json.loads(_description(repro))
    entry = document["inputs"][0]
    old = entry["digest"]
    entry["digest"], entry["shape"] = digest, [extent // 4]
    document["kernel"]["arguments"][0]["shape"] = [extent // 4]
    for file in document["files"]:
        file["text"] = ""
    data = _with_document(repro, json.dumps(document).replace("<", "\\u003c").encode())
    place = data.index(f'data-digest="{old}"'.encode())
    start = data.rindex(b"<script", 0, place)
    end = data.index(b"</script>", place) + len(b"</script>")
    packed, length = _packed(compressed)
    return data[:start] + _element(digest, extent, packed, length) + data[end:]


def _repeated(repro: Repro, piece: bytes, count: int) -> Iterator[bytes]:
    data = html_file(repro)
    place = data.index(b'<script type="application/json"')
    yield data[:place]
    for _ in range(count):
        yield piece
    yield data[place:]


def _no_end(repro: Repro, piece: bytes, count: int) -> Iterator[bytes]:
    yield b"<!doctype html>"
    for _ in range(count):
        yield piece


_WGSL = b'<script type="text/wgsl" data-file="a.wgsl">'
_TENSOR = b'<script type="application/octet-stream" data-digest="' + b"0" * 64 + b'" data-bytes="1" data-block="200">'
_HTML_FILES: dict[str, tuple[Callable[[Repro], bytes | Iterator[bytes]], str | None]] = {
    "an unreferenced tensor of 4 GiB": (lambda repro: _bomb(repro, "0" * 64, 4096), None),
    "a tensor of 4 GiB under a true digest": (
        lambda repro: _bomb(repro, repro.document.inputs[0].digest, 4096), "more than",
    ),
    "a tensor of 600 MiB of zeros that is another": (
        lambda repro: _large(repro, 600 << 20, _zeros(600)), "other bytes than its digest",
    ),
    "a tensor of 600 MiB that goes on": (lambda repro: _large(repro, 600 << 20, _zeros(900)), "more than"),
    "two gzip members": (lambda repro: _large(repro, 2 << 20, _zeros(1) * 2), "end"),
    "a tensor that is no gzip": (lambda repro: _large(repro, 400, b"no gzip" * 50), "damaged on its way"),
    "a tensor that ends early": (lambda repro: _large(repro, 2 << 20, _zeros(2)[:-20]), "end is missing"),
    "the same tensor a hundred times": (
        lambda repro: _repeated(repro, _element("2" * 64, 1 << 20, *_packed(_zeros(1))), 100), None,
    ),
    "too many elements": (lambda repro: _repeated(repro, _TENSOR + b"</script>", 20_000), "more than 10000 elements"),
    "WGSL that never ends": (lambda repro: _no_end(repro, _WGSL * 1000, 200), "no description"),
    "tensors that never end": (lambda repro: _no_end(repro, _TENSOR * 1000, 100), "no description"),
    "tensors with a tag inside": (lambda repro: _no_end(repro, (_TENSOR + b"<b>") * 1000, 100), "no description"),
    "begun heads": (lambda repro: _no_end(repro, b'<script type="' * 10_000, 100), "no description"),
    "heads that do not end": (
        lambda repro: _no_end(repro, b'<script type="text/wgsl" data-file="' * 10_000, 40), "no description",
    ),
    "only smaller-than signs": (lambda repro: _no_end(repro, b"<" * 1_000_000, 20), "no description"),
    "a description of 50 MB": (
        lambda repro: _with_document(repro, b" " * 50_000_000), "larger than 16000000",
    ),
    "a description that never ends": (
        lambda repro: b'<!doctype html><script type="application/json" id="repro">' + b" " * 30_000_000,
        "no description",
    ),
    "WGSL of 5 MB": (
        lambda repro: html_file(repro).replace(b".wgsl\">", b'.wgsl">' + b"/" * 5_000_000, 1), "4000000 characters",
    ),
    "WGSL that is no base64": (
        lambda repro: html_file(repro).replace(b".wgsl\">", b'.wgsl" data-encoding="base64">!', 1), "WGSL",
    ),
    "WGSL that is no ASCII": (lambda repro: html_file(repro).replace(b".wgsl\">", b'.wgsl">\xff', 1), "WGSL"),
}  # fmt: skip


# -------------------------------------------------------------- safetensors


def _header(change: Callable[[dict[str, Any]], Any]) -> Callable[[Repro], bytes]:
    def make(repro: Repro) -> bytes:
        header, data = _parts(repro)
        return _joined(change(header) or header, data)

    return make


def _extra(dtype: str, size: int) -> Callable[[Repro], bytes]:
    """A further tensor that the document does not name."""

    def make(repro: Repro) -> bytes:
        header, data = _parts(repro)
        header["extra"] = {"dtype": dtype, "shape": [4], "data_offsets": [len(data), len(data) + size]}
        return _joined(header, data + bytes(size))

    return make


def _tensor(**changes: Any) -> Callable[[Repro], bytes]:
    return _header(lambda header: header["inputs.0"].update(changes))


def _length(length: int) -> Callable[[Repro], bytes]:
    return lambda repro: length.to_bytes(8, "little") + b"".join(safetensors_file(repro))[8:]


def _flipped(repro: Repro) -> bytes:
    data = b"".join(safetensors_file(repro))
    return data[:-1] + bytes([data[-1] ^ 1])


_MANY = ",".join(f'"{i:x}":{{"dtype":"U8","shape":[],"data_offsets":[{i},{i + 1}]}}' for i in range(250_000))
_SAFETENSORS_FILES: dict[str, tuple[Callable[[Repro], bytes | Iterator[bytes]], str | None]] = {
    "a header of 2**63 bytes": (_length(2**63), "header"),
    "a header of 2 GB": (_length(2 * 10**9), "header"),
    "a header of no bytes": (_length(0), "header|no exported test"),
    "a header that ends in the tensors": (_length(100), "header"),
    "a header behind the end": (_length(15_000_000), "header"),
    "250,000 tensors": (lambda repro: _joined(b"{" + _MANY.encode() + b"}", bytes(250_000)), "lists and objects"),
    "a deep header": (lambda repro: _joined(b'{"a":' * 100_000, b""), "nested"),
    "a name twice": (
        lambda repro: _joined(json.dumps(_parts(repro)[0]).encode()[:-1] + b',"inputs.0":{}}', _parts(repro)[1]),
        "stands twice",
    ),
    "NaN in the header": (_header(lambda header: json.dumps({**header, "x": float("nan")}).encode()), "NaN"),
    "no metadata": (_header(lambda header: header.pop("__metadata__") and None), "tensors"),
    "metadata that is no text": (_header(lambda header: header["__metadata__"].update(tapml={"a": [1]})), "tensors"),
    "deep metadata": (_header(lambda header: header.update(__metadata__=[[[[]]]])), "tensors"),
    "another dtype of the same size": (_tensor(dtype="I32"), "inputs.0 is not"),
    "bfloat16": (_tensor(dtype="BF16"), "is not"),
    "an unreferenced bfloat16": (_extra("BF16", 8), None),
    "an unreferenced float8": (_extra("F8_E4M3", 4), None),
    "a dtype that nobody knows": (_tensor(dtype="X99"), "is not"),
    "a shape that overflows": (_tensor(shape=[2**62, 2**62]), "is not"),
    "a negative extent": (_tensor(shape=[-4, -4]), "is not"),
    "true as an extent": (_tensor(shape=[True]), "is not"),
    "offsets that overlap": (_tensor(data_offsets=[0, 4]), "readable"),
    "offsets behind the end": (_tensor(data_offsets=[10**9, 10**9 + 4]), "readable"),
    "offsets backwards": (_tensor(data_offsets=[8, 4]), "readable"),
    "a hole": (lambda repro: _joined(_parts(repro)[0], _parts(repro)[1] + bytes(100)), "readable"),
    "cut short": (lambda repro: b"".join(safetensors_file(repro))[:-5], "readable"),
    "a byte changed": (_flipped, "other bytes than its digest"),
    "no UTF-8": (lambda repro: _joined(b'{"\xff": 1}', b""), "utf-8"),
}  # fmt: skip
