"""Matrix products by subgroup matrices: each subgroup computes a rectangle of the result, 16 x 16 elements at a time,
from parts of both factors that its workgroup holds in workgroup memory as float16. Sums are float32.

This is of devices alone that have `chromium-experimental-subgroup-matrix` and multiply 16 x 16 by 16 x 16 float16 with
float32 sums, in subgroups of 32: others take the kernel that every device runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapml.compilers.native.blocks import SIDE, SUBGROUP, Blocks
from tapml.compilers.native.factors import last
from tapml.compilers.native.halves import ProductOfHalves
from tapml.compilers.native.kernel import Launch, grid_of, times
from tapml.compilers.native.matrix_parts import Part
from tapml.compilers.native.product import Count, Product, last_step, numbered, shared_out, tiles
from tapml.compilers.native.words import Unknown, bare, tight

FEATURES = ("chromium-experimental-subgroup-matrix", "subgroup-matrix-f16-f32-16x16x16")
"""What a device has to offer: GPUFeatureName, and of GPUAdapterInfo's `subgroupMatrixConfigs` one."""

RESULT = f"subgroup_matrix_result<f32, {SIDE}, {SIDE}>"

BUILTIN = "@builtin(subgroup_id) subgroup : u32"

_TOGETHER = 4

_MEMORY = 49152
"""Bytes of workgroup memory of devices that have subgroup matrices."""

_BAND = 4
"""Rows of tiles that workgroups beside each other go through together, so that these share what the caches hold."""


def uses_matrices(wgsl: str) -> bool:
    """Whether a text is for devices with subgroup matrices alone."""
    return "subgroup_matrix" in wgsl


def with_matrices(requires: Mapping[str, Any]) -> dict[str, Any]:
    """The requirements of a text, and those that it does not say: the size of matrices and of subgroups."""
    limits = {**requires["limits"], "subgroupMinSize": SUBGROUP, "subgroupMaxSize": SUBGROUP}
    return {"features": sorted({*requires["features"], *FEATURES}), "limits": limits}


def by_matrices(hooks: ProductOfHalves, blocks: Blocks, count: Count) -> Launch:
    """The dispatch of a product; `count` says how many workgroups of a tile it takes. Raises Unknown where the blocks
    are of another form than a workgroup brings."""
    product = hooks.product(blocks.depth)
    splits = blocks.splits
    sizes = blocks.depth, blocks.invocations
    lefts = [
        Part(name, blocks.height, blocks.high, *sizes, product.left_across, "row")
        for name in ("left", "left_rest")[: hooks.lefts]
    ]
    right = Part(
        "right",
        blocks.width,
        blocks.wide,
        *sizes,
        product.right_across,
        "column",
        hooks.made,
        hooks.eights,
        hooks.read_as,
    )
    parts = *lefts, right
    if not all(part.fits for part in parts):
        raise Unknown("vectors that the invocations of a workgroup do not share out evenly")
    workgroups, most = count(blocks.height, blocks.width)
    grid, group = grid_of(times(workgroups, splits), most * splits)
    high, wide, steps = blocks.rows // SIDE, blocks.columns // SIDE, blocks.depth // SIDE
    subgroups = blocks.high * blocks.wide
    room = _MEMORY - sum(16 * part.size * part.groups * len(part.arrays) for part in parts)
    at_once = 2 if wide % 2 == 0 and subgroups * 2 * SIDE * SIDE * 4 <= room else 1
    row = at_once * SIDE // 4
    shared = [declaration for part in parts for declaration in part.declarations]
    shared.append(f"var<workgroup> sums_part : array<array<vec4<f32>, {SIDE * row}>, {subgroups}>;")
    depth, inner = blocks.depth, product.inner
    begin, end = ("begin", "end") if splits > 1 else ("0", inner)
    batch, part_of = ("batch", "") if splits == 1 else (f"batch * {splits} + part", f" / {splits}")
    each = f"(row_tiles * column_tiles{f' * {splits}' if splits > 1 else ''})"
    lines = [
        "let index = i32(number);",
        f"let own_row = subgroup / {blocks.wide};",
        f"let own_column = subgroup % {blocks.wide};",
        f"let row_tiles = {tiles(product.rows, blocks.height)};",
        f"let column_tiles = {tiles(product.columns, blocks.width)};",
        *numbered(group, f"{product.batch} * {bare(each)}"),
        *shared_out(inner, depth, splits),
        f"let batch = tile / {each};",
        f"let place = tile % {each}{part_of};",
        f"// Workgroups beside each other have tiles of {_BAND} rows of them.",
        f"let band = place / ({_BAND} * column_tiles) * {_BAND};",
        f"let banded = min({_BAND}, row_tiles - band);",
        f"let row = (band + place % ({_BAND} * column_tiles) % banded) * {blocks.height};",
        f"let column = place % ({_BAND} * column_tiles) / banded * {blocks.width};",
        *(line for part in parts for line in part.placed()),
        "",
        *(f"var sum_{i}_{j} = {RESULT}();" for i in range(high) for j in range(wide)),
        "",
        *(f"var {part.name}_{share} : {part.kind};" for part in parts for share in range(part.shares)),
        *(line for part in parts for line in part.brought(begin)),
        *(line for part in parts for line in part.kept()),
        "workgroupBarrier();",
        "",
        *_steps(hooks, parts, (lefts, right), (high, wide, steps), (begin, end, depth, splits > 1)),
    ]
    ending = _Ending(blocks, at_once, hooks, product)
    for i in range(high):
        for j in range(0, wide, at_once):
            lines += [
                *(
                    f"subgroupMatrixStore<row_major>(&sums_part[subgroup], {more * SIDE // 4}u, "
                    f"sum_{i}_{j + more}, {row}u);"
                    for more in range(at_once)
                ),
                "workgroupBarrier();",
                *ending.lines(batch, f"row + {i * SIDE}", f"column + {j * SIDE}"),
                "workgroupBarrier();",
            ]
    held = ";\n".join([*(part.said("row") for part in lefts), right.said("column")])
    comment = (
        f"Each workgroup computes {blocks.height} x {blocks.width} elements, each of its {subgroups} subgroups "
        f"{blocks.rows} x {blocks.columns}, {depth} steps\nalong the inner axis at a time. These parts of both factors "
        f"lie in workgroup memory, as float16:\n{held}."
    )
    if splits > 1:
        comment += f"\n{splits} workgroups share out the inner axis of each tile."
    return hooks.launch(
        product,
        shared,
        lines,
        comment,
        (group, grid),
        blocks.invocations,
        more_arguments=[BUILTIN],
        helpers="\n".join([ending.function, *hooks.helpers.values()]),
    )


@dataclass(frozen=True)
class _Ending:
    """What becomes of sums in workgroup memory, `at_once` matrices of each subgroup beside each other."""

    blocks: Blocks
    at_once: int
    hooks: ProductOfHalves
    product: Product

    @property
    def fours(self) -> bool:
        """Whether of four columns at once."""
        return self.hooks.by_four_columns

    @property
    def each_row(self) -> int:
        """Vectors, or numbers, of a subgroup's row."""
        return self.at_once * SIDE // (4 if self.fours else 1)

    @property
    def sums(self) -> int:
        return SIDE * self.each_row

    @property
    def function(self) -> str:
        """Those that finish the sum of number `e`."""
        number, sums = ("4", "vec4<f32>") if self.fours else ("", "f32")
        kind = f"vec4<{self.hooks.kind}>" if self.fours else self.hooks.kind
        if not self.hooks.finishes_apart:
            return self._at("finish_at", f"finish{number}", "total", sums)
        finished = self._at("finished_at", f"finished{number}", "total", sums, kind)
        return "\n".join([finished, self._at("stored_at", f"stored{number}", "found", kind)])

    def _at(self, name: str, function: str, given: str, kind: str, result: str = "") -> str:
        blocks, each, by = self.blocks, self.each_row, " * 4" if self.fours else ""
        to_row = f"row + block / {blocks.wide} * {blocks.rows} + e % {self.sums} / {each}"
        to_column = f"column + block % {blocks.wide} * {blocks.columns} + e % {each}{by}"
        returned = ""
        if result:  # what lies beyond the last is another one, and not stored
            returned = f" -> {result}"
            to_row = f"min({to_row}, {last(self.product.rows)})"
            to_column = f"min({to_column}, {last(self.product.columns, 4 if self.fours else 1)})"
        return "\n".join(
            [
                f"fn {name}(batch : i32, row : i32, column : i32, e : i32, {given} : {kind}){returned} {{",
                f"  let block = e / {self.sums};",
                f"  let to_row = {to_row};",
                f"  let to_column = {to_column};",
                f"  {'return ' if result else ''}{function}(batch, to_row, to_column, {given});",
                "}\n",
            ]
        )

    def lines(self, batch: str, row: str, column: str) -> Iterable[str]:
        """Several sums are read before the first is finished."""
        step, together = self.blocks.invocations, min(_TOGETHER, self.sums // SUBGROUP)
        yield f"for (var e = index; e < {self.blocks.high * self.blocks.wide * self.sums}; e += {together * step}) {{"
        places = [f"e + {n * step}" if n else "e" for n in range(together)]
        for n, place in enumerate(places):
            inside = f"({tight(place)} % {self.sums})"
            number = f"[{bare(inside)}]" if self.fours else f"[{inside} / 4][{tight(place)} % 4]"
            yield f"  let total_{n} = sums_part[{tight(place)} / {self.sums}]{number};"
        at = f"{batch}, {row}, {column}"
        function, given = "finish_at", "total"
        if self.hooks.finishes_apart:
            for n, place in enumerate(places):
                yield f"  let finished_{n} = finished_at({at}, {place}, total_{n});"
            function, given = "stored_at", "finished"
        for n, place in enumerate(places):
            yield f"  {function}({at}, {place}, {given}_{n});"
        yield "}"


def _steps(
    hooks: ProductOfHalves,
    parts: Sequence[Part],
    factors: tuple[Sequence[Part], Part],
    matrices: tuple[int, int, int],
    axis: tuple[str, str, int, bool],
) -> Iterable[str]:
    """The loop over steps, of which the first is in workgroup memory. `matrices`: of a subgroup's rows and columns, and
    of a step; `axis`: where the inner one begins and ends, how long a step is, and whether there may be none.

    Where the last step stands behind the loop, what is read ahead needs neither a branch nor a bound. On an H200 that
    takes 5 to 7 % less, but 4 % more where the right factor lies along the inner axis, and 2 % where integers become
    float16. Of pieces the text would be too long."""
    lefts, right = factors
    begin, end, depth, empty = axis
    multiplied = [*_multiplied(lefts, right, *matrices)]
    kept = [line for part in parts for line in part.kept()]
    apart = right.across and not hooks.works and not hooks.whole
    until = f"k + {depth} < {end}" if apart else f"k < {end}"
    if apart:
        ahead: Iterable[str] = (line for part in parts for line in part.brought(f"k + {depth}"))
    else:
        ahead = _ahead(hooks, parts, depth, end, f"min(k + {depth}, {last_step(end, depth)})")
    yield f"for (var k = {begin}; {until}; k += {depth}) {{"
    yield "  // What the next step multiplies is read meanwhile."
    yield from (f"  {line}" for line in ahead)
    yield from (f"  {line}" for line in multiplied)
    yield "  workgroupBarrier();"
    yield from (f"  {line}" for line in kept)
    yield "  workgroupBarrier();"
    yield "}"
    if apart and empty:
        yield "if (begin < end) {"
        yield from (f"  {line}" for line in multiplied)
        yield "}"
    elif apart:
        yield from multiplied


def _ahead(hooks: ProductOfHalves, parts: Iterable[Part], depth: int, end: str, ahead: str) -> Iterable[str]:
    """Reads what the next step multiplies. The last step has none: where functions of factors do something with what
    they have read, it reads its own again, for a branch would have to wait for that."""
    if hooks.works:
        yield f"let next = {ahead};"
        yield from (line for part in parts for line in part.brought("next"))
        return
    if hooks.whole:
        yield f"if (k + {2 * depth} <= {end}) {{"
        for part in parts:
            function = f"{part.name}8_whole" if part.name in hooks.whole else ""
            yield from (f"  {line}" for line in part.brought(f"k + {depth}", function))
        yield f"}} else if (k + {depth} < {end}) {{"
    else:
        yield f"if (k + {depth} < {end}) {{"
    yield from (f"  {line}" for part in parts for line in part.brought(f"k + {depth}"))
    yield "}"


def _multiplied(lefts: Sequence[Part], right: Part, high: int, wide: int, steps: int) -> Iterable[str]:
    """Of all pieces of both factors but the products of their rests."""
    if len(lefts) == 1:
        yield from _multiplied_ahead(lefts[0], right, high, wide, steps)
        return
    left, rest = lefts
    for step in range(steps):
        yield from (f"let a{i}_{step} = {left.matrix('own_row', i, step)};" for i in range(high))
        yield from (f"let b{j}_{step} = {right.matrix('own_column', j, step)};" for j in range(wide))
        yield from _products("a", "b", high, wide, step)
        yield from (f"let c{i}_{step} = {rest.matrix('own_row', i, step)};" for i in range(high))
        yield from _products("c", "b", high, wide, step)
        if len(right.made) > 1:
            yield from (f"let d{j}_{step} = {right.matrix('own_column', j, step, True)};" for j in range(wide))
            yield from _products("a", "d", high, wide, step)


def _multiplied_ahead(left: Part, right: Part, high: int, wide: int, steps: int) -> Iterable[str]:
    """Matrices of a step are loaded before those of the one before it are multiplied."""

    def loaded(step: int) -> Iterable[str]:
        yield from (f"let a{i}_{step} = {left.matrix('own_row', i, step)};" for i in range(high))
        yield from (f"let b{j}_{step} = {right.matrix('own_column', j, step)};" for j in range(wide))

    yield from loaded(0)
    for step in range(steps):
        yield from loaded(step + 1) if step + 1 < steps else ()
        yield from _products("a", "b", high, wide, step)


def _products(a: str, b: str, high: int, wide: int, step: int) -> Iterable[str]:
    for j in range(wide):
        for i in range(high):
            yield f"sum_{i}_{j} = subgroupMatrixMultiplyAccumulate({a}{i}_{step}, {b}{j}_{step}, sum_{i}_{j});"
