"""Which devices a release is for: a pure function of a policy and a profile's facts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from tapml.field.names import VERSION, version_key
from tapml.field.profiles import Fact, Facts, Scalar
from tapml.protocol.base import Message

_TEXTS = ("browser", "gpu_vendor", "gpu_architecture")
_NUMBERS = ("browser_version", "speed")
FIELD = rf"^(?:app|{'|'.join((*_TEXTS, *_NUMBERS))}|attributes\.[a-z][a-z0-9_]{{0,31}})$"
_Value = Annotated[str, Field(max_length=64)] | float | bool


class Condition(Message):
    """On one field. A device that does not tell the field fails it, and so does a value of another type."""

    one_of: Annotated[list[_Value], Field(min_length=1, max_length=1000)] | None = None
    at_least: Annotated[str, Field(pattern=VERSION)] | float | None = None
    below: Annotated[str, Field(pattern=VERSION)] | float | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Condition:
        if self.one_of is None and self.at_least is None and self.below is None:
            raise ValueError("a condition says one_of, at_least or below")
        return self


Group = Annotated[dict[Annotated[str, Field(pattern=FIELD)], Condition], Field(max_length=32)]
"""Conditions by field; all have to hold."""


class Policy(Message):
    """For a device that is in one of the groups; without groups for all."""

    groups: list[Group] = Field(max_length=100, default_factory=list)

    @field_validator("groups")
    @classmethod
    def _fits(cls, groups: list[dict[str, Condition]]) -> list[dict[str, Condition]]:
        for group in groups:
            if not group:
                raise ValueError("a group without conditions is for all devices: leave the groups out for these")
            for field, condition in group.items():
                _check(field, condition)
        return groups

    def matches(self, facts: Facts) -> bool:
        """Is it for a device of which these facts are told?"""
        return matcher(self)(facts)


def matcher(policy: Policy) -> Callable[[Facts], bool]:
    """`policy.matches`, for one that is asked often."""
    groups = [[(field, _test(field, condition)) for field, condition in group.items()] for group in policy.groups]

    def matches(facts: Facts) -> bool:
        for group in groups:
            for field, test in group:
                fact = facts.get(field)
                if fact is None or not test(fact):
                    break
            else:
                return True
        return not groups

    return matches


def _check(field: str, condition: Condition) -> None:
    """Raises ValueError for a condition that no device could meet for its type."""
    limits = [limit for limit in (condition.at_least, condition.below) if limit is not None]
    values = condition.one_of or []
    if field == "app":
        if not all(isinstance(limit, str) for limit in limits):
            raise ValueError('limits of app are versions, such as "1.4"')
        if values:
            raise ValueError("app is asked for by at_least and below, as versions are")
    elif any(isinstance(limit, str) for limit in limits):
        raise ValueError(f"limits of {field} are numbers: only app has versions")
    if field in _TEXTS and (limits or not all(isinstance(value, str) for value in values)):
        raise ValueError(f"{field} is a text: ask for it by one_of")
    if field in _NUMBERS and any(isinstance(value, str | bool) for value in values):
        raise ValueError(f"{field} is a number")
    if condition.at_least is not None and condition.below is not None and _is_empty(condition):
        raise ValueError(f"no {field} is at least {condition.at_least} and below {condition.below}")


def _is_empty(condition: Condition) -> bool:
    least, below = condition.at_least, condition.below
    if isinstance(least, str) and isinstance(below, str):
        return version_key(least) >= version_key(below)
    return isinstance(least, float) and isinstance(below, float) and least >= below


def _test(field: str, condition: Condition) -> Callable[[Fact], bool]:
    tests = []
    if condition.one_of is not None:
        tests.append(_among(condition.one_of))
    least, below = condition.at_least, condition.below
    if field == "app":
        tests.append(_between_versions(least, below))
    elif least is not None or below is not None:
        tests.append(_between_numbers(least, below))
    return tests[0] if len(tests) == 1 else lambda fact: all(test(fact) for test in tests)


def _among(values: list[Scalar]) -> Callable[[Fact], bool]:
    # In Python True is 1.
    truths = {value for value in values if isinstance(value, bool)}
    others = {value for value in values if not isinstance(value, bool)}
    return lambda fact: fact in (truths if isinstance(fact, bool) else others)


def _between_versions(least: str | float | None, below: str | float | None) -> Callable[[Fact], bool]:
    low = version_key(least) if isinstance(least, str) else ()
    high = version_key(below) if isinstance(below, str) else None
    return lambda fact: isinstance(fact, tuple) and low <= fact and (high is None or fact < high)


def _between_numbers(least: str | float | None, below: str | float | None) -> Callable[[Fact], bool]:
    low = least if isinstance(least, float) else -math.inf
    high = below if isinstance(below, float) else math.inf
    return lambda fact: isinstance(fact, float) and low <= fact < high
