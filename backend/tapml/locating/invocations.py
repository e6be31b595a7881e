"""What an expression of a kernel is in each invocation of a workgroup, where that can be told from the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tapml.locating.formula.work import Work

MOST_INVOCATIONS = 1024
_MOST_TOKENS = 200
"""Of an expression, and names that it goes back to."""

Value = np.ndarray | None
"""int32, uint32 or bool, one for each invocation; int64: a number whose type is its neighbour's. None: not known."""

Range = tuple[int, int]
"""Of tokens: the first one, and the one behind the last."""

_BINDS = {
    **dict.fromkeys(("||",), 1),
    **dict.fromkeys(("&&",), 2),
    **dict.fromkeys(("|", "^", "&"), 3),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 4),
    **dict.fromkeys(("<<", ">>"), 5),
    **dict.fromkeys(("+", "-"), 6),
    **dict.fromkeys(("*", "/", "%"), 7),
}
_UNARY = 8
_SORTED = 16
"""What sorting costs, of each element."""

_CASTS: Mapping[str, type[np.generic]] = {"i32": np.int32, "u32": np.uint32}
_ARITHMETIC: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.floor_divide,
    "%": np.remainder,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


class _NotKnown(Exception):
    pass


@dataclass
class Invocations:
    """Those of one workgroup. `size`: along x, y, z; `named`: constants that the text gives names to; `builtins`: names
    of parameters -> "local_invocation_id", "local_invocation_index" or "subgroup_id"; `work`: what may be computed,
    after which nothing is known; `subgroup`: invocations of one, those whose numbers follow on each other, or None
    where that is not known."""

    texts: Sequence[str]
    size: tuple[int, int, int]
    builtins: Mapping[str, str]
    work: Work
    named: dict[str, Range] = field(default_factory=dict)
    subgroup: int | None = None

    @property
    def count(self) -> int:
        return int(np.prod(self.size, dtype=np.int64))

    def value(self, part: Range) -> Value:
        """Of the expression that these tokens make."""
        known: dict[str, Value] = {}
        try:
            for name in self._names(part):
                known[name] = self._evaluated(self.named[name], known)
            return self._evaluated(part, known)
        except _NotKnown:
            return None

    def _names(self, part: Range) -> list[str]:
        """Those that the expression goes back to, each behind those that it is made of."""
        found: dict[str, int] = {}
        todo = [part]
        while todo:
            start, end = todo.pop()
            self._count((start, end))
            if end - start > _MOST_TOKENS:
                raise _NotKnown
            for text in self.texts[start:end]:
                named = self.named.get(text)
                # One that is declared behind its use is another one of the same name.
                if named is not None and text not in found and named[1] < start:
                    found[text] = named[0]
                    todo.append(named)
            if len(found) > _MOST_TOKENS:
                raise _NotKnown
        return sorted(found, key=found.__getitem__)

    def _evaluated(self, part: Range, known: Mapping[str, Value]) -> Value:
        """By two stacks, for brackets may be as deep as the expression is long."""
        self._count(part)
        values: list[Value] = []
        waiting: list[str] = []
        operand = True
        position, end = part
        while position < end:
            text = self.texts[position]
            position += 1
            if operand and (text in ("-", "!", "~", "(") or (text in _CASTS and self._at(position, end) == "(")):
                waiting.append("u" + text if text in "-!~" else text)
                if text in _CASTS:
                    waiting.append("(")
                    position += 1
            elif operand:
                value, position = self._operand(text, position, end, known)
                values.append(value)
                operand = False
            elif text == ")":
                while waiting and waiting[-1] != "(":
                    self._apply(waiting.pop(), values)
                if not waiting:
                    raise _NotKnown
                waiting.pop()
                if waiting and waiting[-1] in _CASTS:
                    values.append(_cast(_last(values), _CASTS[waiting.pop()]))
            elif text in _BINDS:
                while waiting and waiting[-1] != "(" and _binds(waiting[-1]) >= _BINDS[text]:
                    self._apply(waiting.pop(), values)
                waiting.append(text)
                operand = True
            else:
                raise _NotKnown
        while waiting:
            self._apply(waiting.pop(), values)
        if len(values) != 1:
            raise _NotKnown
        return values[0]

    def _count(self, part: Range) -> None:
        self.work.add((part[1] - part[0]) * self.count, part[1] - part[0])
        if self.work.over():
            raise _NotKnown

    def _at(self, position: int, end: int) -> str:
        return self.texts[position] if position < end else ""

    def _operand(self, text: str, position: int, end: int, known: Mapping[str, Value]) -> tuple[Value, int]:
        builtin = self.builtins.get(text)
        if builtin is not None:
            axis = "xyz".find(self._at(position + 1, end) or "?") if self._at(position, end) == "." else -1
            if builtin == "local_invocation_id" and axis >= 0:
                return self._id(axis), position + 2
            if builtin == "local_invocation_index" and self._at(position, end) != ".":
                return np.arange(self.count, dtype=np.uint32), position
            if builtin == "subgroup_id" and self.subgroup is not None:
                return np.arange(self.count, dtype=np.uint32) // np.uint32(self.subgroup), position
            raise _NotKnown
        if text[0].isdigit():
            return np.full(self.count, _number(text), _type_of(text)), position
        if self._at(position, end) in ("(", "[", ".", "<"):
            raise _NotKnown  # a call, an element, a member
        return known.get(text), position

    def _id(self, axis: int) -> np.ndarray:
        x, y, _ = self.size
        index = np.arange(self.count)
        found = (index % x, index // x % y, index // (x * y))[axis]
        return found.astype(np.uint32)

    def _apply(self, operator: str, values: list[Value]) -> None:
        right = _last(values)
        if operator.startswith("u"):
            values.append(_unary(operator[1:], right))
        elif operator in _BINDS:
            values.append(_binary(operator, _last(values), right))
        else:
            raise _NotKnown  # an open bracket


def _binds(operator: str) -> int:
    return _UNARY if operator.startswith("u") else _BINDS.get(operator, 0)


def _last(values: list[Value]) -> Value:
    if not values:
        raise _NotKnown
    return values.pop()


def _number(text: str) -> int:
    try:
        number = int(text.rstrip("iu"), 0)
    except ValueError:
        raise _NotKnown from None
    if number >= 2**31:
        raise _NotKnown
    return number


def _type_of(text: str) -> type[np.generic]:
    return {"i": np.int32, "u": np.uint32}.get(text[-1], np.int64)


def _cast(value: Value, to: type[np.generic]) -> Value:
    return None if value is None else value.astype(to)


def _unary(operator: str, value: Value) -> Value:
    if value is None:
        return None
    if operator == "!" and value.dtype == bool:
        return ~value
    if operator == "-" and value.dtype != bool and value.dtype != np.uint32:
        return -value
    return ~value if operator == "~" and value.dtype in (np.int32, np.uint32) else None


def _binary(operator: str, left: Value, right: Value) -> Value:
    if operator in ("&&", "||"):
        return _logical(operator, left, right)
    if left is None or right is None:
        return None
    if left.dtype != right.dtype:
        if left.dtype == np.int64 and right.dtype != bool:
            left = left.astype(right.dtype)
        elif right.dtype == np.int64 and left.dtype != bool:
            right = right.astype(left.dtype)
        elif operator not in ("<<", ">>"):
            return None
    if operator in ("/", "%") and (left.dtype == bool or (left < 0).any() or (right <= 0).any()):
        return None
    if operator in ("<<", ">>"):
        if left.dtype == bool or right.dtype == bool or (right < 0).any() or (right > 31).any():
            return None
        right = right.astype(left.dtype)
    if left.dtype == bool and operator in ("+", "-", "*"):
        return None
    return _ARITHMETIC[operator](left, right)


def _logical(operator: str, left: Value, right: Value) -> Value:
    """One side may be enough."""
    decides = operator == "||"
    for value, other in ((left, right), (right, left)):
        if value is not None and value.dtype == bool:
            if bool((value == decides).all()):
                return value
            if other is not None and other.dtype == bool:
                return value | other if decides else value & other
    return None


@dataclass(frozen=True)
class Where:
    """An element of an array, in each invocation. `indices`: along every axis; `done`: in which invocations it may be
    read or written; `exact`: they are these, and no fewer. `together`: elements that several invocations touch
    together, in place of one of each."""

    indices: Sequence[Value]
    done: np.ndarray
    exact: bool
    together: bool = False


def guarded(indices: Sequence[Value], conditions: Iterable[Value], count: int) -> Where:
    """`conditions`: those of the branches that it stands in."""
    done, exact = np.ones(count, bool), True
    for value in conditions:
        if value is not None and value.dtype == bool:
            done = done & value
        else:
            exact = False
    return Where(indices, done, exact)


def share_an_element(writes: Where, reads: Where, work: Work) -> bool | None:
    """Does an invocation write an element that another one reads? None where the text does not tell.

    What has fewer indices is all that is behind them.
    """
    if not writes.done.any() or not reads.done.any():
        return False
    written, read = np.zeros(writes.done.size, np.int64), np.zeros(reads.done.size, np.int64)
    for one, other in zip(writes.indices, reads.indices, strict=False):
        if one is None or other is None or one.dtype == bool or other.dtype == bool:
            return None
        work.add(_SORTED * (one.size + other.size))
        _, both = np.unique(np.concatenate([one, other]).astype(np.int64), return_inverse=True)
        written, read = (
            place * (both.size + 1) + part
            for place, part in zip((written, read), np.split(both, [one.size]), strict=True)
        )
    if writes.together or reads.together:
        meet = bool(np.isin(read[reads.done], written[writes.done]).any())
    else:
        meet = _meet(written, writes.done, read, reads.done)
    return None if meet and not (writes.exact and reads.exact) else meet


def _meet(written: np.ndarray, writing: np.ndarray, read: np.ndarray, reading: np.ndarray) -> bool:
    places, writers = np.unique(written[writing], return_counts=True)
    at = np.minimum(np.searchsorted(places, read), places.size - 1)
    others = np.where(places[at] == read, writers[at], 0) - (writing & (written == read))
    return bool((others[reading] > 0).any())
