"""From a Relax module to fused operators (one PrimFunc each) and the graph that calls them.

The same lowered module is built for the reference platform and for the target, so a difference between the two
comes from code generation, runtime, driver or browser, never from a different graph.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tapml.errors import InputError
from tapml.graph import Graph, Node, NodeKind, TensorType, Value, ValueKind
from tapml.kernels.programs.document import to_json_text
from tapml.kernels.programs.program import Program
from tapml.kernels.programs.read import from_json
from tapml.kernels.programs.write import program_of
from tapml.kernels.quiet import quiet_tvm


@dataclass(frozen=True)
class Lowered:
    """A model as operators.

    `module` holds the Relax function "main" and one PrimFunc for each kernel; `arguments` are the value ids of
    main's arguments in order: inputs, then parameters, then what was written into main as a constant.
    `constants` holds the arrays of those last ones, by value id.
    `programs` has each kernel as data, where it was read from a suite or is to be written into one: native code
    (Reference) is then made of that, so that it stays inside its tensors.
    """

    module: tvm.IRModule
    graph: Graph
    arguments: list[str]
    constants: dict[str, np.ndarray]
    programs: Mapping[str, Program] = field(default_factory=dict)

    def kernel(self, name: str) -> Any:
        """The PrimFunc of a kernel: inputs, then the outputs it writes (destination passing)."""
        return self.module[name]


def lower(module: tvm.IRModule, input_count: int) -> Lowered:
    """Decompose, legalize and fuse `main`, then read the graph off it.

    `main` takes `input_count` inputs, then parameters, all tensors of static shape.
    Raises InputError for what no kernel can be made of (data-dependent shapes, calls out of TVM, control flow).
    """
    transform = relax.transform
    pipeline = tvm.ir.transform.Sequential(
        [
            transform.DecomposeOpsForInference(),
            transform.CanonicalizeBindings(),
            transform.LegalizeOps(),
            transform.AnnotateTIROpPattern(),
            transform.DeadCodeElimination(),
            transform.FuseOps(),
            transform.FuseTIR(),
            # A reshape that was not fused moves no bytes: it becomes a view, on every platform.
            transform.RewriteDataflowReshape(),
            transform.DeadCodeElimination(),
        ]
    )
    # Target-independent here (LegalizeOps gives the same PrimFuncs for both), but some passes want one in scope.
    with quiet_tvm(), tvm.target.Target("webgpu"):
        lowered, constants = _lift_constants(pipeline(module))
    found = read_lowered(lowered, input_count)
    lifted = found.arguments[len(found.arguments) - len(constants) :]
    return dataclasses.replace(found, constants=dict(zip(lifted, constants, strict=True)))


def with_programs(lowered: Lowered) -> Lowered:
    """The same with its kernels' programs as data, as a suite would give them back.

    Raises InputError for a kernel that a suite cannot hold.
    """
    texts = {name: to_json_text(program_of(name, lowered.kernel(name))) for name in lowered.graph.kernels}
    programs = {name: from_json(json.loads(text), name, f"operator {name}") for name, text in texts.items()}
    return dataclasses.replace(lowered, programs=programs)


def read_lowered(module: tvm.IRModule, input_count: int) -> Lowered:
    """The graph of a module that is lowered already. Raises InputError where it is not."""
    reader = _GraphReader(module, input_count)
    return Lowered(module, reader.graph(), reader.arguments, {})


@relax.expr_functor.mutator
class _ConstantsToParameters(relax.PyExprMutator):  # type: ignore[misc]  # TVM has no types
    """Tensors in a function's body become variables; equal ones become one.

    A suite stores tensors as files.
    """

    def __init__(self, module: tvm.IRModule) -> None:
        super().__init__(module)
        self.variables: list[Any] = []
        self.arrays: list[np.ndarray] = []

    def visit_generic_const_(self, constant: Any) -> Any:
        # np.ascontiguousarray would turn a scalar into one dimension.
        array = np.asarray(constant.value.numpy(), order="C")
        for variable, known in zip(self.variables, self.arrays, strict=True):
            if known.dtype == array.dtype and known.shape == array.shape and known.tobytes() == array.tobytes():
                return variable
        name = f"constant{len(self.variables)}"
        self.variables.append(relax.Var(name, relax.TensorType(array.shape, str(array.dtype))))
        self.arrays.append(array)
        return self.variables[-1]


def _lift_constants(module: tvm.IRModule) -> tuple[tvm.IRModule, list[np.ndarray]]:
    main = module["main"]
    mutator = _ConstantsToParameters(module)
    body = mutator.visit_expr(main.body)
    if not mutator.variables:
        return module, []
    function = relax.Function([*main.params, *mutator.variables], body, main.ret_ty, main.is_pure, main.attrs)
    functions = {gv: f for gv, f in module.functions.items() if gv.name_hint != "main"}
    return tvm.IRModule({**functions, module.get_global_var("main"): function}), mutator.arrays


class _GraphReader:
    """Reads a lowered `main`: bindings that are call_tir, reshape or tuple access, nothing else."""

    def __init__(self, module: tvm.IRModule, input_count: int) -> None:
        self._main = module["main"]
        self._input_count = input_count
        self._values: dict[str, Value] = {}
        self._nodes: list[Node] = []
        # Relax variables are compared by identity; one may stand for several values (a tuple).
        self._of_var: dict[Any, list[str]] = {}
        self.arguments: list[str] = []

    def graph(self) -> Graph:
        for position, parameter in enumerate(self._main.params):
            kind = ValueKind.INPUT if position < self._input_count else ValueKind.PARAMETER
            self.arguments += self._declare(parameter, kind)
        for block in self._main.body.blocks:
            for binding in block.bindings:
                self._read(binding)
        outputs = self._resolve(self._main.body.body)
        inputs = self.arguments[: self._input_count]
        graph = Graph(self._values, self._nodes, tuple(inputs), tuple(outputs))
        graph.check()
        return graph

    def _declare(self, var: Any, kind: ValueKind) -> list[str]:
        types = _tensor_types(var.ty, var.name)
        ids = []
        for number, tensor_type in enumerate(types):
            name = var.name if len(types) == 1 else f"{var.name}.{number}"
            ids.append(self._add(name, tensor_type, kind))
        self._of_var[var] = ids
        return ids

    def _add(self, name: str, tensor_type: TensorType, kind: ValueKind) -> str:
        value = Value(f"v{len(self._values):03d}", name, tensor_type, kind)
        self._values[value.id] = value
        return value.id

    def _read(self, binding: Any) -> None:
        if not isinstance(binding, relax.VarBinding):
            raise InputError(f"{binding.var.name}: a value whose shape is only known at run time cannot be carved")
        var, expression = binding.var, binding.value
        if isinstance(expression, relax.TupleGetItem):
            self._of_var[var] = [self._resolve(expression.tuple_value)[expression.index]]
        elif isinstance(expression, relax.Tuple | relax.Var):
            self._of_var[var] = self._resolve(expression)
        elif isinstance(expression, tvm.ir.Call):
            self._read_call(var, expression)
        else:
            raise InputError(f"{var.name}: tapml cannot carve a {type(expression).__name__}")

    def _read_call(self, var: Any, call: Any) -> None:
        operator = call.op.name if isinstance(call.op, tvm.ir.Op) else str(call.op)
        if operator == "relax.call_tir" and len(call.args) == 2:
            kind, kernel, operands = NodeKind.KERNEL, call.args[0].name_hint, self._resolve(call.args[1])
        elif operator == "relax.reshape":
            kind, kernel, operands = NodeKind.VIEW, "reshape", self._resolve(call.args[0])
        else:
            raise InputError(f"operator {operator} (at {var.name}) could not be lowered to a kernel")
        outputs = self._declare(var, ValueKind.INTERMEDIATE)
        node = f"n{len(self._nodes):03d}"
        self._nodes.append(Node(node, kind, kernel, tuple(operands), tuple(outputs)))

    def _resolve(self, expression: Any) -> list[str]:
        if isinstance(expression, relax.Tuple):
            return [value for field in expression.fields for value in self._resolve(field)]
        try:
            return self._of_var[expression]
        except KeyError:
            raise InputError(f"tapml cannot carve the expression {str(expression)[:80]!r}") from None


def _tensor_types(ty: Any, name: str) -> list[TensorType]:
    if isinstance(ty, relax.TupleType):
        return [t for field in ty.fields for t in _tensor_types(field, name)]
    shape = getattr(ty, "shape", None)
    if not isinstance(ty, relax.TensorType) or shape is None:
        raise InputError(f"{name} is no tensor of known rank but {ty}")
    try:
        return [TensorType(tuple(int(d) for d in shape), str(ty.dtype))]
    except (TypeError, ValueError):
        raise InputError(f"{name} has the shape {shape}, which depends on data: give fixed input shapes") from None
