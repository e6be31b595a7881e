"""WGSL as tokens: what any text is read as, in time that grows with its length."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from itertools import chain

_LINE_COMMENT = r"//[^\n\v\f\r\x85\u2028\u2029]*"
# Most tokens are names, and signs of one character.
_TEXT = r"[^\W\d]\w*|[\[\](){};,.]|\d[\w.]*|[-+*/%&|^=<>!]=|<<|>>|&&|\|\||\+\+|--|\S"
_TOKEN = re.compile(rf"\s+|{_LINE_COMMENT}|/\*|{_TEXT}")
_COMMENT_OF_LINE = re.compile(_LINE_COMMENT)
_TEXTS = re.compile(_TEXT)
"""Of what has no comments."""
_COMMENT = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Token:
    text: str
    line: int
    """Counted from 1."""
    at: int
    """Where it begins in the text."""


def tokens(wgsl: str) -> list[Token] | None:
    """Without comments, which WGSL lets stand in each other; None where one does not end."""
    found: list[Token] = []
    position, counted, line = 0, 0, 1
    while position < len(wgsl):
        match = _TOKEN.match(wgsl, position)
        assert match is not None  # it matches any character
        text, position = match[0], match.end()
        if text == "/*":
            end = _comment_end(wgsl, position)
            if end is None:
                return None
            position = end
        elif not text.isspace() and not text.startswith("//"):
            line += wgsl.count("\n", counted, match.start())
            counted = match.start()
            found.append(Token(text, line, match.start()))
    return found


def token_texts(wgsl: str) -> list[str] | None:
    """The same without their places, for who reads very many texts."""
    if "/*" in wgsl:
        found = tokens(wgsl)
        return None if found is None else [token.text for token in found]
    # Nothing but white space goes on from one line to the next, and texts have few lines that are in no other.
    return list(chain.from_iterable(map(_of_line, wgsl.split("\n"))))


@functools.lru_cache(maxsize=8192)
def _of_line(line: str) -> tuple[str, ...]:
    return tuple(_TEXTS.findall(_COMMENT_OF_LINE.sub("", line) if "//" in line else line))


def _comment_end(wgsl: str, position: int) -> int | None:
    depth = 1
    for match in _COMMENT.finditer(wgsl, position):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return None


def is_name(token: str) -> bool:
    return token[0].isalpha() or token[0] == "_"
