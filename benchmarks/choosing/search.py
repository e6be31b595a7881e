"""How long a build searches for the kernels of a model, without timing any."""

from __future__ import annotations

import multiprocessing
import os
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

FORK = multiprocessing.get_context("fork")

HEAD = (
    "| model | operators | native texts | without choosing | by the model | in two processes | by tables | in two |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def searched(model: str) -> str:
    """A row: milliseconds by the clock, on one processor or on all, each in a process that has chosen nothing yet."""
    operators = [operator for _, operator, _ in operators_of(model)]
    TVM.compile(operators, (VARIANT,))  # is kept on disk
    shipped()
    for operator in operators:
        _ = operator.program if operator.external is None else None
    _apart(lambda: _chosen(operators, ()))  # what is counted in TVM's texts is kept on disk, too
    texts = sum(
        len(space.usual(likely_tiles(space, judged_sizes(operator))))
        for operator in operators
        for space in [NativeSpace(operator)]
    )
    times = [
        _apart(lambda: _milliseconds(lambda: NATIVE.compile(operators, (VARIANT,))), alone=True),
        *(
            _apart(lambda tables=tables: _chosen(operators, tables), alone)  # type: ignore[misc]
            for tables in ((), shipped())
            for alone in (True, False)
        ),
    ]
    return f"| {Path(model).stem} | {len(operators)} | {texts} | {' | '.join(f'{time:.0f} ms' for time in times)} |"


def _apart(work: Callable[[], float], alone: bool = False) -> float:
    """What `work` gives in a copy of this process, which has one processor where it is `alone`."""
    receiving, sending = FORK.Pipe(duplex=False)

    def run() -> None:
        if alone:
            os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        sending.send(work())

    copy = FORK.Process(target=run)
    copy.start()
    sending.close()
    found: float = receiving.recv()
    copy.join()
    return found


def _chosen(operators: Sequence[Operator], tables: tuple[Tuned, ...]) -> float:
    """Milliseconds. Looking up TVM's kernels is before it: any build with them does."""
    with AutoCompiler(tables, others=()).begun(operators, (VARIANT,)) as finish:
        return _milliseconds(lambda: finish(lambda done, total: None))


def _milliseconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - begun)
