"""What becomes of a product's sums, as a function of a kernel's text: what the operator's program has behind the
product, or a temporary that keeps sums of parts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tapml.compilers.native.access import Access
from tapml.compilers.native.contraction import TOTAL, Contraction
from tapml.compilers.native.factors import Factors
from tapml.compilers.native.kernel import Text
from tapml.compilers.native.stages import loads, variable
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


def head_of_finish(batch: str, fours: bool, scalar: str = "f32") -> str:
    """Of the function that is given a sum, or four of columns beside each other."""
    name, kind = ("finish4", f"vec4<{scalar}>") if fours else ("finish", scalar)
    return f"fn {name}({batch} : i32, row : i32, column : i32, total : {kind})"


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
        return self._by_fours(self._ends[2][-1] if self._ends[2] else None, self._store)

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

    def _finish(self, lane: str | None = None) -> str:
        """The function that stores what becomes of a sum, or, along `lane`, of four."""
        found, writer = self._found, self._writer(lane)
        whole = found.dtype == "int32"
        writer.lines.append(f"{head_of_finish('batch', lane is not None, 'i32' if whole else 'f32')} {{")
        writer.line(f"if (row >= {self._count(found.rows)} || column >= {self._count(found.columns)}) {{")
        writer.line("  return;")
        writer.line("}")
        for axes, name in zip(self._ends, ("batch", "row", "column"), strict=True):
            self._decoded(writer, axes, name)
        kind = wgsl_type(found.dtype)
        kind = f"vec4<{kind}>" if lane else kind
        total = "total" if whole or found.dtype == "float32" else f"{kind}(total)"
        if lane:
            writer.quad = f"{tight(writer.variables[lane])} / 4"
            writer.varying = {TOTAL}
            writer.variables[TOTAL] = total
            value = bare(writer.vector(self._value))
        else:
            writer.give(variable(TOTAL, found.dtype), total)
            value = bare(writer.value(self._value))
        output = self._text.accesses[str(self._store.value)]
        writer.line(writer.store(output, self._place(self._store), value, "all" if lane else None))
        writer.lines.append("}\n")
        return self._ended(writer)
