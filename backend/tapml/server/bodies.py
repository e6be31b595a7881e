"""What requests carry: read within bounds, and checked."""

from __future__ import annotations

from typing import Any

from flask import abort, request

from tapml.errors import InputError
from tapml.strict_json import parse_json

_MEND = "send what docs/http-api.md says"


def json_object() -> dict[str, Any]:
    """The request's body. Raises InputError for anything but one JSON object; other media types are HTTP's 415."""
    if not request.is_json:
        abort(415, "the body has to be JSON, with Content-Type: application/json")
    found = parse_json(request.get_data(cache=False), "the body", _MEND)
    if not isinstance(found, dict):
        raise InputError("the body is no JSON object")
    return found


def text_field(body: dict[str, Any], name: str) -> str:
    """A string of the body. Raises InputError where it is missing or something else."""
    found = body.get(name)
    if not isinstance(found, str):
        raise InputError(f"{name}: give a string")
    return _plain(found, name)


def text_list(body: dict[str, Any], name: str, most: int) -> list[str]:
    """Strings of the body, each once. Raises InputError where it is something else, empty, or has more than `most`."""
    found = body.get(name)
    if not isinstance(found, list) or not all(isinstance(part, str) for part in found):
        raise InputError(f"{name}: give a list of names")
    if not 1 <= len(found) <= most:
        raise InputError(f"{name}: give at least one, at most {most}")
    return [_plain(part, name) for part in dict.fromkeys(found)]


def whole_number(text: str, name: str) -> int:
    """A parameter of the address, from 0. Raises InputError for anything else."""
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise InputError(f"{name}: give a whole number from 0")
    return int(text)


def _plain(text: str, name: str) -> str:
    if not text.isprintable() or len(text) > 500:
        raise InputError(f"{name}: give a name, without control characters and of at most 500 characters")
    return text
