"""The dispatches a kernel's host function makes: buffers, uniforms and grid of each, sizes as expressions."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from tapml.compilers.tvm.folding import GRID_UNIFORM, folded
from tapml.errors import TapmlError
from tapml.expressions import ExpressionError
from tapml.lowering.operator import Operator
from tapml.lowering.sizes import expression_of
from tapml.program.graph import numpy_dtype


class LaunchError(TapmlError):
    """The host function does something this reader does not know, or the grid depends on data."""


class LaunchPlan:
    """What an operator's host function does: `launches` as the protocol's Launch objects, `temporaries` in bytes; sizes
    in both are expressions."""

    def __init__(self, host: Any, info: dict[str, Any], operator: Operator) -> None:
        """Read the split host function (after tirx.SplitHostDevice) of a kernel.

        `info` is the WebGPU module's func_info: entry point -> {arg_types, launch_param_tags}. The entry point's
        argument order is not the PrimFunc's; only the host function tells which buffer goes where.
        """
        self._info = info
        self._analyzer = tvm.sym.Analyzer()
        parameters = zip(host.params, operator.prim_func.params, strict=True)
        self._parameters = [found for found, declared in parameters if declared not in operator.sizes]
        self._sizes = {str(variable.name): expression for variable, expression in operator.sizes.items()}
        self._declared: list[tuple[Any, Any]] = []
        self._allocated: list[Any] = []
        self.launches: list[dict[str, Any]] = []
        self.temporaries: list[Any] = []
        self._statement(host.body)

    def _statement(self, statement: Any) -> None:
        kind = type(statement).__name__
        if kind == "SeqStmt":
            for part in statement.seq:
                self._statement(part)
        elif kind == "Bind":
            self._analyzer.bind(statement.var, statement.value)
        elif kind == "DeclBuffer":
            self._declared.append((statement.buffer, statement.data))
        elif kind == "AttrStmt":
            self._statement(statement.body)
        elif kind == "AllocBuffer":
            self._allocate(statement.buffer)
        elif kind == "Evaluate" and isinstance(statement.value, tvm.ir.Call):
            self._call(statement.value)
        elif kind != "Evaluate":
            raise LaunchError(f"the host code has a {kind}, which cannot be planned ahead")

    def _allocate(self, buffer: Any) -> None:
        size: Any = numpy_dtype(str(buffer.dtype)).itemsize
        for extent in buffer.shape:
            found = self._expression(extent, "a scratch buffer's size")
            size = size * found if isinstance(size, int) and isinstance(found, int) else ["mul", size, found]
        self._allocated.append(buffer)
        self.temporaries.append(size)

    def _call(self, call: Any) -> None:
        if "call_ffi_kernel" not in str(call.op):
            raise LaunchError(f"the host code calls {str(call.op)[:60]}, which cannot be planned ahead")
        entry_point = call.args[0].value
        info = self._info[entry_point]
        types, operands = info["arg_types"], list(call.args)[1:]
        given = list(zip(types, operands, strict=False))
        axes = [tag for tag in info["launch_param_tags"] if not tag.startswith("param")]
        extents = {
            axis: self._expression(value, f"{entry_point}'s {axis}")
            for axis, value in zip(axes, operands[len(types) :], strict=False)
        }
        x, y, z = (extents.get(f"blockIdx.{axis}", 1) for axis in "xyz")
        if z != 1:
            # The guard that TVM writes for folded grids ends all workgroups but those of the first plane.
            raise LaunchError(f"{entry_point} has a grid along z, where TVM's code folds x to")
        uniforms = [self._uniform(operand, dtype, n) for n, (dtype, operand) in enumerate(given) if dtype != "handle"]
        columns, rows = folded(x)
        self.launches.append(
            {
                "entry_point": entry_point,
                "operands": [self._operand(operand) for dtype, operand in given if dtype == "handle"],
                "uniforms": [*uniforms, {"name": GRID_UNIFORM, "dtype": "uint32", "value": x}],
                "grid": [columns, y, rows],
            }
        )

    def _uniform(self, operand: Any, dtype: str, number: int) -> dict[str, Any]:
        if dtype not in ("float32", "int32", "uint32"):
            raise LaunchError(f"a scalar argument is {dtype}, which WGSL has no uniform of")
        name = str(getattr(operand, "name", f"scalar{number}"))
        real = isinstance(operand, tirx.FloatImm)
        value = float(operand.value) if real else self._expression(operand, "a scalar argument")
        return {"name": name, "dtype": dtype, "value": value}

    def _operand(self, operand: Any) -> dict[str, Any]:
        root = self._root(operand)
        for position, parameter in enumerate(self._parameters):
            if parameter.same_as(root):
                return {"argument": position}
        for position, buffer in enumerate(self._allocated):
            if buffer.same_as(root) or buffer.data.same_as(root):
                return {"temporary": position}
        raise LaunchError(f"the buffer {root} is neither an argument nor a scratch buffer")

    def _root(self, expression: Any) -> Any:
        """The parameter (or scratch buffer) that a buffer-data expression leads back to."""
        while True:
            if isinstance(expression, tvm.ir.Call):
                expression = expression.args[0]
                continue
            source = next((data for buffer, data in self._declared if buffer.same_as(expression)), None)
            if source is None:
                return expression
            expression = source

    def _size(self, variable: Any) -> Any:
        # By name, for passes make variables anew.
        return self._sizes.get(str(variable.name))

    def _expression(self, value: Any, what: str) -> Any:
        """A number of the host function as an expression over the symbols of its shapes."""
        try:
            return expression_of(value if isinstance(value, int) else self._analyzer.simplify(value), self._size)
        except ExpressionError as error:
            raise LaunchError(f"{what} is {value}, which depends on data ({error})") from None
