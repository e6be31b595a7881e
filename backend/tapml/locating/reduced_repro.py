"""A reduced test as an exported test: it opens, runs and is imported like any other (docs/repro-format.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapml.files import sha256
from tapml.locating.reduce import Reduced
from tapml.sharing.document import checked
from tapml.sharing.repro import Repro, of_memory, of_suite
from tapml.suite import Suite


def reduced_repro(suite: Suite, test: str, reduced: Reduced) -> Repro:
    """The suite's test with the reduced inputs, what the reference expects of them, and its tolerances."""
    original = of_suite(suite, test)
    tensors: dict[str, bytes] = {digest: array.tobytes() for digest, array in reduced.tensors.items()}

    def put(array: np.ndarray) -> str:
        data = np.ascontiguousarray(array).tobytes()
        digest = sha256(data)
        tensors[digest] = data
        return digest

    document: dict[str, Any] = original.document.model_dump()
    for entry, array in zip(document["inputs"], reduced.inputs, strict=True):
        entry["digest"] = put(array)
    for entry, expected in zip(document["outputs"], reduced.expected, strict=True):
        entry["digest"] = put(expected.value)
        known = {"bound": None, "ties": None}
        entry["tolerance"] = {**known, **expected.tolerance.to_json()}
    document["suite"]["name"] = f"{suite.name}, reduced"[:200]
    # What was reported was of the whole test.
    document |= {"report": None, "others": []}
    where = f"the reduced test {test}"
    return of_memory(where, checked(where, document), tensors)
