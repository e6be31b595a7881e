"""`--compiler auto`: TVM's kernel or a native one, whichever is faster, and both where classes of devices differ."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tapml.compilers.auto.choice import CLOSE, chosen
from tapml.compilers.auto.combined import combined, together
from tapml.compilers.auto.digest import digest, judged_sizes
from tapml.compilers.auto.expected import by_own_estimates, offers
from tapml.compilers.auto.likely import likely_tiles
from tapml.compilers.auto.space import DEFAULT, VARIANT, Candidate, NativeSpace, of_matrices
from tapml.compilers.auto.table import MeasuredKernel, Tuned, shipped
from tapml.compilers.base import Finish, Progress
from tapml.compilers.native.matmul import Shape
from tapml.compilers.tvm.compile import TVM
from tapml.kernels.bundle import CompiledKernel
from tapml.kernels.device_class import GPU
from tapml.lowering.operator import Operator
from tapml.memory import as_old
from tapml.processes import Shared
from tapml.suite.collecting import not_collecting

_WORTH_A_LOOK = 1.3
"""Times the least of a table: what takes longer on each class is not made. Where no other table is of devices of that
kind, what is not close to the least is never chosen."""

_WORTH_A_PROCESS = 12
"""Operators from which a second process chooses for some of them: it takes a moment to begin."""

_MUCH = 2**20
"""Weights of a product of few rows: four megabytes of float32."""

_Known = Sequence[tuple[Tuned, MeasuredKernel]]


class AutoCompiler:
    """One of the compilers (tapml.compilers.base). `tables`: times of kernels. What they know of a class goes before
    what `others` know of it: those that come with tapml, where nothing else is said."""

    name = "auto"
    version = "1"

    def __init__(self, tables: Sequence[Tuned] = (), others: Sequence[Tuned] | None = None) -> None:
        self._tables = tables
        self._others = others

    def compile(
        self, operators: Sequence[Operator], variants: Sequence[str], progress: Progress = lambda done, total: None
    ) -> dict[str, CompiledKernel]:
        """As all compilers do. Where other variants than 256 are asked for, kernels are TVM's."""
        with self.begun(operators, variants) as finish:
            return finish(progress)

    def check(self, operators: Sequence[Operator], variants: Sequence[str]) -> None:
        """Raises InputError for variants that there are not."""
        TVM.check(operators, variants)

    @contextlib.contextmanager
    def begun(self, operators: Sequence[Operator], variants: Sequence[str]) -> Iterator[Finish]:
        """As `Beginning.begun`."""
        with TVM.begun(operators, variants) as last:

            def finish(progress: Progress) -> dict[str, CompiledKernel]:
                made = last(progress)
                if tuple(variants) != (VARIANT,):
                    return made
                with not_collecting():  # choosing leaves no cycles to speak of, and a model is in memory
                    found = self._kernels(operators, made)
                    as_old()
                return {name: kernel for name, kernel in found.items() if kernel is not None}

            yield finish

    def _kernels(
        self, operators: Sequence[Operator], others: Mapping[str, CompiledKernel]
    ) -> dict[str, CompiledKernel | None]:
        by_class = self._by_class
        tasks = {one.name: functools.partial(self._kernel, one, others.get(one.name), by_class) for one in operators}
        with Shared([*tasks.items()] if len(tasks) >= _WORTH_A_PROCESS else []) as shared:
            found = dict(shared.results())
        # All of them, or what a process that died has left.
        return {name: found[name] if name in found else task() for name, task in tasks.items()}

    def _kernel(
        self, operator: Operator, other: CompiledKernel | None, by_class: Sequence[Tuned]
    ) -> CompiledKernel | None:
        key = digest(operator) if by_class else None
        told = [(table, table.by_operator[key]) for table in by_class if key in table.by_operator] if key else []
        space = NativeSpace(operator)
        known = [(table, kernel) for table, kernel in told if _up_to_date(space, kernel)]
        candidates = _candidates(space, operator, other, known)
        if not candidates or not together(candidates):
            return other
        measured = any(GPU in table.classes for table, _ in known)
        offered = offers(candidates, known, judged_sizes(operator))
        if not measured and space.shape is not None and _reads_much(space.shape):
            offered = by_own_estimates(offered)
        found = chosen(offered, measured=measured)
        if not found:
            return other
        # The faster text of the two goes before the other, and is expected to take no longer.
        pairs = ((space.with_dots(one), one, expected) for one, expected in found)
        found = [(one, expected) for fast, plain, expected in pairs for one in (fast, plain) if one is not None]
        return combined(operator.name, found)

    @property
    def _by_class(self) -> list[Tuned]:
        """One table a class."""
        found: dict[str, Tuned] = {}
        for table in (*self._tables, *(shipped() if self._others is None else self._others)):
            found.setdefault(table.classes[0], table)
        return list(found.values())


def _reads_much(shape: Shape) -> bool:
    """Whether it is a product of few rows that takes longer than its dispatch. Smaller ones are put in one dispatch
    where they were chosen alike (tapml.building.side_by_side), which is worth more."""
    return not shape.tiled and shape.batch * shape.columns * shape.inner >= _MUCH


def _candidates(space: NativeSpace, operator: Operator, other: CompiledKernel | None, known: _Known) -> list[Candidate]:
    """TVM's, and the native ones that one of the tables has among its fastest; or the usual ones, where no table knows
    the operator as it is compiled now."""
    if operator.external is not None:
        return []
    tvm = [Candidate("tvm", other)] if other is not None and other.document["variants"] else []
    names = {DEFAULT} if known else set()
    kinds = Counter(table.classes[-1] for table, _ in known)
    for table, kernel in known:
        most = CLOSE if kinds[table.classes[-1]] == 1 else _WORTH_A_LOOK
        times = {one.name: one.microseconds for one in kernel.candidates if one.microseconds}
        least = min(times.values(), default=0.0)
        names |= {name for name, spent in times.items() if spent <= most * least}
    texts = {(one.name, one.text) for _, kernel in known for one in kernel.candidates}
    native = [one for name in sorted(names - {"tvm"}) if (one := space.named(name)) is not None]
    native = [one for one in native if (one.name, one.key) in texts]
    return [*tvm, *(native or space.usual(likely_tiles(space, judged_sizes(operator))))]


def _up_to_date(space: NativeSpace, kernel: MeasuredKernel) -> bool:
    """Whether a table's fastest native kernels, by subgroup matrices and without them, are those that are made now.
    Where they are not, the others that it has times of say nothing of what has become of these, and where TVM's is
    left alone it says nothing either."""
    native = [one for one in kernel.candidates if one.microseconds and one.name != "tvm"]
    kinds = [[one for one in native if of_matrices(one.name) == some] for some in (False, True)]
    fastest = [min(kind, key=lambda one: one.microseconds or 0.0) for kind in kinds if kind]
    made = [(one, space.named(one.name)) for one in fastest]
    return bool(made) and all(found is not None and found.key == one.text for one, found in made)
