"""One carved test on one device as a result (tapml.results), and keeping results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar, cast

from tapml.devices import Device
from tapml.errors import InputError
from tapml.files import why
from tapml.protocol.methods import Comparison, TestSeconds, TestVerdict, Verdict
from tapml.results.base import Header, OutputElement
from tapml.results.checks import TEST_RESULT
from tapml.results.locate import LocateDocument
from tapml.results.offload import OffloadDocument
from tapml.results.validation import Diagnostic, ErrorEvidence, TestIdentity, TestResult, ValidationDocument
from tapml.suite import CarvedTest, Suite
from tapml.validation.events import now

_MOST_DIAGNOSTICS = 100
_EVIDENCE = set(ErrorEvidence.__annotations__)
_Kept = TypeVar("_Kept", ValidationDocument, OffloadDocument, LocateDocument)


def header(
    suite: Suite, devices: Sequence[Device], *, interrupted: bool, edited: Sequence[str], digests: Mapping[str, str]
) -> Header:
    """What every result document begins with. `digests`: of the kernels that ran (KernelMessages.digest)."""
    return {
        "suite": suite.id,
        "suite_name": suite.name,
        "synthetic": suite.synthetic,
        "doubts": suite.doubts,
        "created": now(),
        "interrupted": interrupted,
        "edited_kernels": list(edited),
        "kernel_digests": dict(digests),
        "devices": [device.describe() for device in devices],
    }


def identity(test: CarvedTest, device: str) -> TestIdentity:
    """What every result says of its test."""
    return {
        "id": test.id,
        "node": test.node,
        "kernel": test.kernel,
        "step": test.step,
        "device": device,
        "tolerances": [tolerance.to_json() for tolerance in test.tolerances],
    }


def result_without_run(test: CarvedTest, device: str, verdict: Verdict, message: str) -> TestResult:
    """A test that was not run: nothing was compared."""
    return TEST_RESULT.validate_python({**identity(test, device), "verdict": verdict, "message": message})


def reported_result(test: CarvedTest, device: str, reported: TestVerdict, *, edited: bool) -> TestResult:
    """What a runner reported: a pass needs every element compared, none mismatched and none unbounded."""
    outputs, verdict, message, error = reported.outputs, reported.verdict, reported.message, reported.error

    def summed(key: Literal["total", "mismatched", "unbounded", "tied", "nan", "inf"]) -> int:
        return sum(getattr(output, key) for output in outputs)

    total, mismatched, unbounded = summed("total"), summed("mismatched"), summed("unbounded")
    elements = sum(ref.type.size for ref in test.outputs)
    consistent = total == elements and not mismatched and bool(unbounded) == (verdict == "unbounded")
    if verdict in ("pass", "unbounded") and not consistent:
        message = (
            f"the device says {verdict} with {mismatched} mismatches, {unbounded} unbounded elements and "
            f"{total} of {elements} elements compared"
        )
        verdict = "error"
    diagnostics = [found.model_dump() for found in ((error and error.diagnostics) or [])[:_MOST_DIAGNOSTICS]]
    compared = outputs if verdict in ("pass", "fail", "unbounded") else []
    return {
        **identity(test, device),
        "edited": edited,
        "verdict": verdict,
        "max_abs_error": max((output.max_abs_error for output in compared), default=None),
        "max_rel_error": max((output.max_rel_error for output in compared), default=None),
        "max_ulp": max((output.max_ulp for output in compared), default=None),
        "ulp_histogram": _histogram([output.ulp_histogram for output in outputs]),
        "mismatched": mismatched,
        "unbounded": unbounded,
        "tied": summed("tied"),
        "total": total,
        "nan": summed("nan"),
        "inf": summed("inf"),
        "first": _element(outputs, "first"),
        "worst": _element(outputs, "worst"),
        "seconds": _seconds(reported.seconds),
        "message": message,
        "variant": reported.variant,
        "error": cast(ErrorEvidence, error.model_dump(include=_EVIDENCE)) if error else None,
        "diagnostics": cast(list[Diagnostic], diagnostics),
    }


def _histogram(columns: Sequence[Sequence[int]]) -> list[int]:
    """Element-wise sum; every output's histogram has the same bins."""
    length = max((len(column) for column in columns), default=0)
    # The last bin counts NaNs, so shorter histograms are filled up before it.
    padded = [[*column[:-1], *[0] * (length - len(column)), *column[-1:]] for column in columns if column]
    return [sum(counts) for counts in zip(*padded, strict=True)]


def _element(outputs: Sequence[Comparison], key: Literal["first", "worst"]) -> OutputElement | None:
    """That of the first output that failed, is unbounded, or at least has one."""
    order = sorted(enumerate(outputs), key=lambda item: 0 if item[1].mismatched else 1 if item[1].unbounded else 2)
    for number, output in order:
        if element := output.first if key == "first" else output.worst:
            return cast(OutputElement, {"output": number, **element.model_dump()})
    return None


def _seconds(found: TestSeconds) -> dict[str, float]:
    gpu = {} if found.gpu is None else {"gpu": round(found.gpu, 9)}
    return {key: round(getattr(found, key), 6) for key in ("fetch", "compile", "run", "compare")} | gpu


def succeeded(document: OffloadDocument) -> bool:
    """True where every kernel that has WGSL for the device moved and the whole model passed, where it has a library."""
    good = ("pass", "unsupported")
    moved = all(step["kept"] or step["operator_verdict"] == "unsupported" for step in document["steps"])
    return document["final"]["verdict"] in good and moved and len(document["steps"]) == document["summary"]["kernels"]


def keep(suite: Suite, save: Callable[[Suite, _Kept], object], document: _Kept) -> str | None:
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
