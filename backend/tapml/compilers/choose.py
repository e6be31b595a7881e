"""The list of compilers, and which of them makes which kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tapml.compilers.base import Compiler, Progress
from tapml.compilers.external.by_hand import EXTERNAL
from tapml.compilers.tvm.compile import TVM
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator

COMPILERS: tuple[Compiler, ...] = (EXTERNAL, TVM)
"""In the order in which they are asked."""


def compile_operators(
    operators: Sequence[Operator],
    variants: Sequence[str],
    progress: Progress = lambda done, total: None,
    compilers: Sequence[Compiler] = COMPILERS,
) -> dict[str, CompiledKernel]:
    """The kernel of each operator, by name: that of the first compiler that has WGSL for it, or else what the last that
    knows it says in `unsupported`.

    Raises InputError for variants that a compiler does not know.
    """
    found: dict[str, CompiledKernel] = {}
    for compiler in compilers:
        left = [one for one in operators if one.name not in found or found[one.name].document["unsupported"]]
        found.update(compiler.compile(left, variants, progress))
    return {operator.name: found[operator.name] for operator in operators}
