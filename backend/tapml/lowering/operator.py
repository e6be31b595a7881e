"""One operator of a lowered model, as compilers take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tapml.errors import InputError
from tapml.expressions import Symbol
from tapml.lowering.write import program_of
from tapml.operators.external import External
from tapml.operators.numerics import Numerics, numerics
from tapml.operators.program import OperatorProgram
from tapml.program import TensorType
from tapml.program.program import SymbolicType


@dataclass(frozen=True)
class Operator:
    """What a kernel is made of.

    `symbols` are those that its sizes are made of; `arguments` its inputs, then its outputs: `name`, `dtype`, `shape`
    (expressions) and `role`, as a kernel's document has them. `prim_func` is TVM's function, whose variables of
    sizes are what `sizes` says; None for an operator that is computed elsewhere, which is `external`.
    """

    name: str
    symbols: Sequence[Symbol]
    arguments: Sequence[dict[str, Any]]
    prim_func: Any
    sizes: Mapping[Any, Any]
    external: External | None = None

    @cached_property
    def program(self) -> OperatorProgram | External:
        """What it computes, as data: a template where it has symbols. Raises InputError where a program cannot say."""
        return self.external or program_of(self.name, self.prim_func, self.sizes)

    def types(self, sizes: Mapping[str, int]) -> list[TensorType]:
        """Of its arguments, at these sizes of its symbols."""
        return [SymbolicType(tuple(a["shape"]), a["dtype"]).at(sizes, self.name) for a in self.arguments]

    @cached_property
    def least_binding(self) -> int:
        """Bytes of the largest of its arguments, at the least that its symbols may be."""
        least = {symbol.name: symbol.minimum for symbol in self.symbols}
        return max(found.nbytes for found in self.types(least))

    @cached_property
    def numerics(self) -> Numerics:
        """At the most that its symbols may be. None are known of what a program cannot say: no suite holds it, and
        no tolerance is derived for it. Of what is computed elsewhere a sum along its longest axis is supposed."""
        try:
            program = self.program
        except InputError:
            return Numerics(1, (), 0)
        if isinstance(program, External):
            return Numerics(max((axis for found in self.arguments for axis in found["shape"]), default=1), (), 1)
        return numerics(program, {symbol.name: symbol.maximum for symbol in self.symbols})
