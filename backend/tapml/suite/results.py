"""`results/KIND.DEVICE.json`, read from documents that may be hostile."""

from __future__ import annotations

import re
from typing import Any

from tapml.errors import InputError
from tapml.folder import Folder
from tapml.formats import MOST_BYTES, format_version, read_json, validated
from tapml.results.checks import RESULTS
from tapml.suite.collecting import not_collecting

_MEND = "; it is left out: run the command again, or remove the file"
_MOST_SHOWN = 20


def read_results(folder: Folder, kind: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The documents of a kind in a suite's `results`, the newest of each device, and a sentence for each that is none;
    never raises for them."""
    found: list[dict[str, Any]] = []
    problems: list[str] = []
    left = MOST_BYTES
    for name in folder.names("results"):
        if not re.fullmatch(rf"{kind}\..+\.json", name, re.DOTALL):
            continue
        try:
            with not_collecting():
                document = read_json(folder, f"results/{name}", most=left)
                found.append(checked_result(str(folder.path / "results" / name), kind, document))
        except InputError as error:
            problems.append(str(error))
        else:
            left -= folder.size(f"results/{name}") or 0
    return _newest(found), _few(problems)


def _newest(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One a device, in the order of names and numbers: earlier versions kept all tabs of a browser under one name."""
    newest: dict[tuple[str, str, str], dict[str, Any]] = {}
    for document in documents:
        device = document["devices"][0]
        key = (str(document["suite"]), str(device["id"]), str(device["name"]))
        if key not in newest or newest[key]["created"] < document["created"]:
            newest[key] = document
    return sorted(newest.values(), key=_place)


def _place(document: dict[str, Any]) -> tuple[str, int, str]:
    device = document["devices"][0]
    return device["name"], len(device["id"]), device["id"]


def checked_result(where: str, kind: str, document: Any) -> Any:
    """The document as one of this version. Raises InputError naming `where` and the field that is wrong."""
    format_version(where, document, f"tapml.{kind}/1", f"the result of `tapml {kind}`")
    return validated(where, RESULTS[kind], document, _MEND)


def _few(problems: list[str]) -> list[str]:
    """A suite may hold a million files."""
    rest = len(problems) - _MOST_SHOWN
    return problems if rest <= 0 else [*problems[:_MOST_SHOWN], f"and {rest} more results are left out"]
