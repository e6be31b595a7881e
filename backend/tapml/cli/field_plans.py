"""A plan as a person writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tapml.errors import InputError
from tapml.field.policies import FIELD
from tapml.field.releases import Plan
from tapml.first_error import in_words
from tapml.formats import validated
from tapml.strict_json import parse_json

_MOST_BYTES = 1_000_000
_PLANS = "; docs/field.md says what a plan is"
in_words(
    FIELD, "conditions are on app, browser, browser_version, gpu_vendor, gpu_architecture, speed or attributes.NAME"
)


def read_plan(path: Path, digest: Callable[[str, str], str | None] = lambda task, version: None) -> Plan:
    """`digest`: of the manifest of a version, for a plan that does not tell it. Raises InputError."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): give a file with a plan{_PLANS}") from error
    if len(data) > _MOST_BYTES:
        raise InputError(f"{path} has more than {_MOST_BYTES} bytes: give a file with a plan{_PLANS}")
    found = parse_json(data, path, _PLANS.removeprefix("; "))
    if isinstance(found, dict) and "manifest" not in found:
        # Its names are checked before they are looked up.
        plan = _plan(path, {**found, "manifest": "0" * 64})
        if (known := digest(plan.task, plan.version)) is None:
            raise InputError(f"{path}: {plan.task} {plan.version} is not published: run `tapml field publish` first")
        return plan.model_copy(update={"manifest": known})
    return _plan(path, found)


def _plan(path: Path, found: Any) -> Plan:
    return validated(path, Plan, found, _PLANS)
