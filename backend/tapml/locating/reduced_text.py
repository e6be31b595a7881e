"""What `tapml reduce` left of a test, in words."""

from __future__ import annotations

from tapml.results.reduce import ReducedInput, ReduceDocument
from tapml.text import exact, one_line

_FEW = 4


def reduce_lines(document: ReduceDocument) -> list[str]:
    """What remained of inputs, and what is wrong for them; a line an input and an output."""
    lines = [f"{document['test']} of {document['kernel']} still fails with less ({document['runs']} runs):"]
    lines += [f"  {_input(found)}" for found in document["inputs"]]
    for output in document["outputs"]:
        lines.append(f"  output {output['output']}: {output['mismatched']} of {output['total']} elements are wrong")
        if element := output["worst"]:
            lines.append(
                f"  at {element['index']} the reference gives {exact(element['expected'])} and the device "
                f"{exact(element['got'])}; they may differ by {exact(element['bound'])}"
            )
    lines.append(f"  {document['workgroups']['text']}")
    return [one_line(line, 1000) if not line.startswith("  ") else "  " + one_line(line, 1000) for line in lines]


def _input(found: ReducedInput) -> str:
    name = f"{found['name']} {found['dtype']}{found['shape']}"
    if not found["changed"]:
        return f"{name}: as carved, {found['nonzero']} of {found['total']} nonzero"
    if not found["nonzero"]:
        return f"{name}: all zeros"
    if found["distinct"] == 1:
        return f"{name}: all {exact(found['values'][0])}"
    before = f"(of {found['nonzero_before']})"
    if found["nonzero"] <= _FEW:
        listed = ", ".join(f"{element['index']} = {exact(element['value'])}" for element in found["elements"])
        return f"{name}: zeros but for {listed} {before}"
    few = (
        f"values {', '.join(map(exact, found['values']))}"
        if found["distinct"] <= 2 * _FEW
        else (f"{found['distinct']} distinct values")
    )
    return f"{name}: {found['nonzero']} of {found['total']} nonzero {before}, {few}"
