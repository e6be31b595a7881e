"""The list of compilers: each kernel is made by the first that has WGSL for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from helpers import small_module
from tapml.compilers.base import Progress, described
from tapml.compilers.choose import compile_operators
from tapml.compilers.tvm.compile import TVM
from tapml.kernels.bundle import CompiledKernel, WgslFile
from tapml.lowering.lower import Lowered, lower
from tapml.lowering.operator import Operator


class Toy:
    """Knows what `knows` says, and has WGSL for `has`."""

    version = "1"

    def __init__(self, name: str, knows: Sequence[str], has: Sequence[str]) -> None:
        self.name, self._knows, self._has = name, knows, has
        self.asked: list[str] = []

    def compile(
        self, operators: Sequence[Operator], variants: Sequence[str], progress: Progress
    ) -> Mapping[str, CompiledKernel]:
        self.asked = [operator.name for operator in operators]
        return {operator.name: self._kernel(operator) for operator in operators if operator.name in self._knows}

    def _kernel(self, operator: Operator) -> CompiledKernel:
        document = described(self, operator)
        if operator.name in self._has:
            return CompiledKernel(document, [WgslFile(f"{operator.name}.wgsl", "")])
        return CompiledKernel({**document, "unsupported": f"{self.name} has no WGSL for it"}, [])


@pytest.fixture(scope="module")
def lowered() -> Lowered:
    return lower(small_module(), 1)


def test_the_first_compiler_with_wgsl_makes_a_kernel(lowered: Lowered) -> None:
    names = [operator.name for operator in lowered.operators]
    first, second = Toy("first", names[:2], names[:1]), Toy("second", names[1:2], [])
    found = compile_operators(lowered.operators, ("256",), compilers=[first, TVM, second])
    assert list(found) == names
    assert {name: kernel.document["compiler"]["name"] for name, kernel in found.items()} == {
        name: "first" if name == names[0] else "tvm" for name in names
    }
    assert first.asked == names
    assert second.asked == []  # TVM has WGSL for all that was left


def test_where_none_has_wgsl_the_last_that_knows_the_operator_says_why(lowered: Lowered) -> None:
    names = [operator.name for operator in lowered.operators]
    found = compile_operators(lowered.operators, ("256",), compilers=[TVM, Toy("second", names, [])])
    assert found[names[0]].document["compiler"]["name"] == "tvm"
    found = compile_operators(
        lowered.operators[:1], ("256",), compilers=[Toy("one", names, []), Toy("two", names, []), Toy("three", [], [])]
    )
    assert found[names[0]].document["unsupported"] == "two has no WGSL for it"


@pytest.mark.parametrize("own", [0, 1, None])
def test_kernels_of_the_compilers_before_count_as_compiled(lowered: Lowered, own: int | None) -> None:
    names = [operator.name for operator in lowered.operators]
    told: list[tuple[int, int | None]] = []
    first = Toy("first", names[:own], names[:own])
    compile_operators(lowered.operators, ("256",), lambda *counts: told.append(counts), [first, TVM])
    assert told[-1] == (len(names), len(names))
    assert {total for _, total in told} == {len(names)}
