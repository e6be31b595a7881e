"""One HTML file that runs a test anywhere: no network, no framework, plain WebGPU (docs/repro-format.md).

The page is runner_js/repro; here its data goes in, and comes out again on import.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import html
import re
from pathlib import Path

from tapml.errors import InputError, ToolchainError
from tapml.sharing import packing
from tapml.sharing.document import parse, with_texts, without_texts
from tapml.sharing.repro import Repro, of_memory

_TEMPLATE = Path(__file__).parents[1] / "server" / "static" / "repro" / "template.html"
_UNSAFE_WGSL = re.compile(r"</|<!|<script", re.IGNORECASE)

_DOCUMENT = re.compile(rb'<script type="application/json" id="repro">([^<]*)</script>')
_WGSL = re.compile(
    rb'<script type="text/wgsl" data-file="([^"]{1,300})"( data-encoding="base64")?>(.*?)</script>', re.DOTALL
)
_TENSOR = re.compile(
    rb'<script type="application/octet-stream" data-digest="([0-9a-f]{64})" data-bytes="(\d{1,15})" '
    rb'data-block="(\d{1,4})">([^<]*)</script>'
)
_SCRIPT = re.compile(rb"<script(?: type=\"module\")?>(.*?)</script>", re.DOTALL)


def html_file(repro: Repro) -> bytes:
    """The file's bytes, in windows-1252. Raises ToolchainError where the page is not built."""
    try:
        template = _TEMPLATE.read_bytes()
    except OSError as error:
        raise ToolchainError(f"the page of exported tests is not built ({_TEMPLATE}): run `make setup`") from error
    document = repro.document
    wgsl = [_wgsl_element(file.name, file.text) for file in document.files]
    sizes = {tensor.digest: _tensor_element(tensor.digest, repro.read(tensor.digest)) for tensor in document.tensors}
    title = f"{document.test.kernel}: test {document.test.id} of {document.suite.name}"
    # What people wrote is put in last, and in one go: it may look like a placeholder.
    values = {
        b"title": _ascii(html.escape(title)),
        b"csp": _policy(template),
        b"document": _json(without_texts(document).model_dump_json()),
        b"wgsl": b"\n".join(wgsl),
        b"tensors": b"\n".join(sizes.values()),
    }
    return re.sub(rb"\{\{(title|csp|document|wgsl|tensors)\}\}", lambda found: values[found[1]], template)


def _policy(template: bytes) -> bytes:
    """Nothing is fetched, and nothing runs but the script of the template."""
    scripts = _SCRIPT.findall(template)
    if len(scripts) != 1:
        raise AssertionError(f"{_TEMPLATE} has {len(scripts)} scripts")
    digest = base64.b64encode(hashlib.sha256(scripts[0]).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    ).encode()


def _ascii(text: str) -> bytes:
    return text.encode("ascii", "xmlcharrefreplace")


def _json(text: str) -> bytes:
    escaped = "".join(c if c.isascii() else _escaped(c) for c in text)
    return escaped.replace("<", "\\u003c").encode("ascii")


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _wgsl_element(name: str, text: str) -> bytes:
    head = f'<script type="text/wgsl" data-file="{html.escape(name)}"'
    if text.isascii() and "\r" not in text and "\0" not in text and not _UNSAFE_WGSL.search(text):
        return f"{head}>{text}</script>".encode("ascii")
    encoded = base64.b64encode(text.encode()).decode()
    return f'{head} data-encoding="base64">{encoded}</script>'.encode()


def _tensor_element(digest: str, data: bytes) -> bytes:
    packed, length = packing.pack(data)
    head = f'<script type="application/octet-stream" data-digest="{digest}" data-bytes="{len(data)}"'
    return f'{head} data-block="{length}">'.encode() + packed + b"</script>"


def read_html(where: Path | str, data: bytes) -> Repro:
    """The test in an exported HTML file. Raises InputError for any other file, and for a damaged one."""
    found = _DOCUMENT.search(data)
    if found is None:
        raise InputError(f"{where} is no exported test: no description of one is in it")
    document = parse(where, found[1])
    texts = {}
    for name, encoded, body in _WGSL.findall(data):
        try:
            text = base64.b64decode(body, validate=True).decode() if encoded else body.decode("ascii")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise InputError(f"{where}: the WGSL of {name.decode('ascii', 'replace')} was damaged: {error}") from error
        texts[html.unescape(name.decode("ascii", "replace"))] = text
    tensors = {}
    for digest, nbytes, length, packed in _TENSOR.findall(data):
        try:
            tensors[digest.decode()] = packing.unpack(packed, int(length), int(nbytes))
        except ValueError as error:
            what = f"the tensor {digest.decode()[:16]}... was damaged on its way ({error})"
            raise InputError(f"{where}: {what}: get the file again, as a file and not as text") from error
    return of_memory(where, with_texts(where, document, texts), tensors)
