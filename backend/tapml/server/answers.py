"""What another server answers (docs/http-api.md), checked before any of it is used: whoever runs it may mean harm."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, create_model

from tapml.errors import InputError
from tapml.formats import MOST_BYTES, Form, validated
from tapml.protocol.base import LongText, Name
from tapml.protocol.fields import Count, Line, Open
from tapml.protocol.methods import Verdict
from tapml.results.base import DeviceDocument
from tapml.results.checks import REDUCE, RESULTS

MOST_ANSWER_BYTES = 2 * MOST_BYTES
"""A job's document and some of its events."""

_MEND = ": it is no tapml server, or of another version"


class Served(Open):
    """Of a SuiteSummary: what finds the suite."""

    id: Name
    content: Line = ""
    name: Line = ""
    kernels_id: Line | None = None
    """None of a server of a former version."""
    edited: Annotated[list[Line], Field(default_factory=list, max_length=20_000)]


class Suites(Open):
    """`GET /api/suites`."""

    suites: list[Served]


class Connected(DeviceDocument):
    """A device that is connected there."""

    busy: Annotated[bool, Field(default=False)]
    unavailable: LongText | None


CONNECTED = TypeAdapter(Connected)


class Devices(Open):
    """`GET /api/devices`."""

    connected: Annotated[list[Connected], Field(max_length=10_000)]


class Started(Open):
    """`POST /api/jobs`."""

    job: Name


class ServedModel(Open):
    """Of a ModelSummary: what finds the model. Of one that no page could load there is only its id."""

    id: Name
    content: Line = ""


class Models(Open):
    """`GET /api/models`."""

    models: Annotated[list[ServedModel], Field(max_length=10_000)]


class RunDocument(Open):
    """The document of a job of `POST /api/runs`."""

    variants: dict[Line, Line]
    unvalidated: Annotated[list[Line], Field(max_length=20_000)]
    bytes: Count
    load_seconds: float
    call_seconds: Annotated[list[float], Field(max_length=20_000)]


class State(Open):
    """`GET /api/jobs/<job>`."""

    state: Literal["running", "done", "failed", "cancelled"]
    events: Annotated[list[dict[str, Any]], Field(max_length=10_000)]
    next: Count
    document: dict[str, Any] | None
    error: LongText | None
    input_error: bool = False


def _form(name: str, **fields: Any) -> type[Open]:
    return create_model(name, __base__=Open, **fields)


_LEFT = (float | None, None)
_RESULT = _form("Result", verdict=Verdict)
_STEP = _form("Step", kernel=Line, kept=bool)

EVENTS = {
    "started": _form("started", kind=Line, total=Count),
    "device": _form("device", device=DeviceDocument),
    "compile": _form("compile", device=Line, kernel=Line, done=Count, total=Count, left=_LEFT),
    "verdict": _form("verdict", device=Line, result=_RESULT, left=_LEFT),
    "step": _form("step", number=Count, total=Count, step=_STEP),
    "examine": _form("examine", number=Count, total=Count, kernel=Line),
    "model": _form("model", runs=Count, text=LongText),
    "reduce": _form("reduce", runs=Count),
    "message": _form("message", text=LongText),
}
"""By type, what is shown of each."""


def checked(where: str, form: type[Form] | TypeAdapter[Form], found: Any) -> Form:
    """Raises InputError naming the server and the first field that is wrong."""
    return validated(f"the answer of {where}", form, found, _MEND)


def known_events(where: str, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of types that are known here, checked. Raises InputError."""
    known = []
    for event in events:
        form = EVENTS.get(event["type"]) if isinstance(event.get("type"), str) else None
        if form is not None:
            checked(where, form, event)
            known.append(event)
    return known


def result_document(where: str, kind: str, found: dict[str, Any]) -> Any:
    """The result of a job of `kind`. Raises InputError where it is none."""
    if found.get("format") != f"tapml.{kind}/1":
        raise InputError(f"the answer of {where} is no result of `tapml {kind}`{_MEND}")
    return checked(where, REDUCE if kind == "reduce" else RESULTS[kind], found)
