"""One walk through a WGSL function: which accesses to workgroup memory no barrier orders."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tapml.locating.formula.work import Work
from tapml.locating.invocations import Invocations, Range, Where, guarded, share_an_element
from tapml.locating.matrices import Matrix, Rectangle, first_matrix, use

_KEPT = 4
"""Accesses to a variable since a barrier that are told from each other: the first ones."""

_MOST_JUDGED = 5000
"""Pairs of accesses that differ from each other."""

_MOST_AXES = 15
"""Arrays in arrays that WGSL lets a type have."""

_ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--"}
_LOOPS = ("for", "while", "loop")
_BRANCHES = ("if", "else", "switch", "case", "default")
_HEADS = ("for", "(", "if", "else", "while", "loop", "switch", "continuing")
_NO_PART = ("(", ")", "i32", "u32")
"""Of an index' spelling: casts do not make it another one."""

_PRIME = (1 << 61) - 1
_BASE = 0x1F3D5B79


class Unreadable(Exception):
    """It is no text that WGSL takes, or one that takes more to read than any kernel's."""


@dataclass(frozen=True)
class Unordered:
    """Two accesses to elements of one variable in workgroup memory that nothing orders, by their lines, from 1 on."""

    variable: str
    written: int
    read: int

    def words(self) -> str:
        """What is true of the text."""
        return (
            f"one invocation writes workgroup memory {self.variable} in line {self.written}, another one reads it in "
            f"line {self.read}, and no workgroupBarrier() is between"
        )


@dataclass(frozen=True)
class Module:
    """What a function's text stands in. `texts`: its tokens, with an empty one behind; `lines`: of each token;
    `shared`: variables in workgroup memory -> the bytes of an array's element, None where these are not known;
    `barriers`: functions that come to a barrier; `has_barriers`: one does; `work`: what reading it may take."""

    texts: Sequence[str]
    lines: Sequence[int]
    shared: Mapping[str, int | None]
    barriers: frozenset[str]
    has_barriers: bool
    work: Work


@dataclass(frozen=True)
class _Spelling:
    """A sequence of tokens by its digest, to which another one can be joined."""

    digest: int = 0
    power: int = 1

    def then(self, other: _Spelling) -> _Spelling:
        return _Spelling((self.digest * other.power + other.digest) % _PRIME, self.power * other.power % _PRIME)


_COMMA = _Spelling(1, _BASE)


@dataclass(frozen=True, eq=False)
class _Branch:
    """What an access stands in. `condition`: None where it is not written as one (else, switch); `chain`: the token
    that the first of the branches begins with that exclude each other."""

    outer: _Branch | None
    condition: Range | None
    chain: int


@dataclass(frozen=True, eq=False)
class _Access:
    """`rectangle`: of the array that `indices` tell, where a matrix takes it; `together`: one does."""

    variable: str
    line: int
    spelling: _Spelling
    indices: tuple[Range, ...]
    branch: _Branch | None
    writes: bool
    together: bool = False
    rectangle: Rectangle | None = None


@dataclass
class _Open:
    """An access whose index is not over yet."""

    variable: str
    start: int
    spelling: _Spelling = field(default_factory=_Spelling)
    indices: list[Range] = field(default_factory=list)


class _Slots:
    """The first accesses to each variable that differ: (variable, writes) -> those."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, bool], list[_Access]] = {}

    def add(self, access: _Access) -> None:
        found = self.of.setdefault((access.variable, access.writes), [])
        if len(found) < _KEPT and all(
            one.spelling != access.spelling or one.branch is not access.branch for one in found
        ):
            found.append(access)

    def against(self, access: _Access) -> Sequence[_Access]:
        """Those that write what `access` reads, or read what it writes."""
        return self.of.get((access.variable, not access.writes), ())


@dataclass
class _Loop:
    """`first`: what its turns begin with, up to the first barrier; `barrier`: there was one; `open_around`: there was
    none yet in the loop around it when it began."""

    first: _Slots
    open_around: bool
    barrier: bool = False


class Walk:
    """Through a function's tokens. `invocations`: of a workgroup; None where they are not known."""

    def __init__(self, module: Module, start: int, end: int, invocations: Invocations | None) -> None:
        self._module = module
        self._texts = module.texts
        self._start, self._end = start, end
        self._invocations = invocations
        self._since = _Slots()
        """The last barrier."""
        self._loops: list[_Loop] = []
        self._branch: _Branch | None = None
        self._spelled: dict[str, _Spelling] = {}
        self._matrices: dict[str, Matrix | None] = {}
        self._judged: dict[tuple[object, ...], bool] = {}
        self._found: Unordered | None = None

    def unordered(self) -> Unordered | None:
        """The first pair, if there is one. Raises Unreadable."""
        if self._invocations is not None and self._invocations.count == 1:
            return None
        blocks: list[tuple[bool, _Branch | None]] = []
        begin = head = self._start
        parens, chain, in_loop = 0, -1, False
        for number in range(self._start, self._end):
            text = self._texts[number]
            parens += (text == "(") - (text == ")")
            if text not in (";", "{", "}"):
                continue
            keyword = self._texts[head]
            if keyword in _LOOPS and not in_loop:
                self._loops.append(_Loop(_Slots(), not self._loops or not self._loops[-1].barrier))
                in_loop = True
            self._statement(begin, number)
            begin = number + 1
            if text == ";" and parens > 0:
                continue  # in a loop's head
            if text == "{":
                blocks.append((in_loop, self._branch))
                if keyword in _BRANCHES:
                    chain = chain if keyword == "else" else head
                    condition = (head + 1, number) if keyword == "if" else None
                    self._branch = _Branch(self._branch, condition, chain)
            elif text == "}":
                if not blocks:
                    raise Unreadable
                chain = self._branch.chain if self._branch is not None else -1
                looped, self._branch = blocks.pop()
                if looped:
                    self._turn(self._loops.pop())
            elif in_loop:
                raise Unreadable  # a head without a body
            if self._found is not None:
                return self._found
            head, parens, in_loop = begin, 0, False
        return None

    def _statement(self, start: int, end: int) -> None:
        """What it reads and writes; a name that it gives to a value."""
        loads: list[_Access] = []
        stores: list[_Access] = []
        first = self._texts[start]
        for access in self._accesses(start, end):
            if access is None:
                self._read(loads)
                self._barrier()
                loads = []
            else:
                (stores if access.writes else loads).append(access)
        self._read(loads)
        for access in stores:
            self._judge(access, self._since)
        for access in (*loads, *stores):
            self._add(access)
        name = self._texts[start + 1] if end - start > 2 else ""
        if first in ("let", "const") and name not in self._module.shared:
            equals = next((at for at in range(start + 2, end) if self._texts[at] == "="), end)
            self._spelled[name] = self._spelling(equals + 1, end)
            if self._invocations is not None:
                self._invocations.named[name] = (equals + 1, end)
        elif first == "var":
            self._spelled.pop(name, None)
        if first in ("let", "var"):
            self._matrices[name] = first_matrix(self._texts, start, end)

    def _read(self, loads: Sequence[_Access]) -> None:
        for access in loads:
            self._judge(access, self._since)

    def _add(self, access: _Access) -> None:
        self._since.add(access)
        if self._loops and not self._loops[-1].barrier:
            self._loops[-1].first.add(access)

    def _barrier(self) -> None:
        self._since = _Slots()
        for loop in reversed(self._loops):
            if loop.barrier:
                break
            loop.barrier = True

    def _turn(self, loop: _Loop) -> None:
        """The next one begins while other invocations may be at the end of this one."""
        for accesses in loop.first.of.values():
            self._module.work.add(0, len(accesses))
            for access in accesses:
                self._judge(access, self._since, turned=True)
                if loop.open_around and self._loops:
                    self._loops[-1].first.add(access)

    def _spelling(self, start: int, end: int) -> _Spelling:
        found = _Spelling()
        for number in range(start, end):
            found = found.then(self._spelled_token(number))
        return found

    def _spelled_token(self, number: int) -> _Spelling:
        text = self._texts[number]
        if text in _NO_PART:
            return _Spelling()
        known = self._spelled.get(text)
        if known is not None and self._texts[number - 1] != ".":
            return known
        return _Spelling(hash(text.rstrip("iu") if text[0].isdigit() else text) % _PRIME, _BASE)

    def _accesses(self, start: int, end: int) -> Iterator[_Access | None]:
        """In the order of the text; None for a barrier."""
        texts = self._texts
        while start < end and texts[start] in _HEADS:
            start += 1
        brackets: list[tuple[_Open | None, int]] = []
        spellings = [_Spelling()]
        number = start
        current: _Open | None = None
        while number < end:
            text = texts[number]
            spellings[-1] = spellings[-1].then(self._spelled_token(number))
            if text in self._module.barriers and texts[number + 1] == "(":
                yield None
            elif text in self._module.shared and texts[number - 1] != ".":
                current = _Open(text, number)
                if texts[number + 1] != "[":
                    yield from self._closed(current, number, start)
                    current = None
            elif text == "[":
                brackets.append((current, number + 1))
                spellings.append(_Spelling())
                current = None
            elif text == "]" and brackets:
                (access, begun), inner = brackets.pop(), spellings.pop()
                if access is not None:
                    access.indices.append((begun, number))
                    access.spelling = access.spelling.then(_COMMA).then(inner)
                    current = access if texts[number + 1] == "[" else None
                    if current is None:
                        yield from self._closed(access, number, start)
                spellings[-1] = spellings[-1].then(inner)
            number += 1

    def _closed(self, found: _Open, end: int, statement: int) -> Iterator[_Access]:
        texts = self._texts
        if len(found.indices) > _MOST_AXES:
            raise Unreadable
        if texts[found.start - 1] == "&" and not _operand(texts[found.start - 2]):
            # Unless a matrix takes it, where it points to is read and written somewhere else.
            yield from self._by_matrix(found, end)
            return
        behind = end + 1
        while texts[behind] == "." and behind + 2 < self._end:
            behind += 2
        assigned = found.start == statement and texts[behind] in _ASSIGN
        line = self._module.lines[found.start]
        for writes in (False, True):
            if assigned if writes else not (assigned and texts[behind] == "="):
                yield _Access(found.variable, line, found.spelling, tuple(found.indices), self._branch, writes)

    def _by_matrix(self, found: _Open, end: int) -> Iterator[_Access]:
        of = self._module.shared[found.variable]
        used = use(self._texts, found.start - 1, end, of, self._matrices)
        if used is not None:
            spelling = found.spelling.then(_COMMA).then(self._spelling(*used.given))
            where = self._module.lines[found.start], spelling, tuple(found.indices), self._branch
            yield _Access(found.variable, *where, used.writes, True, used.rectangle)

    def _judge(self, access: _Access, slots: _Slots, *, turned: bool = False) -> None:
        """Is there another one in `slots` that it has to be ordered with? `turned`: those are of the turn before."""
        if self._found is not None:
            return
        others = slots.against(access)
        self._module.work.add(0, len(others))
        if self._module.work.over():
            raise Unreadable
        for other in others:
            write, read = (access, other) if access.writes else (other, access)
            key = (access.variable, write.spelling, write.branch, read.spelling, read.branch, turned)
            if key not in self._judged:
                if len(self._judged) > _MOST_JUDGED:
                    raise Unreadable
                self._judged[key] = self._unordered(write, read, turned=turned)
            if self._judged[key]:
                self._found = Unordered(access.variable, write.line, read.line)
                return

    def _unordered(self, write: _Access, read: _Access, *, turned: bool) -> bool:
        if not turned and _exclusive(write.branch, read.branch):
            return False
        invocations = self._invocations
        meet = (
            None if invocations is None else share_an_element(self._where(write), self._where(read), self._module.work)
        )
        if meet is None:
            return self._module.has_barriers and write.spelling != read.spelling
        return meet

    def _where(self, access: _Access) -> Where:
        invocations = self._invocations
        assert invocations is not None
        conditions, branch = [], access.branch
        while branch is not None:
            conditions.append(None if branch.condition is None else invocations.value(branch.condition))
            branch = branch.outer
        found = guarded([invocations.value(part) for part in access.indices], conditions, invocations.count)
        if not access.together:
            return found
        if access.rectangle is None:
            return dataclasses.replace(found, indices=[*found.indices, None], together=True)
        offset, stride = map(invocations.value, (access.rectangle.offset, access.rectangle.stride))
        return access.rectangle.touched(found, offset, stride, self._module.work)


def _operand(text: str) -> bool:
    """Does an operand end with this token, so that an & behind it has two?"""
    return text in (")", "]") or text[:1].isalnum() or text[:1] == "_"


def _exclusive(one: _Branch | None, other: _Branch | None) -> bool:
    """Do they stand in two branches of which an invocation takes one?"""
    chains = {}
    while one is not None:
        chains[one.chain] = one
        one = one.outer
    while other is not None:
        if chains.get(other.chain, other) is not other:
            return True
        other = other.outer
    return False
