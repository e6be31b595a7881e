"""What a compiled model rests on: the verdicts of its kernels, from the suite's results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tapml.devices.messages import kernel_digest, kernel_message, validations_now
from tapml.protocol.methods import Verdict
from tapml.results.base import REPORTED_DEVICE
from tapml.results.validation import ValidationDocument
from tapml.results.verdicts import SEVERITY
from tapml.suite import Suite


def validations(
    suite: Suite,
    documents: Mapping[str, Mapping[str, Any]],
    several: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """For each device that the suite was validated on, the worst verdict of each kernel of `documents`; of one that is
    `several` the worst verdict of these.

    A result counts for the kernel as it is now, and where all of the kernel's tests ran: what was edited since, or was
    not tested whole, has no verdict.
    """
    digests = {
        name: kernel_digest(kernel_message(document, [file.digest for file in suite.kernel_files(name)]))
        for name, document in documents.items()
    }
    tests = Counter(test.kernel for test in suite.tests)
    found = []
    for result in validations_now(suite, suite.results("validation")):
        if result["suite"] != suite.id:
            continue
        known = [name for name, digest in digests.items() if result["kernel_digests"].get(name) == digest]
        for device in result["devices"]:
            if device["id"] == REPORTED_DEVICE:  # somebody's word, from a file
                continue
            kernels = _verdicts(result, device["id"], {name: tests[name] for name in known})
            for name, parts in several.items():
                if all(part in kernels for part in parts):
                    kernels[name] = max((kernels[part] for part in parts), key=SEVERITY.index)
            if kernels:
                known_by = ("name", "runtime", "user_agent", "adapter")
                facts = {name: value for name, value in device.items() if name in known_by}
                found.append({"device": facts, "kernels": kernels})
    return found


def _verdicts(result: ValidationDocument, device: str, tests: Mapping[str, int]) -> dict[str, Verdict]:
    """By kernel; `tests` says how many each has."""
    verdicts: dict[str, dict[str, Verdict]] = {}
    for test in result["tests"]:
        if test["device"] == device:
            verdicts.setdefault(test["kernel"], {})[test["id"]] = test["verdict"]
    return {
        name: max(verdicts[name].values(), key=SEVERITY.index)
        for name, count in tests.items()
        if len(verdicts.get(name, ())) == count > 0
    }
