"""What becomes of a product's sums, as a function of a kernel's text: what the operator's program has behind the
product, or a temporary that keeps sums of parts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tapml.compilers.native.access import Access
from tapml.compilers.native.contraction import TOTAL, Contraction
from tapml.compilers.native.factors import Factors
from tapml.compilers.native.kernel import Text
from tapml.compilers.native.stages import loads, variable
from tapml.compilers.native.text import Writer
from tapml.compilers.native.words import bare, tight, wgsl_type
from tapml.operators.program import Expression


@dataclass(frozen=True)
class Parts:
    """The temporary between two dispatches of a product: `count` sums of each element, of parts of the inner axis."""

    name: str
    count: int

    def bind(self, text: Text, write: bool = True, fours: bool = False) -> None:
        text.accesses[self.name] = Access("parts", "float32", (1,), 4 if fours else 1)
        if write:
            text.written.add(self.name)

    def kept(self, rows: str, columns: str, fours: bool) -> str:
        """The function that keeps one, or four beside each other."""
        place = f"(part * {rows} + row) * {columns} + column"
        place = f"({place}) / 4" if fours else place
        return "\n".join(
            [
                f"{head_of_finish('part', fours)} {{",
                f"  if (row < {rows} && column < {columns}) {{",
                f"    parts[{place}] = total;",
                "  }",
                "}\n",
            ]
        )


def head_of_finish(batch: str, fours: bool, scalar: str = "f32", name: str = "finish", given: str = "total") -> str:
    """Of the function that is given a sum, or four of columns beside each other."""
    number, kind = ("4", f"vec4<{scalar}>") if fours else ("", scalar)
    return f"fn {name}{number}({batch} : i32, row : i32, column : i32, {given} : {kind})"


class Ending(Factors):
    """What becomes of a product's sums."""

    def __init__(self, text: Text, found: Contraction) -> None:
        super().__init__(text, found.batch)
        self._found = found
        (self._value, self._store), self._ends = self._merged(
            [found.finish, found.stored], [found.batch, found.rows, found.columns]
        )

    def _four_columns(self) -> str | None:
        """The axis along which four columns are four elements of the output beside each other; None where they are
        not."""
        return self._in_fours(self._ends[2][-1] if self._ends[2] else None, self._store)

    def _bind_end(self, lane: str | None, taken: Collection[str] = ()) -> None:
        """What follows the sums, and the output: as vec4 where four columns are always whole vectors of it. `taken`:
        buffers that something else reads."""
        writer = self._writer(lane)
        reads: dict[str, list[Expression]] = {}
        for load in loads(self._value):
            reads.setdefault(str(load.value), []).append(load)
        for name in self._buffers:
            if lane and name in reads and name not in taken and all(map(writer.by_fours, reads[name])):
                self._text.bind(name, 4)
        self._text.bind(str(self._store.value), 4 if lane else 1, write=True)

    @property
    def reads(self) -> bool:
        """Whether what becomes of a sum depends on anything that is read from memory."""
        return bool(loads(self._value))

    @property
    def kind(self) -> str:
        """WGSL's type of what becomes of a sum."""
        return wgsl_type(self._value.dtype)

    def _finish(self, lane: str | None = None) -> str:
        """The function that stores what becomes of a sum, or, along `lane`, of four."""
        writer = self._writer(lane)
        writer.lines.append(f"{head_of_finish('batch', lane is not None, self._of_sums)} {{")
        writer.lines += self._returning()
        self._placed(writer)
        self._put(writer, lane, self._finished(writer, lane))
        writer.lines.append("}\n")
        return self._ended(writer)

    def _finish_apart(self, lane: str | None) -> str:
        """Two functions: `finished`, of what becomes of a sum, or of four, wherever it is, and `stored`, which stores
        that. What several sums become is read from memory before the first is stored: no compiler would do so, for
        what is stored might be what is read."""
        fours = lane is not None
        kind = f"vec4<{self.kind}>" if fours else self.kind
        writer = self._writer(lane)
        writer.lines.append(f"{head_of_finish('batch', fours, self._of_sums, 'finished')} -> {kind} {{")
        self._placed(writer)
        writer.line(f"return {self._finished(writer, lane)};")
        writer.lines.append("}\n")
        made = self._ended(writer)
        writer = self._writer(lane)
        writer.lines.append(f"{head_of_finish('batch', fours, self.kind, 'stored', 'found')} {{")
        writer.lines += self._returning()
        self._placed(writer)
        self._put(writer, lane, "found")
        writer.lines.append("}\n")
        return f"{made}\n{self._ended(writer)}"

    @property
    def _of_sums(self) -> str:
        return "i32" if self._found.dtype == "int32" else "f32"

    def _returning(self) -> Sequence[str]:
        found = self._found
        beyond = f"row >= {self._count(found.rows)} || column >= {self._count(found.columns)}"
        return f"  if ({beyond}) {{", "    return;", "  }"

    def _placed(self, writer: Writer) -> None:
        for axes, name in zip(self._ends, ("batch", "row", "column"), strict=True):
            self._decoded(writer, axes, name)

    def _finished(self, writer: Writer, lane: str | None) -> str:
        found = self._found
        kind = wgsl_type(found.dtype)
        kind = f"vec4<{kind}>" if lane else kind
        total = "total" if found.dtype in ("int32", "float32") else f"{kind}(total)"
        if not lane:
            writer.give(variable(TOTAL, found.dtype), total)
            return bare(writer.value(self._value))
        writer.quad = f"{tight(writer.variables[lane])} / 4"
        writer.varying = {TOTAL}
        writer.variables[TOTAL] = total
        return bare(writer.vector(self._value))

    def _put(self, writer: Writer, lane: str | None, value: str) -> None:
        if lane:
            writer.quad = f"{tight(writer.variables[lane])} / 4"
        output = self._text.accesses[str(self._store.value)]
        writer.line(writer.store(output, self._place(self._store), value, "all" if lane else None))
