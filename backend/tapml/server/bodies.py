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
    if not found.isprintable() or len(found) > 500:
        raise InputError(f"{name}: give a name, without control characters and of at most 500 characters")
    return found


def whole_number(text: str, name: str) -> int:
    """A parameter of the address, from 0. Raises InputError for anything else."""
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise InputError(f"{name}: give a whole number from 0")
    return int(text)
