"""Results as one JSON Schema (draft 2020-12), from which TypeScript has its types."""

from __future__ import annotations

from typing import Any

from tapml.protocol.schema import PlainJsonSchema, json_schema
from tapml.results.base import DeviceFacts
from tapml.results.comparison import Comparison, ComparisonDocument, RunsDocument, RunSides
from tapml.results.history import SuiteHistory, SuiteHistoryDocument, TestHistory, TestHistoryDocument
from tapml.results.locate import LocateDocument
from tapml.results.offload import OffloadDocument
from tapml.results.reduce import ReduceDocument
from tapml.results.run import BaselineDocument, RunDocument
from tapml.results.texts import TextsDocument
from tapml.results.validation import Measured, ValidationDocument

_ROOTS: tuple[Any, ...] = (
    ValidationDocument,
    OffloadDocument,
    LocateDocument,
    ReduceDocument,
    RunDocument,
    BaselineDocument,
    SuiteHistoryDocument,
    TestHistoryDocument,
    TextsDocument,
    ComparisonDocument,
    RunsDocument,
    # What others hold by itself: an exported test, the HTTP API.
    DeviceFacts,
    Measured,
    SuiteHistory,
    TestHistory,
    Comparison,
    RunSides,
)


class _AsRead(PlainJsonSchema):
    def field_is_required(self, field: Any, total: bool) -> bool:
        return super().field_is_required(field, total) or field["schema"]["type"] == "default"  # reading fills it in


def schema() -> dict[str, Any]:
    """All types under `$defs`, with the fields that every document has once it was read."""
    return json_schema("Results", {"description": "tapml result documents (docs/results-format.md)"}, _ROOTS, _AsRead)
