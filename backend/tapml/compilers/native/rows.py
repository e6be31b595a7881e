"""Operators that gather rows: softmax, norms, sums and means, whatever they are called.

A row is what each of an operator's reductions goes over, and what its pointwise stages go over beside. A workgroup, or
a part of one where rows are short, takes a row: its lanes add up what they have met, their sums are added up in
workgroup memory, and every lane goes on with the total. What several steps read of a row stays in registers, where it
fits.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

from tapml.compilers.native.combining import all_combined, combined, identity
from tapml.compilers.native.elementwise import decompose, elementwise
from tapml.compilers.native.kernel import GROUP, GROUPS, LOCAL, Found, Launch, ceildiv, grid_of, product
from tapml.compilers.native.long_rows import in_parts
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.row_layout import AT_ONCE, INNER, OUTER, RowLayout
from tapml.compilers.native.row_steps import Step, is_product, length_of, reads_along, steps_of_rows
from tapml.compilers.native.staged import staged
from tapml.compilers.native.stages import loads, parts, variables_of
from tapml.compilers.native.words import bare, literal, wgsl_type
from tapml.operators.program import Expression

_READ_BY_ALL = 16
"""Numbers of a row that every lane of it adds up by itself."""


def rows(found: Found, lanes: int | None = None) -> list[Launch] | None:
    """One dispatch for all of it, or several where few rows are long (long_rows.py). None where nothing is reduced, or
    its reductions do not go over the same rows. `lanes`: invocations of a row that is not one invocation's, a power of
    two: one dispatch."""
    reductions = [stage for stage in found.stages if stage.combine]
    if not reductions:
        return None
    indices = found.own_indices()
    known = found.memory.of(indices, "rows", (), lambda: _over_rows(found, indices))
    if known is None:
        return None
    shared_out = in_parts(found, known[0]) if lanes is None else None
    launches = staged(shared_out, (elementwise, rows)) if shared_out is not None else None
    return launches or [_Rows(found, indices, *known, lanes).launch()]


def _over_rows(found: Found, indices: Indices) -> tuple[list[Step], bool] | None:
    """Its steps, and whether the elements of a row lie beside each other in something that is reduced."""
    steps = steps_of_rows(found, indices)
    if steps is None:
        return None
    reduced = [step for step in steps if step.stage.combine]
    sizes = {str(product(indices, [index.extent for index in step.inner]).terms) for step in reduced if step.inner}
    if len(sizes) != 1 or any(is_product(indices, step, found) for step in reduced):
        return None
    # A row may become fewer words; of what each of a whole image is multiplied by, a few terms, there are more kernels.
    longest = max(indices.greatest(length_of(step)) for step in reduced)
    if any(indices.greatest(length_of(step)) > longest for step in steps if step.inner):
        return None
    return steps, any(reads_along(indices, step, found) for step in reduced)


class _Rows(RowLayout):
    """Writes the kernel."""

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
            own, rest = ("%", "/") if self._turned else ("/", "%")
            by = together if self._turned else lanes
            if lanes > 1:
                writer.line(f"let lane = i32(local) {rest} {by};")
            own = f"i32(local) {own} {by}" if lanes > 1 else "i32(local)"
            writer.line(f"let row = i32({group}) * {together} + {own};")
        exact = isinstance(self._count, int) and self._count % together == 0 and grid[1] == 1
        self._inside = "" if exact else f"row < {end}"
        self._lane_text = lane
        self._decomposed: set[tuple[str, ...]] = set()
        self._totals = 0
        for step in self._steps:
            key = tuple(index.variable for index in step.outer)
            if step.outer and key not in self._decomposed:
                # Steps that see the rows' axes otherwise have names of their own for them.
                decompose(writer, step.outer, 1, "row", () if self._decomposed else OUTER)
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
        launch = self._text.launch(writer, comment, arguments, size, grid)
        return dataclasses.replace(launch, shared_out=lanes if self._takes_lanes else None)

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
        length = self._indices.size(length_of(step)).divided(self._per)
        end = bare(writer.polynomial(length))
        writer.lane = step.inner[-1].variable if self._per == 4 else None
        # What other loops ask for is written there.
        writer.forget_uses()
        if self._keeps and self._turns == 1:
            with writer.block("{" if self._even else f"if ({self._lane_text} < {end}) {{"):
                decompose(writer, step.inner, self._per, self._lane_text, INNER)
                body()
        elif self._keeps:
            with writer.block(f"for (var n = 0; n < {self._turns}; n++) {{"):
                at = "n" if self._lanes == 1 else f"n * {self._lanes} + lane"
                writer.line(f"let at = {at};")
                if self._even:
                    decompose(writer, step.inner, self._per, "at", INNER)
                    body()
                else:
                    with writer.block(f"if (at < {end}) {{"):
                        decompose(writer, step.inner, self._per, "at", INNER)
                        body()
        elif self._is_window(step):
            with contextlib.ExitStack() as loops:
                for index, name in zip(step.inner, INNER, strict=False):
                    loops.enter_context(writer.block(f"for (var {name} = 0; {name} < {index.extent}; {name}++) {{"))
                    writer.variables[index.variable] = name
                body()
        else:
            begin = self._whole_turns(step, body)
            if begin is not None:
                with writer.block(f"for (var at = {begin}; at < {end}; at += {self._lanes}) {{"):
                    decompose(writer, step.inner, self._per, "at", INNER)
                    body()
        writer.lane = None

    def _is_window(self, step: Step) -> bool:
        """Whether one invocation goes over a few short axes, whose loops a compiler unrolls."""
        fixed = all(isinstance(index.extent, int) for index in step.inner)
        return fixed and self._lanes == self._per == 1 and 1 < len(step.inner) <= len(INNER)

    def _whole_turns(self, step: Step, body: Any) -> str | None:
        """Turns of a long row that all lanes have, several at a time, so that what these read is on its way together.
        The text of where the others begin; None where there are none."""
        writer, lanes = self._writer, self._lanes
        length = length_of(step)
        if not isinstance(length, int):
            return self._lane_text
        longest = -(-length // self._per)
        whole = longest // (lanes * AT_ONCE) * AT_ONCE
        if whole:
            with writer.block(f"for (var n = 0; n < {whole}; n += {AT_ONCE}) {{"):
                for more in range(AT_ONCE):
                    with writer.block("{"):
                        turn = f"(n + {more})" if more else "n"
                        writer.line(f"let at = {turn if lanes == 1 else f'{turn} * {lanes} + lane'};")
                        decompose(writer, step.inner, self._per, "at", INNER)
                        writer.forget_uses()
                        body()
        if whole * lanes >= longest:
            return None
        return self._lane_text if not whole else str(whole * lanes) + ("" if lanes == 1 else " + lane")

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
            self._total(step, name, dtype)

    def _total(self, step: Step, name: str, dtype: str) -> None:
        """One total of what all lanes of a row have."""
        writer, combine, lanes = self._writer, step.stage.combine, self._lanes
        value = name
        if self._per == 4 and step.inner:
            x, y, z, w = (f"{name}.{lane}" for lane in "xyzw")
            value = bare(combined(combine, combined(combine, x, y), combined(combine, z, w)))
        if lanes > 1:
            value = self._added_up(combine, value, dtype)
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

    def _added_up(self, combine: str | None, value: str, dtype: str) -> str:
        """The total of what the lanes of a row have, each `value`: in one step, or in two, of which every lane takes
        the second by itself, for a barrier takes longer than what it adds up. Measured on an H200."""
        writer, lanes, together = self._writer, self._lanes, self._together
        kind = wgsl_type(dtype)
        # Totals take turns with two arrays: before the next but one each lane has read what it is of.
        self._totals += 1
        partial = f"{'partial' if self._totals % 2 else 'other'}{'' if dtype == 'float32' else f'_{kind}'}"
        declared = f"var<workgroup> {partial} : array<{kind}, {lanes * together}>;"
        if declared not in self._text.declarations:
            self._text.declarations.append(declared)
        writer.line(f"{partial}[local] = {value};")
        writer.line("workgroupBarrier();")
        # What lanes beside each other of a row have lies so far apart.
        apart = together if self._turned else 1
        rest = min(lanes, _READ_BY_ALL)
        if lanes > rest:
            own = [f"{partial}[local + {n * rest * apart}u]" for n in range(1, lanes // rest)]
            with writer.block(f"if (lane < {rest}) {{"):
                writer.line(f"{partial}[local] = {all_combined(combine, [f'{partial}[local]', *own])};")
            writer.line("workgroupBarrier();")
        if together == 1:
            shares = [f"{partial}[{n}]" for n in range(rest)]
        else:
            begin = writer.let("first", f"local % {together}u" if self._turned else "local - u32(lane)")
            shares = [f"{partial}[{begin}{f' + {n * apart}u' if n else ''}]" for n in range(rest)]
        return all_combined(combine, shares)

    def _store_once(self, step: Step, text: str) -> None:
        conditions = [found for found in (self._inside, "lane == 0" if self._lanes > 1 else "") if found]
        access = self._text.accesses[step.stage.buffer]
        line = self._writer.store(access, self._writer.flat(step.stored), text)
        if conditions:
            with self._writer.block(f"if ({' && '.join(conditions)}) {{"):
                self._writer.line(line)
        else:
            self._writer.line(line)

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
            writer.line(writer.store(access, writer.flat(step.stored), bare(text), lanes))

        if self._inside:
            with writer.block(f"if ({self._inside}) {{"):
                self._loop(step, body)
        else:
            self._loop(step, body)
