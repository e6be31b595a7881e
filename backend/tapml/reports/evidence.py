"""What is known of one test that did not pass, as lines of text: for JUnit, pytest and the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tapml.protocol.fields import ToleranceDocument
from tapml.protocol.methods import Verdict
from tapml.reports.plain import export_command, lines
from tapml.results.base import OutputElement
from tapml.results.headline import of_bound
from tapml.results.validation import TestResult

_MOST_DIAGNOSTICS = 10


def evidence(result: TestResult, suite_path: str, attempts: Sequence[Verdict] = ()) -> str:
    """Message, the worst element by its bound, first and worst one, tolerance, WGSL diagnostics, what the GPU said,
    attempts, how to export it."""
    found = [result["message"] or f"the verdict is {result['verdict']}"]
    if result["mismatched"] and (headline := of_bound(result)):
        found.append(f"worst element: {headline}")
    if result["mismatched"] and f"{result['mismatched']} of {result['total']}" not in found[0]:
        found.append(f"{result['mismatched']} of {result['total']} elements are outside the tolerance")
    if result["unbounded"] and f"{result['unbounded']} of {result['total']}" not in found[0]:
        found.append(f"{result['unbounded']} of {result['total']} elements are unbounded: WGSL promises nothing there")
    if result["tied"]:
        found.append(f"{result['tied']} elements differ and are right: the operator may choose among equals")
    for name, element in (("first", result["first"]), ("worst", result["worst"])):
        if element:
            found.append(f"{name}: {_element(element)}")
    for number, tolerance in enumerate(result["tolerances"] if result["verdict"] in ("fail", "unbounded") else ()):
        output = f" of output {number}" if len(result["tolerances"]) > 1 else ""
        found.append(f"tolerance{output}: {tolerance_text(tolerance)}")
        found += [f"  {reason}" for reason in tolerance["reasons"]]
    found += _diagnostics(result)
    if error := result["error"]:
        said = {
            "the GPU said": error["gpu_message"],
            "device lost": error["lost_reason"],
            "in the runner": error["stack"],
        }
        found += [f"{title}: {text}" for title, text in said.items() if text and text not in found[0]]
    if result["edited"]:
        found.append("the kernel was edited")
    if len(attempts) > 1:
        found.append("attempts: " + ", ".join(attempts))
    found.append("a page of this test alone: " + export_command(suite_path, result["id"]))
    return lines("\n".join(found))


def tolerance_text(tolerance: ToleranceDocument) -> str:
    """The rule that elements pass by."""
    if tolerance.get("bound"):
        return f"|got - expected| <= a bound of each element's own, at most {tolerance['absolute']:.4g}"
    return f"|got - expected| <= {tolerance['absolute']:.4g} + {tolerance['relative']:.4g} * |expected|"


def _element(element: OutputElement) -> str:
    index = ", ".join(map(str, element["index"]))
    bound = f", may differ by {element['bound']}" if element["bound"] is not None else ""
    return f"output {element['output']} [{index}]: expected {element['expected']}, got {element['got']}{bound}"


def _diagnostics(result: TestResult) -> list[str]:
    found = []
    for entry in result["diagnostics"][:_MOST_DIAGNOSTICS]:
        place = f"{entry['file']}:{entry['line']}:{entry['column']}"
        found.append(f"{place}: {entry['severity']}: {entry['message']}")
        if source := entry["source"].rstrip():
            found.append(f"  {source}")
    return found
