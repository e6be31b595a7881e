"""TVM's ONNX importer, with everything that depends on shapes alone computed beside it.

Exports compute shapes inside the graph (Shape, Gather, Concat, Reshape...), and TVM's importer needs to know them when
it meets their consumers. Here each value that depends neither on an input's values nor on a weight is computed as soon
as it is met: as an array, or, where sizes are symbols, as expressions over them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from tapml.errors import InputError
from tapml.importing.compacting import Counted, masked
from tapml.importing.external import call_of_onnx
from tapml.importing.model import Array, Functions
from tapml.importing.onnx_control import ControlFlow
from tapml.importing.onnx_counted import CHOOSING, Call, Mixed, count_name, counted_axis, refusal
from tapml.importing.onnx_file import CONTROL_FLOW, described, fill_in, known
from tapml.importing.onnx_moves import strided
from tapml.importing.onnx_operators import OPERATORS
from tapml.importing.onnx_quantized import MICROSOFT
from tapml.importing.onnx_run import read_by
from tapml.importing.onnx_sequence import places
from tapml.importing.onnx_values import Known, evaluate, is_weight, symbolic
from tapml.importing.relax_ir import Expr, static_shape, tensor_dtype
from tapml.importing.sizes import Sizes, integer
from tapml.lowering.quiet import reason


class GraphImporter(ONNXGraphImporter):  # type: ignore[misc]  # TVM has no types
    """`from_onnx` as TVM's, for one model. Raises InputError naming the operator that cannot be imported."""

    def __init__(self, sizes: Sizes, opsets: Any, functions: Functions) -> None:
        """`functions` compute the operators of their names; what TVM lacks, or fails to convert, ONNX Runtime does."""
        super().__init__(sizes.shapes, "float32", sanitize=False)
        self._sizes = sizes
        self._opsets = opsets
        self._versions = {entry.domain: entry.version for entry in opsets}
        self._functions = functions
        self._known: dict[str, Known] = {}
        self._control = ControlFlow(self, self._versions)
        self._counts: dict[Expr, Counted] = {}
        """Of tensors that are as long as they could be."""
        self.counted_outputs: dict[str, tuple[int, int]] = {}
        """Outputs of the graph with a count, which is an output as well (`count_name`): their counted axes, and how
        long they are there."""

    @property
    def computed(self) -> list[tuple[str, Array]]:
        """The arrays that were computed, by name."""
        return [(name, found.array) for name, found in self._known.items() if not found.symbolic]

    def _parse_graph_initializers(self, graph: Any) -> None:
        from onnx import numpy_helper

        super()._parse_graph_initializers(graph)
        for tensor in graph.initializer:
            if not is_weight(tensor):
                self._known[tensor.name] = Known.of(numpy_helper.to_array(tensor))

    def _construct_nodes(self, graph: Any) -> None:
        self._construct(graph)
        self._add_counts(graph)

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
            self._choose(node)
        else:
            self._convert(node)
            self._count(node)

    def _branch(self, node: Any) -> None:
        """Control flow joins what its branches and turns give without a look at counts."""
        before = len(self._counts)
        self._control.convert(node)
        taken = node.op_type == "If" and node.input[0] in self._known
        counted = next((name for name in read_by(node) if self._counted(name) is not None), None)
        if not taken and (counted is not None or len(self._counts) > before):
            raise refusal(described(node, self._versions), counted or "a tensor of its own", "it joins several")

    def _counted(self, name: str) -> Counted | None:
        """The count of a value, where it has one."""
        return self._counts.get(self._nodes[name]) if name in self._nodes else None

    def _evaluate(self, node: Any) -> list[Known] | None:
        """A node's outputs, where they depend on shapes only."""
        if node.op_type in ("Shape", "Size"):
            if self._counted(node.input[0]) is not None:
                raise refusal(described(node, self._versions), node.input[0], "what it gives would depend on them too")
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

    # ------------------------------------------------ what control flow needs of the graph

    @property
    def builder(self) -> Expr:
        return self.bb

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
        return self._tensor(value) if isinstance(value, Known) else value

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
            raise failure or InputError(
                f"TVM's ONNX importer lacks the operator {described(node, self._versions)}, and {error}: export the "
                "model without it, or give a Python function that computes it with --external FILE.py"
            ) from error

    def _choose(self, node: Any) -> None:
        """Add a node whose outputs' sizes depend on data."""
        for name in read_by(node):
            self._declare(name)
            if self._counted(name) is not None:
                raise refusal(described(node, self._versions), name, "its result would be counted twice")
        fill_in(node, self._versions.get(node.domain, 1))
        inputs = [self._nodes[name] if name else None for name in node.input]
        attributes = {**self._parse_attr(node.attribute), "outputs": len(node.output)}
        results = CHOOSING[node.op_type](self.bb, inputs, attributes)
        for name, (found, counted) in zip(node.output, results, strict=True):
            self._nodes[name] = self.bb.normalize(found)
            if counted is not None:
                self._counts[self._nodes[name]] = counted

    def _count(self, node: Any) -> None:
        """Note where the counted axis of what a node reads is in its outputs. Raises InputError where it may not."""
        counts = [self._counted(name) for name in node.input]
        if not any(counts):
            return
        counted = next(found for found in counts if found is not None)
        name = next(name for name, found in zip(node.input, counts, strict=True) if found is not None)

        def numbers_of(operand: str) -> list[Any] | None:
            return self._known[operand].elements if operand in self._known else None

        try:
            axis = counted_axis(
                Call(
                    node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}",
                    self._parse_attr(node.attribute),
                    [static_shape(self._nodes[operand].ty) if operand else None for operand in node.input],
                    counts,
                    [numbers_of(operand) for operand in node.input],
                    [static_shape(self._nodes[output].ty) or () for output in node.output if output],
                )
            )
        except Mixed as error:
            raise refusal(described(node, self._versions), name, str(error)) from error
        made = Counted(counted.count, axis)
        self._counts.update((self._nodes[output], made) for output in node.output if output)

    def _add_counts(self, graph: Any) -> None:
        """Outputs with a count hold zeros behind it, and the count is an output, too."""
        from onnx import ValueInfoProto

        for name in [output.name for output in graph.output]:
            if (counted := self._counted(name)) is None:
                continue
            count, shape = count_name(name), static_shape(self._nodes[name].ty) or ()
            if count in self._nodes or count in self._known:
                raise InputError(f"the model has a value {count}, which is to be the count of {name}: rename it")
            self._nodes[name] = masked(self.bb, self._nodes[name], counted)
            self._nodes[count] = self.bb.emit(op.astype(counted.count, "int64"))
            self.counted_outputs[name] = counted.axis, shape[counted.axis]
            if all(output.name != count for output in graph.output):
                graph.output.append(ValueInfoProto(name=count))

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        """They are computed elsewhere."""

    def _convert_known(self, node: Any) -> None:
        converter = _CONVERTERS.get(node.op_type)
        result = converter(self, node) if converter else None
        result = self._by_operator(node) if result is None else result
        if result is None:
            super()._construct_nodes(SimpleNamespace(node=[node]))
            return
        results = result if isinstance(result, list) else [result]
        self._nodes.update(
            (name, self.bb.normalize(found)) for name, found in zip(node.output, results, strict=False) if name
        )

    def _by_operator(self, node: Any) -> Any:
        # TVM's has a kernel of its own for the normalization alone.
        alone = node.op_type == "LayerNormalization" and not any(node.output[1:])
        ours = OPERATORS if node.domain in ("", "ai.onnx") else MICROSOFT if node.domain == "com.microsoft" else {}
        if node.op_type not in ours or alone:
            return None
        if ours is OPERATORS:
            fill_in(node, self._versions.get(node.domain, 1))
        inputs = [self._nodes[name] if name else None for name in node.input]
        attributes = {**self._parse_attr(node.attribute), "outputs": len(node.output)}
        return ours[node.op_type](self.bb, inputs, attributes)

    def _declare(self, name: str) -> None:
        """Make a known value one of TVM's module, unless it is one."""
        if name not in self._known or name in self._nodes:
            return
        self._nodes[name] = self._tensor(self._known[name])

    def _tensor(self, found: Known) -> Expr:
        """A constant, or a tensor of sizes."""
        if not found.symbolic:
            return _constant(found.array)
        emit = self.bb.emit
        vector = emit(op.shape_to_tensor(relax.ShapeExpr(found.elements)))
        if found.dtype != "int64":
            vector = emit(op.astype(vector, found.dtype))
        return vector if found.array.ndim == 1 else emit(op.reshape(vector, found.array.shape))

    def _axes_of(self, name: str) -> list[Any]:
        """Of a tensor. Raises InputError where it depends on data."""
        shape = getattr(getattr(self._nodes[name], "ty", None), "shape", None)
        if not isinstance(shape, relax.ShapeExpr):
            raise InputError(f"the shape of {name} depends on the values of the input: tapml needs shapes of sizes")
        return [self._sizes.simplified(axis) for axis in shape.values]

    # ------------------------------------------------ operators that TVM imports for fixed sizes only

    def _varies(self, node: Any, *positions: int) -> bool:
        """Whether a symbol is among the first operand's sizes or the operands at `positions`."""
        known = [self._known.get(node.input[place]) for place in positions if place < len(node.input)]
        fixed = all(isinstance(axis, int) for axis in self._axes_of(node.input[0]))
        return not fixed or any(found is not None and found.symbolic for found in known)

    def _floats_at(self, node: Any, position: int) -> list[float]:
        """A constant operand, which is no weight of a kernel either."""
        found = self._nodes[node.input[position]]
        if not isinstance(found, tvm.ir.GenericConst):
            raise InputError(f"{node.op_type} (at {node.output[0]}) depends on the values of the input in its shape")
        return [float(value) for value in found.value.numpy()]

    def _sizes_at(self, node: Any, position: int) -> list[Any]:
        """An operand that is made of sizes. Raises InputError where it is not."""
        if (found := self._known.get(node.input[position])) is None:
            raise InputError(
                f"the shape that {node.op_type} (at {node.output[0]}) gives depends on the values of the input: "
                "tapml needs shapes of sizes"
            )
        return found.elements

    def _reshape(self, node: Any) -> Expr | None:
        # TVM's does not know allowzero.
        if len(node.input) < 2 or not (self._varies(node, 1) or 0 in self._axes_of(node.input[0])):
            return None
        shape, wanted = self._axes_of(node.input[0]), self._sizes_at(node, 1)
        keep = not any(a.name == "allowzero" and a.i for a in node.attribute)
        wanted = [shape[place] if keep and isinstance(s, int) and s == 0 else s for place, s in enumerate(wanted)]
        return self._reshaped(node, wanted)

    def _flatten(self, node: Any) -> Expr | None:
        if not self._varies(node):
            return None
        shape = self._axes_of(node.input[0])
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        return self._reshaped(node, [math.prod(shape[:axis]), -1])

    def _reshaped(self, node: Any, wanted: list[Any]) -> Expr:
        if any(isinstance(size, int) and size == -1 for size in wanted):
            others = math.prod([size for size in wanted if not (isinstance(size, int) and size == -1)])
            rest = math.prod(self._axes_of(node.input[0])) // (1 if isinstance(others, int) and others == 0 else others)
            wanted = [rest if isinstance(size, int) and size == -1 else size for size in wanted]
        return op.reshape(self._nodes[node.input[0]], [self._sizes.simplified(size) for size in wanted])

    def _expand(self, node: Any) -> Expr | None:
        if not self._varies(node, 1):
            return None
        shape, wanted = self._axes_of(node.input[0]), self._sizes_at(node, 1)
        rank = max(len(shape), len(wanted))
        pairs = zip([1] * (rank - len(shape)) + shape, [1] * (rank - len(wanted)) + wanted, strict=True)
        # One of the two is 1, or they are equal, which ONNX promises.
        sizes = [wants if isinstance(has, int) and has == 1 else has for has, wants in pairs]
        return op.broadcast_to(self._nodes[node.input[0]], relax.ShapeExpr(sizes))

    def _full(self, node: Any) -> Expr:
        from onnx import numpy_helper

        value = next((numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"), np.zeros(1, np.float32))
        return op.full(relax.ShapeExpr(self._sizes_at(node, 0)), _constant(value.reshape(())), str(value.dtype))

    def _range(self, node: Any) -> Expr:
        (start,), (limit,), (step,) = (self._sizes_at(node, place) for place in range(3))
        dtype = self._known[node.input[0]].dtype
        if not isinstance(step, int) or step <= 0 or "int" not in dtype:
            raise InputError(f"a Range (at {node.output[0]}) of symbols goes up by a fixed integer only")
        count = self._sizes.simplified((limit - start + step - 1) // step)
        count = count if self._sizes.holds(integer(count) >= 0) else 0
        places = op.arange(0, count, 1, dtype)
        if step != 1:
            places = op.multiply(self.bb.emit(places), relax.const(step, dtype))
        if isinstance(start, int) and start == 0:
            return places
        return op.add(self.bb.emit(places), self._tensor(symbolic([start], (), dtype)))

    def _tile(self, node: Any) -> Expr | None:
        if not self._known[node.input[1]].symbolic:
            return None
        shape, times = self._axes_of(node.input[0]), self._sizes_at(node, 1)
        # [a, b] -> [times, a, times, b], of which each pair is one axis in the end.
        split = [size for axis in shape for size in (1, axis)]
        spread = [size for pair in zip(times, shape, strict=True) for size in pair]
        data = self.bb.emit(op.reshape(self._nodes[node.input[0]], split))
        data = self.bb.emit(op.broadcast_to(data, relax.ShapeExpr(spread)))
        return op.reshape(data, [self._sizes.simplified(math.prod(pair)) for pair in zip(times, shape, strict=True)])

    def _slice(self, node: Any) -> Expr | None:
        attributes = {a.name: list(a.ints) for a in node.attribute}
        shape = self._axes_of(node.input[0])
        if "starts" in attributes:
            starts, ends = attributes["starts"], attributes["ends"]
            axes, steps = attributes.get("axes"), None
        else:
            starts, ends = self._sizes_at(node, 1), self._sizes_at(node, 2)
            axes, steps = (
                self._sizes_at(node, place) if place < len(node.input) and node.input[place] else None
                for place in (3, 4)
            )
        axes = [axis % len(shape) for axis in axes or range(len(starts))]
        data, turning = self._nodes[node.input[0]], any(self._control.varies(name) for name in node.input[1:3])
        for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(starts), strict=True):
            size = shape[axis]
            if all(isinstance(found, int) for found in (size, start, end, step)):
                chosen = range(*slice(start, end, step).indices(size))
                if turning and chosen:
                    data = self._taken(data, chosen, axis)
                elif chosen != range(size):
                    data = strided(self.bb, data, axis, chosen)
                continue
            if step == -1 and isinstance(start, int) and isinstance(end, int) and start == -1 and end < -(2**31):
                data = self.bb.emit(op.flip(data, axis))
                continue
            if step < 1:
                raise InputError(f"a Slice (at {node.output[0]}) of a size that varies cannot go down")
            begin, end = self._place(start, size), self._place(end, size)
            if not (isinstance(begin, int) and begin == 0 and step == 1 and self._equal(end, size)):
                parts = ([integer(place)] for place in (begin, end, step))
                data = self.bb.emit(op.strided_slice(data, [axis], *parts, assume_inbound=True))
        return data

    def _einsum(self, node: Any) -> Expr:
        (equation,) = (a.s.decode() for a in node.attribute if a.name == "equation")
        return op.einsum(relax.Tuple([self._nodes[name] for name in node.input]), equation)

    def _is_inf(self, node: Any) -> Expr:
        """Of the signs that are asked for."""
        data, found = self._nodes[node.input[0]], {a.name: a.i for a in node.attribute}
        infinite, zero = self.bb.emit(op.isinf(data)), relax.const(0, tensor_dtype(data.ty))
        for name, compare in (("detect_positive", op.less), ("detect_negative", op.greater)):
            if found.get(name, 1) == 0:
                infinite = self.bb.emit(op.logical_and(infinite, self.bb.emit(compare(data, zero))))
        return infinite

    def _power(self, node: Any) -> Expr | None:
        """The exponent has a dtype of its own, the result the base's."""
        base, exponent = (self._nodes[name] for name in node.input)
        dtype, other = tensor_dtype(base.ty) or "", tensor_dtype(exponent.ty) or ""
        if dtype == other:
            return None
        if "int" in dtype and "float" in other:
            return op.astype(self.bb.emit(op.power(self.bb.emit(op.astype(base, other)), exponent)), dtype)
        return op.power(base, self.bb.emit(op.astype(exponent, dtype)))

    def _resize(self, node: Any) -> Expr | None:
        if not self._varies(node, 3):
            return None
        shape, attributes = self._axes_of(node.input[0]), self._parse_attr(node.attribute)
        if len(node.input) > 3 and node.input[3]:
            wanted = self._sizes_at(node, 3)
        else:
            ratios = [Fraction(scale).limit_denominator(1 << 12) for scale in self._floats_at(node, 2)]
            wanted = [size * ratio.numerator // ratio.denominator for size, ratio in zip(shape, ratios, strict=True)]
        if len(shape) != 4 or any(not self._equal(wanted[axis], shape[axis]) for axis in (0, 1)):
            raise InputError(f"a Resize (at {node.output[0]}) of sizes that vary is one of two axes of four, the last")
        mode = attributes.get("mode", b"nearest").decode()
        return op.image.resize2d(
            self._nodes[node.input[0]],
            relax.ShapeExpr([self._sizes.simplified(size) for size in wanted[2:]]),
            layout="NCHW",
            method="nearest_neighbor" if mode == "nearest" else mode,
            coordinate_transformation_mode=attributes.get("coordinate_transformation_mode", b"half_pixel").decode(),
            rounding_method=attributes.get("nearest_mode", b"round_prefer_floor").decode(),
            cubic_alpha=attributes.get("cubic_coeff_a", -0.75),
            cubic_exclude=attributes.get("exclude_outside", 0),
            extrapolation_value=attributes.get("extrapolation_value", 0.0),
        )

    def _taken(self, data: Expr, numbers: Sequence[int], axis: int) -> Expr:
        """Places along an axis, which are others in each turn of a loop: one kernel for all turns."""
        return self.bb.emit(op.take(data, places(numbers), axis=axis, mode="fast"))

    def _place(self, place: Any, size: Any) -> Any:
        """Where a slice begins or ends: from 0 to `size`."""
        if not self._sizes.holds(integer(place) >= 0):
            place = self._sizes.simplified(place + size)
            return place if self._sizes.holds(integer(place) >= 0) else 0
        return place if self._sizes.holds(integer(place) <= size) else size

    def _equal(self, a: Any, b: Any) -> bool:
        difference = self._sizes.simplified(a - b)
        return isinstance(difference, int) and difference == 0

    def _gather(self, node: Any) -> Expr | None:
        """By a known index that counts from the end of an axis that varies."""
        index = self._known.get(node.input[1])
        shape = self._axes_of(node.input[0])
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0) % len(shape)
        turning = self._control.varies(node.input[1]) and isinstance(shape[axis], int) and shape[axis] > 0
        if turning and index is not None and index.elements and not index.symbolic:
            found = self._taken(self._nodes[node.input[0]], [place % shape[axis] for place in index.elements], axis)
            return op.reshape(found, [*shape[:axis], *index.array.shape, *shape[axis + 1 :]])
        if index is None or (isinstance(shape[axis], int) and not index.symbolic):
            return None
        places = [
            self._sizes.simplified(shape[axis] + place) if self._sizes.holds(integer(place) < 0) else place
            for place in index.elements
        ]
        if index.array.ndim == 0:
            begin = integer(places[0])
            one = op.strided_slice(self._nodes[node.input[0]], [axis], [begin], [begin + 1], assume_inbound=True)
            return op.squeeze(self.bb.emit(one), [axis])
        found = symbolic(places, index.array.shape, index.dtype)
        return op.take(self._nodes[node.input[0]], self._tensor(found), axis)


_CONVERTERS = {
    "ConstantOfShape": GraphImporter._full,
    "Einsum": GraphImporter._einsum,
    "Expand": GraphImporter._expand,
    "Flatten": GraphImporter._flatten,
    "Gather": GraphImporter._gather,
    "IsInf": GraphImporter._is_inf,
    "Pow": GraphImporter._power,
    "Range": GraphImporter._range,
    "Reshape": GraphImporter._reshape,
    "Resize": GraphImporter._resize,
    "Slice": GraphImporter._slice,
    "Tile": GraphImporter._tile,
}


def _constant(array: Array) -> Expr:
    # relax.const makes int32 of an int64 without dimensions.
    return relax.const(tvm.runtime.tensor(array))
