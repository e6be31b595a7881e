"""What attention's two dispatches have in common: functions of what is mixed, and the parts between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tapml.compilers.native.access import Access
from tapml.compilers.native.attended import HIGHEST, MIXED, SUM, Attended
from tapml.compilers.native.attention_shape import Shape
from tapml.compilers.native.factors import Factors, extents
from tapml.compilers.native.kernel import Launch, Text, times
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.stages import variable
from tapml.compilers.native.words import bare, tight, wgsl_type

PARTS = "the parts of all workgroups"
"""The temporary between the two dispatches: of each row and share its greatest score, sum and mixed values."""

OWN_NAMES = (
    *("left", "left4", "right", "right4", "value", "value4", "score", "finish", "first_of", "last_of", "accumulated"),
    *("batch", "row", "column", "key", "k", "total", "found", "group", "groups", "number", "index", "tile", "split"),
    *("row_tiles", "begin", "end", "at", "n", "r", "j", "lane", "four", "part", "parts", "query_part", "key_part"),
    *("score_part", "highest", "factor", "partial", "mixed_part", "sum_part", "mixed", "sum", "sums", "half", "most"),
    *("left8", "right8", "value8", "subgroup", "weight_part", "rest_part", "apart", "far", "reference", "line"),
    *(
        "scale_part",
        "brought",
        "seen",
        "weight",
        "e",
        "of_row",
        "group_of_keys",
        "turn",
        "more",
        "first_four",
        "last_four",
    ),
    *(
        "here",
        "low",
        "high",
        "share",
        "first",
        "finish4",
        "b",
        "p",
        "v",
        "now",
        "place",
        "own",
        "c",
        "places",
        "from",
        "to",
        "scale",
    ),
)


def most_of(indices: Indices, axes: Any) -> int:
    most = 1
    for extent in extents(axes):
        most *= indices.greatest(extent)
    return most


class AttentionHooks(Factors):
    """Functions of what becomes of a score, and of what is mixed."""

    def __init__(self, text: Text, made: Attended, shape: Shape, width: int) -> None:
        super().__init__(text, made.scores.batch)
        self._made, self._shape, self._width = made, shape, width
        product = made.scores
        self._rows = self._count(product.rows)
        self._batches = self._count(product.batch)

    def _function(self, head: str, given: Sequence[tuple[Any, str]], lane: str | None = None) -> Any:
        writer = self._writer(lane)
        writer.lines.append(f"fn {head} {{")
        for axes, name in given:
            self._decoded(writer, axes, name)
        return writer

    def _finish(self, lane: str | None = None) -> str:
        """The function that stores an element, of its row's greatest score, sum of weights and mixed values; or, along
        `lane`, four of them."""
        made, product = self._made, self._made.scores
        name, kind = ("finish4", "vec4<f32>") if lane else ("finish", "f32")
        writer = self._function(
            f"{name}(batch : i32, row : i32, column : i32, highest : f32, sum : f32, mixed : {kind})",
            [(product.batch, "batch"), (product.rows, "row"), (made.width, "column")],
            lane,
        )
        self._given(writer, HIGHEST, "highest")
        names = {SUM: "sum", MIXED: "mixed"}
        if made.base.kind != "variable":
            # Weights are exponentials less another number than the greatest score.
            writer.line(f"let scale = exp(highest - f32({bare(writer.value(made.base))}));")
            names = {name: writer.let(f"{name}_scaled", f"{text} * scale") for name, text in names.items()}
        for name, text in names.items():
            self._given(writer, name, text, "all" if lane and name == MIXED else None)
        output = self._text.accesses[str(made.stored.value)]
        if lane:
            writer.quad = f"{tight(writer.variables[lane])} / 4"
            writer.varying = {MIXED}
            value = bare(writer.vector(made.finish))
        else:
            value = bare(writer.value(made.finish))
        writer.line(writer.store(output, self._place(made.stored), value, "all" if lane else None))
        writer.lines.append("}\n")
        return self._ended(writer)

    def _given(self, writer: Any, name: str, text: str, lanes: Any = None) -> None:
        """A float32 of the kernel for what the program has in float16, too."""
        for dtype in ("float32", "float16"):
            kind = wgsl_type(dtype) if lanes is None else f"vec4<{wgsl_type(dtype)}>"
            writer.give(variable(name, dtype), text if dtype == "float32" else f"{kind}({text})", lanes)

    def _bind_parts(self, write: bool) -> None:
        """The temporary between the dispatches."""
        self._text.accesses[PARTS] = Access("parts", "float32", (1,))
        if write:
            self._text.written.add(PARTS)

    def _handing_on(self, launch: Launch) -> Launch:
        product = self._made.scores
        each = times(*extents((*product.batch, *product.rows)), self._shape.splits * (self._width + 2))
        return dataclasses.replace(launch, temporaries={**launch.temporaries, PARTS: times(each, 4)})

    @property
    def _part(self) -> str:
        """Where a row's part begins."""
        return f"((batch * {self._rows} + row) * {self._shape.splits} + split) * {self._width + 2}"
