"""Finding one's way in WGSL as TVM writes it: one statement a line, every binary expression in parentheses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

FLOATS = ("f32", "vec4<f32>")
"""The types of floats that kernels compute with."""

FLOAT = r"(?<![\w.])-?\d\.\d+e[+-]\d+f"
LARGEST = 3e38
LEAST = r"-(?:3\.4028\d*e\+38|0x1\.fffffep\+127)f"

_OPEN, _CLOSE = "([", ")]"
_BINARY = re.compile(r" (\+|-|\*|/|%|<|<=|==|!=|&&|\|\||&|\|) |(>>)")


@dataclass(frozen=True)
class Span:
    """A piece of the text, `start` to `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class Binary:
    """`(left operator right)`; `whole` includes the parentheses. `type`: of what it gives, where the text says it."""

    whole: Span
    left: Span
    operator: str
    right: Span
    type: str = ""


@dataclass(frozen=True)
class Call:
    """`name(arguments)`."""

    name: str
    whole: Span
    arguments: tuple[Span, ...]


@dataclass(frozen=True)
class Access:
    """`name[index]`. `stores`: an assignment's target."""

    name: str
    whole: Span
    index: Span
    stores: bool


@dataclass(frozen=True)
class RowSum:
    """`((row * columns) + column)`."""

    whole: Span
    row: Span
    columns: int
    column: Span


@dataclass(frozen=True)
class Start:
    """`number`: what `name`, which is accumulated, begins with; `other`: a wrong beginning."""

    name: str
    number: Span
    other: str


@dataclass(frozen=True)
class Loop:
    """A counting loop to `bound`. `later`: what it begins with where it begins one late; `step`: how much less the
    bound is where it ends one early."""

    begins: Span
    later: str
    bound_at: Span
    bound: int
    step: int


@dataclass(frozen=True)
class Thread:
    """What in an index tells invocations or workgroups apart, and another one's `instead` of it."""

    text: str
    instead: str
    description: str


class Code:
    """The text of one WGSL file and what stands where in it."""

    number = FLOAT
    """What numbers of floats are."""

    element = r"\w+"
    """What types of buffers' elements are."""

    shared: tuple[str, ...] = ("red_buf",)
    """What statements begin with that are steps of a sum of several invocations."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __getitem__(self, span: Span) -> str:
        return self.text[span.start : span.end]

    def line_of(self, position: int) -> int:
        """Counted from 1."""
        return self.text.count("\n", 0, position) + 1

    @cached_property
    def body(self) -> int:
        """Where the entry point's statements begin, after the guard that TVM puts before them."""
        start = self.text.index("{", self.text.index("\nfn ")) + 1
        guard = re.compile(r"\s*if \(blockIdx\.z \* gridDim\.x .*\{ return; \}").match(self.text, start)
        return guard.end() if guard else start

    @cached_property
    def lines(self) -> list[Span]:
        """The body's lines, without values that nothing reads: TVM names subexpressions and then writes them out."""
        found, start = [], self.body
        for line in self.text[self.body :].splitlines(keepends=True):
            named = re.match(r"\s*let (\w+) :", line)
            if named is None or len(re.findall(rf"\b{named[1]}\b", self.text)) > 1:
                found.append(Span(start, start + len(line.rstrip())))
            start += len(line)
        return found

    def matches(self, pattern: str) -> Iterator[re.Match[str]]:
        """Where a pattern matches within a line of the body."""
        compiled = re.compile(pattern)
        for line in self.lines:
            yield from compiled.finditer(self.text, line.start, line.end)

    def closing(self, position: int) -> int:
        """Where the bracket that opens at `position` closes."""
        depth = 0
        for place in range(position, len(self.text)):
            if self.text[place] in _OPEN:
                depth += 1
            elif self.text[place] in _CLOSE:
                depth -= 1
                if depth == 0:
                    return place
        raise ValueError(f"the bracket at {position} does not close")

    @cached_property
    def indices(self) -> list[Span]:
        """What stands between the brackets of each access to a buffer or array."""
        opened = (match.end() for match in self.matches(r"(?<=\w)\["))
        return [Span(start, self.closing(start - 1)) for start in opened]

    @cached_property
    def accesses(self) -> list[Access]:
        """All accesses to buffers and arrays of the body, in the order of the text."""
        found = []
        for match in self.matches(r"\b(\w+)\["):
            end = self.closing(match.end() - 1)
            line = self.text.rfind("\n", 0, match.start()) + 1
            stores = not self.text[line : match.start()].strip() and self.text.startswith(" = ", end + 1)
            found.append(Access(match[1], Span(match.start(), end + 1), Span(match.end(), end), stores))
        return found

    @cached_property
    def inputs(self) -> dict[str, str]:
        """Buffers that are only read -> what their elements are: "f32", "i32"."""
        return self._buffers("read")

    @cached_property
    def outputs(self) -> dict[str, str]:
        """The other buffers that come from outside."""
        return self._buffers("read_write")

    def _buffers(self, access: str) -> dict[str, str]:
        return dict(re.findall(rf"var<storage, {access}> (\w+) : array<({self.element})>;", self.text))

    @cached_property
    def loads(self) -> list[Access]:
        """Where elements of inputs are read."""
        return [access for access in self.accesses if access.name in self.inputs]

    def kind(self, access: Access) -> str:
        """What elements of an input are."""
        return self.inputs[access.name]

    @cached_property
    def reads(self) -> list[tuple[Span, Span]]:
        """(What reads, what says where it does)."""
        return [(access.whole, access.index) for access in self.accesses if not access.stores]

    @cached_property
    def group_size(self) -> dict[str, int]:
        """Threads of a workgroup along "x" and "y"."""
        found = re.search(r"@workgroup_size\((\d+), (\d+), \d+\)", self.text)
        return {axis: int(size) for axis, size in zip("xy", found.groups(), strict=True)} if found else {}

    @cached_property
    def group(self) -> str | None:
        """The variable that holds the number of the workgroup."""
        found = re.search(r"let (\w+) : i32 = i32\(blockIdx\.z \* gridDim\.x \+ blockIdx\.x\);", self.text)
        return found[1] if found else None

    @cached_property
    def threads(self) -> list[Thread]:
        """What tells invocations and workgroups apart."""
        found = []
        for axis, size in self.group_size.items():
            if size > 1:
                thread = f"i32(threadIdx.{axis})"
                found.append(
                    Thread(thread, f"min({thread}, {size - 2}i)", f"last threads along {axis} as those before")
                )
        for group in filter(None, (self.group, "i32(blockIdx.y)")):
            found.append(Thread(group, f"({group} & -2i)", "odd workgroups as those before"))
        return found

    def last_tiles(self) -> Iterator[tuple[Span, int, int, int]]:
        """Limits of what invocations compute: (where it stands, the limit, that of whole tiles, a tile)."""
        size = self.group_size.get("x", 1)
        for match in self.matches(r"i32\(threadIdx\.x\)\) < (\d+)i"):
            extent = int(match[1])
            yield Span(match.start(1), match.end(1)), extent, extent - extent % size, size

    def integer(self, value: int) -> str:
        """A number for an index."""
        return f"{value}i"

    def is_integer(self, text: str) -> bool:
        """Nothing but a number?"""
        return re.fullmatch(r"\d+i", text) is not None

    def operand(self, span: Span) -> str:
        """The text as it can stand beside any operator."""
        return self[span]

    def floats(self) -> Iterator[tuple[re.Match[str], float]]:
        """Numbers of floats, and their values."""
        for match in self.matches(self.number):
            yield match, float(match[0].removesuffix("f"))

    def statement(self, position: int) -> Span:
        """The one-line statement that a position stands in, without the space before it."""
        start, end = self.text.rfind("\n", 0, position) + 1, self.text.find("\n", position)
        return Span(start + len(self.text[start:end]) - len(self.text[start:end].lstrip()), end)

    def in_index(self, position: int) -> bool:
        return any(span.start <= position < span.end for span in self.indices)

    @cached_property
    def binaries(self) -> list[Binary]:
        """All binary expressions of the body."""
        found = []
        for match in self.matches(r"(?<!\w)\("):
            start, end = match.start(), self.closing(match.start())
            operator = self._operator(start + 1, end)
            if operator is not None:
                left, right = Span(start + 1, operator.start()), Span(operator.end(), end)
                found.append(Binary(Span(start, end + 1), left, operator[1] or operator[2], right))
        return found

    def computes_floats(self, binary: Binary) -> bool:
        """Not an index computed in a statement of its own."""
        line_start = self.text.rfind("\n", 0, binary.left.start) + 1
        line = self.text[line_start : self.text.find("\n", binary.left.start)]
        return not re.match(r"\s*(let \w+ : i32|if|for)\b", line)

    def type_of(self, span: Span) -> str:
        """Of a float's expression."""
        return "f32"

    @cached_property
    def row_sums(self) -> list[RowSum]:
        """Where a row and what stands in it become an index."""
        found = []
        for sum_ in self.binaries:
            product = re.fullmatch(r"\((.+) \* (\d+)i\)", self[sum_.left])
            if sum_.operator == "+" and product and not self.is_integer(self[sum_.right]):
                start = sum_.left.start + 1
                row = Span(start, start + len(product[1]))
                found.append(RowSum(sum_.whole, row, int(product[2]), sum_.right))
        return found

    @cached_property
    def values(self) -> list[tuple[Span, str]]:
        """What is stored, numbers apart, and its type where that is known."""
        found = []
        for match in self.matches(r"([\w\[\]() +*.>&%/]+?) = (.+);"):
            declared = match[0].lstrip().startswith(("let", "for", "var"))
            if not declared and not re.fullmatch(self.number + r"|-?\d+i", match[2]):
                found.append((Span(match.start(2), match.end(2)), self.element_type(match[1]) or ""))
        return found

    @cached_property
    def float_values(self) -> list[tuple[Span, str]]:
        """All floats that are stored, numbers apart, and their types."""
        return [
            (Span(match.start(2), match.end(2)), "f32")
            for match in self.matches(r"(\w+)(?:\[.*\])? = (.+);")
            if self.element_type(match[1]) == "f32" and not re.fullmatch(self.number, match[2])
        ]

    @cached_property
    def starts(self) -> list[Start]:
        """What accumulators begin with."""
        others = {"0.000000e+00f": "1.000000e+00f", "0i": "1i"}
        return [
            Start(match[1], Span(match.start(2), match.end(2)), others.get(match[2], "0.000000e+00f"))
            for match in self.matches(rf"(\w+)\[[^=]*\] = (0\.000000e\+00f|0i|{LEAST});")
        ]

    @cached_property
    def loops(self) -> list[Loop]:
        return [
            Loop(Span(match.start(2), match.end(2)), "1i", Span(match.start(3), match.end(3)), int(match[3]), 1)
            for match in self.matches(r"for \(var (\w+) : i32 = (0i); \1 < (\d+)i; \1\+\+\)")
        ]

    @cached_property
    def steps(self) -> list[tuple[Span, int]]:
        """How many invocations a step of a sum of several has, and where that stands."""
        return [
            (Span(match.start(1), match.end(1)), int(match[1]))
            for match in self.matches(r"if \(i32\(threadIdx\.x\) < (\d+)i\) \{")
            if self.text[match.end() :].lstrip().startswith(self.shared)
        ]

    def _operator(self, start: int, end: int) -> re.Match[str] | None:
        """The operator between `start` and `end` that stands in no further bracket."""
        depth = 0
        for place in range(start, end):
            if self.text[place] in _OPEN:
                depth += 1
            elif self.text[place] in _CLOSE:
                depth -= 1
            elif depth == 0 and (match := _BINARY.match(self.text, place, end)):
                return match
        return None

    def calls(self, *names: str) -> Iterator[Call]:
        """Calls of these functions in the body."""
        for match in self.matches(rf"\b({'|'.join(names)})\("):
            end = self.closing(match.end() - 1)
            yield Call(match[1], Span(match.start(), end + 1), tuple(self._arguments(match.end(), end)))

    def _arguments(self, start: int, end: int) -> Iterator[Span]:
        depth, first = 0, start
        for place in range(start, end):
            if self.text[place] in _OPEN:
                depth += 1
            elif self.text[place] in _CLOSE:
                depth -= 1
            elif depth == 0 and self.text[place] == ",":
                yield Span(first, place)
                first = place + 2
        yield Span(first, end)

    def element_type(self, target: str) -> str | None:
        """What an assignment to `target` stores: "f32", "i32", or None where it is not declared."""
        name = re.escape(target.split("[")[0].strip())
        declared = re.search(rf"\b{name} : (?:array<)?(\w+)", self.text)
        return declared[1] if declared else None
