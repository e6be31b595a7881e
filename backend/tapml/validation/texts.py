"""What ran is kept beside its verdicts, to be compared with what is there later."""

from __future__ import annotations

import contextlib
from collections import defaultdict

from tapml.errors import InputError
from tapml.protocol.methods import Verdict
from tapml.results.base import label_of
from tapml.results.validation import ValidationDocument
from tapml.results.verdicts import SEVERITY
from tapml.suite import Suite
from tapml.suite.texts import keep_text, text_of


def keep_texts(suite: Suite, document: ValidationDocument) -> None:
    """Keep the texts of the kernels of a validation. `suite`: as it ran, its kernels held. Raises OSError where they
    cannot be written."""
    names = {device["id"]: label_of(device) for device in document["devices"]}
    expected: dict[str, int] = defaultdict(int)
    for test in suite.tests:
        expected[test.kernel] += 1
    found: dict[str, dict[str, list[Verdict]]] = defaultdict(lambda: defaultdict(list))
    for result in document["tests"]:
        found[result["kernel"]][names[result["device"]]].append(result["verdict"])
    for kernel, digest in document["kernel_digests"].items():
        if not digest or kernel not in found:
            continue
        # What some tests came to says nothing of the others.
        verdicts = {
            device: max(given, key=SEVERITY.index)
            for device, given in found[kernel].items()
            if len(given) >= expected[kernel]
        }
        with contextlib.suppress(InputError):  # damaged meanwhile, where nobody held it
            keep_text(suite, kernel, {**text_of(suite, kernel, digest, document["created"]), "verdicts": verdicts})
