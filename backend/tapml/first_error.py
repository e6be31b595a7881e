"""Models that are checked up to the first thing that is wrong.

Pydantic looks for everything that is wrong, and a list of ten million wrong elements gives ten million errors:
gigabytes and minutes, for a few megabytes of text. Nobody reads more than the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast, get_args

from pydantic import BaseModel, GetCoreSchemaHandler, ValidationError, ValidationInfo
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError

from tapml.text import meant

_ENDS_EARLY = ("list", "tuple", "set", "frozenset", "dict")
_MOST_FIELDS = 1000
_MOST_NAME = 60
_MOST_MESSAGE = 500
_OBJECTS = ("model_type", "model_attributes_type", "dict_type", "dataclass_type")
_UNKNOWN = "unknown_field"
LEAVES_UNKNOWN = {"unknown": "left"}
"""The `context` of a validation that is told to ignore fields that a model does not have: it cannot see that itself."""

_pattern_words: dict[str, str] = {}


def in_words(pattern: str, words: str) -> str:
    """The pattern, for a field; where something does not match it, these words say what is asked for."""
    _pattern_words[pattern] = words
    return pattern


def first_error(error: ValidationError) -> str:
    """The first thing that is wrong, with its place: "variants[1].requires.limits: Input should be ..."."""
    found = error.errors(include_url=False, include_input=False)[0]
    text = ""
    for part in found["loc"]:
        if isinstance(part, int):
            text += f"[{part}]"
        # Pydantic puts names of types between.
        elif not part[:1].isupper() and not re.search(r"[\[(]|^(constrained|function)-", part):
            part = _cut(part)
            text += f".{part}" if text else part
    message = _message(found)[:_MOST_MESSAGE]
    return message if not text and found["type"] == _UNKNOWN else f"{text or 'the document'}: {message}"


def _message(found: ErrorDetails) -> str:
    """Pydantic's, but where that is about Python."""
    kind, told, context = found["type"], found["msg"], found.get("ctx", {})
    if kind == "value_error":
        return told.removeprefix("Value error, ")
    if kind == "string_pattern_mismatch":
        return _pattern_words.get(context["pattern"], told)
    if kind == "extra_forbidden":
        return "there is no such field"
    if kind in _OBJECTS:
        return "it is not an object: write it in {}"
    tag = context.get("discriminator", "").strip("'")
    if kind == "union_tag_invalid":
        return f"there is no {tag} {context['tag'][:_MOST_NAME]!r}: give one of {context['expected_tags']}"
    return f"it has no {tag}" if kind == "union_tag_not_found" else told


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


def _known_fields(model: type[BaseModel]) -> Callable[[Any, ValidationInfo], Any]:
    """Refuses what has very many fields, and names one that the model does not have."""

    def check(found: Any, info: ValidationInfo) -> Any:
        if not isinstance(found, dict):
            return found
        if len(found) > _MOST_FIELDS:
            raise ValueError(f"it has {len(found)} fields")
        fields = model.model_fields
        if info.context is LEAVES_UNKNOWN:
            return found
        if model.model_config.get("extra") != "forbid" or found.keys() <= fields.keys():
            return found
        if "format" in fields and found.get("format") not in get_args(fields["format"].annotation):
            return found  # of another version, which has other fields: that is what is told
        aliases = {name for one in fields.values() for name in (one.alias, one.validation_alias)}
        for name in found:
            if isinstance(name, str) and name not in fields and name not in aliases:
                hint = meant(name, fields).removeprefix(", ")
                raise PydanticCustomError(
                    _UNKNOWN, "there is no field {name}{hint}", {"name": _cut(name), "hint": hint and f" ({hint})"}
                )
        return found

    return check


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_NAME else f"{name[:_MOST_NAME]}..."


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
        few = {"type": "with-info", "function": _known_fields(source)}
        found["schema"] = {"type": "function-before", "function": few, "schema": found["schema"]}
        return schema


class FirstError:
    """In the annotation of a type that is no such model: its lists and objects are left at their first wrong element,
    too."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        _end_early(schema, handler, set())
        return schema
