"""Whether each invocation of a kernel reads only the elements that the same invocation of another kernel wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tapml.building.parts import Part
from tapml.kernels.wgsl_module import Declaration, Module, NotUnderstood
from tapml.kernels.wgsl_tokens import is_name

Tokens: TypeAlias = tuple[str, ...]

_CLOSED = {"{": "}", "(": ")", "[": "]"}
_PLAIN = frozenset({"i32", "u32", "bool", "vec2", "vec3", "vec4", "select", "min", "max", "abs", "true", "false",
                    "x", "y", "z", "w"})  # fmt: skip
"""Names of WGSL that mean one thing wherever they stand."""

_MOST_TOKENS = 400
"""Of an expression in which names are what they stand for."""


def hands_on(producer: Part, written: Declaration, consumer: Part, read: Declaration) -> bool:
    """`written` and `read` are the variable of one tensor in both. The kernels are dispatched alike, and whatever an
    invocation of `consumer` reads of it, the invocation of `producer` with the same number has written: the same index,
    spelled the same of the same builtin values, under no condition that does not hold there, too. None needs a barrier,
    for no other invocation's element is read."""
    if tuple(producer.grid) != tuple(consumer.grid) or tuple(producer.size) != tuple(consumer.size):
        return False
    try:
        writes = Elements(producer).places(written, write=True)
        reads = Elements(consumer).places(read, write=False)
        return all(any(one.covers(other) for one in writes) for other in reads)
    except NotUnderstood:
        return False


@dataclass(frozen=True)
class Place:
    """Where an element is read or written: which one, what holds there, and under what an invocation may have left."""

    index: Tokens
    conditions: frozenset[Tokens]
    left: frozenset[Tokens]

    def covers(self, read: Place) -> bool:
        """Whether an invocation that comes to `read` has come here."""
        return self.index == read.index and self.conditions <= read.conditions and self.left <= read.left


class Elements:
    """Of the entry point of a part, and of the functions that it calls."""

    def __init__(self, part: Part) -> None:
        self._module = part.module
        self._texts = part.module.texts
        self._entry = part.entry
        self._uniforms = part.uses.replaced([f"@{one['dtype']} {one['value']}" for one in part.uniforms])
        builtins = {found.name: (f"@{found.builtin}",) for found in part.parameters}
        self._scope = _Scope(part.module, part.entry, self._uniforms, builtins)

    def places(self, declared: Declaration, *, write: bool) -> list[Place]:
        """Where elements of a variable are written, or read. Raises NotUnderstood where it is not only that, and where
        it is not known which, or whether."""
        name = self._module.name(declared)
        self._module.check_uses(declared, elements=True)
        found = []
        for other in self._module.declarations:
            uses = [at for at in self._module.uses(other) if self._texts[at] == name] if other != declared else []
            if any(self._is_write(at) != write for at in uses):
                raise NotUnderstood("it is both written and read")
            if other == self._entry:
                left = self._scope.left() if write else None
                found += [self._scope.place(at, left) for at in uses]
            elif uses:
                found += [self._inside(other, call, at, write) for call in self._calls(other) for at in uses]
        return found

    def _inside(self, function: Declaration, call: int, at: int, write: bool) -> Place:
        """In a function that is called at a token of the entry point."""
        if write and not self._is_statement(call):
            raise NotUnderstood("a function may not be called")
        outside = self._scope.place(call, self._scope.left() if write else None, index=False)
        inner = _Scope(self._module, function, self._uniforms, self._scope.arguments(function, call))
        inside = inner.place(at, inner.left(before=at) if write else None)
        return Place(inside.index, inside.conditions | outside.conditions, inside.left | outside.left)

    def _calls(self, function: Declaration) -> list[int]:
        name = self._module.name(function)
        found = {d: [at for at in self._module.uses(d) if self._texts[at] == name] for d in self._module.declarations}
        if any(at for declared, at in found.items() if declared not in (function, self._entry)):
            raise NotUnderstood("it is used in a function that others call")
        return found[self._entry]

    def _is_write(self, at: int) -> bool:
        """Is it a statement that gives the element a value?"""
        end = self._module.closing(at + 1)
        return self._texts[at - 1] in (";", "{", "}") and self._texts[end + 1] == "="

    def _is_statement(self, call: int) -> bool:
        return self._texts[call - 1] in (";", "{", "}") and self._texts[self._module.closing(call + 1) + 1] == ";"


_Spelled: TypeAlias = Callable[[], Tokens]


class _Scope:
    """A function: what its expressions are, of builtin values. `given`: what its parameters are, each spelled where it
    is wanted, for not all are."""

    def __init__(
        self,
        module: Module,
        function: Declaration,
        uniforms: Mapping[int, str],
        given: Mapping[str, Tokens | _Spelled],
    ) -> None:
        self._module = module
        self._texts = module.texts
        self._uniforms = uniforms
        self._given = given
        self._begin = module.closing(function.body)
        while self._texts[self._begin] != "{":
            self._begin += 1
        self._end = function.end
        self._declared = dict(self._declarations())
        opened = [at for at in range(self._begin + 1, self._end) if self._texts[at] == "{"]
        self._blocks = [(at, module.closing(at)) for at in opened]

    def place(self, at: int, left: frozenset[Tokens] | None, *, index: bool = True) -> Place:
        """`left`: under what invocations leave that never come here; None: what is known of those that come."""
        spelled = self._spelled(range(at + 2, self._module.closing(at + 1)), at) if index else ()
        conditions = frozenset(self._condition(opened) for opened in self._around(at))
        return Place(spelled, conditions, self._passed(at) if left is None else left)

    def arguments(self, function: Declaration, call: int) -> dict[str, Tokens | _Spelled]:
        """Of a call at a token, by the function's parameters."""
        inside = self._split(function.body)
        if any(self._texts[part.start + 1] != ":" for part in inside):
            raise NotUnderstood("a parameter has attributes")
        names = [self._texts[part.start] for part in inside]
        return {
            name: partial(self._argument, part, call) for name, part in zip(names, self._split(call + 1), strict=True)
        }

    def left(self, before: int | None = None) -> frozenset[Tokens]:
        """Conditions under which an invocation leaves; `before`: at a token before this one."""
        found = set()
        for at in self._returns(self._end if before is None else before):
            around = self._around(at)
            if len(around) != 1:
                raise NotUnderstood("it returns from within")
            found.add(self._condition(around[0]))
        return frozenset(found)

    def _passed(self, at: int) -> frozenset[Tokens]:
        """Conditions that do not hold for who comes to a token, for they would have left."""
        around = (self._around(place) for place in self._returns(at))
        return frozenset(self._condition(blocks[0]) for blocks in around if len(blocks) == 1)

    def _returns(self, before: int) -> list[int]:
        return [at for at in range(self._begin, before) if self._texts[at] == "return"]

    def _argument(self, places: range, at: int) -> Tokens:
        return ("(", *self._spelled(places, at), ")")

    def _split(self, opened: int) -> list[range]:
        """What stands between commas in brackets."""
        closed, found, start = self._module.closing(opened), [], opened + 1
        at = start
        while at < closed:
            if self._texts[at] == "<" and self._texts[at - 1].startswith(("vec", "mat", "array", "ptr", "atomic")):
                while self._texts[at] not in (">", ">>"):
                    at += 1
            if self._texts[at] == ",":
                found.append(range(start, at))
                start = at + 1
            at = self._module.closing(at) + 1 if self._texts[at] in _CLOSED else at + 1
        return [*found, range(start, closed)] if start < closed else found

    def _around(self, at: int) -> list[int]:
        """Where the blocks begin that a token is in."""
        return [opened for opened, closed in self._blocks if opened < at < closed]

    def _declarations(self) -> Iterator[tuple[str, range | None]]:
        """Names of the function: where the expression of a `let` is; None for what may change, or is declared twice."""
        seen = set(self._given)
        for at in range(self._begin, self._end):
            if self._texts[at] not in ("let", "var", "const"):
                continue
            name = at + 1
            if self._texts[at] == "var" and self._texts[name] == "<":
                raise NotUnderstood("a variable has an address space")
            end = name
            while self._texts[end] != ";":
                end = self._module.closing(end) + 1 if self._texts[end] in _CLOSED else end + 1
            equals = next((n for n in range(name, end) if self._texts[n] == "="), None)
            fixed = self._texts[at] != "var" and equals is not None and self._texts[name] not in seen
            if self._texts[name] in self._given:
                raise NotUnderstood("a parameter is hidden")
            seen.add(self._texts[name])
            yield self._texts[name], range(equals + 1, end) if fixed and equals is not None else None

    def _condition(self, opened: int) -> Tokens:
        """Of the `if` whose block begins at `opened`. Raises NotUnderstood for another block, which may run never or
        often."""
        at = opened - 1
        depth = 1 if self._texts[at] == ")" else 0
        while depth:
            at -= 1
            depth += {")": 1, "(": -1}.get(self._texts[at], 0)
        if self._texts[at - 1] != "if" or self._texts[at - 2] == "else":
            raise NotUnderstood("it is in a loop, or in what stands behind else")
        return self._spelled(range(at + 1, opened - 1), at)

    def _spelled(self, places: range, at: int) -> Tokens:
        """An expression in which names are what they stand for at a token. Raises NotUnderstood where that differs."""
        found: list[str] = []
        for place in places:
            token = self._texts[place]
            if place in self._uniforms:
                found += [self._uniforms[place]] if self._uniforms[place] else []
            elif not is_name(token) or self._texts[place - 1] == ".":
                found.append(token)
            elif token in self._given:
                given = self._given[token]
                found += given() if callable(given) else given
            elif token in self._declared:
                where = self._declared[token]
                if where is None or where.stop > at:
                    raise NotUnderstood(f"{token} may change")
                found += ["(", *self._spelled(where, where.start), ")"]
            elif token in _PLAIN and token not in self._module.names:
                found.append(token)
            else:
                raise NotUnderstood(f"{token} is not known")
            if len(found) > _MOST_TOKENS:
                raise NotUnderstood("an expression is long")
        return tuple(found)
