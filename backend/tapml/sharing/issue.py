"""The text of a bug report, in Markdown: environment, symptom, numbers, steps.

Names and messages come from models, drivers and strangers; all of them stand in code spans and code blocks, where
Markdown and HTML mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tapml.sharing.document import Input, ReproDocument

_SHOWN_LIMITS = (
    "maxComputeInvocationsPerWorkgroup",
    "maxComputeWorkgroupStorageSize",
    "maxStorageBufferBindingSize",
    "maxStorageBuffersPerShaderStage",
)
_MOST_WGSL = 20_000
_SYMPTOM = {
    "fail": "gives wrong results",
    "error": "does not run",
    "unsupported": "cannot run",
    "pass": "gives the expected results",
}


def issue_text(document: ReproDocument) -> str:
    """A title line, then the sections a maintainer asks for."""
    report = document.report
    kernel = document.test.kernel
    lines = [f"# WebGPU kernel {code(kernel)} {_title(document)}", ""]
    lines += _environment(document)
    lines += _symptom(document)
    lines += [
        "## Steps",
        "",
        "1. Open the attached HTML file in a browser with WebGPU. It needs no network.",
        "2. It runs by itself and shows the verdict, the first wrong element and what was reported.",
        "",
    ]
    if report is not None and report.result.get("edited"):
        lines += ["The WGSL was edited by hand; it is not what the code generator wrote.", ""]
    lines += ["## What it computes", ""]
    lines += _tensors(document)
    lines += _wgsl(document)
    lines += [
        f"Carved from {code(document.model.title)} ({code(document.model.source)}); expected outputs from "
        f"{code(document.reference.device)}. "
        + ("The inputs are made up." if document.suite.synthetic else "The inputs are those of a real run.")
        + f" Written by tapml {code(document.tapml)}.",
        "",
    ]
    return "\n".join(lines)


def _title(document: ReproDocument) -> str:
    if document.report is None:
        return "has not been run on a device yet"
    verdict = str(document.report.result.get("verdict"))
    return f"{_SYMPTOM.get(verdict, 'was run')} on {code(document.report.device.get('name'))}"


def _environment(document: ReproDocument) -> list[str]:
    report = document.report
    if report is None:
        return []
    device = report.device
    adapter = _mapping(device.get("adapter"))
    limits = _mapping(device.get("limits"))
    names = dict.fromkeys(str(adapter.get(key) or "") for key in ("vendor", "architecture", "device", "description"))
    gpu = " ".join(filter(None, names)) or "not named by this browser"
    rows = [
        ("Browser", device.get("name")),
        ("User agent", device.get("user_agent")),
        ("GPU", gpu),
        ("Features", ", ".join(map(str, device.get("features") or [])) or "none"),
        *((name, limits[name]) for name in _SHOWN_LIMITS if name in limits),
        ("Date", report.created),
    ]
    return ["## Environment", "", "| | |", "| --- | --- |", *(f"| {n} | {cell(value)} |" for n, value in rows), ""]


def _symptom(document: ReproDocument) -> list[str]:
    if document.report is None:
        return []
    result = document.report.result
    lines = ["## Symptom", "", f"Verdict: **{_word(result.get('verdict'))}**", ""]
    if result.get("message"):
        lines += [*fenced(result["message"]), ""]
    diagnostics = result.get("diagnostics")
    for found in diagnostics if isinstance(diagnostics, list) else []:
        found = _mapping(found)
        place = f"{found.get('file')}:{found.get('line')}:{found.get('column')}: {found.get('message')}"
        lines += [*fenced(f"{place}\n{found.get('source') or ''}".rstrip()), ""]
    evidence = _mapping(result.get("error"))
    if evidence.get("gpu_message"):
        lines += ["The GPU said:", "", *fenced(evidence["gpu_message"]), ""]
    rows = [
        ("Elements outside the tolerance", f"{result.get('mismatched')} of {result.get('total')}"),
        ("Of them NaN, infinite", f"{result.get('nan')}, {result.get('inf')}"),
        ("Largest absolute error", result.get("max_abs_error")),
        ("Largest relative error", result.get("max_rel_error")),
        ("Largest ULP distance", result.get("max_ulp")),
    ]
    for name in ("first", "worst"):
        element = _mapping(result.get(name))
        if element:
            place = f"output {element.get('output')} {element.get('index')}"
            text = f"{place}: {element.get('got')}, expected {element.get('expected')}"
            rows.append((f"{name.title()} wrong element", text))
    if result.get("total"):
        lines += ["## Numbers", "", "| | |", "| --- | --- |", *(f"| {n} | {cell(v)} |" for n, v in rows), ""]
    return lines


def _tensors(document: ReproDocument) -> list[str]:
    lines = ["| | name | type | tolerance |", "| --- | --- | --- | --- |"]
    lines += [f"| input | {cell(t.name)} | {cell(_type(t))} | |" for t in document.inputs]
    for output in document.outputs:
        bound = f"{output.tolerance.absolute:.3g} + {output.tolerance.relative:.3g} * abs(expected)"
        lines.append(f"| output | {cell(output.name)} | {cell(_type(output))} | {cell(bound)} |")
    return [*lines, ""]


def _wgsl(document: ReproDocument) -> list[str]:
    lines: list[str] = []
    result = document.report.result if document.report else {}
    for variant in document.kernel["variants"]:
        if result.get("variant") not in (None, variant["name"]):
            continue
        for launch in variant["launches"]:
            shape = f"{launch['dispatch']} workgroups of {launch['workgroup_size']}"
            lines += [f"Dispatch of {code(launch['entry_point'])}: {code(shape)}", ""]
        for entry in variant["entry_points"]:
            text = document.text(entry["file"])
            cut = "" if len(text) <= _MOST_WGSL else "\n// ... cut here: the whole text is in the HTML file"
            lines += [f"{code(entry['file'])}:", "", *fenced(text[:_MOST_WGSL] + cut, "wgsl"), ""]
    return lines


def _type(tensor: Input) -> str:
    return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _word(value: Any) -> str:
    return re.sub(r"[^a-z]", "", str(value))[:20]


def code(value: Any) -> str:
    """A code span on one line, whatever the text holds."""
    text = re.sub(r"\s+", " ", str(value)).strip() or " "
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def cell(value: Any) -> str:
    """A code span in a table, where a bar would end the cell."""
    return code(value).replace("|", "\\|")


def fenced(text: Any, language: str = "") -> list[str]:
    """A code block that nothing in the text can end."""
    body = str(text)
    fence = "`" * max(3, max((len(run) for run in re.findall("`+", body)), default=0) + 1)
    return [fence + language, *body.splitlines(), fence]
