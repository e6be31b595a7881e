"""What masks need of narrowing: to choose by zeros and ones, and to be added where both have the lowest number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.relax import op

from tapml.importing.dtypes import stored
from tapml.importing.fold import Folded
from tapml.importing.model import Array
from tapml.importing.relax_ir import Expr, elements, names, operator_name, tensor_dtype

_CARRIES = names(
    "add astype broadcast_to concat expand_dims flatten flip full full_like maximum minimum multiply "
    "permute_dims repeat reshape squeeze stack strided_slice subtract tile where"
)
"""Operators that may give the lowest number where an operand has it."""

_BESIDE = names("add astype broadcast_to expand_dims flatten permute_dims reshape squeeze")
"""Operators through which softmax still makes the same of one far below all others and of another."""

_SOFTMAX = names("nn.softmax nn.log_softmax")


def chosen(condition: te.Tensor, yes: te.Tensor, no: te.Tensor) -> te.Tensor:
    """Of `yes` where `condition`, an int32 of zeros and ones, is one, else of `no`: with no bool that a buffer would
    hold if this stood alone."""
    tensors = (condition, yes, no)
    rank = max(len(tensor.shape) for tensor in tensors)
    shape = [next(_extents(tensors, rank - axis), 1) for axis in range(rank)]

    def element(*at: Any) -> Any:
        flag, *both = (
            tensor(
                *(
                    0 if isinstance(extent, tirx.IntImm) and extent.value == 1 else place
                    for extent, place in zip(tensor.shape, at[rank - len(tensor.shape) :], strict=True)
                )
            )
            for tensor in tensors
        )
        return tirx.Select(flag != 0, *both)

    return te.compute(shape, element, name="where")


def _extents(tensors: Iterable[te.Tensor], place: int) -> Iterator[Any]:
    """Other than 1, on the axis that is `place` from the end."""
    for tensor in tensors:
        if len(tensor.shape) >= place:
            extent = tensor.shape[-place]
            if not (isinstance(extent, tirx.IntImm) and extent.value == 1):
                yield extent


def overflowing_sums(program: Folded, is_unread: Callable[[Array], bool] = lambda _: False) -> set[Expr]:
    """Variables that are sums of two tensors which may both have the lowest number of their dtype, for softmax alone.
    No element of a tensor that `is_unread` is looked at: it is a weight, and counts as one that has no such number.

    WGSL promises nothing for a sum that overflows. With each operand limited to half of the lowest number it does not,
    and softmax gives both the weight 0 beside any other.
    """
    if not any(isinstance(value, tvm.ir.Call) and operator_name(value) in _SOFTMAX for _, value in program.bindings):
        return set()  # without a look at all weights
    lowest: set[Expr] = set()
    sums = []
    users: dict[Expr, list[tuple[Expr, Expr]]] = defaultdict(list)
    for var, value in program.bindings:
        for read in relax.analysis.free_vars(value):
            users[read].append((var, value))
        if not isinstance(value, tvm.ir.Call) or operator_name(value) not in _CARRIES:
            continue
        having = [_has_lowest(operand, program, lowest, is_unread) for operand in _operands(value.args)]
        if any(having):
            lowest.add(var)
        if operator_name(value) == "relax.add" and all(having):
            sums.append(var)
    results = set(relax.analysis.free_vars(program.result))

    def for_softmax(var: Expr) -> bool:
        return var not in results and all(
            isinstance(value, tvm.ir.Call)
            and (operator_name(value) in _SOFTMAX or (operator_name(value) in _BESIDE and for_softmax(user)))
            for user, value in users[var]
        )

    return {var for var in sums if for_softmax(var)}


def limited(operand: Expr, dtype: str) -> Expr:
    """The operand, nowhere below half of the lowest number of `dtype`."""
    return op.maximum(operand, relax.const(float(np.finfo(dtype).min) / 2, dtype))


def _operands(arguments: Iterable[Expr]) -> Iterator[Expr]:
    for argument in arguments:
        if isinstance(argument, relax.Tuple):
            yield from _operands(argument.fields)
        else:
            yield argument


def _has_lowest(operand: Expr, program: Folded, lowest: set[Expr], is_unread: Callable[[Array], bool]) -> bool:
    operand = program.known.get(operand, operand) if isinstance(operand, tvm.ir.Var) else operand
    dtype = stored(tensor_dtype(getattr(operand, "ty", None)) or "")
    if isinstance(operand, tvm.ir.GenericConst) and dtype in ("float32", "float16"):
        if is_unread(array := elements(operand)):
            return False
        least = array.min(initial=0)
        return bool(np.isfinite(least) and least < float(np.finfo(dtype).min) / 2)
    return operand in lowest
