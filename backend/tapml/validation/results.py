"""One carved test on one device, as the result documents spell it (docs/results-format.md, TestResult)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapml.devices import Device
from tapml.errors import InputError
from tapml.files import why
from tapml.suite import CarvedTest, Suite
from tapml.validation.events import now

VERDICTS = ("pass", "fail", "error", "unsupported", "unbounded")

SEVERITY = ("pass", "unsupported", "unbounded", "fail", "error")
"""The same, from good to bad."""

FAILING = ("unbounded", "fail", "error")
"""A kernel with one of these cannot be relied on."""

_HISTOGRAM_LENGTH = 64


def header(
    form: str, suite: Suite, devices: Sequence[Device], *, interrupted: bool, edited: Sequence[str]
) -> dict[str, Any]:
    """What every result document begins with."""
    return {
        "format": form,
        "suite": suite.id,
        "suite_name": suite.name,
        "synthetic": suite.synthetic,
        "created": now(),
        "interrupted": interrupted,
        "edited_kernels": list(edited),
        "devices": [device.describe() for device in devices],
    }


def result_without_run(test: CarvedTest, device: str, verdict: str, message: str) -> dict[str, Any]:
    """A test that was not run: nothing was compared."""
    return {
        **identity(test, device, edited=False),
        "verdict": verdict,
        "max_abs_error": None,
        "max_rel_error": None,
        "max_ulp": None,
        "ulp_histogram": [],
        "mismatched": 0,
        "unbounded": 0,
        "tied": 0,
        "total": 0,
        "nan": 0,
        "inf": 0,
        "first": None,
        "worst": None,
        "seconds": {},
        "message": message,
        "variant": None,
        "error": None,
        "diagnostics": [],
    }


def reported_result(test: CarvedTest, device: str, reported: Mapping[str, Any], *, edited: bool) -> dict[str, Any]:
    """From a runner's TestVerdict, checked: a pass needs every element compared, none mismatched and none unbounded."""
    outputs = [output for output in _list(reported.get("outputs")) if isinstance(output, Mapping)]
    verdict = reported.get("verdict")
    message = str(reported.get("message", ""))[:20000]
    error = reported.get("error")
    total, mismatched, unbounded = (_sum(outputs, key) for key in ("total", "mismatched", "unbounded"))
    if verdict not in VERDICTS:
        verdict, message = "error", f"the device reported the unknown verdict {verdict!r}"
    elements = sum(ref.type.size for ref in test.outputs)
    consistent = total == elements and not mismatched and bool(unbounded) == (verdict == "unbounded")
    if verdict in ("pass", "unbounded") and not consistent:
        message = (
            f"the device says {verdict} with {mismatched} mismatches, {unbounded} unbounded elements and "
            f"{total} of {elements} elements compared"
        )
        verdict = "error"
    compared = bool(outputs) and verdict in ("pass", "fail", "unbounded")
    return {
        **identity(test, device, edited=edited),
        "verdict": verdict,
        "max_abs_error": _largest(outputs, "max_abs_error") if compared else None,
        "max_rel_error": _largest(outputs, "max_rel_error") if compared else None,
        "max_ulp": _largest(outputs, "max_ulp") if compared else None,
        "ulp_histogram": _histogram(outputs),
        "mismatched": mismatched,
        "unbounded": unbounded,
        "tied": _sum(outputs, "tied"),
        "total": total,
        "nan": _sum(outputs, "nan"),
        "inf": _sum(outputs, "inf"),
        "first": _element(outputs, "first"),
        "worst": _element(outputs, "worst"),
        "seconds": _seconds(reported.get("seconds")),
        "message": message,
        "variant": reported.get("variant"),
        "error": _evidence(error) if isinstance(error, Mapping) else None,
        "diagnostics": _list(error.get("diagnostics"))[:100] if isinstance(error, Mapping) else [],
    }


def _evidence(error: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of an error's cause beside its message and its diagnostics."""
    return {key: error.get(key) for key in ("kind", "gpu_message", "lost_reason", "arguments", "stack")}


def identity(test: CarvedTest, device: str, *, edited: bool) -> dict[str, Any]:
    """What every result says of its test."""
    return {
        "id": test.id,
        "node": test.node,
        "kernel": test.kernel,
        "step": test.step,
        "device": device,
        "edited": edited,
        "tolerances": [tolerance.to_json() for tolerance in test.tolerances],
    }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _finite(value: Any) -> float:
    valid = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if valid else 0.0


def _sum(outputs: Sequence[Mapping[str, Any]], key: str) -> int:
    return sum(int(_finite(output.get(key))) for output in outputs)


def _largest(outputs: Sequence[Mapping[str, Any]], key: str) -> float:
    return max(_finite(output.get(key)) for output in outputs)


def _histogram(outputs: Sequence[Mapping[str, Any]]) -> list[int]:
    """Element-wise sum; every output's histogram has the same bins."""
    columns = [_list(output.get("ulp_histogram"))[:_HISTOGRAM_LENGTH] for output in outputs]
    length = max((len(column) for column in columns), default=0)
    # The last bin counts NaNs, so shorter histograms are filled up before it.
    padded = [column[:-1] + [0] * (length - len(column)) + column[-1:] for column in columns if column]
    return [sum(int(_finite(count)) for count in counts) for counts in zip(*padded, strict=True)]


def _element(outputs: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any] | None:
    """The `first` or `worst` element of the first output that failed, is unbounded, or at least has one."""

    def rank(output: Mapping[str, Any]) -> int:
        return 0 if _finite(output.get("mismatched")) else 1 if _finite(output.get("unbounded")) else 2

    order = sorted(enumerate(outputs), key=lambda item: rank(item[1]))
    for number, output in order:
        element = output.get(key)
        if isinstance(element, Mapping):
            return {"output": number, **{k: element.get(k) for k in ("index", "expected", "got", "bound")}}
    return None


def _seconds(value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        return {}
    parts = {key: round(_finite(value.get(key)), 6) for key in ("fetch", "compile", "run", "compare")}
    if value.get("gpu") is not None:
        parts["gpu"] = round(_finite(value.get("gpu")), 9)
    return parts


def succeeded(document: Mapping[str, Any]) -> bool:
    """True where every kernel moved and the whole model passed on the device."""
    return document["final"]["verdict"] == "pass" and not document["summary"]["kept_on_reference"]


def save_offload(suite: Suite, document: Mapping[str, Any]) -> None:
    suite.save_result("offload", document["devices"][0]["name"], document)


def keep(suite: Suite, save: Callable[[Suite, Mapping[str, Any]], object], document: Mapping[str, Any]) -> str | None:
    """Save what a run found. Where that cannot be, what was found is as good as ever: gives what went wrong as a
    sentence.
    """
    try:
        save(suite, document)
    except OSError as error:
        return f"the results cannot be kept in {suite.path}: {why(error)}"
    except InputError as error:  # an earlier result is damaged, say
        return f"the results cannot be kept in {suite.path}: {error}"
    return None
