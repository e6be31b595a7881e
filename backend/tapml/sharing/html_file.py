"""One HTML file that runs a test anywhere: no network, no framework, plain WebGPU (docs/repro-format.md).

The page is runner_js/repro; here its data goes in, and comes out again on import.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tapml.errors import InputError, ToolchainError
from tapml.npy import Open, in_pieces
from tapml.sharing import packing
from tapml.sharing.document import MOST_DOCUMENT_BYTES, Input, ReproDocument, nbytes, parse, with_texts, without_texts
from tapml.sharing.html_elements import Element, elements
from tapml.sharing.repro import Repro, of_pieces

_TEMPLATE = Path(__file__).parents[1] / "server" / "static" / "repro" / "template.html"
_UNSAFE_WGSL = re.compile(r"</|<!|<script", re.IGNORECASE)

_SCRIPT = re.compile(rb"<script(?: type=\"module\")?>(.*?)</script>", re.DOTALL)


def html_file(repro: Repro) -> bytes:
    """The file's bytes, in windows-1252. Raises ToolchainError where the page is not built."""
    try:
        template = _TEMPLATE.read_bytes()
    except OSError as error:
        raise ToolchainError(f"the page of exported tests is not built ({_TEMPLATE}): run `make setup`") from error
    document = repro.document
    wgsl = [_wgsl_element(file.name, file.text) for file in document.files]
    sizes = {tensor.digest: _tensor_element(repro, tensor) for tensor in document.tensors}
    title = f"{document.test.kernel}: test {document.test.id} of {document.suite.name}"
    # What people wrote is put in last, and in one go: it may look like a placeholder.
    values = {
        b"title": _ascii(html.escape(title)),
        b"csp": _policy(template),
        b"document": _json(document),
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


def _json(document: ReproDocument) -> bytes:
    text = without_texts(document).model_dump_json(ensure_ascii=True)
    return text.replace("<", "\\u003c").encode("ascii")


def _wgsl_element(name: str, text: str) -> bytes:
    head = f'<script type="text/wgsl" data-file="{html.escape(name)}"'
    if text.isascii() and "\r" not in text and "\0" not in text and not _UNSAFE_WGSL.search(text):
        return f"{head}>{text}</script>".encode("ascii")
    encoded = base64.b64encode(text.encode()).decode()
    return f'{head} data-encoding="base64">{encoded}</script>'.encode()


def _tensor_element(repro: Repro, tensor: Input) -> bytes:
    packed, length = packing.pack(repro.read(tensor.digest))
    head = f'<script type="application/octet-stream" data-digest="{tensor.digest}" data-bytes="{nbytes(tensor)}"'
    return f'{head} data-block="{length}">'.encode() + packed + b"</script>"


def read_html(where: Path | str, open_file: Open) -> Repro:
    """The test in an exported HTML file. Tensors that its document does not name are not looked at, the others are
    unpacked piece by piece.

    Raises InputError for any other file, and for a damaged one.
    """
    with open_file() as file:
        try:
            found = first_of_each(file)
        except ValueError as error:
            raise InputError(f"{where} is no exported test: {error}") from error
        described = found.get(("document", b""))
        if described is None:
            raise InputError(f"{where} is no exported test: no description of one is in it")
        document = parse(where, _content(file, described))
        texts = {
            name: _text(where, file, element)
            for name in (entry.name for entry in document.files)
            if (element := found.get(("wgsl", html.escape(name).encode())))
        }

    def pieces(digest: str) -> Iterator[bytes] | None:
        element = found.get(("tensor", digest.encode()))
        return None if element is None else _unpacked(open_file, element)

    return of_pieces(where, with_texts(where, document, texts), pieces)


def first_of_each(file: IO[bytes]) -> dict[tuple[str, bytes], Element]:
    """As a browser finds them: of several with one name it takes the first."""
    found: dict[tuple[str, bytes], Element] = {}
    for element in elements(file):
        found.setdefault((element.kind, element.name), element)
    return found


def _content(file: IO[bytes], element: Element) -> bytes:
    file.seek(element.start)
    # One more than may be, and whoever reads it says that it is too much.
    return file.read(min(element.length, MOST_DOCUMENT_BYTES + 1))


def _text(where: Path | str, file: IO[bytes], element: Element) -> str:
    body = _content(file, element)
    try:
        return base64.b64decode(body, validate=True).decode() if element.base64 else body.decode("ascii")
    except (binascii.Error, UnicodeDecodeError) as error:
        name = element.name.decode("ascii", "replace")
        raise InputError(f"{where}: the WGSL of {name} was damaged: {error}") from error


def _unpacked(open_file: Open, element: Element) -> Iterator[bytes]:
    with open_file() as file:
        yield from packing.unpack(in_pieces(file, element.start, element.length), element.block)
