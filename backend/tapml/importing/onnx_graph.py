"""TVM's ONNX importer, with everything that depends on shapes alone computed beside it.

Exports compute shapes inside the graph (Shape, Gather, Concat, Reshape...), and TVM's importer needs to know them when
it meets their consumers. Here each value that depends neither on an input's values nor on a weight is computed as soon
as it is met: as an array, or, where sizes are symbols, as expressions over them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import tvm
from tvm import relax
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from tapml.errors import InputError
from tapml.importing.activations import rounded_by_call
from tapml.importing.external import call_of_onnx
from tapml.importing.model import Array, Functions
from tapml.importing.named import with_names
from tapml.importing.onnx_control import ControlFlow
from tapml.importing.onnx_counted import CHOOSING, Counts
from tapml.importing.onnx_file import CONTROL_FLOW, described, fill_in, known
from tapml.importing.onnx_operands import Operands
from tapml.importing.onnx_operators import converter
from tapml.importing.onnx_rounded import Rounded
from tapml.importing.onnx_run import read_by
from tapml.importing.onnx_turns import Turns
from tapml.importing.onnx_values import Known, evaluate, is_weight, symbolic, tensor_of
from tapml.importing.relax_ir import Expr, elements
from tapml.importing.sizes import Sizes
from tapml.lowering.quiet import reason

_MOST_NOTES = 20


class GraphImporter(ONNXGraphImporter):  # type: ignore[misc]  # TVM has no types
    """`from_onnx` as TVM's, for one model. Raises InputError naming the operator that cannot be imported."""

    def __init__(self, sizes: Sizes, opsets: Any, functions: Functions, turns: Turns, rounded: Rounded) -> None:
        """`functions` compute the operators of their names; what TVM lacks, or fails to convert, ONNX Runtime does.
        `turns`: of loops whose number of turns depends on values."""
        super().__init__(sizes.shapes, "float32", sanitize=False)
        self._sizes = sizes
        self._opsets = opsets
        self._versions = {entry.domain: entry.version for entry in opsets}
        self._functions = functions
        self._rounded = rounded
        self._known: dict[str, Known] = {}
        self._failed: dict[str, str] = {}
        self._control = ControlFlow(self, self._versions, turns)
        self._counts = Counts(self, self._versions)
        self._held: dict[str, Array] | None = None
        self._named: dict[Any, str] = {}
        """Variable -> the value's name in the file."""

    @property
    def computed(self) -> list[tuple[str, Array]]:
        """The arrays that were computed, by name."""
        return [(name, found.array) for name, found in self._known.items() if not found.symbolic]

    @property
    def held(self) -> Mapping[str, Array]:
        """The model's float32 weights by name, which are the module's constants themselves."""
        return self._held or {}

    @property
    def notes(self) -> list[str]:
        """What nobody asked for: operators that have no kernel because their conversion failed."""
        notes = list(self._failed.values())
        more = len(notes) - _MOST_NOTES
        return [
            *notes[:_MOST_NOTES],
            *([f"and {more} further operators that could not be converted"] if more > 0 else []),
        ]

    @property
    def counted_outputs(self) -> dict[str, tuple[int, int]]:
        """Outputs with a count: their counted axes, and how long they are there (`Counts.outputs`)."""
        return self._counts.outputs

    @property
    def causes(self) -> Mapping[str, str]:
        """The last outputs: of loops that may need more turns than there are (`ControlFlow.causes`)."""
        return self._control.causes

    def named(self, module: Any) -> tuple[Any, dict[str, str]]:
        """The module that was made, with variables that keep their names from one pass to the next; and of each the
        value's name in the file, for people."""
        return with_names(module, self._named)

    def _parse_graph_initializers(self, graph: Any) -> None:
        from onnx import numpy_helper

        super()._parse_graph_initializers(graph)
        if self._held is None:  # of the model; what follows are graphs inside nodes
            floats = [t.name for t in graph.initializer if is_weight(t) and t.data_type == t.FLOAT]
            self._held = {name: elements(self._nodes[name]) for name in floats}
        for tensor in graph.initializer:
            if not is_weight(tensor):
                self._known[tensor.name] = Known.of(numpy_helper.to_array(tensor))

    def _construct_nodes(self, graph: Any) -> None:
        self._construct(graph)
        self._counts.add_to_outputs(graph)
        self._control.add_to_outputs(graph)

    def _construct(self, graph: Any) -> None:
        for node in graph.node:
            place = node.name or next(filter(None, node.output), None)
            try:
                self._add(node)
            except InputError as error:
                error.at(node.op_type, place)
                raise
            except Exception as error:  # TVM and its importer raise their own types, without a common base
                why = reason(error)
                raise InputError(
                    f"TVM's ONNX importer cannot convert the operator {node.op_type} (at {place}): {why}",
                    operator=node.op_type,
                    node=place,
                    reason=why,
                ) from error
        for output in getattr(graph, "output", ()):
            self._declare(output.name)

    def _add(self, node: Any) -> None:
        if node.op_type in CONTROL_FLOW:
            self._branch(node)
        elif (found := self._evaluate(node)) is not None:
            self._known.update(zip(node.output, found, strict=True))
        elif node.op_type in CHOOSING and node.domain in ("", "ai.onnx") and node.op_type not in self._functions:
            self._counts.choose(node, *self._operands(node))
        else:
            if (data := self._rounded.data.get(node.output[0])) is None:
                self._convert(node)
            else:
                self._nodes[node.output[0]] = rounded_by_call(self.bb, self._nodes[data])
            self._name(node)
            self._counts.follow(node, lambda: self._parse_attr(node.attribute))

    def _branch(self, node: Any) -> None:
        """Control flow joins what its branches and turns give without a look at counts."""
        before = len(self._counts)
        counted_rows = self._control.convert(node)
        taken = node.op_type == "If" and node.input[0] in self._known
        counted = next((name for name in read_by(node) if self._counts.of(name) is not None), None)
        if not taken and (counted is not None or len(self._counts) > before):
            raise self._counts.refuse(node, counted or "a tensor of its own", "it joins several")
        for name, found in counted_rows.items():
            self._counts.add(name, found)

    def _evaluate(self, node: Any) -> list[Known] | None:
        """A node's outputs, where they depend on shapes only."""
        if node.op_type in ("Shape", "Size"):
            if self._counts.of(node.input[0]) is not None:
                raise self._counts.refuse(node, node.input[0], "what it gives would depend on them too")
            known = self._known.get(node.input[0])
            shape = list(known.array.shape) if known else self._axes_of(node.input[0])
            if node.op_type == "Size":
                return [symbolic([self._sizes.simplified(math.prod(shape))], ())]
            ends = {a.name: a.i for a in node.attribute}
            chosen = shape[ends.get("start", 0) : ends.get("end")]
            return [symbolic(chosen, (len(chosen),))]
        if not all(name in self._known for name in read_by(node)):
            return None
        if node.op_type == "Constant" and any(a.name == "value" and is_weight(a.t) for a in node.attribute):
            return None
        return evaluate(node, [self._known.get(name) for name in node.input], self._sizes, self._opsets)

    # ------------------------------------------------ what control flow and counts need of the graph

    @property
    def builder(self) -> Expr:
        return self.bb

    @property
    def sizes(self) -> Sizes:
        return self._sizes

    def enter(self, graph: Any) -> None:
        self._parse_graph_initializers(graph)

    def add(self, nodes: Any) -> None:
        self._construct(SimpleNamespace(node=nodes))

    def value(self, name: str) -> Any:
        return self._known.get(name, self._nodes.get(name))

    def bind(self, name: str, value: Any) -> None:
        self._nodes.pop(name, None)
        self._known.pop(name, None)
        if isinstance(value, Known):
            self._known[name] = value
        elif value is not None:
            self._nodes[name] = value

    def tensor(self, value: Any) -> Expr:
        return tensor_of(self.bb, value) if isinstance(value, Known) else value

    # ------------------------------------------------ nodes

    def _convert(self, node: Any) -> None:
        """Add a node to TVM's module."""
        for name in read_by(node):
            self._declare(name)
        failure: Exception | None = None
        if node.op_type not in self._functions and known(node):
            try:
                self._convert_known(node)
                return
            except Exception as error:  # TVM and its importer raise their own types, without a common base
                failure = error
        inputs = [self._nodes[name] if name else None for name in node.input]
        try:
            self._nodes.update(call_of_onnx(node, inputs, self._versions, self._functions, self.bb))
        except InputError as error:
            # Who has never heard of it need not be quoted.
            unknown = re.search(r"not a registered function|No Op registered|Domain .* not found", str(error))
            why = "ONNX Runtime and ONNX's reference implementation lack it, too" if unknown else error.reason or error
            function = "a Python function that computes it with --external FILE.py"
            if error.reason is not None and not unknown:
                function = f"inputs of one size (and, where ONNX Runtime lacks it, too, {function})"
            raise failure or InputError(
                f"TVM's ONNX importer lacks the operator {described(node, self._versions)}, and {why}: export the "
                f"model without it, or give {function}"
            ) from error
        if failure is not None:
            place = node.name or next(filter(None, node.output), "")
            self._failed[place] = (
                f"{node.op_type} (at {place}) is computed elsewhere and has no kernel, for it could not be converted: "
                f"{reason(failure)}"
            )

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        """They are computed elsewhere."""

    def _name(self, node: Any) -> None:
        """What a node gives is of a variable each, so that it has a name. An alias keeps that of what it stands for."""
        for name in filter(None, node.output):
            value = self._nodes.get(name)
            if isinstance(value, tvm.ir.Call | relax.TupleGetItem) and isinstance(value.ty, relax.TensorType):
                value = self._nodes[name] = self.bb.emit(value)
            if isinstance(value, relax.DataflowVar):
                self._named.setdefault(value, name)

    def _convert_known(self, node: Any) -> None:
        convert = converter(node)
        result = convert(self.bb, *self._operands(node)) if convert else None
        if result is None:
            super()._construct_nodes(SimpleNamespace(node=[node]))
            return
        results = result if isinstance(result, list) else [result]
        self._nodes.update(
            (name, self.bb.normalize(found))
            for name, found in zip(node.output, results, strict=False)
            if name and found is not None
        )

    def _operands(self, node: Any) -> tuple[Operands, dict[str, Any]]:
        """What a converter takes besides the builder: operands, and attributes."""
        for name in read_by(node):
            self._declare(name)
        fill_in(node, self._versions.get(node.domain, 1))
        inputs = Operands(
            f"{node.op_type} (at {node.output[0]})",
            [self._nodes[name] if name else None for name in node.input],
            [self._known.get(name) for name in node.input],
            [self._control.varies(name) for name in node.input],
            self._sizes,
        )
        return inputs, {**self._parse_attr(node.attribute), "outputs": len(node.output)}

    def _declare(self, name: str) -> None:
        """Make a known value one of TVM's module, unless it is one."""
        if name not in self._known or name in self._nodes:
            return
        self._nodes[name] = tensor_of(self.bb, self._known[name])

    def _axes_of(self, name: str) -> list[Any]:
        """Of a tensor. Raises InputError where it depends on data."""
        shape = getattr(getattr(self._nodes[name], "ty", None), "shape", None)
        if not isinstance(shape, relax.ShapeExpr):
            raise InputError(f"the shape of {name} depends on the values of the input: tapml needs shapes of sizes")
        return [self._sizes.simplified(axis) for axis in shape.values]
