"""Operators that take what another one makes of its input, such as integers and scales of rows: of one row each of them
makes that itself. Many rows are worth a kernel of their own, which serves all who read them; for one a kernel takes
longer to start than to run.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from tapml.lowering.calls import is_one, name_of, rewritten, shape_of, uses_of

MOST_AGAIN = 6144
"""Elements of a row, each counted as often as it is read, that are worth making within their readers: on an H200 a
kernel for them takes 3.5 us, and each reader 0.6 us longer for 1,024 elements that it makes itself."""

_ATTRIBUTE = "tapml.of_one_row"
"""Of a PrimFunc that reads all results of another one: the PrimFunc that takes in their place what those are made of,
where that is one row, `[1, ..., inner]`."""


def with_one_row(function: Any, of_one_row: Any) -> Any:
    """The PrimFunc, for which the other one is called where there is one row."""
    return function.with_attr(_ATTRIBUTE, of_one_row)


@relax.expr_functor.mutator
class _OfOneRow(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    def __init__(self, module: tvm.IRModule, function: Any) -> None:
        super().__init__(module)
        self._module = module
        self._readers = uses_of(function)

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if name_of(call) != "relax.call_tir":
            return call
        other = _of_one_row(self._module[call.args[0]])
        maker = self._maker(call.args[1].fields) if other is not None else None
        if other is None or maker is None:
            return call
        (data,) = maker.args[1].fields
        shape = shape_of(data)
        if shape is None or not all(map(is_one, shape[:-1])):
            return call
        readers = self._readers[call.args[1].fields[0]]
        if not isinstance(shape[-1], tvm.tirx.IntImm) or readers * int(shape[-1]) > MOST_AGAIN:
            return call
        others = [*call.args[1].fields][len(maker.ty.fields) :]
        variable = self.builder_.add_func(other, f"{call.args[0].name_hint}_of_one_row")
        tensors = [found for found in others if not tvm.ir.is_prim_expr(found)]
        return relax.call_tir(variable, relax.Tuple([data, *tensors]), call.ty_args[0])

    def _maker(self, operands: Any) -> Any:
        """The call with one operand of which the first of these are all results, in their order; None where there is
        none."""
        made = [self.lookup_binding(found) if isinstance(found, relax.Var) else None for found in operands]
        if not made or not isinstance(made[0], relax.TupleGetItem):
            return None
        results = made[0].tuple_value
        call: Any = self.lookup_binding(results) if isinstance(results, relax.Var) else None
        if name_of(call) != "relax.call_tir" or len(call.args) != 2 or len(call.args[1].fields) != 1:
            return None
        for place, found in enumerate(made[: len(call.ty.fields)]):
            if not isinstance(found, relax.TupleGetItem) or found.index != place:
                return None
            if not found.tuple_value.same_as(results):
                return None
        return call


def with_rows_in_their_operators(module: tvm.IRModule, wanted: bool) -> tvm.IRModule:
    """The module, in which PrimFuncs that have one for one row (`with_one_row`) are that where there is one row, or all
    as they are where that is not `wanted`. What they read is not made any more where nobody else reads it."""
    if not any(_of_one_row(function) is not None for function in module.functions.values()):
        return module
    made = rewritten(module, _OfOneRow) if wanted else module
    functions = {
        variable: function if _of_one_row(function) is None else function.without_attr(_ATTRIBUTE)
        for variable, function in made.functions.items()
    }
    return tvm.IRModule(functions, attrs=made.attrs)


def _of_one_row(function: Any) -> Any:
    found = isinstance(function, tvm.tirx.PrimFunc) and function.attrs
    return function.attrs.get(_ATTRIBUTE) if found else None
