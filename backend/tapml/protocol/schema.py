"""The protocol as one JSON Schema (draft 2020-12), from which other languages make their types and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from tapml.protocol import methods, session
from tapml.protocol.base import MAX_WGSL_BYTES, PROTOCOL_VERSION

_ROOTS: tuple[Any, ...] = (
    session.Hello,
    session.HelloAck,
    session.Progress,
    session.Reply,
    session.CancelCall,
    session.Call,
    methods.ValidateResult,
    methods.ExecuteResult,
    methods.RunModelResult,
    methods.RunCompiledResult,
    methods.GenerateResult,
    methods.PingResult,
)


class PlainJsonSchema(GenerateJsonSchema):
    """Without titles."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # a title on every field would become a type of its own in TypeScript

    # That Python fills in what says which message it is makes no message without it.
    def field_is_required(self, field: Any, total: bool) -> bool:
        return _constant(field["schema"]) or super().field_is_required(field, total)

    def default_schema(self, schema: Any) -> Any:
        return self.generate_inner(schema["schema"]) if _constant(schema) else super().default_schema(schema)


def _constant(schema: Any) -> bool:
    return bool(schema["type"] == "default" and schema["schema"]["type"] == "literal")


def schema() -> dict[str, Any]:
    """All message types under `$defs`."""
    about = f"tapml session protocol, version {PROTOCOL_VERSION}"
    facts = {"description": about, "version": PROTOCOL_VERSION, "maxWgslBytes": MAX_WGSL_BYTES}
    found = json_schema("Protocol", facts, _ROOTS, PlainJsonSchema)
    _drop_mappings(found["$defs"])
    return found


def json_schema(
    title: str, facts: Mapping[str, Any], roots: Sequence[Any], generator: type[GenerateJsonSchema]
) -> dict[str, Any]:
    """`roots` and all that they are made of, under `$defs`."""
    inputs: Any = [(number, "validation", TypeAdapter(root)) for number, root in enumerate(roots)]
    _, found = TypeAdapter.json_schemas(inputs, schema_generator=generator)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **facts,
        "type": "object",
        "$defs": found["$defs"],
    }


def _drop_mappings(value: Any) -> None:
    """OpenAPI's `discriminator.mapping` says what the members' constants say already; validators trip over it."""
    if isinstance(value, dict):
        if isinstance(value.get("discriminator"), dict):
            value["discriminator"].pop("mapping", None)
            value["type"] = "object"  # validators look for the property without asking
        for inner in value.values():
            _drop_mappings(inner)
    elif isinstance(value, list):
        for inner in value:
            _drop_mappings(inner)
