"""A module whose products and gathers read packed weights, and dequantise what they read.

How words and scales become numbers is part of the operators' programs: what computes, bounds, explains and checks
operators needs to know nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te, tirx
from tvm_ffi import structural_equal

from tapml.importing.activations import (
    MOST_OF_ONE_ROW,
    ROUNDED,
    ROWS,
    packed_rows,
    product,
    product_of_one_row,
)
from tapml.importing.indices import take
from tapml.importing.kernel_calls import call_several
from tapml.importing.quantise import OF_INTEGERS, Kind
from tapml.importing.quantise_uses import Uses, from_end
from tapml.importing.relax_ir import Expr, operator_name, static_shape, tensor_dtype
from tapml.lowering.one_row import with_one_row
from tapml.lowering.wide_sums import product_of

_FUSED = 4
"""TVM's class of operators that others are fused behind (tvm::OpPatternKind::kOutEWiseFusable)."""

_PRODUCTS = {8: "int8_matmul", 4: "int8_q4_matmul"}
"""Operators of rows that are 8-bit integers, by the bits of the weight's."""

_MOST_BYTES = 2**30
"""Of a dequantised weight as a tensor of its operator's program, where this machine computes it."""


@dataclass(frozen=True)
class PackedVariables:
    """The parameters of a weight `[rows, inner]`."""

    kind: Kind
    rows: int
    inner: int
    words: Expr
    scales: Expr
    zeros: Expr | None
    dtype: str
    """Of its elements: float32 or float16."""

    @property
    def all(self) -> list[Expr]:
        return [self.words, self.scales, *([] if self.zeros is None else [self.zeros])]


def packed_variables(weight: Expr, name: str, kind: Kind, lies_turned: bool) -> PackedVariables:
    """`lies_turned`: whether the weight is `[inner, rows]`."""
    shape = static_shape(weight.ty) or ()
    rows, inner = reversed(shape) if lies_turned else shape
    words = relax.Var(f"{name}_words", relax.TensorType((rows, kind.words(inner)), "uint32"))
    of_groups = relax.TensorType((rows, kind.groups(inner)), "float32")
    zeros = relax.Var(f"{name}_zeros", of_groups) if kind.zero is None else None
    scales = relax.Var(f"{name}_scales", of_groups)
    return PackedVariables(kind, rows, inner, words, scales, zeros, str(tensor_dtype(weight.ty)))


def quantised_module(
    module: tvm.IRModule, uses: Uses, packed: Mapping[Expr, PackedVariables], *, all_round: bool = False
) -> tvm.IRModule:
    """The module, of which `main` takes words and scales in place of each weight that is `packed`. Products of what is
    rounded to 8-bit integers (activations.py) are of these; with `all_round` all that can be are."""
    main = module["main"]
    mutator = _Quantised(module, uses, packed, all_round)
    body = mutator.visit_expr(main.body)
    params: dict[Expr, None] = {}  # equal weights may share theirs
    for parameter in main.params:
        found = packed.get(parameter)
        params |= dict.fromkeys([parameter] if found is None else found.all)
    made = mutator.builder_.get()
    made.update_func(made.get_global_var("main"), relax.Function([*params], body, None, main.is_pure, main.attrs))
    return relax.transform.DeadCodeElimination()(relax.transform.Normalize()(made))


def products_of_integers(module: tvm.IRModule) -> int:
    """Calls in `main` of what multiplies rows that are rounded."""
    values = (binding.value for block in module["main"].body.blocks for binding in block.bindings)
    calls = (value for value in values if isinstance(value, tvm.ir.Call) and operator_name(value) == "relax.call_tir")
    return sum(str(call.args[0].name_hint).startswith((*_PRODUCTS.values(),)) for call in calls)


@relax.expr_functor.mutator
class _Quantised(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    def __init__(
        self, module: tvm.IRModule, uses: Uses, packed: Mapping[Expr, PackedVariables], all_round: bool
    ) -> None:
        super().__init__(module)
        self._module, self._uses, self._packed, self._all_round = module, uses, packed, all_round
        self._made: dict[str, tuple[Expr, list[Expr]]] = {}
        self._rows_of: dict[tuple[Expr, str], Sequence[Expr]] = {}
        """Words and scales of what is rounded, by that and its shape: several products may share them."""

    def visit_var_binding_(self, binding: Expr) -> None:
        # The product reads the weight as it lies.
        if self._uses.transposed.get(binding.var) not in self._packed:
            super().visit_var_binding_(binding)

    def visit_call_(self, call: Expr) -> Expr:
        name = operator_name(call)
        if name == "relax.matmul":
            weight = call.args[1]
            found = self._packed.get(self._uses.transposed.get(weight, weight))
            if found is None:
                return super().visit_call_(call)
            given = self.visit_expr(call.args[0])
            data = self._unrounded(given) if found.kind in OF_INTEGERS else None
            if data is None:
                return self._product(given, found)
            return self._product_of_integers(data, [*given.ty.shape.values], found)
        if name in ("relax.take", "relax.call_tir"):
            operands = call.args if name == "relax.take" else call.args[1].fields
            found = self._packed.get(operands[0]) if len(operands) else None
            if found is not None:
                counted = from_end(self._module, operands[0], call)
                return self._rows(self.visit_expr(operands[1]), found, bool(counted))
        return super().visit_call_(call)

    def _product(self, data: Expr, packed: PackedVariables) -> Expr:
        def of_numbers(data: Any, *parts: Any) -> Any:
            term = te.reduce_axis((0, packed.inner), name="k")
            elements = weight = _Elements(packed, *parts)
            # A tensor of its own is what schedules know; kernels read it element by element all the same.
            if 4 * packed.rows * packed.inner <= _MOST_BYTES:
                weight = te.compute(elements.shape, lambda row, k: elements(row, k), name="dequantised")

            def factors(*at: Any) -> tuple[Any, Any]:
                return data(*at[:-1], term), weight(at[-1], term)

            return product_of([*data.shape[:-1], packed.rows], factors, term, packed.dtype)

        shape = [*data.ty.shape.values[:-1], packed.rows]
        operands = [data, *packed.all]
        return self._called(f"q{packed.kind.bits}_matmul", of_numbers, operands, packed, shape, pattern=_FUSED)

    def _unrounded(self, data: Expr) -> Expr | None:
        """What a product's operand is rounded of, in another shape maybe; None where it is not rounded."""
        inner, value = data.ty.shape.values[-1], self.lookup_binding(data)
        while isinstance(value, tvm.ir.Call) and operator_name(value) == "relax.reshape":
            if not structural_equal(value.args[0].ty.shape.values[-1], inner):
                break
            data = value.args[0]
            value = self.lookup_binding(data)
        if isinstance(value, relax.TupleGetItem) and value.index == 0:
            value = self.lookup_binding(value.tuple_value)
        kernel = isinstance(value, tvm.ir.Call) and operator_name(value) == "relax.call_tir"
        if kernel and str(value.args[0].name_hint).startswith(ROUNDED):
            return value.args[1].fields[0]
        return data if self._all_round else None

    def _product_of_integers(self, data: Expr, shape: Sequence[Any], packed: PackedVariables) -> Expr:
        """`data`: what is rounded, and in this shape multiplied."""
        emit = self.builder_.emit
        key = data, str(shape)
        if key not in self._rows_of:
            if str(data.ty.shape.values) != str(shape):
                data = emit(relax.op.reshape(data, shape))
            self._rows_of[key] = call_several(self.builder_, packed_rows, [data], name=ROWS)

        def product_of(words: Any, scales: Any, weight: Any, weight_scales: Any) -> Any:
            return product(words, scales, weight, weight_scales, packed.inner, packed.dtype, packed.kind)

        words, scales = self._rows_of[key]
        operands = [words, scales, *packed.all]
        of_one_row = None
        if packed.inner <= MOST_OF_ONE_ROW:
            of_one_row = product_of_one_row(len(shape), packed.inner, packed.rows, packed.dtype, packed.kind)
        to = [*shape[:-1], packed.rows]
        name = _PRODUCTS[packed.kind.bits]
        return self._called(name, product_of, operands, packed, to, pattern=_FUSED, of_one_row=of_one_row)

    def _rows(self, indices: Expr, packed: PackedVariables, counted: bool) -> Expr:
        def rows(indices: Any, *parts: Any) -> Any:
            return take(_Elements(packed, *parts), indices, 0, counted)

        shape = [*indices.ty.shape.values, packed.inner]
        operands = [indices, *packed.all]
        return self._called(f"q{packed.kind.bits}_take", rows, operands, packed, shape, counted=counted)

    def _called(
        self,
        name: str,
        compute: Any,
        operands: Sequence[Expr],
        packed: PackedVariables,
        shape: list[Any],
        *,
        pattern: int | None = None,
        counted: bool = False,
        of_one_row: Any = None,
    ) -> Expr:
        """A call of the kernel, which is made once for operands of the same types. `of_one_row`: see `with_one_row`."""
        key = repr((name, packed.kind, packed.inner, counted, [str(operand.ty) for operand in operands]))
        if key not in self._made:
            call = self.builder_.call_te(compute, *operands, primfunc_name_hint=name)
            variable = call.args[0]
            if pattern is not None:
                function = self.builder_.get()[variable].with_attr("op_pattern", pattern)
                if of_one_row is not None:
                    function = with_one_row(function, of_one_row.with_attr("op_pattern", pattern))
                self.builder_.update_func(variable, function)
            # Sizes that no operand has alone (of two axes as one) are operands, too.
            self._made[key] = variable, [*call.args[1].fields][len(operands) :]
        variable, sizes = self._made[key]
        return relax.call_tir(variable, relax.Tuple([*operands, *sizes]), relax.TensorType(shape, packed.dtype))


class _Elements:
    """A packed weight's elements, as of a tensor `[rows, inner]`."""

    def __init__(self, packed: PackedVariables, words: Any, scales: Any, zeros: Any = None) -> None:
        self._packed, self._words, self._scales, self._zeros = packed, words, scales, zeros
        self.shape = [packed.rows, packed.inner]

    def __call__(self, row: Any, k: Any) -> Any:
        kind = self._packed.kind
        shift = tirx.Cast("uint32", tirx.floormod(k, kind.each) * kind.bits)
        word = self._words[row, tirx.floordiv(k, kind.each)]
        code = (word >> shift) & tirx.const(2**kind.bits - 1, "uint32")
        group = tirx.floordiv(k, kind.group) if kind.group is not None else tirx.const(0, "int64")
        zero = tirx.const(float(kind.zero or 0), "float32") if self._zeros is None else self._zeros[row, group]
        found = (code.astype("float32") - zero) * self._scales[row, group]
        return found if self._packed.dtype == "float32" else found.astype(self._packed.dtype)
