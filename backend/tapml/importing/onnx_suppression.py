"""ONNX's NonMaxSuppression: of each class of each image, box after box, the best that overlaps none before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import te, tirx

from tapml.importing.compacting import Counted
from tapml.importing.kernel_calls import as_dtype, call_program, call_several
from tapml.importing.onnx_operands import fixed_shape, numbers, within
from tapml.importing.relax_ir import Expr
from tapml.importing.sequential import Program, int32, let

Results = list[tuple[Expr, Counted | None]]


def non_max_suppression(builder: Expr, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Results:
    """Rows (image, class, box): of equal scores the first box is the better one."""
    boxes, scores, most, overlap, least = (*inputs, None, None, None)[:5]
    batch, classes, count = fixed_shape(scores, "NonMaxSuppression")
    fixed_shape(boxes, "NonMaxSuppression")

    def number(operand: Any, what: str) -> Any:
        found = [] if operand is None else numbers(operand, "NonMaxSuppression", what)
        return found[0] if found else None

    limit = min(max(int(number(most, "max_output_boxes_per_class") or 0), 0), count)
    if limit == 0 or batch * classes == 0:
        return [(_none(builder), None)]
    lanes = (batch, classes, count, limit)
    threshold, lowest = number(overlap, "iou_threshold") or 0.0, number(least, "score_threshold")
    centred = bool(attributes.get("center_point_box", 0))
    program = _program(lanes, threshold, lowest, centred)
    _, picked = call_program(builder, program.function(), [boxes, scores], program.results)
    rows, total = call_several(builder, _listed, [picked], classes, name="selected")
    return [(as_dtype(builder, rows, "int64"), Counted(total, 0))]


def _none(builder: Expr) -> Expr:
    import numpy as np
    from tvm import relax

    return builder.emit(relax.op.full(relax.ShapeExpr([0, 3]), relax.const(np.int64(0)), "int64"))


def _program(lanes: tuple[int, int, int, int], threshold: float, lowest: float | None, centred: bool) -> Program:
    """`picked` [images x classes, most]: boxes, -1 where there is none; `left`: those that may still be picked.

    A round goes over all boxes: it takes away those that overlap the one picked last, and finds the best of the rest.
    """
    batch, classes, count, limit = lanes
    program = Program("non_max_suppression")
    boxes = program.input("boxes", [batch, count, 4], "float32")
    scores = program.input("scores", [batch, classes, count], "float32")
    left = program.output("left", [batch * classes, count], "int32")
    picked = program.output("picked", [batch * classes, limit], "int32")
    none = tirx.const(-1, "int32")

    def body(at: Sequence[Any], steps: Sequence[Any]) -> Any:
        (lane,), (turn, box) = at, steps
        image, kind = tirx.floordiv(lane, classes), tirx.floormod(lane, classes)
        score = scores[image, kind, box]
        bind, last = let("last", tirx.Select(turn == 0, none, picked[lane, tirx.max(turn - 1, 0)]))
        yield bind
        bind, other = let("other", within(last, tirx.const(count, "int32")))
        yield bind
        overlaps = _overlap(boxes, image, other, box, threshold, centred)
        stays = tirx.all(left[lane, box] != 0, last >= 0, last != int32(box), tirx.Not(overlaps))
        begins = tirx.const(True, "bool") if lowest is None else score > tirx.const(lowest, "float32")
        bind, open_ = let("open", tirx.Select(turn == 0, begins, stays))
        yield bind
        yield left.store([lane, box], tirx.Select(open_, tirx.const(1, "int32"), tirx.const(0, "int32")))
        bind, best = let("best", tirx.Select(box == 0, none, picked[lane, turn]))
        yield bind
        better = tirx.any(best < 0, score > scores[image, kind, within(best, tirx.const(count, "int32"))])
        yield picked.store([lane, turn], tirx.Select(tirx.all(open_, better), int32(box), best))

    program.fill(left, 0)
    program.fill(picked, -1)
    program.steps([batch * classes], [limit, count], body)
    return program


def _overlap(boxes: Any, image: Any, a: Any, b: Any, threshold: float, centred: bool) -> Any:
    """Whether the intersection of two boxes is larger than `threshold` times their union; that of empty ones is not."""
    half = tirx.const(0.5, "float32")

    def ends(box: Any, axis: int) -> tuple[Any, Any]:
        first, second = boxes[image, box, axis], boxes[image, box, axis + 2]
        if centred:
            return first - second * half, first + second * half
        return tirx.min(first, second), tirx.max(first, second)

    zero = tirx.const(0.0, "float32")
    lengths: list[Any] = []
    areas: list[list[Any]] = [[], []]
    for axis in (0, 1):
        (low_a, high_a), (low_b, high_b) = ends(a, axis), ends(b, axis)
        lengths.append(tirx.min(high_a, high_b) - tirx.max(low_a, low_b))
        areas[0].append(high_a - low_a)
        areas[1].append(high_b - low_b)
    common = lengths[0] * lengths[1]
    union = areas[0][0] * areas[0][1] + areas[1][0] * areas[1][1] - common
    meets = [length > zero for length in (*lengths, *areas[0], *areas[1])]
    return tirx.all(*meets, common > tirx.const(threshold, "float32") * union)


def _listed(picked: Any, classes: int) -> list[Any]:
    """[what there could be, 3], zeros behind what there is, and how much that is."""
    lanes, limit = picked.shape
    one, none = tirx.const(1, "int32"), tirx.const(0, "int32")
    turn, before, turns, lane_of, every, each = (
        te.reduce_axis((0, extent), name)
        for extent, name in ((limit, "t"), (lanes, "b"), (limit, "u"), (lanes, "l"), (lanes, "e"), (limit, "f"))
    )
    counts = te.compute(
        (lanes,), lambda lane: te.sum(tirx.Select(picked(lane, turn) >= 0, one, none), axis=turn), name="counts"
    )
    ends = te.compute(
        (lanes,),
        lambda lane: te.sum(
            tirx.Select(tirx.all(before <= lane, picked(before, turns) >= 0), one, none), axis=[before, turns]
        ),
        name="ends",
    )
    total = te.compute(
        (1,), lambda _: te.sum(tirx.Select(picked(every, each) >= 0, one, none), axis=[every, each]), name="total"
    )
    lane_of_row = te.compute(
        (lanes * limit,),
        lambda row: te.sum(tirx.Select(ends(lane_of) <= int32(row), one, none), axis=lane_of),
        name="lane_of_row",
    )

    def element(row: Any, column: Any) -> Any:
        lane = within(lane_of_row(row), int32(lanes))
        number = within(int32(row) - (ends(lane) - counts(lane)), int32(limit))
        place = tirx.Select(
            column == 0,
            tirx.floordiv(lane, int32(classes)),
            tirx.Select(column == 1, tirx.floormod(lane, int32(classes)), picked(lane, number)),
        )
        return tirx.Select(int32(row) < total(0), place, none)

    return [te.compute((lanes * limit, 3), element, name="rows"), total]
