"""How long a build searches for the kernels of a model, without timing any."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.choosing.operators import operators_of
from tapml.compilers.auto.compile import AutoCompiler
from tapml.compilers.auto.digest import judged_sizes
from tapml.compilers.auto.likely import likely_tiles
from tapml.compilers.auto.space import VARIANT, NativeSpace
from tapml.compilers.auto.table import Tuned, shipped
from tapml.compilers.native.compile import NATIVE
from tapml.compilers.tvm.compile import TVM
from tapml.lowering.operator import Operator

HEAD = (
    "| model | operators | native texts | native kernels alone | search by the model | search by tables |\n"
    "| --- | --- | --- | --- | --- | --- |"
)


def searched(model: str) -> str:
    """A row: CPU time, for a machine that does other things besides, each in a process that has done it once for
    another operator or none."""
    operators = [operator for _, operator, _ in operators_of(model)]
    TVM.compile(operators, (VARIANT,))  # is kept on disk
    shipped()
    for operator in operators:
        _ = operator.program if operator.external is None else None
    # First: what it reads for the first time, others find read.
    by_the_model = _chosen(operators, ())
    by_tables = _chosen(operators, shipped())
    alone = _milliseconds(lambda: NATIVE.compile(operators, (VARIANT,)))
    texts = sum(
        len(space.usual(likely_tiles(space, judged_sizes(operator))))
        for operator in operators
        for space in [NativeSpace(operator)]
    )
    name = Path(model).stem
    return f"| {name} | {len(operators)} | {texts} | {alone:.0f} ms | {by_the_model:.0f} ms | {by_tables:.0f} ms |"


def _chosen(operators: Sequence[Operator], tables: tuple[Tuned, ...]) -> float:
    """Milliseconds. Looking up TVM's kernels is before it: any build with them does."""
    with AutoCompiler(tables, others=()).begun(operators, (VARIANT,)) as finish:
        return _milliseconds(lambda: finish(lambda done, total: None))


def _milliseconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return 1e3 * (time.process_time() - begun)
