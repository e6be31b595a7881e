"""A kernel's text as what is counted in it is read from: tokens, blocks, functions, and what variables are."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from tapml.kernels.wgsl_module import NotUnderstood
from tapml.kernels.wgsl_tokens import token_texts

_VECTOR = re.compile(r"vec([234]) ?< ?(\w+) ?>")
_SCALAR = re.compile(r"\b(f32|i32|u32|f16)\b")
_ARRAYS = re.compile(r"var(?:<(\w+)[^>]*>)? (\w{12,}) : array")
_BYTES = {"f32": 4, "i32": 4, "u32": 4, "f16": 2}
OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class KernelText:
    """Raises NotUnderstood for a text that ends in the middle of something.

    `blocks` has where each brace is closed, `storage` elements and bytes of what an index of a buffer gives, `shared`
    elements of that of workgroup memory, `functions` where bodies begin, `widths` elements of variables and functions
    that are vectors.
    """

    def __init__(self, wgsl: str) -> None:
        self.texts: tuple[str, ...] = ()
        self.blocks: dict[int, int] = {}
        self.functions: dict[str, int] = {}
        self.storage: dict[str, tuple[int, int]] = {}
        self.shared: dict[str, int] = {}
        self.widths: dict[str, int] = {}
        for place in self._read(wgsl):
            if self.texts[place] == "fn":
                self._function(place)
            elif self.texts[place + 1 : place + 2] == ("<",):
                self._variable(place)

    def _read(self, wgsl: str) -> list[int]:
        """The tokens, and where blocks end. Where functions and variables are declared."""
        texts: list[str] = []
        declared: list[int] = []
        waiting: list[int] = []
        # Comments of this kind may go on from line to line, and texts have few lines that are in no other.
        for line in [wgsl] if "/*" in wgsl else _with_short_names(wgsl).split("\n"):
            tokens, marks = _line(line)
            for mark in marks:
                place, token = len(texts) + mark, tokens[mark]
                if token == "{":
                    waiting.append(place)
                elif token != "}":
                    declared.append(place)
                elif waiting:
                    self.blocks[waiting.pop()] = place
            texts += tokens
        if waiting:
            raise NotUnderstood("a brace is not closed")
        self.texts = tuple(texts)
        return declared

    def _function(self, place: int) -> None:
        name, arguments = self.texts[place + 1], closing(self.texts, place + 2)
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
        kind = " ".join(texts[closed + 3 : texts.index(";", closed)])
        if texts[place + 2] == "storage":
            self.storage[name] = _element(kind)
        elif texts[place + 2] == "workgroup":
            self.shared[name] = _element(kind)[0]


def vector_width(kind: str) -> int:
    """How many elements a type of vectors has; 1 for any other."""
    found = _VECTOR.match(kind)
    return 1 if found is None else int(found[1])


def closing(texts: Sequence[str], at: int) -> int:
    """The place of the bracket that closes the one there. Raises NotUnderstood where none does."""
    depth = 0
    for place in range(at, len(texts)):
        if texts[place] in OPENING:
            depth += 1
        elif texts[place] in _CLOSING:
            depth -= 1
            if not depth:
                return place
    raise NotUnderstood("a bracket is not closed")


def _with_short_names(wgsl: str) -> str:
    """With numbers in place of long names of arrays, which say what a model calls something: so texts of other
    operators have the same lines."""
    names = list(enumerate(_ARRAYS.findall(wgsl)))
    # Of names that end alike the longer ones are gone before the shorter ones are looked for.
    for number, (space, name) in sorted(names, key=lambda one: -len(one[1][1])):
        for behind in ("[", " : array"):
            wgsl = wgsl.replace(f"{name}{behind}", f"{space or 'own'}_{number}_{behind}")
    return wgsl


@functools.lru_cache(maxsize=8192)
def _line(line: str) -> tuple[list[str], list[int]]:
    """Its tokens, and places of braces and of what declares something."""
    texts = token_texts(line)
    if texts is None:
        raise NotUnderstood("a comment does not end")
    return texts, [place for place, text in enumerate(texts) if text in ("{", "}", "fn", "var")]


def _element(kind: str) -> tuple[int, int]:
    if (vector := _VECTOR.search(kind)) is not None:
        return int(vector[1]), int(vector[1]) * _BYTES.get(vector[2], 4)
    scalar = _SCALAR.search(kind)
    return 1, _BYTES[scalar[1]] if scalar else 4
