"""Expressions of a program as WGSL: lines of `let`s for what is used twice, and a text for the value.

A `Writer` writes into one scope after another. It gives the value of an expression for one invocation (`value`), or,
where `lane` names a variable, for four consecutive values of it at once (`vector`): its loads become loads of vec4
where the four lie in a row, numbers that all four share, or four loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapml.compilers.native.access import Access
from tapml.compilers.native.functions import OF_FOUR
from tapml.compilers.native.names import Names
from tapml.compilers.native.places import Places
from tapml.compilers.native.polynomials import Indices
from tapml.compilers.native.stages import is_index, loads, variables_of
from tapml.compilers.native.words import INFIX, Unknown, bare, literal, tight, wgsl_type
from tapml.operators.program import Expression

_BUILTINS = {
    **{name: name for name in ("acos", "acosh", "asin", "atan", "atanh", "ceil", "cosh", "exp", "exp2", "floor")},
    **{name: name for name in ("log", "log2", "round", "sinh", "sqrt", "trunc", "pow")},
    **{"fabs": "abs", "rsqrt": "inverseSqrt", "nearbyint": "round"},
}
"""WGSL's functions, by the program's; every other one is declared by the kernel."""


class Writer(Places):
    """Writes values and their indices."""

    def __init__(self, indices: Indices, buffers: Mapping[str, Access], names: Names, lane: str | None = None) -> None:
        super().__init__(indices, buffers, names, lane)
        self._uses: dict[int, int] = {}
        self._expected: list[Expression] = []

    # ------------------------------------------------ values

    def expect(self, root: Expression) -> None:
        """Its value is asked for next: what it has in common with another one is written once."""
        self._count(root)
        self._expected.append(root)

    def value(self, root: Expression) -> str:
        """The text of its value. Raises Unknown."""
        self._count(root)
        return self._written(root, None)

    def vector(self, root: Expression) -> str:
        """The text of its four values, a vec4. Raises Unknown."""
        self._count(root)
        return self._vector(root)

    def forget_uses(self) -> None:
        """How often parts were asked for so far does not matter to what comes."""
        self._uses.clear()

    def hoist(self, root: Expression, within: set[str]) -> None:
        """Give names to the largest parts of `root` that only variables in `within` decide, here, where they are
        known: what follows in this scope takes them from there."""
        stack, seen = [root], set()
        while stack:
            found = stack.pop()
            number = self._numbers(found)
            if number in seen or found.kind in ("constant", "variable"):
                continue
            seen.add(number)
            if variables_of(found) <= within:
                self._count(found)
                text = self._written(found, None)
                if not text.isidentifier():
                    hint = str(found.value) if found.kind in ("load", "call") else "t"
                    self.remember(number, None, self.let(hint, text))
            elif found.kind not in ("load", "if_then_else"):
                stack += found.operands

    def _count(self, root: Expression) -> None:
        """How often each part is an operand. Indices are counted by their own rules."""
        if any(root is expected for expected in self._expected):
            self._expected = [expected for expected in self._expected if expected is not root]
            return
        seen: set[int] = set()
        stack = [root]
        while stack:
            found = stack.pop()
            number = self._numbers(found)
            self._uses[number] = self._uses.get(number, 0) + 1
            if number not in seen:
                seen.add(number)
                stack += () if found.kind == "load" else found.operands

    def _written(self, found: Expression, lanes: Any) -> str:
        """`lanes`: None for a value that is the same in all of them, the number of one, or "all"."""
        if found.kind == "constant":
            return literal(found)
        if lanes is not None and not self.varies(found):
            lanes = None
        number = self._numbers(found)
        known = self.known(number, lanes)
        if known is not None:
            return known
        text = self._made(found, lanes)
        if self._uses.get(number, 0) > 1 and (found.kind != "variable" or lanes == "all") and not text.isidentifier():
            hint = str(found.value) if found.kind in ("load", "call") else "t"
            text = self.let(hint, text)
        self.remember(number, lanes, text)
        return text

    def _vector(self, found: Expression) -> str:
        """A vec4 in any case."""
        if self.varies(found):
            return self._written(found, "all")
        return f"vec4<{wgsl_type(found.dtype)}>({bare(self._written(found, None))})"

    def _operand(self, found: Expression, lanes: Any) -> str:
        return self._vector(found) if lanes == "all" else self._written(found, lanes)

    def _made(self, found: Expression, lanes: Any) -> str:
        kind, dtype = found.kind, found.dtype
        wgsl_type(dtype)
        if kind == "load":
            return self._load(found, lanes)
        if kind == "variable" and not is_index(found):
            text = self.variables.get(str(found.value))
            if text is None:
                raise Unknown(f"the variable {found.value}")
            return text if lanes in (None, "all") else f"{text}[{lanes}]"
        if is_index(found):
            return self._index(found, lanes)
        if kind in ("select", "if_then_else"):
            return self._choice(found, lanes)
        if kind == "call":
            return self._call(found, lanes)
        if kind in ("cast", "reinterpret"):
            return self._cast(found, lanes)
        operands = [self._operand(operand, lanes) for operand in found.operands]
        given = found.operands[0].dtype
        if kind in ("and", "or"):
            sign = {"and": "&&", "or": "||"}[kind] if lanes != "all" else {"and": "&", "or": "|"}[kind]
            return f"({operands[0]} {sign} {operands[1]})"
        if kind == "not":
            return f"!{tight(operands[0])}"
        if kind == "bitwise_not":
            return f"{'!' if dtype == 'bool' else '~'}{tight(operands[0])}"
        if kind in ("min", "max"):
            return f"{kind}({bare(operands[0])}, {bare(operands[1])})"
        if kind in ("shift_left", "shift_right"):
            return self._shift(found, operands, lanes)
        if kind == "bitwise_xor" and dtype == "bool":
            return f"({operands[0]} != {operands[1]})"
        if kind in ("eq", "ne") and given in ("float32", "float16"):
            a, b = found.operands
            if self._numbers(a) == self._numbers(b):
                made = self._own("isnan", a, lanes, "bool")
                return made if kind == "ne" else f"!{made}"
        if kind in ("add", "sub", "mul", "div"):
            # Of a vector and a number, WGSL takes the number for each lane.
            operands = [self._written(operand, lanes) for operand in found.operands]
        if kind in INFIX:
            return f"({operands[0]} {INFIX[kind]} {operands[1]})"
        if kind == "mod" and given in ("float32", "float16"):
            return self._own("fmod", found, lanes, dtype)
        if kind in ("mod", "floordiv", "floormod"):
            return self._division(found, operands, lanes)
        raise Unknown(f"{kind} of {dtype}")

    def _shift(self, found: Expression, operands: list[str], lanes: Any) -> str:
        by = found.operands[1]
        sign = "<<" if found.kind == "shift_left" else ">>"
        if by.kind == "constant":
            amount = f"{min(int(by.value or 0), 31)}u"
            return f"({operands[0]} {sign} {f'vec4<u32>({amount})' if lanes == 'all' else amount})"
        unsigned = "vec4<u32>" if lanes == "all" else "u32"
        amount = operands[1] if by.dtype == "uint32" else f"{unsigned}({bare(operands[1])})"
        return f"({operands[0]} {sign} {amount})"

    def _division(self, found: Expression, operands: list[str], lanes: Any) -> str:
        """Of integers that data decides."""
        if found.dtype == "uint32":
            return f"({operands[0]} {'/' if found.kind == 'floordiv' else '%'} {operands[1]})"
        name = {"mod": "remainder", "floordiv": "floordiv", "floormod": "floormod"}[found.kind]
        return self._each(lambda *given: f"tapml_{name}({', '.join(given)})", found, lanes, "i32")

    def _each(self, call: Any, found: Expression, lanes: Any, result: str) -> str:
        """A function of single numbers, of each lane."""
        if lanes != "all":
            return str(call(*(bare(self._written(operand, lanes)) for operand in found.operands)))
        texts = [(self._named(operand), self.varies(operand)) for operand in found.operands]
        each = [call(*(f"{text}.{lane}" if varies else bare(text) for text, varies in texts)) for lane in "xyzw"]
        return f"vec4<{result}>({', '.join(each)})"

    def _named(self, found: Expression) -> str:
        """Its text, a name where it is a vec4: each lane is taken of it."""
        if not self.varies(found):
            return self._written(found, None)
        text = self._written(found, "all")
        return text if text.isidentifier() else self.let("four", text)

    def _own(self, name: str, found: Expression, lanes: Any, dtype: str) -> str:
        """A function that the kernel declares: of float32, of which a float16 is one."""
        operands = found.operands if name != "isnan" or found.kind == "call" else (found,)
        wide = operands[0].dtype == "float32"
        result = "bool" if dtype == "bool" else wgsl_type(dtype)

        def call(suffix: str, cast: str, texts: list[str]) -> str:
            inside = ", ".join(text if wide else f"{cast}({text})" for text in texts)
            return f"tapml_{name}{suffix}({inside})"

        if lanes == "all" and name in OF_FOUR:
            made = call("_of_4", "vec4<f32>", [bare(self._vector(operand)) for operand in operands])
            return made if wide else f"vec4<f16>({made})"

        def one(*texts: str) -> str:
            made = call("", "f32", list(texts))
            return made if wide or dtype == "bool" else f"f16({made})"

        if operands is found.operands:
            return self._each(one, found, lanes, result)
        if lanes != "all":
            return one(bare(self._written(found, lanes)))
        four = self._named(found)
        return f"vec4<bool>({', '.join(one(f'{four}.{lane}') for lane in 'xyzw')})"

    def _call(self, found: Expression, lanes: Any) -> str:
        name = str(found.value)
        if found.operands[0].dtype not in ("float32", "float16"):
            raise Unknown(f"{name} of {found.operands[0].dtype}")
        if name == "nextafter" and found.dtype == "float16":
            raise Unknown("nextafter of float16")
        if name in _BUILTINS:
            operands = [bare(self._operand(operand, lanes)) for operand in found.operands]
            return f"{_BUILTINS[name]}({', '.join(operands)})"
        return self._own(name, found, lanes, found.dtype)

    def _cast(self, found: Expression, lanes: Any) -> str:
        (operand,) = found.operands
        given, wanted = wgsl_type(operand.dtype), wgsl_type(found.dtype)
        text = self._operand(operand, lanes)
        if given == wanted:
            return text
        wanted = f"vec4<{wanted}>" if lanes == "all" else wanted
        return f"{f'bitcast<{wanted}>' if found.kind == 'reinterpret' else wanted}({bare(text)})"

    def _choice(self, found: Expression, lanes: Any) -> str:
        condition, yes, no = found.operands
        # What is not chosen is not read: it may lie outside, and is another's memory to fetch.
        if found.kind == "if_then_else" and loads(yes, no) and not (lanes == "all" and self.varies(condition)):
            chosen = bare(self._written(condition, lanes if lanes != "all" else None))
            name = self.names("chosen")
            plain = wgsl_type(found.dtype)
            self.line(f"var {name} : {f'vec4<{plain}>' if lanes == 'all' else plain};")
            self.line(f"if ({chosen}) {{")
            for part, tail in ((yes, "} else {"), (no, "}")):
                with self.scope():
                    self.line(f"{name} = {bare(self._operand(part, lanes))};")
                self.line(tail)
            return name
        texts = [bare(self._operand(part, lanes)) for part in (no, yes, condition)]
        return f"select({', '.join(texts)})"
