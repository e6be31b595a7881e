"""Text of tokens as they come: only what no later token can change. The twin of runner_js/src/generation/stream.ts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_CONTEXT = 16
"""Tokens before it that say how the first is written: a decoder takes the space off a text's first word."""
_INCOMPLETE = "\ufffd"
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class TextStream:
    """The texts of tokens, whole characters only."""

    def __init__(self, tokenizer: Any, context: Sequence[int]) -> None:
        """`tokenizer`: of the package tokenizers, or None, where tokens have no text; `context`: what stands before."""
        self._tokenizer = tokenizer
        self._before = list(context[-_CONTEXT:])
        self._pending: list[int] = []
        self._given = 0

    def copy(self) -> TextStream:
        """Another one, of the same text."""
        copied = TextStream(self._tokenizer, self._before)
        copied._before, copied._pending, copied._given = self._before, [*self._pending], self._given
        return copied

    def push(self, token: int) -> str:
        """What became certain with a token."""
        if self._tokenizer is None:
            return ""
        self._pending.append(token)
        # Bytes of a character are one only where all that follow one another are right.
        if _BYTE.fullmatch(self._tokenizer.id_to_token(token) or ""):
            return ""
        before = _whole(self._tokenizer.decode(self._before))
        text: str = self._tokenizer.decode([*self._before, *self._pending])[len(before) :]
        certain = _whole(text)
        found = certain[self._given :]
        self._given = max(self._given, len(certain))
        if certain == text:
            alone = self._tokenizer.decode(self._pending)
            self._before = self._pending if alone else [*self._before, *self._pending]
            self._pending, self._given = [], 0
        return found


def _whole(text: str) -> str:
    """A text without the character at its end that may be the first bytes of another."""
    return text.removesuffix(_INCOMPLETE)


class StopText:
    """Gives a text up to the first of some texts, and keeps back what may be the beginning of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._kept = ""

    def push(self, text: str) -> tuple[str, bool]:
        """What can be given, and whether a stop text stands behind it."""
        text, self._kept = self._kept + text, ""
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            return text[: min(found)], True
        keep = max((_begun(text, stop) for stop in self._stops), default=0)
        self._kept = text[len(text) - keep :]
        return text[: len(text) - keep], False

    def rest(self) -> str:
        """What was kept back: no stop text came of it."""
        rest, self._kept = self._kept, ""
        return rest


def _begun(text: str, stop: str) -> int:
    """How many characters of `stop` stand at the end of a text, not all of them."""
    counts = range(min(len(stop) - 1, len(text)), 0, -1)
    return next((count for count in counts if text.endswith(stop[:count])), 0)
