"""Compiled models with one to four fields changed: numbers, names, expressions, instructions and their order."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

_PARTS = (
    "functions",
    "functions",
    "functions",
    "functions",
    "functions",
    "kernels",
    "weights",
    "states",
    "symbols",
    "generation",
)
_MOST = 2**53 - 1
_NUMBERS = (
    0,
    1,
    2,
    3,
    4,
    5,
    16,
    255,
    256,
    512,
    4096,
    65_535,
    65_536,
    2**20,
    2**31,
    2**32,
    2**40,
    _MOST,
    -1,
    -4,
    -256,
    1.5,
)
_OPERATIONS = ("add", "sub", "mul", "floordiv", "floormod", "ceildiv", "min", "max")
_WORDS = (
    *("weights", "arena", "state", "input", "output", "dispatch", "copy", "fill", "let", "read", "if", "loop", "call"),
    *("float32", "float16", "int32", "uint32", "int8", "bool", "int8x4", "uint4x8", "read_write", "uniform"),
    *("n", "m", "rows", "i", "k", "width", "__proto__", "constructor", "", "a b", "2"),
)
_ALIKE = (
    ("weights", "arena", "state", "input", "output"),
    ("float32", "float16", "bfloat16", "int32", "uint32", "int8", "uint8"),
    ("int8x4", "uint8x4", "int4x8", "uint4x8", "float16"),
    ("read", "read_write", "uniform"),
    _OPERATIONS,
)
"""Words of one kind: another of them leaves a document in form."""

_EXPRESSIONS = ("count", "value", "index", "condition", "bytes", "from_offset", "to_offset", "n", "m", "rows", "width")
_NAMES = ("n", "m", "i", "rows", "width", "flagged")


def mutated(text: str, seed: str) -> str:
    """A document, changed; the same for the same seed."""
    choose = random.Random(seed)
    document = json.loads(text)
    for _ in range(choose.choice((1, 1, 1, 2, 2, 3, 4))):
        part = choose.choice([name for name in _PARTS if document.get(name)])
        places = list(_places(document, part))
        if places:
            _change(*choose.choice(places), document, choose)
    return json.dumps(document)


def _places(holder: Any, key: Any, depth: int = 0) -> Any:
    """Every list and object in it with each of its places."""
    found = holder[key]
    yield holder, key
    if isinstance(found, dict | list) and depth < 60:
        for inner in found if isinstance(found, dict) else range(len(found)):
            yield from _places(found, inner, depth + 1)


def _change(holder: Any, key: Any, document: Any, choose: random.Random) -> None:
    found = holder[key]
    if choose.random() < 0.02:
        holder[key] = choose.choice((None, [], {}, "x", 0, 1.5, True))
    elif isinstance(found, bool) or found is None:
        holder[key] = choose.choice((0, 1, 2))
    elif isinstance(found, int | float):
        holder[key] = _number(found, key, choose)
    elif isinstance(found, str):
        holder[key] = _word(found, key, choose)
    elif isinstance(found, dict):
        _change_object(found, document, choose)
    else:
        _change_list(holder, key, document, choose)


def _number(found: float, key: Any, choose: random.Random) -> Any:
    kind = choose.random()
    if kind < 0.3 and (isinstance(key, int) or key in _EXPRESSIONS):
        return _expression(found, choose)
    if kind < 0.6:
        steps = (256, 512, 1024) if found and found % 256 == 0 else (1, 1, 2, 4)
        return max(0, found + choose.choice(steps) * choose.choice((-1, 1)))
    if kind < 0.8:
        return choose.randrange(12)
    return min(_MOST, int(found) * 2) if kind < 0.9 else choose.choice(_NUMBERS)


def _word(found: str, key: Any, choose: random.Random) -> Any:
    alike = next((words for words in _ALIKE if found in words), _NAMES)
    if choose.random() < 0.15:
        return choose.choice(_WORDS)
    is_expression = alike is _NAMES and (isinstance(key, int) or key in _EXPRESSIONS)
    return _expression(found, choose) if is_expression and choose.random() < 0.6 else choose.choice(alike)


def _expression(found: Any, choose: random.Random) -> Any:
    other = choose.choice((*_NAMES, 0, 1, 2, 4, 16))
    pair = [found, other] if choose.random() < 0.7 else [other, found]
    made = [choose.choice(_OPERATIONS), *pair]
    if choose.random() < 0.1:
        for _ in range(choose.choice((3, 20, 40))):
            made = (
                [choose.choice(_OPERATIONS), made, choose.choice((made, *_NAMES, 2))] if len(str(made)) < 4000 else made
            )
    # What is the same for all sizes shall stay accepted.
    return choose.choice((made, made, ["add", found, 0], ["mul", 1, found], ["sub", ["add", found, "n"], "n"]))


def _change_object(found: dict[str, Any], document: Any, choose: random.Random) -> None:
    if not found:
        found["x"] = 1
    elif "op" in found and choose.random() < 0.8:
        _change_instruction(found, document, choose)
    elif found.keys() <= {"name", "tensor", "range"} and choose.random() < 0.4:
        least, most = (choose.choice((-(2**31), -7, 0, 5, "n", 2**31 - 1, 2**32)) for _ in range(2))
        found["range"] = choose.choice(([least, most], [["sub", 0, least], ["sub", most, 1]], [least], None))
    elif choose.random() < 0.3:
        del found[choose.choice([*found])]
    else:
        one, other = choose.choice([*found]), choose.choice([*found])
        found[one], found[other] = found[other], found[one]


def _change_instruction(found: dict[str, Any], document: Any, choose: random.Random) -> None:
    """In a block, another in its place, or with what may be left out."""
    inner = dict(found)
    tensor = choose.randrange(12)
    made: Callable[[], dict[str, Any]] = choose.choice(
        (
            lambda: {"op": "if", "condition": choose.choice((0, 1, "n", "i")), "then": [inner], "else": []},
            lambda: {"op": "if", "condition": "n", "then": [inner], "else": [inner]},
            lambda: {"op": "loop", "variable": f"j{choose.randrange(3)}", "count": 2, "most": 2, "body": [inner]},
            lambda: {
                "op": "loop",
                "variable": "q",
                "count": "n",
                "most": choose.choice((8, 64, 2**20)),
                "body": [inner],
            },
            lambda: _nested(inner, choose.choice((5, 15, 16, 17, 20))),
            lambda: {"op": "fill", "tensor": tensor, "value": 7},
            lambda: {"op": "copy", "from": tensor, "to": choose.randrange(12)},
            lambda: {"op": "copy", "from": tensor, "to": choose.randrange(12), "bytes": 4 * choose.randrange(40)},
            lambda: {
                "op": "call",
                "module": "m",
                "function": "f",
                "inputs": [tensor],
                "outputs": [choose.randrange(12)],
            },
            lambda: {
                **inner,
                "operands": choose.sample([*inner.get("operands", [1, 2])], len(inner.get("operands", [1, 2]))),
            },
            lambda: {**inner, "until": tensor},
            lambda: {**inner, "otherwise": choose.choice(("too many", "", None, 1, "x" * 1001))},
        )
    )
    changed = made()
    found.clear()
    found.update(changed)


def _nested(inner: Any, depth: int) -> dict[str, Any]:
    for number in range(depth):
        inner = {"op": "loop", "variable": f"d{number}", "count": 1, "most": 1, "body": [inner]}
    return dict(inner)


def _change_list(holder: Any, key: Any, document: Any, choose: random.Random) -> None:
    found = holder[key]
    if not found:
        found.append(choose.choice((0, 1, "n", {})))
        return
    at, kind = choose.randrange(len(found)), choose.random()
    if kind < 0.2:
        del found[at]
    elif kind < 0.4:
        found.insert(choose.randrange(len(found) + 1), json.loads(json.dumps(found[at])))
    elif kind < 0.7:
        other = choose.randrange(len(found))
        found[at], found[other] = found[other], found[at]
    elif kind < 0.8:
        found.extend(json.loads(json.dumps(found)) * choose.choice((1, 30)))
    elif kind < 0.9 and key == "shape":
        found.insert(at, 1)
    else:
        found[at] = choose.choice((0, "n", ["mul", "n", 4], None, [at]))
