"""A reduced test as an exported test: it opens, runs and is imported like any other (docs/repro-format.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapml.files import sha256
from tapml.locating.reduced_reference import Reduced
from tapml.locating.reduced_text import reduce_lines
from tapml.program import TensorType
from tapml.results.reduce import ReduceDocument
from tapml.sharing.document import checked
from tapml.sharing.repro import Repro, of_memory, of_suite
from tapml.suite import Suite


def reduced_repro(suite: Suite, test: str, reduced: Reduced, found: ReduceDocument) -> Repro:
    """The suite's test with the reduced inputs, what the reference expects of them, and its tolerances.

    `found`: the tapml.reduce/1 document, whose device and wrong elements are reported.
    """
    original = of_suite(suite, test)
    tensors: dict[str, bytes] = {digest: array.tobytes() for digest, array in reduced.tensors.items()}

    def put(entry: dict[str, Any], array: np.ndarray) -> None:
        data = TensorType(tuple(entry["shape"]), entry["dtype"], entry["encoding"]).encoded(array).tobytes()
        entry["digest"] = sha256(data)
        tensors[entry["digest"]] = data

    document: dict[str, Any] = original.document.model_dump()
    for entry, array in zip(document["inputs"], reduced.inputs, strict=True):
        put(entry, array)
    for entry, expected in zip(document["outputs"], reduced.expected, strict=True):
        put(entry, expected.value)
        known = {"bound": None, "ties": None}
        entry["tolerance"] = {**known, **expected.tolerance.to_json()}
    document["suite"]["name"] = f"{suite.name}, reduced"[:200]
    # What else was reported was of the whole test.
    document |= {"report": _report(reduced, found), "others": []}
    where = f"the reduced test {test}"
    return of_memory(where, checked(where, document), tensors)


def _report(reduced: Reduced, found: ReduceDocument) -> dict[str, Any]:
    """What the device gave for the reduced inputs, as a result; what is not told has its default."""
    worst = next(({"output": o["output"], **o["worst"]} for o in found["outputs"] if o["worst"]), None)
    return {
        "created": found["created"],
        "device": found["devices"][0],
        "result": {
            "verdict": "fail",
            "max_abs_error": max(output.max_abs_error for output in reduced.outputs),
            "mismatched": sum(output.count for output in reduced.outputs),
            "total": sum(output.got.size for output in reduced.outputs),
            "nan": sum(output.nan for output in reduced.outputs),
            "inf": sum(output.inf for output in reduced.outputs),
            "first": worst,
            "worst": worst,
            "message": "\n".join(reduce_lines(found)),
            "edited": bool(found["edited_kernels"]),
        },
    }
