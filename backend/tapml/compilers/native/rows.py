"""Operators that gather rows: softmax, norms, sums and means, whatever they are called.

A row is what each of an operator's reductions goes over, and what its pointwise stages go over beside. A workgroup, or
a part of one where rows are short, takes a row: its lanes add up what they have met, a tree in workgroup memory adds
up theirs, and every lane goes on with the total. What several steps read of a row stays in registers, where it fits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from tapml.compilers.native.combining import combined, identity
from tapml.compilers.native.elementwise import bind, decompose
from tapml.compilers.native.kernel import (
    GROUP,
    GROUPS,
    LOCAL,
    Found,
    Launch,
    Text,
    ceildiv,
    check_counts,
    grid_of,
    product,
    times,
)
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.row_steps import Step, is_product, reads_along, steps_of_rows
from tapml.compilers.native.stages import (
    Numbering,
    loads,
    parts,
    variables_of,
)
from tapml.compilers.native.words import bare, literal, wgsl_type
from tapml.operators.program import Expression

_KEPT_FOURS = 8
"""Registers of four numbers that an invocation keeps of its row."""

_SHORT, _LONG = 16, 4096
"""Elements of a row that one invocation goes over in any case, and where they are strided."""

_SHORTEST = 32
"""Invocations of a row that takes each of them four turns at most."""

_MANY = 132
"""Rows that fill a large device."""

_FEWEST = 64
"""Invocations of a workgroup, below which several rows share one."""

_OUTER = ("i", "j", "k", "l")
_INNER = ("x", "y", "z", "w")
_OWN = ("row", "rows", "at", "lane", "inside", "group", "groups", "local", "half", "n", "partial", *_OUTER, *_INNER)


def rows(found: Found, lanes: int | None = None) -> list[Launch] | None:
    """One dispatch for all of it. None where nothing is reduced, or its reductions do not go over the same rows.
    `lanes`: invocations of a row that is not one invocation's, a power of two."""
    reductions = [stage for stage in found.stages if stage.combine]
    if not reductions:
        return None
    indices = found.indices(found.stages)
    steps = steps_of_rows(found, indices)
    if steps is None:
        return None
    reduced = [step for step in steps if step.stage.combine]
    sizes = {str(product(indices, [index.extent for index in step.inner]).terms) for step in steps if step.inner}
    if len(sizes) != 1 or any(is_product(indices, step, found) for step in reduced):
        return None
    along = any(reads_along(indices, step, found) for step in reduced)
    return [_Rows(found, indices, steps, along, lanes).launch()]


class _Rows:
    """`along`: the elements of a row lie beside each other; else those of neighbouring rows do, or none."""

    def __init__(
        self, found: Found, indices: Indices, steps: Sequence[Step], along: bool, lanes: int | None = None
    ) -> None:
        self._found = found
        self._indices = indices
        self._steps = steps
        inner = next(step.inner for step in steps if step.inner)
        self._count = times(*(index.extent for index in steps[0].outer))
        self._length = times(*(index.extent for index in inner))
        check_counts(indices, [self._count, self._length])
        self._text = Text(found, found.entry_point, indices, taken=_OWN)
        self._outputs = [step for step in steps if step.stage.buffer in found.outputs]
        self._reads = self._bind()
        most = indices.greatest(self._length)
        # A row an invocation, where rows are short, or neighbours read neighbours only so.
        alone = most <= _SHORT or (not along and (most <= _LONG or indices.greatest(self._count) >= _LONG))
        self._per = 1 if alone and not along else self._bind_wide()
        longest = -(-min(most, 2**20) // self._per)
        self._lanes = min(lanes or self._own_lanes(longest), 1 << int(math.log2(found.threads)))
        if alone:
            self._lanes = 1
        self._together = max(1, min(_FEWEST, found.threads) // self._lanes)
        self._turns = -(-longest // self._lanes)
        fixed = isinstance(self._length, int)
        self._keeps = fixed and self._turns <= (_KEPT_FOURS if self._per == 4 else 2 * _KEPT_FOURS)
        self._even = fixed and longest % self._lanes == 0
        self._numbers = Numbering()
        self._arrays: dict[int, str] = {}
        self._writer = self._text.writer()

    def _own_lanes(self, longest: int) -> int:
        """For a row of so many parts. Measured on an H200: each halving of a sum is a barrier, which costs more than
        another turn does, while a lane keeps what it has read; but few rows leave most of the device idle."""
        if longest <= 4 * _SHORTEST:
            return min(1 << (longest - 1).bit_length(), _SHORTEST)
        kept = _KEPT_FOURS if self._per == 4 else 2 * _KEPT_FOURS
        many = self._indices.greatest(self._count) >= _MANY
        most = 128 if many and longest <= 128 * kept else 256
        return min(1 << (longest - 1).bit_length(), most)

    def _bind(self) -> list[tuple[Sequence[Expression], str | None]]:
        """Bind what is read and written."""
        reads: list[tuple[Sequence[Expression], str | None]] = []
        for step in self._steps:
            reads.append(([step.value], step.inner[-1].variable if step.inner else None))
        for values, _ in reads:
            bind(self._text, values, None)
        for step in self._outputs:
            self._text.bind(step.stage.buffer, write=True)
        return reads

    def _bind_wide(self) -> int:
        """Bind as vec4 what can be; elements that a lane takes at once."""
        text, steps, outputs = self._text, self._steps, self._outputs
        per = 4
        for step in steps:
            if step.inner and not self._indices.size(step.inner[-1].extent).divisible(4):
                per = 1
        if per == 4:
            for step in outputs:
                if step.inner and not step.stage.combine:
                    writer = text.writer(step.inner[-1].variable)
                    if not writer.in_a_row(writer.flat(step.stored)):
                        per = 1
        if per == 4:
            self._widen(self._reads)
            for step in outputs:
                if step.inner and not step.stage.combine:
                    text.bind(step.stage.buffer, 4, write=True)
        return per

    def _widen(self, reads: Sequence[tuple[Sequence[Expression], str | None]]) -> None:
        """As vec4 what every step reads by fours in a row."""
        wide: dict[str, bool] = {}
        for values, lane in reads:
            writer = self._text.writer(lane)
            for load in loads(*values):
                fits = lane is not None and writer.by_fours(load)
                wide[str(load.value)] = wide.get(str(load.value), True) and fits
        for buffer, fits in wide.items():
            if fits:
                self._text.bind(buffer, 4)

    # ------------------------------------------------ the body

    def launch(self) -> Launch:
        writer, lanes, together = self._writer, self._lanes, self._together
        most = self._indices.greatest(self._count)
        grid, group = grid_of(ceildiv(self._count, together), -(-most // together) + 1)
        end = bare(writer.polynomial(self._indices.size(self._count)))
        lane = "lane" if lanes > 1 else "0"
        if together == 1:
            writer.line("let lane = i32(local);")
            writer.line(f"let row = i32({group});")
        else:
            if lanes > 1:
                writer.line(f"let lane = i32(local) % {lanes};")
            own = f"i32(local) / {lanes}" if lanes > 1 else "i32(local)"
            writer.line(f"let row = i32({group}) * {together} + {own};")
        exact = isinstance(self._count, int) and self._count % together == 0 and grid[1] == 1
        self._inside = "" if exact else f"row < {end}"
        self._lane_text = lane
        self._decomposed: set[tuple[str, ...]] = set()
        for step in self._steps:
            key = tuple(index.variable for index in step.outer)
            if step.outer and key not in self._decomposed:
                # Steps that see the rows' axes otherwise have names of their own for them.
                decompose(writer, step.outer, 1, "row", () if self._decomposed else _OUTER)
                self._decomposed.add(key)
        self._plan_kept()
        waiting = list(self._batches())
        for number_, batch in enumerate(waiting):
            if batch[0].stage.combine:
                self._gather(batch, number_)
            else:
                for step in batch:
                    self._write(step, number_)
        arguments = [GROUP, GROUPS, LOCAL] if grid[1] != 1 else [GROUP, LOCAL]
        size = lanes * together
        what = f"{lanes} invocations a row" if lanes > 1 else "a row an invocation"
        comment = f"{self._found.operator.name}: {what}{'' if together == 1 else f', {together} rows a workgroup'}."
        return self._text.launch(writer, comment, arguments, size, grid)

    def _batches(self) -> list[list[Step]]:
        """Reductions that do not wait for each other go over the row once."""
        found: list[list[Step]] = []
        for step in self._steps:
            last = found[-1] if found else []
            together = (
                last
                and bool(last[0].stage.combine) == bool(step.stage.combine)
                and last[0].form == step.form
                and not variables_of(step.value) & {f"total {other.stage.buffer}" for other in last}
            )
            if together:
                last.append(step)
            else:
                found.append([step])
        return found

    def _plan_kept(self) -> None:
        """Name a register for each part of the row that several batches ask for: elements, and terms of a sum."""
        self._kept: dict[int, tuple[Expression, int]] = {}
        if not self._keeps:
            return
        batches = self._batches()
        seen: dict[int, tuple[Expression, set[int]]] = {}
        for place, batch in enumerate(batches):
            for step in batch:
                inner = {index.variable for index in step.inner}
                candidates = loads(step.value)
                terms = [step.value] if step.stage.combine and step.value.kind == "call" else []
                for part in [*candidates, *terms, *(parts(step.value) if not step.stage.combine else ())]:
                    if part.kind in ("load", "call") and variables_of(part) & inner:
                        seen.setdefault(self._numbers(part), (part, set()))[1].add(place)
        several = {key: (part, min(at)) for key, (part, at) in seen.items() if len(at) > 1}
        # What is only asked for within something that is kept as well needs no register of its own after it.
        for key, (part, first) in several.items():
            if len(self._kept) < 2:
                self._kept[key] = part, first

    def _declare(self, batch_number: int) -> dict[int, str]:
        """Arrays for what this batch is the first to meet."""
        made = {}
        for key, (part, first) in self._kept.items():
            if first == batch_number:
                name = self._writer.names(str(part.value))
                kind = wgsl_type(part.dtype)
                element = f"vec4<{kind}>" if self._per == 4 else kind
                several = self._turns > 1
                self._writer.line(f"var {name} : {f'array<{element}, {self._turns}>' if several else element};")
                made[key] = self._arrays[key] = f"{name}[n]" if several else name
        return made

    def _loop(self, step: Step, body: Any) -> None:
        """`body(writer)` at each element of the row that a lane has, four at once where `per` is 4."""
        writer = self._writer
        length = self._indices.size(self._length).divided(self._per)
        end = bare(writer.polynomial(length))
        writer.lane = step.inner[-1].variable if self._per == 4 else None
        # What other loops ask for is written there.
        writer.forget_uses()
        if self._keeps and self._turns == 1:
            with writer.block("{" if self._even else f"if ({self._lane_text} < {end}) {{"):
                decompose(writer, step.inner, self._per, self._lane_text, _INNER)
                body()
        elif self._keeps:
            with writer.block(f"for (var n = 0; n < {self._turns}; n++) {{"):
                at = "n" if self._lanes == 1 else f"n * {self._lanes} + lane"
                writer.line(f"let at = {at};")
                if self._even:
                    decompose(writer, step.inner, self._per, "at", _INNER)
                    body()
                else:
                    with writer.block(f"if (at < {end}) {{"):
                        decompose(writer, step.inner, self._per, "at", _INNER)
                        body()
        else:
            with writer.block(f"for (var at = {self._lane_text}; at < {end}; at += {self._lanes}) {{"):
                decompose(writer, step.inner, self._per, "at", _INNER)
                body()
        writer.lane = None

    def _known(self, made: dict[int, str], step: Step) -> None:
        """Inside a loop: what is kept is read from its register, or put there."""
        writer = self._writer
        lanes = "all" if self._per == 4 else None
        for key, name in self._arrays.items():
            part = self._kept[key][0]
            if not any(self._numbers(found) == key for found in parts(step.value)):
                continue
            if key in made:
                text = writer.vector(part) if self._per == 4 else writer.value(part)
                writer.line(f"{name} = {bare(text)};")
                del made[key]
            writer.give(part, name, lanes)

    def _gather(self, batch: Sequence[Step], number_: int) -> None:
        writer = self._writer
        sums = []
        for step in batch:
            start = step.stage.start
            assert start is not None
            dtype = "float32" if start.dtype == "float16" else start.dtype
            name = writer.names("sum" if step.stage.combine == "add" else str(step.stage.combine))
            first = literal(dataclasses.replace(identity(step.stage), dtype=dtype))
            kind = wgsl_type(dtype)
            if self._per == 4 and step.inner:
                writer.line(f"var {name} = vec4<{kind}>({bare(first)});")
            else:
                writer.line(f"var {name} = {bare(first)};")
            sums.append((step, name, dtype))
        made = self._declare(number_)
        self._hoist(batch)

        def body() -> None:
            for step, _, _ in sums:
                writer.expect(step.value)
            for step, name, dtype in sums:
                self._known(made, step)
                term = step.value if dtype == step.value.dtype else Expression("cast", dtype, (step.value,))
                text = writer.vector(term) if self._per == 4 else writer.value(term)
                writer.line(f"{name} = {combined(step.stage.combine, name, text)};")

        if batch[0].inner:
            self._loop(batch[0], body)
        else:
            body()
        for step, name, dtype in sums:
            self._tree(step, name, dtype)

    def _tree(self, step: Step, name: str, dtype: str) -> None:
        """One total of what all lanes of a row have."""
        writer, combine, lanes = self._writer, step.stage.combine, self._lanes
        value = name
        if self._per == 4 and step.inner:
            x, y, z, w = (f"{name}.{lane}" for lane in "xyzw")
            value = bare(combined(combine, combined(combine, x, y), combined(combine, z, w)))
        if lanes > 1:
            partial = "partial" if dtype == "float32" else f"partial_{wgsl_type(dtype)}"
            declared = f"var<workgroup> {partial} : array<{wgsl_type(dtype)}, {lanes * self._together}>;"
            if declared in self._text.declarations:
                # All lanes have read the total before.
                writer.line("workgroupBarrier();")
            else:
                self._text.declarations.append(declared)
            writer.line(f"{partial}[local] = {value};")
            writer.line("workgroupBarrier();")
            with writer.block(f"for (var half = {lanes // 2}u; half > 0u; half /= 2u) {{"):
                both = combined(combine, f"{partial}[local]", f"{partial}[local + half]")
                with writer.block("if (u32(lane) < half) {"):
                    writer.line(f"{partial}[local] = {both};")
                writer.line("workgroupBarrier();")
            first = "0" if self._together == 1 else "local - u32(lane)"
            value = f"{partial}[{first}]"
        start = step.stage.start
        assert start is not None
        if combine in ("add", "mul") and start.value != identity(step.stage).value:
            value = combined(combine, value, literal(dataclasses.replace(start, dtype=dtype)))
        if dtype != start.dtype:
            value = f"{wgsl_type(start.dtype)}({value})"
        total = writer.let("total" if combine == "add" else f"{combine}imum" if combine != "mul" else "product", value)
        writer.variables[f"total {step.stage.buffer}"] = total
        if step.stage.buffer in self._found.outputs:
            self._store_once(step, total)

    def _store_once(self, step: Step, text: str) -> None:
        conditions = [found for found in (self._inside, "lane == 0" if self._lanes > 1 else "") if found]
        access = self._text.accesses[step.stage.buffer]
        place = self._writer.at(access, self._writer.flat(step.stored))
        if conditions:
            with self._writer.block(f"if ({' && '.join(conditions)}) {{"):
                self._writer.line(f"{place} = {text};")
        else:
            self._writer.line(f"{place} = {text};")

    def _hoist(self, batch: Sequence[Step]) -> None:
        """What is the same along the row."""
        for step in batch:
            known = {index.variable for index in step.outer}
            known |= {name for name in self._writer.variables if name.startswith("total ")}
            known |= set(self._indices.symbols)
            if step.inner:
                self._writer.hoist(step.value, known)

    def _write(self, step: Step, number_: int) -> None:
        writer = self._writer
        if not step.inner:
            self._store_once(step, bare(writer.value(step.value)))
            return
        self._hoist([step])
        made = self._declare(number_)
        access = self._text.accesses[step.stage.buffer]
        lanes = "all" if self._per == 4 else None

        def body() -> None:
            self._known(made, step)
            text = writer.vector(step.value) if self._per == 4 else writer.value(step.value)
            place = writer.at(access, writer.flat(step.stored), lanes)
            writer.line(f"{place} = {bare(text)};")

        if self._inside:
            with writer.block(f"if ({self._inside}) {{"):
                self._loop(step, body)
        else:
            self._loop(step, body)
