"""What fusing operators saved: calls of kernels, and the bytes that they read and write."""

from __future__ import annotations

from typing import Any

from tapml.suite import Suite
from tapml.text import counted, size


def fusion(suite: Suite) -> list[dict[str, Any]]:
    """For each function that is called, at the sizes of its first step: `operators` of the model and `operator_bytes`
    that they would move by themselves, `calls` of kernels and `call_bytes` that these move. Empty for a suite that does
    not tell, as one of a former version."""
    found: dict[str, dict[str, Any]] = {}
    # A suite of tests that were shared has no steps, and the graph of the tests.
    for name, step, graph in zip(suite.step_functions, suite.manifest["steps"], suite.graphs, strict=False):
        if name in found or not (before := step.get("unfused")):
            continue
        tensors = (graph.values[value] for node in graph.kernel_nodes for value in (*node.inputs, *node.outputs))
        found[name] = {
            "function": name,
            "operators": before["operators"],
            "operator_bytes": before["bytes"],
            "calls": len(graph.kernel_nodes),
            "call_bytes": sum(value.type.logical.nbytes for value in tensors),
        }
    return list(found.values())


def fusion_text(found: dict[str, Any], several: bool) -> str:
    """`several`: whether the function is one of several."""
    return (
        f"{found['function'] + ': ' if several else ''}{counted(found['operators'], 'operator')} in "
        f"{counted(found['calls'], 'kernel call')}, which move {size(found['call_bytes'])} in place of "
        f"{size(found['operator_bytes'])}"
    )
