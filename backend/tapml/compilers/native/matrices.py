"""Matrix products by subgroup matrices: each subgroup computes a rectangle of the result, 16 x 16 elements at a time,
from parts of both factors that its workgroup holds in workgroup memory as float16. Sums are float32.

This is of devices alone that have `chromium-experimental-subgroup-matrix` and multiply 16 x 16 by 16 x 16 float16 with
float32 sums, in subgroups of 32: others take the kernel that every device runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tapml.compilers.native.eights import ProductOfHalves
from tapml.compilers.native.kernel import Launch, grid_of
from tapml.compilers.native.product import Count, numbered, tiles

SIDE = 16
"""Rows, columns and inner points of a subgroup matrix."""

SUBGROUP = 32
"""Invocations of a subgroup."""

FEATURES = ("chromium-experimental-subgroup-matrix", "subgroup-matrix-f16-f32-16x16x16")
"""What a device has to offer: GPUFeatureName, and of GPUAdapterInfo's `subgroupMatrixConfigs` one."""

BUILTIN = "@builtin(subgroup_id) subgroup : u32"

_BAND = 4
"""Rows of tiles that workgroups beside each other go through together, so that these share what the caches hold."""


@dataclass(frozen=True)
class Blocks:
    """Each of `high` * `wide` subgroups of a workgroup computes `rows` * `columns` elements, `depth` steps along the
    inner axis at a time."""

    rows: int
    columns: int
    high: int
    wide: int
    depth: int

    @property
    def height(self) -> int:
        """Rows of a workgroup."""
        return self.rows * self.high

    @property
    def width(self) -> int:
        """Columns of a workgroup."""
        return self.columns * self.wide

    @property
    def invocations(self) -> int:
        return self.high * self.wide * SUBGROUP


BLOCKS = (
    Blocks(64, 64, 2, 4, 32),
    Blocks(64, 64, 2, 2, 64),
    Blocks(32, 64, 2, 2, 32),
    Blocks(32, 32, 2, 2, 32),
    Blocks(16, 32, 2, 2, 64),
)
"""From the least memory traffic to the most workgroups: of each size the best on an H200 (docs/kernels.md)."""

_AT_ONCE = 132
"""Workgroups that a large device runs at full speed."""


def blocks_of(rows: int, columns: int, batch: int) -> Blocks:
    """What is estimated to take the least time."""
    return min(BLOCKS, key=lambda blocks: _cost(blocks, rows, columns, batch))


def _cost(blocks: Blocks, rows: int, columns: int, batch: int) -> float:
    """In units of a multiplication: what a workgroup multiplies and what it brings for that, by how often the device
    is filled. 64 is what chose the fastest of three products and a convolution on an H200."""
    groups = -(-rows // blocks.height) * -(-columns // blocks.width) * batch
    each = blocks.height * blocks.width + 64 * (blocks.height + blocks.width)
    return -(-groups // _AT_ONCE) * each


@dataclass(frozen=True)
class _Part:
    """One factor's part in workgroup memory: for each of `groups` of lines (those of a row or a column of subgroups)
    an array, so that all but the first index is constant."""

    name: str
    lines: int
    groups: int
    depth: int
    invocations: int
    across: bool
    begin: str

    @property
    def each(self) -> int:
        return self.lines // self.groups

    @property
    def stride(self) -> int:
        """Vectors from one line, or point of the inner axis, to the next: odd, so that they lie in different banks."""
        return odd((self.each if self.across else self.depth) // 8)

    @property
    def size(self) -> int:
        return self.stride * (self.depth if self.across else self.each)

    @property
    def declaration(self) -> str:
        return f"var<workgroup> {self.name}_part : array<array<vec4<u32>, {self.size}>, {self.groups}>;"

    @property
    def shares(self) -> int:
        """Vectors that each invocation brings."""
        return self.lines * self.depth // 8 // self.invocations

    def placed(self) -> Iterable[str]:
        """Which vectors an invocation brings: its first, and from there on always as many further."""
        fast = (self.lines if self.across else self.depth) // 8
        yield f"let {self.name}_fast = index % {fast};"
        yield f"let {self.name}_slow = index / {fast};"

    def _share(self, share: int) -> tuple[str, str]:
        """The number of a vector in its line, or of a vector of lines; and the line, or the point of the inner axis."""
        fast = (self.lines if self.across else self.depth) // 8
        step = self.invocations // fast
        return f"{self.name}_fast", f"{self.name}_slow{f' + {share * step}' if share else ''}"

    def brought(self, k: str) -> Iterable[str]:
        for share in range(self.shares):
            fast, slow = self._share(share)
            if self.across:
                given = f"{self.begin} + {fast} * 8, {k} + {slow}"
            else:
                given = f"{self.begin} + {slow}, {k} + {fast} * 8"
            yield f"{self.name}_{share} = {self.name}8(batch, {given});"

    def kept(self) -> Iterable[str]:
        for share in range(self.shares):
            fast, slow = self._share(share)
            if self.across:
                eights = self.each // 8
                group, place = f"{fast} / {eights}", f"({slow}) * {self.stride} + {fast} % {eights}"
            else:
                group, place = f"({slow}) / {self.each}", f"({slow}) % {self.each} * {self.stride} + {fast}"
            yield f"{self.name}_part[{group}][{place}] = {self.name}_{share};"

    def matrix(self, own: str, number: int, step: int) -> str:
        """The subgroup matrix of the group's lines from number * SIDE on, at that step along the inner axis."""
        side = self.name
        order = "row" if self.across == (side == "right") else "col"
        if self.across:
            place = step * SIDE * self.stride + number * SIDE // 8
        else:
            place = number * SIDE * self.stride + step * SIDE // 8
        return factor_at(side, order, f"{side}_part[{own}]", place, self.stride)

    def said(self, what: str) -> str:
        if self.across:
            return f"{self.name}_part has, for each point of the inner axis, vectors of eight {what}s"
        return f"{self.name}_part has, for each {what}, vectors of eight along the inner axis"


def uses_matrices(wgsl: str) -> bool:
    """Whether a text is for devices with subgroup matrices alone."""
    return "subgroup_matrix" in wgsl


def with_matrices(requires: Mapping[str, Any]) -> dict[str, Any]:
    """The requirements of a text, and those that it does not say: the size of matrices and of subgroups."""
    limits = {**requires["limits"], "subgroupMinSize": SUBGROUP, "subgroupMaxSize": SUBGROUP}
    return {"features": sorted({*requires["features"], *FEATURES}), "limits": limits}


RESULT = f"subgroup_matrix_result<f32, {SIDE}, {SIDE}>"


def factor_at(side: str, order: str, place: str, offset: int, stride: int) -> str:
    """A matrix of float16 in workgroup memory, "left" or "right"; `order`: how rows of it lie there."""
    kind = f"subgroup_matrix_{side}<f16, {SIDE}, {SIDE}>"
    return f"subgroupMatrixLoad<{kind}, {order}_major>(&{place}, {offset}u, {stride}u)"


def odd(count: int) -> int:
    """The least odd number that is not below."""
    return count if count % 2 else count + 1


def by_matrices(hooks: ProductOfHalves, blocks: Blocks, count: Count) -> Launch:
    """The dispatch of a product; `count` says how many workgroups of a tile it takes."""
    product = hooks.product(blocks.depth)
    sizes = blocks.depth, blocks.invocations
    left = _Part("left", blocks.height, blocks.high, *sizes, product.left_across, "row")
    right = _Part("right", blocks.width, blocks.wide, *sizes, product.right_across, "column")
    parts = left, right
    workgroups, most = count(blocks.height, blocks.width)
    grid, group = grid_of(workgroups, most)
    high, wide, steps = blocks.rows // SIDE, blocks.columns // SIDE, blocks.depth // SIDE
    at_once = 2 if wide % 2 == 0 else 1
    row = at_once * SIDE // 4
    shared = [part.declaration for part in parts]
    subgroups = blocks.high * blocks.wide
    shared.append(f"var<workgroup> sums_part : array<array<vec4<f32>, {SIDE * row}>, {subgroups}>;")
    depth, inner = blocks.depth, product.inner
    lines = [
        "let index = i32(number);",
        f"let own_row = subgroup / {blocks.wide};",
        f"let own_column = subgroup % {blocks.wide};",
        f"let row_tiles = {tiles(product.rows, blocks.height)};",
        f"let column_tiles = {tiles(product.columns, blocks.width)};",
        *numbered(group, f"{product.batch} * row_tiles * column_tiles"),
        "let batch = tile / (row_tiles * column_tiles);",
        "let place = tile % (row_tiles * column_tiles);",
        f"// Workgroups beside each other have tiles of {_BAND} rows of them.",
        f"let band = place / ({_BAND} * column_tiles) * {_BAND};",
        f"let banded = min({_BAND}, row_tiles - band);",
        f"let row = (band + place % ({_BAND} * column_tiles) % banded) * {blocks.height};",
        f"let column = place % ({_BAND} * column_tiles) / banded * {blocks.width};",
        *(line for part in parts for line in part.placed()),
        "",
        *(f"var sum_{i}_{j} = {RESULT}();" for i in range(high) for j in range(wide)),
        "",
        *(f"var {part.name}_{share} : vec4<u32>;" for part in parts for share in range(part.shares)),
        *(line for part in parts for line in part.brought("0")),
        *(line for part in parts for line in part.kept()),
        "workgroupBarrier();",
        "",
        f"for (var k = 0; k < {inner}; k += {depth}) {{",
        "  // What the next step multiplies is read meanwhile.",
        f"  if (k + {depth} < {inner}) {{",
        *(f"    {line}" for part in parts for line in part.brought(f"k + {depth}")),
        "  }",
        *(f"  {line}" for line in _multiplied(left, right, high, wide, steps)),
        "  workgroupBarrier();",
        *(f"  {line}" for part in parts for line in part.kept()),
        "  workgroupBarrier();",
        "}",
    ]
    elements = subgroups * SIDE * row * 4
    for i in range(high):
        for j in range(0, wide, at_once):
            lines += [
                *(
                    f"subgroupMatrixStore<row_major>(&sums_part[subgroup], {more * SIDE // 4}u, "
                    f"sum_{i}_{j + more}, {row}u);"
                    for more in range(at_once)
                ),
                "workgroupBarrier();",
                f"for (var e = index; e < {elements}; e += {blocks.invocations}) {{",
                f"  let block = e / {SIDE * row * 4};",
                f"  let from_row = e % {SIDE * row * 4} / {row * 4};",
                f"  let from_column = e % {row * 4};",
                f"  let to_row = row + block / {blocks.wide} * {blocks.rows} + {i * SIDE} + from_row;",
                f"  let to_column = column + block % {blocks.wide} * {blocks.columns} + {j * SIDE} + from_column;",
                f"  finish(batch, to_row, to_column, sums_part[block][e % {SIDE * row * 4} / 4][e % 4]);",
                "}",
                "workgroupBarrier();",
            ]
    comment = (
        f"Each workgroup computes {blocks.height} x {blocks.width} elements, each of its {subgroups} subgroups "
        f"{blocks.rows} x {blocks.columns}, {depth} steps\nalong the inner axis at a time. These parts of both factors "
        f"lie in workgroup memory, as float16:\n{left.said('row')};\n{right.said('column')}."
    )
    return hooks.launch(
        product, shared, lines, comment, (group, grid), blocks.invocations, more_arguments=[BUILTIN], helpers=""
    )


def _multiplied(left: _Part, right: _Part, high: int, wide: int, steps: int) -> Iterable[str]:
    """Matrices of a step are loaded before those of the one before it are multiplied."""

    def loaded(step: int) -> Iterable[str]:
        yield from (f"let a{i}_{step} = {left.matrix('own_row', i, step)};" for i in range(high))
        yield from (f"let b{j}_{step} = {right.matrix('own_column', j, step)};" for j in range(wide))

    yield from loaded(0)
    for step in range(steps):
        yield from loaded(step + 1) if step + 1 < steps else ()
        for j in range(wide):
            for i in range(high):
                yield f"sum_{i}_{j} = subgroupMatrixMultiplyAccumulate(a{i}_{step}, b{j}_{step}, sum_{i}_{j});"
