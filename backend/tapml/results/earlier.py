"""A verdict is of a kernel's digest: what an edit replaced comes back when the edit is undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tapml.results.validation import TestResult, ValidationDocument, counts

_MOST = 4
"""Earlier ones of a kernel: an edit, and some before it."""

Earlier = dict[str, list[TestResult]]


def replaced(before: ValidationDocument, digests: Mapping[str, str]) -> Earlier:
    """By digest the tests of kernels that were others in a document `before`, where they are of `digests` now."""
    known, now = before["kernel_digests"], set(digests.values())
    found: Earlier = {}
    for test in before["tests"]:
        digest = known.get(test["kernel"])
        if digest and digests.get(test["kernel"], digest) != digest:
            found.setdefault(digest, []).append(test)
    found.update({digest: tests for digest, tests in before["earlier"].items() if digest not in found})
    return _few({digest: tests for digest, tests in found.items() if digest not in now})


def as_now(document: ValidationDocument, now: Mapping[str, str | None]) -> ValidationDocument:
    """The document with the results of kernels as they are `now` (by name, their digests), where it has such; of the
    others those that it ran."""
    ran, held = document["kernel_digests"], document["earlier"]
    back = {name: digest for name, digest in now.items() if digest in held and ran.get(name) != digest}
    if not back:
        return document
    digests = {**ran, **{name: str(digest) for name, digest in back.items()}}
    tests = [test for test in document["tests"] if test["kernel"] not in back]
    device = document["devices"][0]["id"]
    tests += [{**test, "device": device} for digest in back.values() for test in held[str(digest)]]
    edited = dict.fromkeys(test["kernel"] for test in tests if test["edited"])
    return {
        **document,
        "tests": tests,
        "kernel_digests": digests,
        "edited_kernels": list(edited),
        "earlier": replaced(document, digests),
        "summary": {**document["summary"], **counts(tests)},
    }


def _few(found: Mapping[str, Sequence[TestResult]]) -> Earlier:
    """The first of each kernel: the latest."""
    kept: Earlier = {}
    of: dict[str, int] = {}
    for digest, tests in found.items():
        kernel = tests[0]["kernel"] if tests else ""
        of[kernel] = of.get(kernel, 0) + 1
        if tests and of[kernel] <= _MOST:
            kept[digest] = list(tests)
    return kept
