"""The text of a bug report, in Markdown: environment, symptom, numbers, steps.

Names and messages come from models, drivers and strangers; all of them stand in code spans and code blocks, where
Markdown and HTML mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tapml.expressions import evaluate
from tapml.results.base import adapter_name, distrust
from tapml.results.headline import of_bound
from tapml.results.validation import Measured
from tapml.sharing.document import Input, ReproDocument
from tapml.text import one_line, visible

_SHOWN_LIMITS = (
    "maxComputeInvocationsPerWorkgroup",
    "maxComputeWorkgroupStorageSize",
    "maxStorageBufferBindingSize",
    "maxStorageBuffersPerShaderStage",
)
_MOST_WGSL = 20_000
_MOST_SPAN = 2000
_SYMPTOM = {
    "fail": "gives wrong results",
    "error": "does not run",
    "unsupported": "cannot run",
    "unbounded": "relies on what WGSL promises nothing for",
    "pass": "gives the expected results",
}


def issue_text(document: ReproDocument) -> str:
    """A title line, then the sections a maintainer asks for."""
    kernel = document.test.kernel
    lines = [f"# WebGPU kernel {code(kernel)} {_title(document)}", ""]
    if any(file.edited for file in document.files):
        lines += ["The WGSL below was **edited by hand**; it is not what the code generator wrote.", ""]
    for line in distrust(document.suite.name, document.suite.doubts):
        lines += ["The expected outputs are in doubt:", "", *fenced(line), ""]
    lines += _environment(document)
    lines += _symptom(document)
    lines += [
        "## Steps",
        "",
        "1. Open the attached HTML file in a browser with WebGPU. It needs no network.",
        "2. It runs by itself and shows the verdict, the first wrong element and what was reported.",
        "",
    ]
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
    return f"{_SYMPTOM[document.report.result['verdict']]} on {code(document.report.device['name'])}"


def _environment(document: ReproDocument) -> list[str]:
    if document.report is None:
        return []
    device = document.report.device
    rows = [
        ("Browser", device["name"]),
        ("User agent", device["user_agent"]),
        ("GPU", adapter_name(device["adapter"]) or "not named by this browser"),
        ("Features", ", ".join(device["features"]) or "none"),
        *((name, f"{device['limits'][name]:.0f}") for name in _SHOWN_LIMITS if name in device["limits"]),
        ("Date", document.report.created),
    ]
    others = ", ".join(f"{code(other.device)} {other.verdict}" for other in document.others)
    more = [f"The same test on other devices: {others}.", ""] if others else []
    return ["## Environment", "", *_table(rows), *more]


def _symptom(document: ReproDocument) -> list[str]:
    if document.report is None:
        return []
    result = document.report.result
    lines = ["## Symptom", "", f"Verdict: **{result['verdict']}**", ""]
    # The compiler's own words say more than the sentence made of them.
    if result["message"] and not result["diagnostics"]:
        lines += [*fenced(result["message"]), ""]
    for found in result["diagnostics"]:
        place = f"{found['file']}:{found['line']}:{found['column']}: {found['severity']}: {found['message']}"
        lines += [*fenced(f"{place}\n{found['source']}".rstrip()), ""]
    if result["error"] is not None and result["error"]["gpu_message"]:
        lines += ["The GPU said:", "", *fenced(result["error"]["gpu_message"]), ""]
    if result["total"]:
        lines += ["## Numbers", "", *_table(_numbers(result))]
    return lines


def _numbers(result: Measured) -> list[tuple[str, str]]:
    rows = [
        ("Worst element", of_bound(result) or "-"),
        ("Elements outside the tolerance", f"{result['mismatched']} of {result['total']}"),
        ("NaN, infinite", f"{result['nan']}, {result['inf']}"),
        ("Largest absolute error", _short(result["max_abs_error"])),
        ("Largest relative error", _short(result["max_rel_error"])),
    ]
    if result["unbounded"]:
        rows.insert(2, ("Elements WGSL promises nothing for", f"{result['unbounded']} of {result['total']}"))
    if result["tied"]:
        rows.insert(2, ("Other choices among equals", f"{result['tied']} of {result['total']}"))
    for name, element in (("First", result["first"]), ("Worst", result["worst"])):
        if element is not None:
            text = f"output {element['output']} {element['index']}: {element['got']}, expected {element['expected']}"
            text += "" if element["bound"] is None else f", may differ by {element['bound']}"
            rows.append((f"{name} element's values", text))
    return rows


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    return ["| | |", "| --- | --- |", *(f"| {name} | {cell(value)} |" for name, value in rows), ""]


def _tensors(document: ReproDocument) -> list[str]:
    lines = ["| | name | type | tolerance |", "| --- | --- | --- | --- |"]
    lines += [f"| input | {cell(t.name)} | {cell(_type(t))} | |" for t in document.inputs]
    for output in document.outputs:
        bound = f"{output.tolerance.absolute:.3g} + {output.tolerance.relative:.3g} * abs(expected)"
        if output.tolerance.bound:
            bound = f"each element's own, at most {output.tolerance.absolute:.3g}"
        lines.append(f"| output | {cell(output.name)} | {cell(_type(output))} | {cell(bound)} |")
    return [*lines, ""]


def _wgsl(document: ReproDocument) -> list[str]:
    lines: list[str] = []
    ran = document.report.result["variant"] if document.report else None
    for variant in document.kernel["variants"]:
        if ran not in (None, variant["name"]):
            continue
        entry_points = {entry["name"]: entry for entry in variant["entry_points"]}
        for launch in variant["launches"]:
            entry = entry_points[launch["entry_point"]]
            grid = [evaluate(count, document.test.sizes) for count in launch["grid"]]
            shape = f"{grid} workgroups of {entry['workgroup_size']}"
            lines += [f"Dispatch of {code(entry['name'])}: {code(shape)}", ""]
            lines += _bindings(document, entry, launch)
        for entry in variant["entry_points"]:
            text = document.text(entry["file"])
            cut = "" if len(text) <= _MOST_WGSL else "\n// ... cut here: the whole text is in the HTML file"
            lines += [f"{code(entry['file'])}:", "", *fenced(text[:_MOST_WGSL] + cut, "wgsl"), ""]
    return lines


def _bindings(document: ReproDocument, entry: Mapping[str, Any], launch: Mapping[str, Any]) -> list[str]:
    """What stands at each binding of group 0."""
    names = [f"input {tensor.name}" for tensor in document.inputs]
    names += [f"output {tensor.name}" for tensor in document.outputs]
    buffers = iter(launch["operands"])
    values = ", ".join(f"{uniform['name']} = {_value(uniform, document)}" for uniform in launch["uniforms"])
    rows = []
    for binding in sorted(entry["bindings"], key=lambda binding: int(binding["binding"])):
        if binding["access"] == "uniform":
            held = f"uniform: {values}"
        else:
            operand = next(buffers)
            kind, number = next(iter(operand.items()))
            scratch = f"texture {number}" if kind == "texture" else f"temporary buffer {number}"
            held = names[number] if kind == "argument" else scratch
        rows.append(f"| {binding['binding']} | {cell(held)} |")
    return ["| binding | holds |", "| --- | --- |", *rows, ""]


def _value(uniform: Mapping[str, Any], document: ReproDocument) -> str:
    value = uniform["value"]
    number = value if isinstance(value, float) else evaluate(value, document.test.sizes)
    return f"{number:g} ({uniform['dtype']})" if isinstance(number, float) else f"{number} ({uniform['dtype']})"


def _type(tensor: Input) -> str:
    return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def code(value: Any) -> str:
    """A code span on one line, whatever the text holds."""
    text = one_line(str(value), _MOST_SPAN) or " "
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def cell(value: Any) -> str:
    """A code span in a table, where a bar would end the cell."""
    return code(value).replace("|", "\\|")


def fenced(text: Any, language: str = "") -> list[str]:
    """A code block that nothing in the text can end."""
    body = visible(str(text))
    fence = "`" * max(3, max((len(run) for run in re.findall("`+", body)), default=0) + 1)
    return [fence + language, *body.splitlines(), fence]
