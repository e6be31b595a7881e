"""The dispatches a kernel's host function makes: grid, buffers and scalars of each, as constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx

from tapml.errors import TapmlError
from tapml.graph.model import TensorType

_AXES = "xyz"


class LaunchError(TapmlError):
    """The host function does something this reader does not know, or the grid depends on data."""


@dataclass(frozen=True)
class LaunchPlan:
    """`launches` as the protocol's Launch objects; `temporaries` are sizes in bytes of scratch buffers."""

    launches: list[dict[str, Any]]
    temporaries: list[int]


def plan_launches(host: Any, info: dict[str, Any]) -> LaunchPlan:
    """Read the split host function (after tirx.SplitHostDevice) of a kernel with static shapes.

    `info` is the WebGPU module's func_info: entry point -> {arg_types, launch_param_tags}. The entry point's
    argument order is not the PrimFunc's; only the host function tells which buffer goes where.
    """
    return _Reader(host, info).plan()


class _Reader:
    def __init__(self, host: Any, info: dict[str, Any]) -> None:
        self._host = host
        self._info = info
        self._analyzer = tvm.sym.Analyzer()
        self._parameters = list(host.params)
        self._declared: list[tuple[Any, Any]] = []
        self._allocated: list[Any] = []
        self._launches: list[dict[str, Any]] = []
        self._temporaries: list[int] = []

    def plan(self) -> LaunchPlan:
        self._statement(self._host.body)
        return LaunchPlan(self._launches, self._temporaries)

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
        shape = tuple(int(self._constant(extent, "a scratch buffer's size")) for extent in buffer.shape)
        self._allocated.append(buffer)
        self._temporaries.append(TensorType(shape, str(buffer.dtype)).nbytes)

    def _call(self, call: Any) -> None:
        if "call_ffi_kernel" not in str(call.op):
            raise LaunchError(f"the host code calls {str(call.op)[:60]}, which cannot be planned ahead")
        entry_point = call.args[0].value
        info = self._info[entry_point]
        operands = list(call.args)[1:]
        count = len(info["arg_types"])
        arguments = [
            self._argument(operand, arg_type)
            for operand, arg_type in zip(operands[:count], info["arg_types"], strict=True)
        ]
        axes = [tag for tag in info["launch_param_tags"] if not tag.startswith("param")]
        extents = {
            axis: self._constant(value, f"{entry_point}'s {axis}")
            for axis, value in zip(axes, operands[count:], strict=False)
        }
        self._launches.append(
            {
                "entry_point": entry_point,
                "arguments": arguments,
                "dispatch": [extents.get(f"blockIdx.{axis}", 1) for axis in _AXES],
                "workgroup_size": [extents.get(f"threadIdx.{axis}", 1) for axis in _AXES],
            }
        )

    def _argument(self, operand: Any, arg_type: str) -> dict[str, Any]:
        if arg_type != "handle":
            return {"scalar": self._constant(operand, "a scalar argument"), "dtype": arg_type}
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

    def _constant(self, expression: Any, what: str) -> int | float:
        value = self._analyzer.simplify(expression) if not isinstance(expression, int | float) else expression
        if isinstance(value, tirx.FloatImm):
            return float(value.value)
        try:
            return int(value)
        except (TypeError, ValueError):
            raise LaunchError(f"{what} is {value}, which depends on data") from None
