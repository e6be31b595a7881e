"""Compute once, at import, whatever depends neither on an input nor on a weight.

Real exports are full of it: shape arithmetic, position ids, causal masks, branches on shapes. It
is computed here in the source's own dtypes (int64, float64, bool), so that narrowing later meets
only its results.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import tvm
from tvm import relax

from tapml.errors import InputError
from tapml.importing.rewrite import (
    Expr,
    Rewriter,
    operator_name,
    static_shape,
    symbols_in,
    tensor_dtype,
    variables_in,
)
from tapml.lowering.quiet import quiet_tvm, reason

_GROWING = {
    f"relax.{name}"
    for name in (
        "broadcast_to",
        "full",
        "full_like",
        "ones",
        "ones_like",
        "zeros",
        "zeros_like",
        "tile",
        "repeat",
    )
}
_GROWN = 1 << 16
"""Elements above which a repetition of the same values stays a kernel instead of a stored tensor.
"""


@dataclass
class Folded:
    """A flat program: `bindings` in order, then `result`.

    `known` maps variables of the original function to what was computed for them (constants,
    shapes, tuples of them); `symbols` symbolic dimensions to numbers. Neither appears in `bindings`
    any more.
    """

    parameters: list[Expr]
    bindings: list[tuple[Expr, Expr]]
    result: Expr
    module: tvm.IRModule
    known: dict[Expr, Expr] = field(default_factory=dict)
    symbols: dict[Expr, int] = field(default_factory=dict)


def is_weight(expr: Expr) -> bool:
    """Whether a constant is one of the model's tensors (a float that is no scalar) rather than
    arithmetic.
    """
    if not isinstance(expr, tvm.ir.GenericConst):
        return False
    dtype = tensor_dtype(expr.ty) or ""
    return "float" in dtype and len(expr.value.shape) > 0


def fold(module: tvm.IRModule) -> Folded:
    """Flatten `main` of `module` and compute its constant part with TVM on this CPU. Branches whose
    condition is known are resolved. Raises InputError for one that depends on the data.
    """
    main = module["main"]
    folder = _Folder(Folded(list(main.params), [], main.body.body, module))
    folder.read(main.body)
    return folder.finish()


class _Folder:
    def __init__(self, program: Folded) -> None:
        self._program = program
        # Constant bindings whose value is not computed yet, in order.
        self._pending: dict[Expr, Expr] = {}

    def read(self, body: Expr) -> None:
        for block in body.blocks:
            for binding in block.bindings:
                if isinstance(binding, relax.MatchCast):
                    self._read_match(binding)
                else:
                    self._read_value(binding.var, binding.value)

    def finish(self) -> Folded:
        program = self._program
        needed: dict[Expr, None] = {}
        for _, value in [*program.bindings, (None, program.result)]:
            for variable in variables_in(value):
                if variable in self._pending:
                    needed[variable] = None
        self._evaluate(list(needed))
        return program

    def _read_value(self, var: Expr, value: Expr) -> None:
        if isinstance(value, relax.If):
            branch = self._branch(value)
            self.read(branch)
            self._read_value(var, branch.body)
        elif isinstance(value, tvm.ir.Call) and operator_name(value) == "relax.shape_of":
            self._read_shape(var, value)
        elif self._is_constant(value) and not _grows(var, value):
            self._pending[var] = value
        else:
            self._program.bindings.append((var, value))

    def _read_shape(self, var: Expr, value: Expr) -> None:
        shape = value.args[0].ty.shape
        if not isinstance(shape, relax.ShapeExpr):
            raise InputError(
                f"the shape of {value.args[0]} depends on the values of the input: tapml needs known sizes"
            )
        self._program.known[var] = shape

    def _branch(self, value: Expr) -> Expr:
        if not self._is_constant(value.cond):
            raise InputError("the model branches on its input's values (If): tapml carves plain data flow only")
        condition = self._value(value.cond)
        return value.true_branch if bool(condition.value.numpy()) else value.false_branch

    def _read_match(self, binding: Expr) -> None:
        if not self._is_constant(binding.value):
            self._program.bindings.append((binding.var, binding.value))
            return
        value = self._value(binding.value)
        self._program.known[binding.var] = value
        shape = value.values if isinstance(value, relax.ShapeExpr) else value.value.shape
        pattern = getattr(binding.ty, "values", None)
        if pattern is None and binding.ty.shape is not None:
            pattern = binding.ty.shape.values
        for symbol, size in zip(pattern or [], shape, strict=True):
            if tvm.ir.is_prim_var(symbol):
                self._program.symbols[symbol] = int(getattr(size, "value", size))

    def _is_constant(self, expr: Expr) -> bool:
        if isinstance(expr, tvm.ir.Var) and not tvm.ir.is_prim_expr(expr):
            known = self._program.known
            return expr in self._pending or (expr in known and self._is_constant(known[expr]))
        if tvm.ir.is_prim_expr(expr):
            return all(symbol in self._program.symbols for symbol in symbols_in(expr))
        if isinstance(expr, tvm.ir.GenericConst):
            return not is_weight(expr)
        if isinstance(expr, relax.ShapeExpr):
            return all(self._is_constant(value) for value in expr.values)
        if isinstance(expr, relax.Tuple):
            return all(self._is_constant(value) for value in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            return self._is_constant(expr.tuple_value)
        if isinstance(expr, tvm.ir.Call):
            return all(self._is_constant(a) for a in expr.args if not isinstance(a, tvm.ir.GlobalVar))
        return isinstance(expr, tvm.ir.StringImm)

    def _value(self, expr: Expr) -> Expr:
        if isinstance(expr, tvm.ir.GenericConst | relax.ShapeExpr):
            return expr
        if expr not in self._program.known:
            self._evaluate([expr])
        return self._program.known[expr]

    def _evaluate(self, variables: list[Expr]) -> None:
        """Run the pending bindings that `variables` need and note their values."""
        if not variables:
            return
        wanted = self._closure(variables)
        builder = relax.BlockBuilder()
        rewriter = _Copier(self._program, builder)
        with builder.function("main", []):
            with builder.dataflow():
                for var in wanted:
                    rewriter.variables[var] = builder.emit(rewriter.visit(self._pending[var]))
                # A module without any kernel would be linked by a C++ compiler, which users need not have.
                one = relax.const(1.0, "float32")
                kernel = builder.emit(relax.op.add(one, one))
                result = builder.emit_output(relax.Tuple([*(rewriter.variables[v] for v in variables), kernel]))
            builder.emit_func_output(result)
        try:
            with quiet_tvm():
                executable = relax.build(builder.finalize(), tvm.target.Target("llvm"))
                results = relax.VirtualMachine(executable, tvm.cpu())["main"]()
        except Exception as error:  # TVM raises its own types, without a common base
            raise InputError(f"TVM cannot compute what the model makes of its constants: {reason(error)}") from error
        for variable, value in zip(variables, list(results)[:-1], strict=True):
            self._program.known[variable] = _expression(value)

    def _closure(self, variables: list[Expr]) -> list[Expr]:
        needed = set(variables)
        for var in reversed(list(self._pending)):
            if var in needed:
                needed.update(v for v in variables_in(self._pending[var]) if v in self._pending)
        # What an earlier evaluation gave is not computed again.
        return [v for v in self._pending if v in needed and v not in self._program.known]


class _Copier(Rewriter):
    """Copies constant bindings, and the kernels they call, into a function of their own."""

    def __init__(self, program: Folded, builder: Expr) -> None:
        super().__init__()
        self.variables = dict(program.known)
        self.symbols = program.symbols
        self._module = program.module
        self._builder = builder

    def call(self, expr: Expr) -> Expr:
        arguments = [
            self._builder.add_func(self._module[a], a.name_hint) if isinstance(a, tvm.ir.GlobalVar) else self.visit(a)
            for a in expr.args
        ]
        return self.rebuilt(expr, arguments, expr.attrs)


def _grows(var: Expr, value: Expr) -> bool:
    shape = static_shape(var.ty)
    return (
        isinstance(value, tvm.ir.Call)
        and operator_name(value) in _GROWING
        and shape is not None
        and math.prod(shape) > _GROWN
    )


def _expression(value: Expr) -> Expr:
    """What the virtual machine returned, as an expression."""
    if isinstance(value, tvm.runtime.Tensor):
        return relax.const(value.numpy())
    if isinstance(value, int):
        return tvm.tirx.const(value, "int64")
    items = list(value)
    if all(isinstance(item, int) for item in items):
        return relax.ShapeExpr(items)
    return relax.Tuple([_expression(item) for item in items])
