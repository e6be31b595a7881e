"""The list of compilers, and which of them makes which kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tapml.compilers.base import Checking, Compiler, Progress
from tapml.compilers.cache.compile import CACHE_KERNELS
from tapml.compilers.external.by_hand import EXTERNAL
from tapml.compilers.tvm.compile import TVM
from tapml.errors import InputError
from tapml.expressions import ExpressionError
from tapml.kernels.bundle import CompiledKernel
from tapml.kernels.document import DOCUMENTED, argument_types, kernel_document
from tapml.lowering.operator import Operator

COMPILERS: tuple[Compiler, ...] = (EXTERNAL, CACHE_KERNELS, TVM)
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


def check_operators(operators: Sequence[Operator], variants: Sequence[str], compilers: Sequence[Compiler]) -> None:
    """Raise InputError for what one of the compilers refuses, as far as that is known without compiling anything."""
    for compiler in compilers:
        if isinstance(compiler, Checking):
            compiler.check(operators, variants)


def check_kernel(kernel: CompiledKernel, operator: Operator) -> None:
    """Raise InputError, which names the compiler and the field, where a compiler's document is wrong, or a kernel of
    something else than `operator`."""
    found = kernel.document.get("compiler")
    who = found.get("name") if isinstance(found, dict) else None
    where = Path(f"the document that the compiler {who!r} wrote of {operator.name}")
    document = kernel_document(where, kernel.document)
    if document["kernel"] != operator.name:
        raise InputError(f"{where}: kernel: it describes {document['kernel']!r}{DOCUMENTED}")
    least = {symbol.name: symbol.minimum for symbol in operator.symbols}
    try:
        takes = [found.logical for found in argument_types(document, least if document["symbols"] else {})]
    except ExpressionError as error:
        raise InputError(f"{where}: {error}{DOCUMENTED}") from None
    gives = operator.types(least)
    if takes != gives:
        raise InputError(f"{where}: arguments: its operator has {', '.join(map(str, gives))}{DOCUMENTED}")
    texts = {file.name for file in kernel.files}
    for variant in document["variants"]:
        for entry_point in variant["entry_points"]:
            if entry_point["file"] not in texts:
                raise InputError(f"{where}: {entry_point['file']} does not come with it{DOCUMENTED}")
