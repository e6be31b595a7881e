"""The compiled model as one JSON Schema (draft 2020-12), from which TypeScript has its types."""

from __future__ import annotations

from typing import Any

from tapml.compiled.model import CompiledModel
from tapml.protocol.schema import PlainJsonSchema, json_schema


def schema() -> dict[str, Any]:
    """All types under `$defs`."""
    about = {"description": "a compiled model, tapml.model/1 (docs/model-format.md)"}
    return json_schema("ModelDocument", about, (CompiledModel,), PlainJsonSchema)
