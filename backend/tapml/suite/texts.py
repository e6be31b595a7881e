"""`results/texts/KERNEL.json`: what a kernel was when it ran, to compare with what it is."""

from __future__ import annotations

from typing import Annotated

from pydantic import TypeAdapter

from tapml.errors import InputError
from tapml.files import json_bytes
from tapml.first_error import FirstError
from tapml.folder import FileMissing
from tapml.formats import read_json, validated
from tapml.results.texts import TextsDocument, TextVersion, joined
from tapml.suite.suite import MOST_KERNEL_BYTES, Suite

_TEXTS: TypeAdapter[TextsDocument] = TypeAdapter(Annotated[TextsDocument, FirstError()])


def read_texts(suite: Suite, kernel: str) -> list[TextVersion]:
    """Latest first; none where there are none. Raises InputError where the file is damaged."""
    name = _name(kernel)
    try:
        found = read_json(suite.folder, name)
    except FileMissing:
        return []
    return validated(suite.path / name, _TEXTS, found, "; remove the file")["versions"]


def keep_text(suite: Suite, kernel: str, version: TextVersion) -> None:
    """Keep one more, or one that ran again. A file that is damaged is begun anew. Raises OSError where it cannot be
    written."""
    try:
        before = read_texts(suite, kernel)
    except InputError:
        before = []
    versions = joined(before, version)
    if versions != before:
        document: TextsDocument = {"format": "tapml.texts/1", "kernel": kernel, "versions": versions}
        suite.folder.write(_name(kernel), json_bytes(document))


def text_of(suite: Suite, kernel: str, digest: str, created: str) -> TextVersion:
    """The kernel as it lies in the suite's folder, which has this digest and no verdict. Raises InputError where it is
    damaged."""
    found = suite.kernel(kernel)
    document = f"{kernel}.json"
    texts = {file.name: file.text for file in found.files}
    texts[document] = suite.folder.read_text(f"kernels/{document}", MOST_KERNEL_BYTES)
    return {
        "digest": digest,
        "first": created,
        "created": created,
        "edited": found.edited,
        "verdicts": {},
        "files": texts,
    }


def _name(kernel: str) -> str:
    return f"results/texts/{kernel}.json"
