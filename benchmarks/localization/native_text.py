"""Finding one's way in WGSL as tapml's own compiler writes it: brackets only where the language needs them, numbers
without a suffix, vectors of four, and functions of its own beside the entry point."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

from benchmarks.localization.expressions import Expression, Reader, terms
from benchmarks.localization.wgsl_text import FLOATS, LEAST, Access, Binary, Code, Loop, RowSum, Span, Start, Thread

_NUMBER = r"(?<![\w.])-?\d+\.\d+(?:e[+-]\d+)?f?(?!\w)"
_HEAD = re.compile(r"\s*(?://|fn |@)")
_ONE = {"f32": "1.0f", "vec4<f32>": "vec4<f32>(1.0f)", "i32": "1i", "vec4<i32>": "vec4<i32>(1i)"}
_ZERO = {"f32": "0.0f", "vec4<f32>": "vec4<f32>(0.0f)"}
_TYPES = {"int": "i32", "float": "f32"}


def read(text: str) -> Code:
    """The text of a WGSL file, whichever compiler wrote it."""
    return Code(text) if "blockIdx" in text else NativeCode(text)


class NativeCode(Code):
    """All functions of the file are its body; `body` is where the entry point's statements begin."""

    number = _NUMBER
    element = ".+"
    """Of halves, which are read by functions of their own, words."""

    @cached_property
    def _reader(self) -> Reader:
        return Reader(self.text)

    @cached_property
    def body(self) -> int:
        return self.text.index("{", self.text.index("\nfn ", self.text.index("@compute"))) + 1

    @cached_property
    def lines(self) -> list[Span]:
        """Those of all functions, without heads and comments."""
        start = self.text.index("\nfn ") + 1
        found = []
        for line in self.text[start:].splitlines(keepends=True):
            if not _HEAD.match(line):
                found.append(Span(start, start + len(line.rstrip())))
            start += len(line)
        return found

    def integer(self, value: int) -> str:
        return str(value)

    def is_integer(self, text: str) -> bool:
        return re.fullmatch(r"[\d\s+*()]+[iu]?", text) is not None

    def operand(self, span: Span) -> str:
        """In brackets where an operator stands in it."""
        text = self[span]
        return text if re.fullmatch(r"[\w.]+", text) or self._is_call(text) else f"({text})"

    def _is_call(self, text: str) -> bool:
        opened = re.match(r"[\w<>.]*[\[(]", text)
        return opened is not None and Code(text).closing(opened.end() - 1) == len(text) - 1

    # ------------------------------------------------ accesses

    @cached_property
    def shared(self) -> tuple[str, ...]:
        return tuple(f"{name}[" for name in re.findall(r"var<workgroup> (\w+) :", self.text))

    @cached_property
    def indices(self) -> list[Span]:
        return [Span(start, self.closing(start - 1)) for start in self._opened]

    @cached_property
    def _opened(self) -> list[int]:
        """Behind the brackets of accesses: to arrays and by the functions that read halves."""
        return [match.end() for match in self.matches(r"(?<=[\w\]])\[|(?<=_read)\(")]

    @cached_property
    def accesses(self) -> list[Access]:
        found = []
        for match in self.matches(r"\b(\w+)(?:\[|(?<=_read)\()"):
            end = self.closing(match.end() - 1)
            line = self.text.rfind("\n", 0, match.start()) + 1
            last = end
            while self.text.startswith("[", last + 1):
                last = self.closing(last + 1)
            stored = re.compile(r" [-+*]?= ").match(self.text, last + 1) is not None
            stores = not self.text[line : match.start()].strip() and stored
            name = match[1].removesuffix("_read") if self.text[end] == ")" else match[1]
            found.append(Access(name, Span(match.start(), end + 1), Span(match.end(), end), stores))
        return found

    def kind(self, access: Access) -> str:
        halves = self.text[access.index.end] == ")"
        return "f32" if halves else super().kind(access)

    @cached_property
    def reads(self) -> list[tuple[Span, Span]]:
        """Those of the functions that read inputs, too: their arguments say where."""
        found = super().reads
        for call in self.calls(*self._readers) if self._readers else ():
            found.append((call.whole, Span(call.arguments[0].start, call.arguments[-1].end)))
        return found

    @cached_property
    def _readers(self) -> list[str]:
        return [name for name in re.findall(r"\bfn (\w+)\(", self.text) if re.fullmatch(r"(?:left|right)4?", name)]

    # ------------------------------------------------ expressions

    @cached_property
    def binaries(self) -> list[Binary]:
        """Without brackets of their own."""
        return [self._binary(found) for found in self._reader.expressions]

    def _binary(self, found: Expression) -> Binary:
        left, right = (Span(part.start, part.end) for part in found.parts)
        return Binary(Span(found.start, found.end), left, found.operator, right, found.type)

    def computes_floats(self, binary: Binary) -> bool:
        return binary.type in (*FLOATS, "float")

    def type_of(self, span: Span) -> str:
        return self._reader.types.get((span.start, span.end), "")

    @cached_property
    def row_sums(self) -> list[RowSum]:
        """Of `row * columns + column + more`, with all that stands behind the product."""
        inner = {part for found in self._reader.expressions if found.operator in "+-" for part in found.parts[:1]}
        found = []
        for whole in self._reader.expressions:
            if whole.operator not in ("+", "-") or whole in inner:
                continue
            parts = list(terms(whole))
            for (sign, product), (following, rest) in pairwise(parts):
                columns = self._columns(product)
                column = Span(rest.start, whole.end)
                if sign == following == "+" and columns and not self.is_integer(self[column]):
                    row = Span(product.parts[0].start, product.parts[0].end)
                    found.append(RowSum(Span(product.start, whole.end), row, columns, column))
        return found

    def _columns(self, product: Expression) -> int:
        if product.operator != "*":
            return 0
        text = self.text[product.parts[1].start : product.parts[1].end]
        return int(text) if text.isdigit() else 0

    @cached_property
    def values(self) -> list[tuple[Span, str]]:
        """Named floats among them."""
        found = []
        for value in self._reader.values:
            kind = _TYPES.get(value.expression.type, value.expression.type)
            span = Span(value.expression.start, value.expression.end)
            constant = re.fullmatch(rf"(?:[\w<>]+\()?(?:{_NUMBER}|-?\d+[iu]?)?\)?", self[span])
            if not constant and (kind in FLOATS or not value.keyword):
                found.append((span, kind))
        return found

    @cached_property
    def float_values(self) -> list[tuple[Span, str]]:
        return [(span, kind) for span, kind in self.values if kind in FLOATS]

    # ------------------------------------------------ control

    @cached_property
    def starts(self) -> list[Start]:
        """Those of what the function adds up, or finds the largest of."""
        found = []
        for match in self.matches(r"var (\w+) = ((?:vec4<\w+>\()?(-?[\d.]+(?:e[+-]?\d+)?[fi]?)?\)?);"):
            kind = self._kinds.get(match.start(2), "")
            behind = self.text[match.end() :]
            again = re.search(rf"\n *{match[1]} (?:\+= |= .*\b{match[1]}\b)", behind)
            if again and kind in _ONE:
                least = match[3] is not None and re.fullmatch(LEAST, match[3])
                new = _ZERO[kind] if least else _ONE[kind]
                found.append(Start(match[1], Span(match.start(2), match.end(2)), new))
        return found

    @cached_property
    def _kinds(self) -> dict[int, str]:
        """Where what is stored begins -> its type."""
        return {
            value.expression.start: _TYPES.get(value.expression.type, value.expression.type)
            for value in self._reader.values
        }

    @cached_property
    def loops(self) -> list[Loop]:
        """What one step more or less is: four elements where an invocation reads a vector of them."""
        found = []
        for match in self.matches(r"for \(var (\w+) = ([^;]+); \1 < (\d+); \1(?:\+\+| \+= (\d+))\)"):
            vectors = re.search(r" \* (\d+)$", match[2])
            step = int(vectors[1] if vectors else match[4] or 1)
            begins = str(int(match[2]) + step) if match[2].lstrip("-").isdigit() else f"{match[2]} + {step}"
            bound = int(match[3])
            found.append(
                Loop(Span(match.start(2), match.end(2)), begins, Span(match.start(3), match.end(3)), bound, step)
            )
        return found

    @cached_property
    def steps(self) -> list[tuple[Span, int]]:
        return [
            (Span(match.start(1), match.end(1)), int(match[1]))
            for match in self.matches(r"if \(\w+ < (\d+)u?\) \{")
            if self.text[match.end() :].lstrip().startswith(self.shared)
        ]

    # ------------------------------------------------ workgroups and invocations

    @cached_property
    def group_size(self) -> dict[str, int]:
        found = re.search(r"@workgroup_size\((\d+)", self.text)
        return {"x": int(found[1])} if found else {}

    @cached_property
    def tiles(self) -> dict[str, int]:
        """A variable that counts elements, rows or columns -> how many of them a workgroup has."""
        found = {}
        for match in self.matches(r"let (\w+) = (?:i32\(group\.x\)|tile\b[\w %/]*?) \* (\d+)(?: \+ [^;]+)?;"):
            found[match[1]] = int(match[2])
        for match in self.matches(r"let (\w+) = i32\(group\.x \* (\d+)u \+ \w+\);"):
            found[match[1]] = int(match[2])
        return found

    @cached_property
    def threads(self) -> list[Thread]:
        size = self.group_size.get("x", 1)
        found = []
        for name, operator, number in re.findall(r"let (\w+) = (?:index|i32\(local\)) (%|/) (\d+);", self.text):
            number_of = int(number) if operator == "%" else size // int(number)
            if number_of > 1:
                found.append(
                    Thread(name, f"min({name}, {number_of - 2})", f"last threads along {name} as those before")
                )
        for name, tile in self.tiles.items():
            if tile > 1 and tile & (tile - 1) == 0:
                last = f"({name} - select(0, 1, ({name} & {tile - 1}) == {tile - 1}))"
                found.append(Thread(name, last, f"last threads along {name} as those before"))
                found.append(Thread(name, f"({name} & -{tile + 1})", "odd workgroups as those before"))
        return found

    def last_tiles(self) -> Iterator[tuple[Span, int, int, int]]:
        for name, tile in self.tiles.items():
            for match in self.matches(rf"\b{name} (?:<|>=) (\d+)\b"):
                extent = int(match[1])
                yield Span(match.start(1), match.end(1)), extent, (extent - 1) // tile * tile, tile
