"""A kernel's text as what is counted in it is read from: tokens, blocks, functions, and what variables are.

Texts have most of what stands between two braces in common: loops that are written out, steps of a tile. Each such
piece is read once (`pieces.py`), in however many texts it stands.
"""

from __future__ import annotations

import re

from tapml.compilers.auto.pieces import Piece, piece_of
from tapml.compilers.auto.statements import VECTOR, closing
from tapml.kernels.wgsl_module import NotUnderstood
from tapml.kernels.wgsl_tokens import token_texts

_SCALAR = re.compile(r"\b(f32|i32|u32|f16)\b")
_ARRAYS = re.compile(r"var(?:<(\w+)[^>]*>)? (\w{12,}) : array")
_BYTES = {"f32": 4, "i32": 4, "u32": 4, "f16": 2}
_COMMENT = re.compile(r"//.*")


class KernelText:
    """Raises NotUnderstood for a text that ends in the middle of something.

    `blocks` has where each brace is closed, `pieces` what begins behind each brace, `storage` elements and bytes
    of what an index of a buffer gives, `shared` elements of that of workgroup memory, `functions` where bodies
    begin, `widths` elements of variables and functions that are vectors.
    """

    def __init__(self, wgsl: str) -> None:
        self.texts: tuple[str, ...] = ()
        self.blocks: dict[int, int] = {}
        self.pieces: dict[int, Piece] = {}
        self.functions: dict[str, int] = {}
        self.storage: dict[str, tuple[int, int]] = {}
        self.shared: dict[str, int] = {}
        self.widths: dict[str, int] = {}
        for place in self._read(wgsl):
            if self.texts[place] == "fn":
                self._function(place)
            else:
                self._variable(place)

    def _read(self, wgsl: str) -> list[int]:
        """The tokens, and where blocks end. Where functions and variables of the module are declared."""
        texts: list[str] = []
        declared: list[int] = []
        waiting: list[int] = []
        for number, opened in enumerate(_without_comments(wgsl).split("{")):
            for closed, part in enumerate(opened.split("}")):
                place = len(texts)
                if closed:
                    if waiting:
                        self.blocks[waiting.pop()] = place
                    texts.append("}")
                elif number:
                    waiting.append(place)
                    texts.append("{")
                place = len(texts)
                self.pieces[place] = piece = piece_of(part)
                declared += [place + mark for mark in piece.declared]
                texts += piece.tokens
        if waiting:
            raise NotUnderstood("a brace is not closed")
        self.texts = tuple(texts)
        return declared

    def _function(self, place: int) -> None:
        name, arguments = self.texts[place + 1], closing(self.texts, place + 2)
        self.functions[name] = opened = self.texts.index("{", arguments)
        result = VECTOR.search("".join(self.texts[arguments:opened]))
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


def _without_comments(wgsl: str) -> str:
    if "/*" not in wgsl:
        return _COMMENT.sub("", _with_short_names(wgsl))
    texts = token_texts(wgsl)
    if texts is None:
        raise NotUnderstood("a comment does not end")
    return " ".join(texts)


def _with_short_names(wgsl: str) -> str:
    """With numbers in place of long names of arrays, which say what a model calls something: so texts of other
    operators have the same lines."""
    names = list(enumerate(_ARRAYS.findall(wgsl)))
    # Of names that end alike the longer ones are gone before the shorter ones are looked for.
    for number, (space, name) in sorted(names, key=lambda one: -len(one[1][1])):
        for behind in ("[", " : array"):
            wgsl = wgsl.replace(f"{name}{behind}", f"{space or 'own'}_{number}_{behind}")
    return wgsl


def _element(kind: str) -> tuple[int, int]:
    if (vector := VECTOR.search(kind)) is not None:
        return int(vector[1]), int(vector[1]) * _BYTES.get(vector[2], 4)
    scalar = _SCALAR.search(kind)
    return 1, _BYTES[scalar[1]] if scalar else 4
