"""JSON of strangers: what the standard allows and nothing else, in bounded memory and depth."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

from tapml.errors import InputError

MOST_DEPTH = 100
"""Of lists and objects in each other. Python's own readers and writers of JSON end at about a thousand."""

MOST_CONTAINERS = 2_000_000
"""Lists and objects of one text: each takes about 200 bytes of memory, and as few as two of text."""

MOST_VALUES = 4_000_000
"""By the commas of one text. A suite of ten thousand tests has a million."""

# 2**64 has 20 digits, and JavaScript writes whole numbers up to 21 without an exponent.
_MOST_DIGITS = 25
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: bytes | str, where: object, remedy: str, *, most_containers: int = MOST_CONTAINERS) -> Any:
    """What `text` (UTF-8) says. `where` names it in errors, and `remedy` says what to do ("export the test again").

    Raises InputError for what is no JSON, and also for what Python would take: NaN and infinity (1e999, too), a name
    that stands twice in an object, half of a surrogate pair, whole numbers of more than 25 digits, more than
    MOST_DEPTH levels or `most_containers` lists and objects.
    """
    try:
        # A byte order mark is what some editors put in front.
        decoded = (text.decode("utf-8-sig") if isinstance(text, bytes) else text).removeprefix("\ufeff")
        # Brackets inside strings count, too, which only makes the limit a little lower.
        if decoded.count("[") + decoded.count("{") > most_containers:
            raise ValueError(f"it has more than {most_containers} lists and objects")
        if decoded.count(",") > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES} values")
        found = json.loads(
            decoded,
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_whole,
            object_pairs_hook=_names_once,
        )
        _check_depth(found)
        if _HALF_PAIR.search(decoded):
            _check_pairs(found)
    except RecursionError:
        raise InputError(f"{where} is nested too deeply (more than {MOST_DEPTH} levels): {remedy}") from None
    except ValueError as error:
        raise InputError(f"{where} is not valid JSON: {error}; {remedy}") from None
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"the number {text[:40]}... is too large")
    return int(text)


def _names_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the name {twice[:100]!r} stands twice in an object")
    return found


def _check_depth(found: Any) -> None:
    """Level by level, for recursion has an end."""
    level: list[Any] = [[found]]
    for _ in range(MOST_DEPTH + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return
    raise RecursionError


def _check_pairs(found: Any) -> None:
    """Of surrogates: half of one is no text, and cannot be encoded."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a string holds half of a surrogate pair") from None
