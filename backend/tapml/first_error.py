"""Models that are checked up to the first thing that is wrong.

Pydantic looks for everything that is wrong, and a list of ten million wrong elements gives ten million errors:
gigabytes and minutes, for a few megabytes of text. Nobody reads more than the first.
"""

from __future__ import annotations

import re
from typing import Any, cast

from pydantic import BaseModel, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema

_ENDS_EARLY = ("list", "tuple", "set", "frozenset", "dict")
_MOST_FIELDS = 1000
_MOST_NAME = 60
_MOST_MESSAGE = 500


def first_error(error: ValidationError) -> str:
    """The first thing that is wrong, with its place: "variants[1].requires.limits: Input should be ..."."""
    found = error.errors(include_url=False, include_input=False, include_context=False)[0]
    text = ""
    for part in found["loc"]:
        if isinstance(part, int):
            text += f"[{part}]"
        # Pydantic puts names of types between.
        elif not part[:1].isupper() and not re.search(r"[\[(]|^(constrained|function)-", part):
            part = part if len(part) <= _MOST_NAME else f"{part[:_MOST_NAME]}..."
            text += f".{part}" if text else part
    return f"{text or 'the document'}: {found['msg'][:_MOST_MESSAGE]}"


def _end_early(schema: Any, handler: GetCoreSchemaHandler, seen: set[int]) -> None:
    """In a core schema and what it refers to; the models in it do it themselves."""
    if isinstance(schema, list | tuple):
        for inner in schema:
            _end_early(inner, handler, seen)
    elif isinstance(schema, dict) and schema.get("type") == "definition-ref":
        try:
            found = handler.resolve_ref_schema(cast(CoreSchema, schema))
        except LookupError:  # a type that is made of itself: whoever defines it comes here
            return
        if id(found) not in seen:
            seen.add(id(found))
            _end_early(found, handler, seen)
    elif isinstance(schema, dict) and schema.get("type") != "model":
        if schema.get("type") in _ENDS_EARLY:
            schema["fail_fast"] = True
        for inner in schema.values():
            _end_early(inner, handler, seen)


def _few_fields(found: Any) -> Any:
    if isinstance(found, dict) and len(found) > _MOST_FIELDS:
        raise ValueError(f"it has {len(found)} fields")
    return found


class FirstErrorModel(BaseModel):
    """Its lists and objects are left at their first wrong element."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        found: Any = handler.resolve_ref_schema(schema)
        while found["type"] != "model":  # validators of the whole stand around it
            found = found["schema"]
        _end_early(found["schema"], handler, set())
        # An object with a million fields that nobody knows is an error for each.
        few = {"type": "no-info", "function": _few_fields}
        found["schema"] = {"type": "function-before", "function": few, "schema": found["schema"]}
        return schema


class FirstError:
    """In the annotation of a type that is no such model: its lists and objects are left at their first wrong element,
    too."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        _end_early(schema, handler, set())
        return schema
