"""Kernels that pass here and rely on what WGSL does not promise: the next browser may give something else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tapml.bounds import NotDerivable, Operator
from tapml.errors import InputError
from tapml.operators.external import External
from tapml.operators.of_suite import read_operator
from tapml.results.validation import TestResult
from tapml.suite import Suite

# Of the builtins with a limited domain, the one that TVM never calls: a carved bound knows the others.
_BUILTIN = re.compile(r"\btanh\s*\(")


def relying(suite: Suite, results: Sequence[TestResult], warn: Callable[[str], None]) -> dict[str, str]:
    """Test -> what its edited kernel relies on, for those of `results` that passed.

    `warn` is told of a kernel whose operator's program cannot be read, which goes unexamined.

    A test's bound was derived for the kernel as it was generated. One that somebody wrote may call WGSL's tanh, which
    is undefined where exp overflows: its bounds are derived again with that rule.
    """
    kernels = dict.fromkeys(r["kernel"] for r in results if r["edited"] and r["verdict"] == "pass")
    texts = {name: [file.text for file in suite.kernel_files(name)] for name in kernels}
    texts = {name: files for name, files in texts.items() if any(_BUILTIN.search(_code(text)) for text in files)}
    own = {node.id: node.kernel for node in suite.model_graph.kernel_nodes}
    todo = [r for r in results if r["verdict"] == "pass" and r["kernel"] in texts and own.get(r["node"]) == r["kernel"]]
    return _derived_again(suite, texts, todo, warn) if todo else {}


def _derived_again(
    suite: Suite,
    texts: Mapping[str, Sequence[str]],
    results: Sequence[TestResult],
    warn: Callable[[str], None],
) -> dict[str, str]:
    found: dict[str, str] = {}
    calls: dict[tuple[str, int], list[TestResult]] = {}
    for result in results:
        calls.setdefault((result["kernel"], suite.test(result["id"]).step), []).append(result)
    for (name, step), of_step in calls.items():
        files = texts[name]
        try:
            program = read_operator(suite, name, suite.graphs[step])
            if isinstance(program, External):
                continue  # as where no bound is derivable, below
        except InputError as error:
            warn(f"whether {name} relies on what WGSL does not promise is not known: {error}")
            continue
        try:
            operator = Operator(program, [_code(text) for text in files])
            for result in of_step:
                if what := _unbounded(suite, operator, result["id"]):
                    found[result["id"]] = what
        except NotDerivable:
            continue  # its tolerance was an estimate already, which says so
    return found


def _unbounded(suite: Suite, operator: Operator, test_id: str) -> str:
    test = suite.test(test_id)
    inputs, outputs = ([suite.tensors.get(ref) for ref in refs] for refs in (test.inputs, test.outputs))
    bounds = [bound.bound for bound in operator.bounds(inputs, outputs) if bound.bound is not None]
    count, total = sum(int(np.isposinf(bound).sum()) for bound in bounds), sum(array.size for array in outputs)
    if not count:
        return ""
    return (
        f"{count} of {total} elements are unbounded: the kernel calls tanh, and WGSL promises nothing of it once exp "
        "overflows, above 88.7 (f16: 11.09)"
    )


def _code(wgsl: str) -> str:
    """Without line comments, which may mention what the code does not call."""
    return re.sub(r"//[^\n]*", "", wgsl)
