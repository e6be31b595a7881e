"""The list of compilers, and which of them makes which kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tapml.compilers.auto.caches import LONG_CACHES
from tapml.compilers.auto.compile import AutoCompiler
from tapml.compilers.auto.in_place import is_better
from tapml.compilers.auto.table import read_table
from tapml.compilers.base import Beginning, Checking, Compiler, Finish, Progress
from tapml.compilers.cache.compile import CACHE_KERNELS
from tapml.compilers.external.by_hand import EXTERNAL
from tapml.compilers.native.compile import NATIVE, attention_gains
from tapml.compilers.tvm.compile import TVM
from tapml.errors import InputError
from tapml.expressions import ExpressionError
from tapml.kernels.bundle import CompiledKernel
from tapml.kernels.document import DOCUMENTED, argument_types, kernel_document
from tapml.lowering.accepts import Accepts
from tapml.lowering.operator import Operator

COMPILERS: tuple[Compiler, ...] = (EXTERNAL, CACHE_KERNELS, TVM)
"""In the order in which they are asked."""

CHOICES: Mapping[str, tuple[Compiler, ...]] = MappingProxyType(
    {
        "auto": (EXTERNAL, LONG_CACHES, CACHE_KERNELS, AutoCompiler()),
        "native": (EXTERNAL, NATIVE, CACHE_KERNELS, TVM),
        "tvm": COMPILERS,
    }
)
"""By what `--compiler` is given. `native`: tapml's own kernels, and TVM's for what it has none for. `auto`: of both
what is faster on the classes of devices, with a variant for each where these differ (docs/choosing.md)."""


def compilers_of(choice: str | None, tuned: Sequence[Path] = ()) -> tuple[Compiler, ...]:
    """Those of `--compiler` and `--tuned`, files with tables; without either TVM. Raises InputError for tables that
    nothing would look at, and for what is none."""
    if tuned and choice not in (None, "auto"):
        raise InputError(f"--tuned chooses between compilers, and --compiler {choice} leaves nothing to choose")
    if tuned:
        return (EXTERNAL, LONG_CACHES, CACHE_KERNELS, AutoCompiler([read_table(path) for path in tuned]))
    return CHOICES[choice or "tvm"]


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
    with begun(operators, variants, compilers) as finish:
        return finish(progress)


@contextlib.contextmanager
def begun(
    operators: Sequence[Operator], variants: Sequence[str], compilers: Sequence[Compiler] = COMPILERS
) -> Iterator[Callable[[Progress], dict[str, CompiledKernel]]]:
    """`compile_operators` in two parts: kernels are compiled beside what is done before the second one is called, in a
    process of their own, where the last of the compilers can do that. That process ends with the `with` block."""
    found: dict[str, CompiledKernel] = {}

    def left() -> list[Operator]:
        return [one for one in operators if one.name not in found or found[one.name].document["unsupported"]]

    def finish(progress: Progress) -> dict[str, CompiledKernel]:
        # Those of the compilers before have been compiled.
        found.update(last(lambda done, total: progress(len(operators) - total + done, len(operators))))
        return {operator.name: found[operator.name] for operator in operators}

    for compiler in compilers[:-1]:
        found.update(compiler.compile(left(), variants, lambda done, total: None))
    with _begun(compilers[-1], left(), variants) as last:
        yield finish


def _begun(
    compiler: Compiler, operators: Sequence[Operator], variants: Sequence[str]
) -> contextlib.AbstractContextManager[Finish]:
    if isinstance(compiler, Beginning):
        return compiler.begun(operators, variants)
    return contextlib.nullcontext(lambda progress: compiler.compile(operators, variants, progress))


def made_for(compilers: Sequence[Compiler]) -> Accepts | None:
    """What operators are made of, for tapml's own kernels, where these are asked for."""
    own = any(compiler is NATIVE or isinstance(compiler, AutoCompiler) for compiler in compilers)
    return Accepts(is_better, attention_gains) if own else None


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
