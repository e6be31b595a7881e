"""The expressions of WGSL as tapml's own compiler writes it, by the language's precedence, each with its type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"\s+|//[^\n]*|(?P<number>0x[0-9a-fA-F]+[iu]?|\d+\.\d*(?:e[+-]?\d+)?[fh]?|\d+(?:e[+-]?\d+)?[iufh]?)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign>->|\+\+|--|<<=|>>=|[-+*/%&|^]=|<<|>>|<=|>=|==|!=|&&|\|\||[^\w\s])"
)
_PRECEDENCE = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_TRUTHS = {"||", "&&", "==", "!=", "<", "<=", ">", ">="}
_ASSIGNED = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
_TEMPLATES = {"array", "atomic", "bitcast", "ptr", "vec2", "vec3", "vec4"}
_SHORT = {"f": "f32", "i": "i32", "u": "u32", "h": "f16"}


@dataclass(frozen=True)
class Expression:
    """`start` to `end` in the text. `type`: as "f32", "vec4<f32>", "int" of a number without a suffix, "" where it is
    not known. `operator` and its two `parts`: of a binary one that has no brackets around it."""

    start: int
    end: int
    type: str
    operator: str = ""
    parts: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Value:
    """What a statement stores. `keyword`: "let" or "var" of a declaration, "" of an assignment."""

    keyword: str
    target: str
    expression: Expression


class UnknownSyntax(Exception):
    """The text has what this reader does not know."""


class Reader:
    """Reads a whole file: `expressions` of two parts, those of loops' heads apart, and the `values` that it stores."""

    def __init__(self, text: str) -> None:
        self.expressions: list[Expression] = []
        self.values: list[Value] = []
        self.types: dict[tuple[int, int], str] = {}
        """Of each expression, one without an operator, too."""
        self._text = text
        self._tokens = [
            (match.lastgroup, match[0], match.start()) for match in _TOKEN.finditer(text) if match.lastgroup
        ]
        self._place = 0
        self._names: dict[str, str] = {}
        """Of the function that is read, and those of the whole file."""
        self._returns = {name: _long(kind) for name, kind in re.findall(r"\bfn (\w+)\([^)]*\) -> ([\w<>]+) \{", text)}
        self._kept = True
        self._read_file()

    def _peek(self, ahead: int = 0) -> str:
        place = self._place + ahead
        return self._tokens[place][1] if place < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise UnknownSyntax("the text ends within a statement")
        self._place += 1
        return token

    def _take(self, wanted: str) -> None:
        if (found := self._next()) != wanted:
            line = self._text.count("\n", 0, self._tokens[self._place - 1][2]) + 1
            raise UnknownSyntax(f"line {line}: {found!r} stands where {wanted!r} is expected")

    @property
    def _start(self) -> int:
        return self._tokens[self._place][2]

    @property
    def _end(self) -> int:
        """Where the last token ends."""
        _, token, start = self._tokens[self._place - 1]
        return start + len(token)

    def _read_file(self) -> None:
        outside: dict[str, str] = {}
        while self._place < len(self._tokens):
            token = self._next()
            if token == "var":
                if self._peek() == "<":
                    while self._next() != ">":
                        pass
                name = self._next()
                self._take(":")
                outside[name] = self._type()
            elif token == "fn":
                self._names = dict(outside)
                self._next()
                self._parameters()
                while self._peek() != "{":
                    self._next()
                self._block()

    def _parameters(self) -> None:
        self._take("(")
        while self._peek() != ")":
            if self._peek() == "@":
                self._next()
                self._next()
                self._skip_brackets()
            elif self._peek() == ",":
                self._next()
            else:
                name = self._next()
                self._take(":")
                self._names[name] = self._type()
        self._take(")")

    def _skip_brackets(self) -> None:
        self._take("(")
        depth = 1
        while depth:
            depth += {"(": 1, ")": -1}.get(self._next(), 0)

    def _type(self) -> str:
        text = self._next()
        if self._peek() == "<":
            depth = 0
            while True:
                token = self._next()
                text += token + (" " if token == "," else "")
                depth += {"<": 1, ">": -1, ">>": -2}.get(token, 0)
                if depth == 0:
                    break
        return _long(text)

    def _block(self) -> None:
        self._take("{")
        names = dict(self._names)
        while self._peek() != "}":
            self._statement()
        self._take("}")
        self._names = names

    def _statement(self) -> None:
        token = self._peek()
        if token == "{":
            self._block()
        elif token == "if":
            self._next()
            self._take("(")
            self._expression()
            self._take(")")
            self._block()
            if self._peek() == "else":
                self._next()
                self._statement()
        elif token == "for":
            self._for()
        elif token == "return":
            self._next()
            if self._peek() != ";":
                self._expression()
            self._take(";")
        elif token in ("break", "continue"):
            self._next()
            self._take(";")
        else:
            self._simple()
            self._take(";")

    def _for(self) -> None:
        names = dict(self._names)
        self._next()
        self._take("(")
        # Another bound or step might never end.
        self._kept = False
        self._simple()
        self._take(";")
        self._expression()
        self._take(";")
        self._simple()
        self._take(")")
        self._kept = True
        self._block()
        self._names = names

    def _simple(self) -> None:
        """A declaration, an assignment or a call."""
        if self._peek() in ("let", "var", "const"):
            keyword, name, kind = self._next(), self._next(), ""
            if self._peek() == ":":
                self._next()
                kind = self._type()
            if self._peek() == "=":
                self._next()
                value = self._expression()
                kind = kind or {"int": "i32", "float": "f32"}.get(value.type, value.type)
                self._found(Value(keyword, name, value))
            self._names[name] = kind
            return
        target = self._unary()
        if self._peek() in ("++", "--"):
            self._next()
        elif self._peek() in _ASSIGNED:
            self._next()
            self._found(Value("", self._text[target.start : target.end], self._expression()))

    def _found(self, value: Value) -> None:
        if self._kept:
            self.values.append(value)

    def _expression(self, least: int = 1) -> Expression:
        start = self._start
        left = self._unary()
        self.types[start, left.end] = left.type
        while _PRECEDENCE.get(self._peek(), 0) >= least:
            operator = self._next()
            right = self._expression(_PRECEDENCE[operator] + 1)
            kind = _of_two(operator, left.type, right.type)
            left = Expression(start, right.end, kind, operator, (left, right))
            self.types[start, left.end] = kind
            if self._kept:
                self.expressions.append(left)
        return left

    def _unary(self) -> Expression:
        start = self._start
        if self._peek() in ("-", "!", "~", "&", "*"):
            self._next()
            operand = self._unary()
            return Expression(start, operand.end, operand.type)
        kind = self._primary()
        while self._peek() in ("[", "."):
            if self._next() == "[":
                self._expression()
                self._take("]")
                kind = _element(kind)
            else:
                member = self._next()
                kind = re.sub(r"^vec\d", f"vec{len(member)}", kind) if len(member) > 1 else _element(kind)
        return Expression(start, self._end, kind)

    def _primary(self) -> str:
        group, token, _ = self._tokens[self._place]
        if token == "(":
            self._next()
            kind = self._expression().type
            self._take(")")
            return kind
        if group == "number":
            self._next()
            return _number(token)
        if group != "name":
            raise UnknownSyntax(f"{token!r} stands where a value is expected")
        name = self._type() if token in _TEMPLATES else self._next()
        if self._peek() != "(":
            return self._names.get(name, "bool" if name in ("true", "false") else "")
        self._next()
        arguments = []
        while self._peek() != ")":
            arguments.append(self._expression().type)
            if self._peek() == ",":
                self._next()
        self._take(")")
        return self._called(_long(name), arguments)

    def _called(self, name: str, arguments: list[str]) -> str:
        if name in self._returns:
            return self._returns[name]
        if name.startswith("bitcast<"):
            return _long(name[len("bitcast<") : -1])
        if re.match(r"(?:f32|f16|i32|u32|bool|vec\d<|array<)", name):
            return name
        if name in ("all", "any"):
            return "bool"
        kinds = [kind for kind in arguments[:2] if kind]
        return next((kind for kind in kinds if kind.startswith("vec")), next(iter(kinds), ""))


def _long(kind: str) -> str:
    """ "vec4<f32>" of "vec4f"."""
    return re.sub(r"\b(vec\d)([fiuh])\b", lambda found: f"{found[1]}<{_SHORT[found[2]]}>", kind)


def _number(text: str) -> str:
    if text.startswith("0x"):
        return {"i": "i32", "u": "u32"}.get(text[-1], "int")
    if text[-1] in _SHORT:
        return _SHORT[text[-1]]
    return "float" if "." in text or "e" in text else "int"


def _element(kind: str) -> str:
    found = re.fullmatch(r"(?:array|vec\d)<(.+?)(?:, \w+)?>", kind)
    return found[1] if found else ""


def _of_two(operator: str, left: str, right: str) -> str:
    vector = next((kind for kind in (left, right) if kind.startswith("vec")), "")
    if operator in _TRUTHS:
        return re.sub(r"<.*>", "<bool>", vector) if vector else "bool"
    if vector or operator in ("<<", ">>"):
        return vector or left
    for unknown in ("int", "float", ""):
        if left == unknown:
            return right
    return left


def terms(sum_: Expression) -> Iterator[tuple[str, Expression]]:
    """Those of a sum, each with its sign. What stands in brackets is one."""
    if sum_.operator in ("+", "-"):
        yield from terms(sum_.parts[0])
        yield sum_.operator, sum_.parts[1]
    else:
        yield "+", sum_
