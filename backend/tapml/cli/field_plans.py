"""A plan as a person writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tapml.errors import InputError
from tapml.field.names import DEVICE, TASK, VERSION
from tapml.field.policies import FIELD
from tapml.field.releases import Plan
from tapml.first_error import first_error
from tapml.strict_json import parse_json

_MOST_BYTES = 1_000_000
_PLANS = "; docs/field.md says what a plan is"
_IN_WORDS = {
    DEVICE: "a device's name is 16 to 64 letters, digits, - or _",
    TASK: "a task is SCENARIO/TASK, two names of 1 to 63 small letters, digits and - (not first or last)",
    VERSION: "a version is one to four numbers with dots between, such as 1.2.0",
    FIELD: "conditions are on app, browser, browser_version, gpu_vendor, gpu_architecture, speed or attributes.NAME",
    "^[0-9a-f]{64}$": "a SHA-256 digest is 64 of the digits 0-9 and a-f (leave `manifest` out for the published one's)",
}
"""What a pattern asks for."""


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
    try:
        return Plan.model_validate(found)
    except ValidationError as error:
        first, told = error.errors(include_url=False, include_input=False)[0], first_error(error)
        if words := _IN_WORDS.get(first.get("ctx", {}).get("pattern", "")):
            told = f"{told.partition(': String should match')[0]}: {words}"
        raise InputError(f"{path}: {told}{_PLANS}") from error
