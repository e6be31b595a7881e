"""Attention in one go over the keys, a tile of them at a time: scores are never in memory.

A workgroup has a few rows (queries that see the same keys and values: those of several tokens, or of the heads that
share a head of keys). Of each tile it computes scores from queries and a part of the keys in workgroup memory, the
greatest of each row, the weights, and adds up weighted values in registers; what was added before is scaled to a new
greatest score. Keys that no row of the workgroup sees are not read. Where there are too few rows for a large device, as
when one token is decoded, several workgroups share out the keys, and a second dispatch puts their parts together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from tapml.compilers.native.attended import Attended, attended
from tapml.compilers.native.attending import PLACES, Attending
from tapml.compilers.native.attending_matrices import by_matrices
from tapml.compilers.native.attending_tiles import Tiles, tiles_of
from tapml.compilers.native.attention_hooks import OWN_NAMES, AttentionHooks, most_of
from tapml.compilers.native.attention_shape import LANES, LOWEST, Shape, few_rows, shape_of
from tapml.compilers.native.decoding import MOST_ROWS, decoding, takes
from tapml.compilers.native.factors import extents
from tapml.compilers.native.kernel import Found, Launch, Text, ceildiv, check_counts, grid_of, times
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.product import arguments_of
from tapml.compilers.native.stages import Index, loads
from tapml.lowering.by_hand import made_with

_MOST_KEYS, _MOST_WORKGROUPS = 64, 768
"""Keys, and workgroups of few rows: with more, three dispatches are faster."""
_MOST_OWN_ROWS = 16
"""Vectors of mixed values of an invocation: with more there are no registers for them."""

CACHES = 1, 2
"""Among the arguments of attention to a cache: those of keys and values [heads, places, size]."""


@dataclass(frozen=True)
class _Plan:
    """Of `found`: what it computes, its sizes, and what a workgroup takes: `tiles` where many rows are best; `few`:
    whether few rows are."""

    found: Found
    caches: Sequence[str]
    indices: Indices
    made: Attended
    batch: int
    rows: int
    keys: int
    inner: int
    width: int
    shape: Shape
    tiles: Shape | None
    few: bool


def attention(found: Found) -> list[Launch] | None:
    """One dispatch, or two where workgroups share out keys. None for what is no attention."""
    plan = _plan(found)
    if plan is None:
        return None
    found, indices, made, shape, caches = plan.found, plan.indices, plan.made, plan.tiles or plan.shape, plan.caches
    text = Text(found, found.entry_point, indices, OWN_NAMES)
    sizes = plan.batch, plan.rows, plan.inner, plan.width
    if found.matrices and (fast := by_matrices(text, made, sizes, caches)) is not None:
        return [fast.launch()]
    if plan.tiles is not None:
        kernel: Attending = Tiles(text, made, shape, plan.width, caches)
    elif takes(shape.rows, plan.inner):
        kernel = decoding(text, made, shape, plan.width, plan.keys, caches)
    else:
        kernel = Attending(text, made, shape, plan.width, caches)
    launches = [kernel.launch()]
    if shape.splits > 1:
        merging = Text(
            dataclasses.replace(found, part=found.part + 1), f"{found.entry_point}_merge", indices, OWN_NAMES
        )
        launches.append(Merging(merging, made, shape, plan.width).launch())
    return launches


def gains(found: Found) -> bool:
    """Whether it is attention that is better one operator than three: where workgroups take many rows of values that
    are not long, and where there is so little to do that three dispatches cannot be as fast. Scores and weights of 8
    heads of 4,096 rows and keys are a gigabyte of float32.

    Not where the program has scores summed in float16, as a PrimFunc of its own may: what these may be off by is
    bounded, but no longer what becomes of their exponentials, once scores are 10 or so. Of three operators each has
    bounds by which faults are found."""
    plan = _plan(found)
    if plan is None or plan.made.scores.dtype == "float16":
        return False
    if plan.tiles is not None:
        return plan.tiles.own_rows <= _MOST_OWN_ROWS
    if not plan.few or not takes(plan.shape.rows, plan.inner):
        return plan.keys <= _MOST_KEYS
    return plan.batch * -(-plan.rows // plan.shape.rows) <= _MOST_WORKGROUPS


def _plan(found: Found) -> _Plan | None:
    caches = _caches(found)
    if caches:
        found = _growing(found, caches)
    indices = found.indices(found.stages)
    if caches:
        indices.symbols[PLACES] = 1, int(found.program.parameters[CACHES[0]].shape[1])
    made = attended(found, indices)
    if made is None or found.threads < LANES:
        return None
    product = made.scores
    sizes = [
        most_of(indices, axes) for axes in (product.batch, product.rows, product.columns, product.inner, made.width)
    ]
    batch, rows, keys, inner, width = sizes
    check_counts(indices, [batch, rows, width])
    fixed = all(isinstance(extent, int) for extent in extents((*product.inner, *made.width)))
    little = few_rows(rows, batch, keys, inner + width)
    shape = shape_of(rows, batch, keys, inner, width, little) if fixed else None
    if shape is None:
        return None
    few = little or rows <= MOST_ROWS
    tiles = None if few else tiles_of(shape, made, rows, batch, keys, width)
    return _Plan(found, caches, indices, made, batch, rows, keys, inner, width, shape, tiles, few)


def _caches(found: Found) -> Sequence[str]:
    """Of attention to a cache, those of keys and values: the kernel reads off them how many places they have."""
    made = made_with(found.operator.prim_func, "cached_attention")
    return [found.program.parameters[place].name for place in CACHES] if made is not None else []


def _growing(found: Found, caches: Sequence[str]) -> Found:
    """With a symbol for how many places the caches have."""
    stages = []
    for stage in found.stages:
        reads = [load for load in loads(stage.value) if load.value in caches]
        over = {str(load.operands[1].value) for load in reads if load.operands[1].kind == "variable"}
        # What reads no cache is the greatest of scores, or the sum of their weights.
        over |= set() if reads or not stage.combine else {axis.variable for axis in stage.reduction}

        def grown(axes: Sequence[Index], over: set[str] = over) -> tuple[Index, ...]:
            return tuple(Index(axis.variable, PLACES) if axis.variable in over else axis for axis in axes)

        stages.append(dataclasses.replace(stage, spatial=grown(stage.spatial), reduction=grown(stage.reduction)))
    made = dataclasses.replace(found, stages=stages)
    grown_caches = {
        name: dataclasses.replace(
            found.buffers[name], shape=(found.buffers[name].shape[0], PLACES, found.buffers[name].shape[2])
        )
        for name in caches
    }
    made.buffers = {**found.buffers, **grown_caches}
    return made


class Merging(AttentionHooks):
    """The second dispatch: an element of the output an invocation."""

    def launch(self) -> Launch:
        made, shape = self._made, self._shape
        self._bind((), made.base, made.finish)
        self._bind_parts(write=False)
        self._text.bind(str(made.stored.value), write=True)
        product = made.scores
        count = times(*extents((*product.batch, *product.rows, *made.width)))
        most = self._indices.greatest(count)
        grid, group = grid_of(ceildiv(count, LANES), -(-most // LANES) + 1)
        self._text.declarations = ["", self._finish()]
        writer = self._text.writer()
        writer.symbols.update(self.symbols)
        for line in (
            f"let index = i32({group} * {LANES}u + number);",
            f"if (index >= {self._batches} * {self._rows} * {self._width}) {{",
            "  return;",
            "}",
            f"let column = index % {self._width};",
            f"let row = index / {self._width} % {self._rows};",
            f"let batch = index / ({self._width} * {self._rows});",
            f"var most = {LOWEST};",
            f"for (var split = 0; split < {shape.splits}; split++) {{",
            f"  most = max(most, parts[{self._part}]);",
            "}",
            "var sum = 0.0;",
            "var mixed = 0.0;",
            f"for (var split = 0; split < {shape.splits}; split++) {{",
            f"  let place = {self._part};",
            "  let scale = exp(parts[place] - most);",
            "  sum += scale * parts[place + 1];",
            "  mixed += scale * parts[place + 2 + column];",
            "}",
            "finish(batch, row, column, most, sum, mixed);",
        ):
            writer.line(line)
        comment = f"Attention, the parts of {shape.splits} workgroups together: each invocation computes an element."
        return self._handing_on(self._text.launch(writer, comment, arguments_of(group), LANES, grid))
