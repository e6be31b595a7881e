"""From a Relax module to fused operators (one PrimFunc each) and the graph that calls them.

The same lowered module is built for the reference platform and for the target, so a difference between the two
comes from code generation, runtime, driver or browser, never from a different graph.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm_ffi import structural_walk

from tapml.errors import InputError
from tapml.expressions import ExpressionError, Symbol, symbols_of
from tapml.files import sha256
from tapml.lowering.accepts import Accepts
from tapml.lowering.as_it_lies import with_weights_as_they_lie
from tapml.lowering.attention import with_attention
from tapml.lowering.fuse import fuse, with_narrow_joins
from tapml.lowering.heads import with_whole_heads
from tapml.lowering.in_place import with_moves_in_place
from tapml.lowering.legalize import legalized
from tapml.lowering.names import names_of_results
from tapml.lowering.one_row import with_rows_in_their_operators
from tapml.lowering.operator import Operator
from tapml.lowering.plain_moves import with_plain_moves
from tapml.lowering.pooling import with_bounded_windows
from tapml.lowering.quiet import quiet_tvm, reason
from tapml.lowering.sizes import expression_of
from tapml.lowering.slices import with_slices
from tapml.lowering.specialize import specialized
from tapml.lowering.squares import with_means_of_squares
from tapml.lowering.unfused import Unfused, unfused
from tapml.operators.document import to_json_text
from tapml.operators.external import External, external_of
from tapml.operators.program import OperatorProgram
from tapml.operators.read import read_document
from tapml.program import Graph, Node, NodeKind, ValueKind
from tapml.program.program import MAIN, Function, SymbolicType, SymbolicValue
from tapml.program.program import Program as ModelProgram

_LONGEST_NAME = 120
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Model:
    """A model as operators, for the sizes of one call.

    `arguments` are the value ids of the function's arguments in order: inputs, then parameters, then what was written
    into it as a constant. `programs` has what computes each kernel: its program, or who does it elsewhere. For an
    operator of a module that no suite holds it is TVM's PrimFunc: inputs, then the outputs it writes.
    """

    graph: Graph
    arguments: list[str]
    programs: Mapping[str, OperatorProgram | External | Any]


@dataclass(frozen=True)
class Lowered:
    """A model as operators, for all sizes of its symbols.

    `arguments` are as in `Model`, the inputs of all functions first; `constants` holds the arrays of the last ones, by
    value id.
    """

    model: ModelProgram
    arguments: list[str]
    constants: dict[str, np.ndarray]
    operators: list[Operator]
    """One for each kernel, in topological order of their first call."""
    unfused: Mapping[str, Unfused | None] = field(default_factory=dict)
    """By function, its operators before any was fused with another."""

    def documents(self) -> dict[str, str]:
        """By name, the document of each operator's program (tapml.operator/2) or of who computes it (tapml.external/1).

        Raises InputError for one that a suite cannot hold.
        """
        return {operator.name: to_json_text(operator.program) for operator in self.operators}

    def at(self, sizes: Mapping[str, int], documents: Mapping[str, str], function: str | None = None) -> Model:
        """For the sizes of a call of a function, as a suite with these `documents` gives it back."""
        graph = self.model.at(sizes, function)
        programs = {
            name: read_document(json.loads(documents[name]), name, f"operator {name}", sizes) for name in graph.kernels
        }
        return Model(graph, [value for value in self.arguments if value in graph.values], programs)

    @property
    def as_it_is(self) -> Model:
        """Of a model without symbols: with TVM's own functions, whether or not a suite can hold them."""
        programs = {operator.name: operator.external or operator.prim_func for operator in self.operators}
        return Model(self.model.at({}), self.arguments, programs)


def lower(
    module: tvm.IRModule,
    input_count: int,
    symbols: Sequence[Symbol] = (),
    names: Mapping[str, str] = MappingProxyType({}),
    accepts: Accepts | None = None,
    fusing: bool = True,
) -> Lowered:
    """Decompose, legalize and fuse `main`, then read the program off it.

    What cannot be lowered where moves are read in place, or attention is one operator, is lowered without, and a
    warning says so: nobody knows of a model for which that is right. Without `fusing` each operator that others are
    made of is one of the program's: its values are all that a fused one can give.

    `names`: variable of `main` -> the model's own name of that value, which the program's value has then. `accepts`:
    which moves are read in place, and which attention is one operator; by default none is. Where it is given, operators
    make of one row what another one would (one_row.py), and products of heads are those of whole tensors (heads.py).

    `main` takes `input_count` inputs, then parameters, all tensors; sizes of the inputs may be variables that have the
    names of `symbols`.
    Raises InputError for what no kernel can be made of (data-dependent shapes, calls out of TVM, control flow).
    """
    why = ""
    if accepts is not None:
        try:
            return _lowered(module, input_count, symbols, names, accepts, fusing)
        except InputError as error:
            why = str(error)
    found = _lowered(module, input_count, symbols, names, None, fusing)
    if why:
        _log.warning(
            "no move of this model is read in place, and no attention is one operator, so that it has more kernels "
            "than it needs: %s. Please report it.",
            why,
        )
    return found


def _lowered(
    module: tvm.IRModule,
    input_count: int,
    symbols: Sequence[Symbol],
    names: Mapping[str, str],
    accepts: Accepts | None,
    fusing: bool,
) -> Lowered:
    transform = relax.transform
    operators = tvm.ir.transform.Sequential(
        [
            transform.DecomposeOpsForInference(),
            transform.CanonicalizeBindings(),
            tvm.ir.transform.module_pass(lambda found, _: legalized(found), opt_level=0),
            transform.AnnotateTIROpPattern(),
            transform.DeadCodeElimination(),
        ]
    )
    kernels = tvm.ir.transform.Sequential(
        [
            transform.FuseTIR(),
            # A reshape that was not fused moves no bytes: it becomes a view, on every platform.
            transform.RewriteDataflowReshape(),
            transform.DeadCodeElimination(),
        ]
    )
    # Target-independent here (LegalizeOps gives the same PrimFuncs for both), but some passes want one in scope.
    try:
        with quiet_tvm(), tvm.target.Target("webgpu"):
            # As moves that are read in place, that is for kernels of tapml's own.
            plain = with_rows_in_their_operators(module, wanted=accepts is not None)
            plain = with_means_of_squares(with_plain_moves(plain))
            written = with_bounded_windows(with_narrow_joins(with_weights_as_they_lie(plain)))
            if accepts is not None:
                written = with_whole_heads(with_slices(written))
            legal = operators(specialized(written))
            legal, fused = fuse(legal) if fusing else (legal, legal)
            lowered = kernels(fused)
            if accepts is not None:
                reading = partial(_operators, input_count, symbols)
                lowered = with_attention(lowered, reading, accepts.attention)
                lowered = with_moves_in_place(lowered, reading, accepts.move)
    except Exception as error:  # TVM's own types, without a common base
        raise _refused(module, operators, error, names) from error
    of_results = names_of_results(legal, fused) if names else {}
    own = {result: names[variable] for result, variable in of_results.items() if variable in names}
    own |= {given.name: names[given.name] for given in lowered["main"].params if given.name in names}
    read = read_lowered(lowered, input_count, symbols, own)
    return replace(read, unfused={MAIN: unfused(legal, {symbol.name for symbol in symbols})})


def _refused(module: tvm.IRModule, passes: Any, error: Exception, names: Mapping[str, str]) -> InputError:
    """Names the first operator of `main` of which `passes` make no kernel by itself either."""
    main = module["main"]
    for binding in (binding for block in main.body.blocks for binding in block.bindings):
        value = binding.value
        if not isinstance(value, tvm.ir.Call) or not isinstance(value.op, tvm.ir.Op) or "call_" in value.op.name:
            continue
        builder = relax.BlockBuilder()
        with builder.function("main", list(relax.analysis.free_vars(value))):
            builder.emit_func_output(builder.emit(value))
        try:
            with quiet_tvm(), tvm.target.Target("webgpu"):
                passes(builder.finalize())
        except Exception as found:  # as above
            name, why = value.op.name.removeprefix("relax."), reason(found)
            place = names.get(binding.var.name, binding.var.name)
            said = f"TVM cannot make a kernel of the operator {name} (at {place}): {why}"
            return InputError(said, operator=name, node=place, reason=why)
    return InputError(f"TVM cannot make kernels of the model: {reason(error)}", reason=reason(error))


def read_lowered(
    module: tvm.IRModule,
    input_count: int,
    symbols: Sequence[Symbol] = (),
    names: Mapping[str, str] = MappingProxyType({}),
) -> Lowered:
    """The program of a module that is lowered already. `names`: variable -> the model's own name of it. Raises
    InputError where it is not."""
    return _ProgramReader(module, input_count, symbols, names).lowered()


def _operators(input_count: int, symbols: Sequence[Symbol], module: tvm.IRModule) -> dict[str, Operator]:
    """Of a lowered module, by the PrimFunc that each is of; where one is several, at other sizes, the first."""
    return _ProgramReader(module, input_count, symbols, {}).by_function()


class _ProgramReader:
    """Reads a lowered `main`: bindings that are call_tir, reshape or tuple access, nothing else."""

    def __init__(
        self, module: tvm.IRModule, input_count: int, symbols: Sequence[Symbol], names: Mapping[str, str]
    ) -> None:
        self._module = module
        self._names = names
        self._main = module["main"]
        self._input_count = input_count
        self._symbols = tuple(symbols)
        self._sizes = _symbols_of(self._main.params[:input_count], symbols)
        self._values: dict[str, SymbolicValue] = {}
        self._nodes: list[Node] = []
        # Relax variables are compared by identity; one may stand for several values (a tuple).
        self._of_var: dict[Any, list[str]] = {}
        self._arguments: list[str] = []
        self._kernels: dict[tuple[str, str], str] = {}
        """PrimFunc and what its sizes are, as text -> kernel."""
        self._operators: dict[str, Operator] = {}
        self._constants: dict[str, np.ndarray] = {}
        self._lifted: dict[tuple[SymbolicType, str], str] = {}

    def lowered(self) -> Lowered:
        for position, parameter in enumerate(self._main.params):
            kind = ValueKind.INPUT if position < self._input_count else ValueKind.PARAMETER
            self._arguments += self._declare(parameter, kind)
        structural_walk(self._main.body, (tvm.ir.GenericConst, self._lift))
        for block in self._main.body.blocks:
            for binding in block.bindings:
                self._read(binding)
        outputs = self._resolve(self._main.body.body)
        inputs = self._arguments[: self._input_count]
        function = Function(self._values, self._nodes, tuple(inputs), tuple(outputs))
        model = ModelProgram(self._symbols, {MAIN: function})
        model.check()
        return Lowered(model, [*self._arguments, *self._constants], self._constants, [*self._operators.values()])

    def by_function(self) -> dict[str, Operator]:
        found: dict[str, Operator] = {}
        self.lowered()
        for (function, _), kernel in self._kernels.items():
            found.setdefault(function, self._operators[kernel])
        return found

    def _lift(self, constant: Any) -> None:
        """A tensor in main's body is a parameter, equal ones the same one: a suite stores tensors as files."""
        # np.ascontiguousarray would turn a scalar into one dimension.
        array = np.asarray(constant.value.numpy(), order="C")
        tensor_type = SymbolicType(array.shape, str(array.dtype))
        key = tensor_type, sha256(array.tobytes())
        if key not in self._lifted:
            self._lifted[key] = self._add(f"constant{len(self._constants)}", tensor_type, ValueKind.PARAMETER)
            self._constants[self._lifted[key]] = array
        self._of_var[constant] = [self._lifted[key]]

    def _declare(self, var: Any, kind: ValueKind) -> list[str]:
        types = self._tensor_types(var.ty, var.name)
        ids = []
        own = self._names.get(var.name, var.name)
        for number, tensor_type in enumerate(types):
            name = own if len(types) == 1 else f"{own}.{number}"
            ids.append(self._add(name, tensor_type, kind))
        self._of_var[var] = ids
        return ids

    def _add(self, name: str, tensor_type: SymbolicType, kind: ValueKind) -> str:
        value = SymbolicValue(f"v{len(self._values):03d}", name, tensor_type, kind)
        self._values[value.id] = value
        return value.id

    def _read(self, binding: Any) -> None:
        if not isinstance(binding, relax.VarBinding):
            raise InputError(f"{binding.var.name}: a value whose shape is only known at run time cannot be carved")
        var, expression = binding.var, binding.value
        if isinstance(expression, relax.TupleGetItem):
            self._of_var[var] = [self._resolve(expression.tuple_value)[expression.index]]
            self._call(var)
        elif isinstance(expression, relax.Tuple | relax.Var):
            self._of_var[var] = self._resolve(expression)
            self._call(var)
        elif isinstance(expression, tvm.ir.Call):
            self._read_call(var, expression)
        else:
            raise InputError(f"{var.name}: tapml cannot carve a {type(expression).__name__}")

    def _call(self, var: Any) -> None:
        """A result that has the model's own name only where it is picked out of several has it from the beginning."""
        (value, *others), name = self._of_var[var], self._names.get(var.name)
        known = self._values[value]
        if name and not others and known.kind is ValueKind.INTERMEDIATE and known.name not in self._names.values():
            self._values[value] = replace(known, name=name)

    def _read_call(self, var: Any, call: Any) -> None:
        operator = call.op.name if isinstance(call.op, tvm.ir.Op) else str(call.op)
        outputs = self._declare(var, ValueKind.INTERMEDIATE)
        if operator == "relax.call_tir":
            function, fields = call.args[0].name_hint, list(call.args[1].fields)
            # A scalar among the operands is a size that no operand's shape tells.
            operands = [v for found in fields if not tvm.ir.is_prim_expr(found) for v in self._resolve(found)]
            sizes = self._sizes_of_call(
                function, [*fields, *(call.args[2].values if len(call.args) > 2 else ())], outputs
            )
            kind, kernel = NodeKind.KERNEL, self._kernel(function, sizes, operands, outputs)
        elif operator == "relax.call_dps_packed":
            operands = self._resolve(call.args[1])
            kind, kernel = NodeKind.KERNEL, self._external(call.args[0].global_symbol, operands, outputs)
        elif operator == "relax.reshape":
            kind, kernel, operands = NodeKind.VIEW, "reshape", self._resolve(call.args[0])
        else:
            raise InputError(f"operator {operator} (at {var.name}) could not be lowered to a kernel")
        node = f"n{len(self._nodes):03d}"
        self._nodes.append(Node(node, kind, kernel, tuple(operands), tuple(outputs)))

    def _sizes_of_call(self, function: str, fields: list[Any], outputs: list[str]) -> dict[Any, Any]:
        """What the PrimFunc's variables of sizes are at this call."""
        sizes: dict[Any, Any] = {}
        scalars = [field for field in fields if tvm.ir.is_prim_expr(field)]
        tensors = [v for field in fields if not tvm.ir.is_prim_expr(field) for v in self._resolve(field)] + outputs
        for parameter in self._module[function].params:
            shape = getattr(parameter.ty, "shape", None)
            if shape is None:
                sizes[parameter] = expression_of(scalars.pop(0), self._sizes.get)
                continue
            for axis, size in zip(shape, self._values[tensors.pop(0)].type.shape, strict=True):
                if tvm.ir.is_prim_var(axis):
                    sizes.setdefault(axis, size)
        return sizes

    def _kernel(self, function: str, sizes: dict[Any, Any], operands: list[str], outputs: list[str]) -> str:
        key = function, repr([*sizes.values()])
        if key not in self._kernels:
            others = sum(known == function for known, _ in self._kernels)
            name = short_name(function)
            kernel = self._kernels[key] = f"{name}_{others}" if others else name
            prim_func = self._module[function]
            used = {symbol for expression in sizes.values() for symbol in symbols_of(expression)}
            symbols = [symbol for symbol in self._symbols if symbol.name in used]
            names = [parameter.name for parameter in prim_func.params if parameter not in sizes]
            arguments = self._described(names, operands, outputs)
            self._operators[kernel] = Operator(kernel, symbols, arguments, prim_func, sizes)
        return self._kernels[key]

    def _external(self, text: str, operands: list[str], outputs: list[str]) -> str:
        """The kernel of an operator that is computed elsewhere, on values of these types."""
        external = external_of(text)
        types = [self._values[value].type for value in (*operands, *outputs)]
        if any(symbols_of(axis) for found in types for axis in found.shape):
            raise InputError(
                f"{external.name} is computed by {external.who}, which is done at fixed sizes only: carve the model at "
                "one length, with fixed input shapes"
            )
        key = text, repr(types)
        if key not in self._kernels:
            # Names of files, which not every system tells apart by their case.
            taken = {name.casefold() for name in (*self._operators, *(gv.name_hint for gv in self._module.functions))}
            names = (f"{external.name}_{number}" if number else external.name for number in itertools.count())
            kernel = self._kernels[key] = next(name for name in names if name.casefold() not in taken)
            places = [f"input{n}" for n in range(len(operands))] + [f"output{n}" for n in range(len(outputs))]
            arguments = self._described(places, operands, outputs)
            self._operators[kernel] = Operator(kernel, (), arguments, None, {}, external)
        return self._kernels[key]

    def _described(self, names: list[str], operands: list[str], outputs: list[str]) -> list[dict[str, Any]]:
        """An operator's arguments, as a kernel's document has them."""
        roles = ["input"] * len(operands) + ["output"] * len(outputs)
        types = [self._values[value].type for value in (*operands, *outputs)]
        return [
            {"name": name, "dtype": found.dtype, "shape": list(found.shape), "role": role}
            for name, found, role in zip(names, types, roles, strict=True)
        ]

    def _resolve(self, expression: Any) -> list[str]:
        if isinstance(expression, relax.Tuple):
            return [value for field in expression.fields for value in self._resolve(field)]
        try:
            return self._of_var[expression]
        except KeyError:
            raise InputError(f"tapml cannot carve the expression {str(expression)[:80]!r}") from None

    def _tensor_types(self, ty: Any, name: str) -> list[SymbolicType]:
        if isinstance(ty, relax.TupleType):
            return [t for field in ty.fields for t in self._tensor_types(field, name)]
        shape = getattr(ty, "shape", None)
        if not isinstance(ty, relax.TensorType) or shape is None:
            raise InputError(f"{name} is no tensor of known rank but {ty}")
        try:
            return [SymbolicType(tuple(expression_of(axis, self._sizes.get) for axis in shape), str(ty.dtype))]
        except (TypeError, ExpressionError):
            raise InputError(f"{name} has the shape {shape}, which depends on data: give fixed input shapes") from None


def _symbols_of(inputs: Sequence[Any], symbols: Sequence[Symbol]) -> dict[Any, str]:
    """The variables among the sizes of main's inputs: each is the symbol of its name."""
    found = {axis: str(axis.name) for var in inputs for axis in var.ty.shape or () if tvm.ir.is_prim_var(axis)}
    declared = {symbol.name for symbol in symbols}
    for name in found.values():
        if name not in declared:
            raise InputError(f"the inputs have a size {name}, which is not known: give fixed input shapes")
    return found


def short_name(name: str) -> str:
    """TVM names a fused operator after all that it is made of; a kernel's name is that of its files, too."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 9].rstrip('_')}_{sha256(name)[:8]}"
