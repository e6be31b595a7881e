"""What a version needs and when it runs: its task.json. The agent reads it in the same way (documents.ts)."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tapml.errors import InputError
from tapml.first_error import in_words
from tapml.formats import validated
from tapml.protocol.base import Message
from tapml.strict_json import parse_json

CONFIGURATION = "task.json"

_REMEDY = "; docs/field.md says what is in it"


def _checked_name(name: str) -> str:
    """Of a table or a column."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name) or re.match(r"sqlite_|(?:rowid|oid)$", name):
        raise ValueError(
            "is no name for SQL: give it at most 63 of a-z, 0-9 and _, and none that SQLite has its own use for"
        )
    return name


def _checked_trigger(ids: list[str]) -> list[str]:
    if "**" in (ids[0], ids[-1]):
        raise ValueError("begins or ends with **, which would be any time: leave it out")
    return ids


_EVENT_ID = "an event's id is 1 to 64 letters, digits, _, ., : or -, and * or ** stand for any"
_ORIGIN_WORDS = "give https://HOST, without a path"
_FOLDER = "a model is a folder of the version, such as model/"
_MODULE = "it is no name of a Python module in the version: give one such as main, without .py"
_EMITTED = "a name is 1 to 64 letters, digits, _, . or -"

_EventId = Annotated[str, Field(pattern=in_words(r"^(?:\*\*?|[A-Za-z0-9_.:-]{1,64})$", _EVENT_ID))]
_Trigger = Annotated[list[_EventId], Field(min_length=1, max_length=32), AfterValidator(_checked_trigger)]
_Origin = Annotated[str, Field(max_length=200, pattern=in_words(r"^https?://[^/\s?#@]+$", _ORIGIN_WORDS))]
_ModelFolder = Annotated[str, Field(max_length=200, pattern=in_words(r"^[A-Za-z0-9_][A-Za-z0-9_./+@-]*/$", _FOLDER))]
_Name = Annotated[str, AfterValidator(_checked_name)]
_ColumnType = Literal["integer", "real", "text", "blob"]


class Schedule(Message):
    """How often the agent itself starts a task."""

    every_seconds: Annotated[float, Field(ge=1, le=86_400)]


class Needs(Message):
    """What a task may use."""

    network: list[_Origin] = Field(max_length=16, default_factory=list)
    models: list[_ModelFolder] = Field(max_length=16, default_factory=list)
    seconds: Annotated[float, Field(ge=0.01, le=3600)] = 10
    """Of one run, at most."""


class Keeps(Message):
    """What a task may keep on the device: tables by name, each with its columns' types by name."""

    tables: Annotated[
        dict[_Name, Annotated[dict[_Name, _ColumnType], Field(min_length=1, max_length=64)]],
        Field(min_length=1, max_length=16),
    ]
    bytes: Annotated[int, Field(ge=100_000, le=1_000_000_000)] = 10_000_000
    """Of its database, at most."""
    buffer: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Rows that are collected, and then written together."""


class TaskConfiguration(Message):
    """What it leaves out has its default: nothing starts it, and it may do nothing but compute."""

    format: Literal["tapml.task-configuration/1"]
    main: Annotated[str, Field(pattern=in_words(r"^[A-Za-z_][A-Za-z0-9_]{0,63}$", _MODULE))] = "main"
    triggers: list[_Trigger] = Field(max_length=100, default_factory=list)
    schedule: Schedule | None = None
    needs: Needs = Needs()
    emits: list[Annotated[str, Field(pattern=in_words(r"^[A-Za-z0-9_.-]{1,64}$", _EMITTED))]] = Field(
        max_length=64, default_factory=list
    )
    keeps: Keeps | None = None


def check_installable(task: str, version: str, paths: Collection[str]) -> None:
    """Raises InputError for a version that no device can install, for want of a configuration."""
    if CONFIGURATION not in paths:
        raise InputError(
            f'{task} {version} has no {CONFIGURATION}, and no device can install it: add one with at least {{"format": '
            '"tapml.task-configuration/1"}, and tag that'
        )


def check_configuration(data: bytes, paths: Collection[str]) -> None:
    """Raises InputError where an agent would refuse it. `paths`: the version's files."""
    document = parse_json(data, CONFIGURATION, _REMEDY.removeprefix("; "))
    found = validated(CONFIGURATION, TaskConfiguration, document, _REMEDY)
    if not {f"{found.main}.py", f"{found.main}/__init__.py"} & set(paths):
        raise InputError(f"{CONFIGURATION} names the module {found.main}, and there is no {found.main}.py: add it")
    for model in found.needs.models:
        if f"{model}model.json" not in paths:
            raise InputError(
                f"{CONFIGURATION} names the model {model}, which has no model.json: add what `tapml build` wrote"
            )
