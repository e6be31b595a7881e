"""A kernel's text as what is counted in it is read from: tokens, brackets, functions, and what variables are."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tapml.kernels.wgsl_module import NotUnderstood
from tapml.kernels.wgsl_tokens import token_texts

_VECTOR = re.compile(r"vec([234]) ?< ?(\w+) ?>")
_SCALAR = re.compile(r"\b(f32|i32|u32|f16)\b")
_BYTES = {"f32": 4, "i32": 4, "u32": 4, "f16": 2}
_OPENING = frozenset("([{")
_BRACKETS = frozenset("([{)]}")


class KernelText:
    """Raises NotUnderstood for a text that ends in the middle of something.

    `storage` has elements and bytes of what an index of a buffer gives, `shared` elements of that of workgroup memory,
    `functions` where bodies begin, `widths` elements of variables and functions that are vectors.
    """

    def __init__(self, wgsl: str) -> None:
        texts = token_texts(wgsl)
        if texts is None:
            raise NotUnderstood("a comment does not end")
        self.texts = texts
        self.pairs = _pairs(texts)
        self.functions: dict[str, int] = {}
        self.storage: dict[str, tuple[int, int]] = {}
        self.shared: dict[str, int] = {}
        self.widths: dict[str, int] = {}
        for place, text in enumerate(texts):
            if text == "fn":
                self._function(place)
            elif text == "var" and texts[place + 1 : place + 2] == ["<"]:
                self._variable(place)

    def _function(self, place: int) -> None:
        name, arguments = self.texts[place + 1], self.pairs[place + 2]
        self.functions[name] = opened = self.texts.index("{", arguments)
        result = _VECTOR.search("".join(self.texts[arguments:opened]))
        if result is not None:
            self.widths[name] = int(result[1])

    def _variable(self, place: int) -> None:
        """`var < space , mode > name : type ;`"""
        texts = self.texts
        closed = texts.index(">", place)
        if texts[closed + 2] != ":":
            return
        name = texts[closed + 1]
        kind = " ".join(texts[closed + 3 : self.find(";", closed, len(texts))])
        if texts[place + 2] == "storage":
            self.storage[name] = _element(kind)
        elif texts[place + 2] == "workgroup":
            self.shared[name] = _element(kind)[0]

    def find(self, what: str, at: int, end: int) -> int:
        """The place of a token outside of brackets; `end` where there is none."""
        texts, pairs = self.texts, self.pairs
        while at < end:
            text = texts[at]
            if text == what:
                return at
            at = pairs[at] + 1 if text in _OPENING else at + 1
        return end


def vector_width(kind: str) -> int:
    """How many elements a type of vectors has; 1 for any other."""
    found = _VECTOR.match(kind)
    return 1 if found is None else int(found[1])


def _pairs(texts: Sequence[str]) -> dict[int, int]:
    """Of each bracket that opens, the place of the one that closes it."""
    found: dict[int, int] = {}
    waiting: list[int] = []
    for place, text in enumerate(texts):
        if text not in _BRACKETS:
            continue
        if text in _OPENING:
            waiting.append(place)
        elif waiting:
            found[waiting.pop()] = place
    if waiting:
        raise NotUnderstood("a bracket is not closed")
    return found


def _element(kind: str) -> tuple[int, int]:
    if (vector := _VECTOR.search(kind)) is not None:
        return int(vector[1]), int(vector[1]) * _BYTES.get(vector[2], 4)
    scalar = _SCALAR.search(kind)
    return 1, _BYTES[scalar[1]] if scalar else 4
