"""Checks of results that others wrote: types and sizes, and up to the first thing that is wrong.

What a check gives has all fields of the present version: those that an earlier one lacks get their defaults.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, TypeAdapter

from tapml.first_error import FirstError
from tapml.results.base import DeviceDocument, Header
from tapml.results.locate import LocateDocument
from tapml.results.offload import OffloadDocument
from tapml.results.reduce import ReduceDocument
from tapml.results.run import Attempt, BaselineDocument
from tapml.results.validation import TestResult, ValidationDocument, ValidationHeader


def _one_device(document: Header) -> Header:
    if len(document["devices"]) != 1:
        raise ValueError(f"a suite keeps results of one device each, not of {len(document['devices'])}")
    return document


def _of_its_tests(document: ValidationDocument) -> ValidationDocument:
    """A test stands once for each device."""
    if len({(test["device"], test["id"]) for test in document["tests"]}) != len(document["tests"]):
        raise ValueError("a test stands twice")
    return document


def _of_its_devices(document: ValidationDocument) -> ValidationDocument:
    known = {device["id"] for device in document["devices"]}
    if any(test["device"] not in known for test in document["tests"]):
        raise ValueError("a test ran on a device that is not among `devices`")
    if len({test["id"] for test in document["tests"]}) != len(document["tests"]):
        raise ValueError("a test stands twice")
    return document


VALIDATION: TypeAdapter[ValidationDocument] = TypeAdapter(
    Annotated[ValidationDocument, FirstError(), AfterValidator(_of_its_tests)]
)
"""As a command wrote it: of any number of devices."""

RESULTS: dict[str, TypeAdapter[Any]] = {
    "validation": TypeAdapter(
        Annotated[ValidationDocument, FirstError(), AfterValidator(_one_device), AfterValidator(_of_its_devices)]
    ),
    "offload": TypeAdapter(Annotated[OffloadDocument, FirstError(), AfterValidator(_one_device)]),
    "locate": TypeAdapter(Annotated[LocateDocument, FirstError(), AfterValidator(_one_device)]),
}
"""By kind, as a suite keeps them: of one device."""

REDUCE: TypeAdapter[ReduceDocument] = TypeAdapter(Annotated[ReduceDocument, FirstError(), AfterValidator(_one_device)])
"""A suite keeps none: what it is about is the exported test."""
ATTEMPT: TypeAdapter[Attempt] = TypeAdapter(Attempt)
BASELINE: TypeAdapter[BaselineDocument] = TypeAdapter(Annotated[BaselineDocument, FirstError()])
VALIDATION_HEADER: TypeAdapter[ValidationHeader] = TypeAdapter(
    Annotated[ValidationHeader, FirstError(), AfterValidator(_one_device)]
)
DEVICE: TypeAdapter[DeviceDocument] = TypeAdapter(DeviceDocument)
TEST_RESULT: TypeAdapter[TestResult] = TypeAdapter(Annotated[TestResult, FirstError()])
