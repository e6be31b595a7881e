"""Compute once, at import, whatever depends neither on an input nor on a weight.

Real exports are full of it: shape arithmetic, position ids, causal masks. It is computed here in the
source's own dtypes (int64, float64, bool), so that narrowing later meets only its results.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from tapml.errors import InputError
from tapml.importing.constants import require_small
from tapml.importing.empty import is_empty, without_empty
from tapml.importing.indices import INDEXING, lower_indexing
from tapml.importing.relax_ir import Expr, attributes, names, operator_name, static_shape, tensor_dtype
from tapml.lowering.quiet import quiet_tvm, reason

_GROWING = names("broadcast_to full full_like ones ones_like zeros zeros_like tile repeat")
_GROWN = 1 << 16
"""Elements above which a repetition of the same values stays a kernel instead of a stored tensor.
"""


@dataclass(frozen=True)
class Computation:
    """What is computed of constants: `bindings` in order, the functions that they call, and the variables that are
    `wanted` of them."""

    functions: Mapping[Expr, Expr]
    bindings: Sequence[Expr]
    wanted: Sequence[Expr]

    def run(self, emit: Callable[[Any, Expr], object]) -> Callable[[], list[Any]]:
        """What gives the values of `wanted` each time that it is called. `emit` is given a builder, and each binding to
        emit there. Raises InputError."""
        builder = relax.BlockBuilder(tvm.IRModule(self.functions))
        with builder.function("main", []):
            with builder.dataflow():
                for binding in self.bindings:
                    emit(builder, _inside(builder, binding))
                # A module without any kernel would be linked by a C++ compiler, which users need not have.
                one = relax.const(1.0, "float32")
                kernel = builder.emit(relax.op.add(one, one))
                result = builder.emit_output(relax.Tuple([*self.wanted, kernel]))
            builder.emit_func_output(result)
        with _refusing(), quiet_tvm():
            only = relax.transform.DeadCodeElimination(["main"])(builder.finalize())
            main = relax.VirtualMachine(relax.build(only, tvm.target.Target("llvm")), tvm.cpu())["main"]

        def results() -> list[Any]:
            with _refusing(), quiet_tvm():
                return list(main())[:-1]

        return results


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # TVM raises its own types, without a common base
        raise InputError(f"TVM cannot compute what the model makes of its constants: {reason(error)}") from error


@dataclass
class Folded:
    """A flat program: `bindings` in order, then `result`.

    `known` maps variables of the original function to what was computed for them (constants,
    shapes, tuples of them); `symbols` symbolic dimensions to numbers. Neither appears in `bindings`
    any more.
    """

    module: tvm.IRModule
    parameters: list[Expr]
    result: Expr
    bindings: list[tuple[Expr, Expr]] = field(default_factory=list)
    known: dict[Expr, Expr] = field(default_factory=dict)
    symbols: dict[Expr, int] = field(default_factory=dict)
    computation: Computation | None = None
    """What `known` was computed by; None where nothing was computed."""


def fold(module: tvm.IRModule) -> Folded:
    """Flatten `main` of `module` and compute its constant part with TVM on this CPU. Raises InputError for a branch."""
    main = module["main"]
    program = Folded(module, list(main.params), main.body.body)
    constant: dict[Expr, Expr] = {}
    """What binds a variable, or a symbol, that depends on constants only."""
    for binding in (binding for block in main.body.blocks for binding in block.bindings):
        var, value = binding.var, binding.value
        if isinstance(value, relax.If):
            raise InputError("the model branches on its input's values (If): tapml carves plain data flow only")
        if isinstance(value, tvm.ir.Call) and operator_name(value) == "relax.shape_of":
            value = _shape(value.args[0])
            binding = relax.VarBinding(var, value)
        if (simpler := without_empty(var, value)) is not None:
            if isinstance(simpler, tvm.ir.GenericConst) and is_empty(simpler.ty):
                program.known[var] = simpler
                continue
            value, binding = simpler, relax.VarBinding(var, simpler)
            if isinstance(simpler, tvm.ir.GenericConst):
                constant[var] = binding  # no weight, though it is a tensor of floats
                continue
        if not _is_constant(value, constant) or _grows(var, value):
            program.bindings.append((var, value))
            continue
        _require_small(var, value)
        constant[var] = binding
        if isinstance(binding, relax.MatchCast):
            constant |= {axis: binding for axis in _sizes(binding.ty) if tvm.ir.is_prim_var(axis)}
    values = [*(value for _, value in program.bindings), program.result]
    used = {constant[var].var: None for value in values for var in relax.analysis.free_vars(value) if var in constant}
    if used:
        program.computation = _computation(module, constant, list(used))
        results = program.computation.run(lambda builder, binding: builder.emit_normalized(binding))()
        program.known.update(zip(used, map(_expression, results), strict=True))
    for var, value in program.known.items():
        if isinstance(constant.get(var), relax.MatchCast):
            sizes = value.values if isinstance(value, relax.ShapeExpr) else value.value.shape
            axes = zip(_sizes(constant[var].ty), sizes, strict=True)
            program.symbols |= {axis: int(size) for axis, size in axes if tvm.ir.is_prim_var(axis)}
    return program


def _shape(tensor: Expr) -> Expr:
    if not isinstance(tensor.ty.shape, relax.ShapeExpr):
        raise InputError(f"the shape of {tensor} depends on the values of the input: tapml needs known sizes")
    return tensor.ty.shape


def _sizes(ty: Expr) -> Sequence[Expr]:
    """Of a type of shapes, or of tensors."""
    return getattr(ty, "values", None) or getattr(ty.shape, "values", None) or ()


def _is_constant(value: Expr, constant: Mapping[Expr, Expr]) -> bool:
    """Whether it depends on `constant` variables only, and on no weight or other implementation."""
    if any(var not in constant for var in relax.analysis.free_vars(value)):
        return False
    parts: list[Expr] = []
    relax.analysis.post_order_visit(value, parts.append)
    return not any(isinstance(part, relax.ExternFunc) or is_weight(part) for part in parts)


def is_weight(expr: Expr) -> bool:
    """Whether a constant is one of the model's tensors (a float that is no scalar) rather than
    arithmetic.
    """
    if not isinstance(expr, tvm.ir.GenericConst):
        return False
    return "float" in (tensor_dtype(expr.ty) or "") and len(expr.value.shape) > 0


def _grows(var: Expr, value: Expr) -> bool:
    if not isinstance(value, tvm.ir.Call) or operator_name(value) not in _GROWING:
        return False
    shape = static_shape(var.ty)
    return shape is not None and math.prod(shape) > _GROWN


def _require_small(var: Expr, value: Expr) -> None:
    shape, dtype = static_shape(var.ty), tensor_dtype(var.ty)
    if shape is not None and dtype is not None:
        name = f"the operator {operator_name(value)}" if isinstance(value, tvm.ir.Call) else "the model"
        require_small(name, shape, dtype)


def _computation(module: tvm.IRModule, constant: Mapping[Expr, Expr], wanted: Sequence[Expr]) -> Computation:
    """Of the values of `wanted`, by what binds them and what that needs."""
    needed = set(wanted)
    for var, binding in reversed(list(constant.items())):
        if var in needed:
            needed.update(constant[read].var for read in relax.analysis.free_vars(binding.value))
    functions = {gv: function for gv, function in module.functions.items() if gv.name_hint != "main"}
    return Computation(functions, [binding for var, binding in constant.items() if var in needed], wanted)


def _inside(builder: Expr, binding: Expr) -> Expr:
    """A binding whose value, if it reads at indices, reads inside its tensor."""
    value = binding.value
    if not isinstance(value, tvm.ir.Call) or (name := operator_name(value)) not in INDEXING:
        return binding
    call = lower_indexing(name, builder, list(value.args), attributes(value))
    return relax.VarBinding(binding.var, builder.normalize(call))


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
