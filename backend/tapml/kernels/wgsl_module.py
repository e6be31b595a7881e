"""A WGSL text as its module-scope declarations (WGSL, section 3): as much as putting several texts into one takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tapml.kernels.wgsl_tokens import Token, is_name, tokens

_OPEN = {"(": ")", "[": "]", "{": "}"}
_DIRECTIVES = ("enable", "requires", "diagnostic")
_NAMED = ("struct", "fn", "const", "alias", "var")


@dataclass(frozen=True)
class Declaration:
    """Tokens `start` to `end` (excluded) of a module. `kind`: the keyword it begins with, behind attributes; `named`:
    the token that is its name, `body` the first one behind it. A directive has neither."""

    kind: str
    start: int
    end: int
    named: int = -1

    @property
    def body(self) -> int:
        return self.named + 1


@dataclass(frozen=True)
class Parameter:
    """Of an entry point: a builtin value."""

    name: str
    builtin: str
    type: str


class NotUnderstood(Exception):
    """The text is none, or one of which this reader knows too little."""


class Module:
    """Raises NotUnderstood."""

    def __init__(self, wgsl: str) -> None:
        found = tokens(wgsl)
        if found is None:
            raise NotUnderstood("a comment does not end")
        self.wgsl = wgsl
        self.tokens: Sequence[Token] = found
        self.texts = [token.text for token in found]
        self.declarations: list[Declaration] = []
        position = 0
        while position < len(self.texts):
            if self.texts[position] == ";":
                position += 1
                continue
            declared = self._declaration(position)
            self.declarations.append(declared)
            position = declared.end

    def name(self, declared: Declaration) -> str:
        return self.texts[declared.named]

    @property
    def names(self) -> list[str]:
        """What is declared, in order."""
        return [self.name(declared) for declared in self.declarations if declared.named >= 0]

    def closing(self, opened: int) -> int:
        """The bracket that ends what the bracket at `opened` begins."""
        waiting: list[str] = []
        for position in range(opened, len(self.texts)):
            text = self.texts[position]
            if text in _OPEN:
                waiting.append(_OPEN[text])
            elif waiting and text == waiting[-1]:
                waiting.pop()
                if not waiting:
                    return position
            elif text in _OPEN.values():
                break
        raise NotUnderstood("a bracket is not closed")

    def text(self, start: int, end: int, replaced: Mapping[int, str]) -> str:
        """As it is written from token `start` to `end` (excluded), but for tokens that are `replaced`, by place."""
        parts = []
        at = self.tokens[start].at
        for place in range(start, end):
            if place in replaced:
                token = self.tokens[place]
                parts += [self.wgsl[at : token.at], replaced[place]]
                at = token.at + len(token.text)
        last = self.tokens[end - 1]
        return "".join([*parts, self.wgsl[at : last.at + len(last.text)]])

    def uses(self, declared: Declaration) -> list[int]:
        """Places in a declaration of names that are declared in the module, or hide one that is: neither members nor
        what attributes are called."""
        own, texts = set(self.names), self.texts
        found = []
        for place in range(declared.start, declared.end):
            if texts[place] not in own or texts[place - 1 : place] in (["."], ["@"]):
                continue
            if place >= 3 and texts[place - 3 : place] == ["@", "builtin", "("]:
                continue
            member = declared.kind == "struct" and place > declared.named and texts[place + 1] == ":"
            if not member:
                found.append(place)
        return found

    def spaces(self, declared: Declaration) -> list[str]:
        """Of a variable: its address space, and how it is accessed."""
        return self.texts[declared.start : declared.named]

    def check_uses(self, declared: Declaration, *, elements: bool) -> None:
        """That an expression may stand in place of a variable's name wherever its module has that. `elements`: one at a
        time are read and written, and nothing else is. Raises NotUnderstood where its address is taken, or another
        declaration hides it."""
        name = self.name(declared)
        for found in self.declarations:
            for place in self.uses(found) if found != declared else ():
                if self.texts[place] != name:
                    continue
                before, behind = self.texts[place - 1], self.texts[place + 1]
                if before in ("&", "let", "var", "const", ">") or behind in (":", "=>") or (elements and behind != "["):
                    raise NotUnderstood(f"{name} is not used element by element")

    def attributes(self, declared: Declaration) -> dict[str, list[str]]:
        """Those before its keyword: name -> the tokens in its brackets."""
        found: dict[str, list[str]] = {}
        position = declared.start
        while self.texts[position] == "@":
            name, position = self.texts[position + 1], position + 2
            found[name] = []
            if self.texts[position] == "(":
                end = self.closing(position)
                found[name], position = self.texts[position + 1 : end], end + 1
        return found

    def keyword(self, declared: Declaration) -> int:
        """The place of the word that it begins with, behind its attributes."""
        position = declared.start
        while self.texts[position] == "@":
            position += 2
            if self.texts[position] == "(":
                position = self.closing(position) + 1
        return position

    def entry_point(self, name: str) -> Declaration:
        """The function of that name, the only entry point of the text."""
        functions = [found for found in self.declarations if found.kind == "fn"]
        entries = [found for found in functions if "compute" in self.attributes(found)]
        if len(entries) != 1 or self.name(entries[0]) != name:
            raise NotUnderstood(f"{name} is not its only entry point")
        return entries[0]

    def parameters(self, entry: Declaration) -> list[Parameter]:
        """Of an entry point. Those in a structure are not understood."""
        texts = self.texts
        position, closed = entry.body + 1, self.closing(entry.body)
        found = []
        while position < closed:
            end = position
            depth = 0
            while end < closed and (depth or texts[end] != ","):
                depth += {"<": 1, "(": 1, ">": -1, ")": -1, ">>": -2}.get(texts[end], 0)
                end += 1
            one = texts[position:end]
            if one[:3] != ["@", "builtin", "("] or len(one) < 8 or one[4] != ")" or one[6] != ":":
                raise NotUnderstood(f"a parameter of {self.name(entry)} is no builtin value")
            found.append(Parameter(one[5], one[3], "".join(one[7:])))
            position = end + 1
        return found

    def members(self, struct: str) -> list[str]:
        """Names of those of a structure, in order."""
        for declared in self.declarations:
            if declared.kind == "struct" and self.name(declared) == struct:
                texts = self.texts
                inside = range(declared.body + 1, declared.end - 1)
                return [texts[n] for n in inside if texts[n + 1] == ":" and texts[n - 1] in ("{", ",", ";", ")")]
        raise NotUnderstood(f"there is no structure {struct}")

    def _declaration(self, start: int) -> Declaration:
        texts = [*self.texts, ""]
        position = start
        while texts[position] == "@":
            position += 2
            if texts[position : position + 1] == ["("]:
                position = self.closing(position) + 1
        kind = texts[position] if position < len(self.texts) else ""
        if kind in _DIRECTIVES and position == start:
            return Declaration(kind, start, self._semicolon(position))
        if kind not in _NAMED:
            raise NotUnderstood(f"it has a declaration that begins with {kind[:20]!r}")
        named = position + 1
        if kind == "var" and texts[named] == "<":
            while texts[named] not in (">", ""):
                named += 1
            named += 1
        if named >= len(self.texts) or not is_name(texts[named]):
            raise NotUnderstood(f"a declaration of {kind} has no name")
        if kind in ("struct", "fn"):
            body = named
            while texts[body] not in ("{", ""):
                body = self.closing(body) if texts[body] == "(" else body
                body += 1
            if not texts[body]:
                raise NotUnderstood(f"{kind} {texts[named]} has no body")
            return Declaration(kind, start, self.closing(body) + 1, named)
        return Declaration(kind, start, self._semicolon(position), named)

    def _semicolon(self, position: int) -> int:
        while position < len(self.texts):
            if self.texts[position] == ";":
                return position + 1
            position = self.closing(position) + 1 if self.texts[position] in _OPEN else position + 1
        raise NotUnderstood("a declaration does not end")
