"""What is known of one test that did not pass, as lines of text: for JUnit, pytest and the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapml.reports.plain import export_command, lines

_MOST_DIAGNOSTICS = 10


def evidence(result: Mapping[str, Any], suite_path: str) -> str:
    """Message, first and worst element, tolerance, WGSL diagnostics, what the GPU said, attempts, how to export it.

    `result` is a TestResult of docs/results-format.md; attempts are told of one of tapml.test/1.
    """
    found = [str(result["message"]) or f"the verdict is {result['verdict']}"]
    if result["mismatched"] and f"{result['mismatched']} of {result['total']}" not in found[0]:
        found.append(f"{result['mismatched']} of {result['total']} elements are outside the tolerance")
    if result["unbounded"] and f"{result['unbounded']} of {result['total']}" not in found[0]:
        found.append(f"{result['unbounded']} of {result['total']} elements are unbounded: WGSL promises nothing there")
    if result["tied"]:
        found.append(f"{result['tied']} elements differ and are right: the operator may choose among equals")
    for name in ("first", "worst"):
        if element := result[name]:
            found.append(f"{name}: {_element(element)}")
    for number, tolerance in enumerate(result["tolerances"] if result["verdict"] in ("fail", "unbounded") else ()):
        output = f" of output {number}" if len(result["tolerances"]) > 1 else ""
        found.append(f"tolerance{output}: {tolerance_text(tolerance)}")
        found += [f"  {reason}" for reason in tolerance["reasons"]]
    found += _diagnostics(result)
    error = result["error"] or {}
    for key, title in (("gpu_message", "the GPU said"), ("lost_reason", "device lost"), ("stack", "in the runner")):
        if (text := error.get(key)) and str(text) not in found[0]:
            found.append(f"{title}: {text}")
    if result["edited"]:
        found.append("the kernel's WGSL was edited")
    if len(attempts := result.get("attempts", [])) > 1:
        found.append("attempts: " + ", ".join(attempts))
    found.append("a page of this test alone: " + export_command(suite_path, str(result["id"])))
    return lines("\n".join(found))


def tolerance_text(tolerance: Mapping[str, Any]) -> str:
    """The rule that elements pass by."""
    if tolerance.get("bound"):
        return f"|got - expected| <= a bound of each element's own, at most {tolerance['absolute']:.4g}"
    return f"|got - expected| <= {tolerance['absolute']:.4g} + {tolerance['relative']:.4g} * |expected|"


def _element(element: Mapping[str, Any]) -> str:
    # As the device reported it, which need not be a list.
    found = element["index"]
    index = ", ".join(map(str, found)) if isinstance(found, list) else str(found)
    bound = f", may differ by {element['bound']}" if element.get("bound") is not None else ""
    return f"output {element['output']} [{index}]: expected {element['expected']}, got {element['got']}{bound}"


def _diagnostics(result: Mapping[str, Any]) -> list[str]:
    found = []
    for entry in result["diagnostics"][:_MOST_DIAGNOSTICS]:
        if isinstance(entry, Mapping):
            place = f"{entry.get('file')}:{entry.get('line')}:{entry.get('column')}"
            found.append(f"{place}: {entry.get('severity')}: {entry.get('message')}")
            if source := str(entry.get("source") or "").rstrip():
                found.append(f"  {source}")
    return found
