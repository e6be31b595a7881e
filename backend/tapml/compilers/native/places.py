"""Indices as WGSL: where a load reads, and what loop variables and symbols decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapml.compilers.native.access import Access
from tapml.compilers.native.lines import Lines
from tapml.compilers.native.names import Names
from tapml.compilers.native.polynomials import Atom, Indices, Polynomial
from tapml.compilers.native.stages import is_index, variables_of
from tapml.compilers.native.textures import TEXEL, Texture, texel_type
from tapml.compilers.native.words import INFIX, Unknown, bare, tight, wgsl_type
from tapml.compilers.wgsl_names import of_symbol
from tapml.operators.program import Expression


class Places(Lines):
    """`variables`: WGSL texts of loop variables; a symbol is `size.NAME` (`of_symbol`), and is noted in `symbols`."""

    def __init__(self, indices: Indices, buffers: Mapping[str, Access], names: Names, lane: str | None = None) -> None:
        super().__init__(names)
        self.indices = indices
        self.buffers = dict(buffers)
        self.lane = lane
        self.variables: dict[str, str] = {}
        self.quad = ""
        """Text of the lane's variable divided by 4: it is a multiple of 4 itself."""
        self.varying: set[str] = set()
        """Variables beside `lane` that are another number in each lane: their texts are vec4."""
        self.symbols: dict[str, None] = {}
        self._varying: dict[int, bool] = {}

    def _written(self, found: Expression, lanes: Any) -> str:
        """The text of a value: `lanes` None for one that is the same in all of them, the number of one, or "all"."""
        raise NotImplementedError

    def _made(self, found: Expression, lanes: Any) -> str:
        """As `_written`, of what no text is known for."""
        raise NotImplementedError

    def varies(self, found: Expression) -> bool:
        """Is it another number in each of the four lanes?"""
        if self.lane is None:
            return False
        number = self._numbers(found)
        if number not in self._varying:
            self._varying[number] = not variables_of(found).isdisjoint({self.lane, *self.varying})
        return self._varying[number]

    def _index(self, found: Expression, lanes: Any) -> str:
        """A number that loop variables and symbols decide."""
        polynomial = self.indices(found)
        if found.kind == "variable" and polynomial.atoms() == {str(found.value)}:
            text = self.polynomial(polynomial, 0 if lanes == "all" else lanes)
        elif lanes == "all":
            each = [bare(self.polynomial(polynomial, n)) for n in range(4)]
            return f"vec4<i32>({', '.join(each)})"
        else:
            text = self.polynomial(polynomial, lanes)
        return f"(vec4<i32>({bare(text)}) + vec4<i32>(0, 1, 2, 3))" if lanes == "all" else text

    def flat(self, load: Expression) -> Polynomial:
        """Where a load reads, in elements."""
        return self.indices.flat(load.operands, self.buffers[str(load.value)].shape)

    def in_a_row(self, place: Polynomial) -> bool:
        """Do the four lanes lie in one vec4?"""
        assert self.lane is not None
        step = place.coefficient(self.lane)
        rest = place.without(self.lane)
        return (
            step is not None and step.constant == 1 and not self.indices.depends(rest, self.lane) and rest.divisible(4)
        )

    def by_fours(self, load: Expression) -> bool:
        """Can the buffer be one of vec4, as far as this load goes? All of its elements are in one then."""
        count = self.indices.size(1)
        for extent in self.buffers[str(load.value)].shape:
            count = count * self.indices.size(extent)
        return count.divisible(4) and self.varies(load) and self.in_a_row(self.flat(load))

    def at(self, access: Access, place: Polynomial, lanes: Any = None) -> str:
        """An element of a buffer, or of a buffer of vec4 the one that begins at `place` where `lanes` is "all"."""
        if access.texture is not None:
            return self._texel(access, access.texture, place, lanes)
        if access.width == 1:
            return f"{access.name}[{bare(self.polynomial(place, lanes))}]"
        if lanes == "all":
            assert self.lane is not None
            whole = bare(self.polynomial(place.without(self.lane).divided(4)))
            return f"{access.name}[{self.quad if whole == '0' else f'{whole} + {self.quad}'}]"
        text = tight(self.polynomial(place, lanes))
        return f"{access.name}[{text} / 4][{text} % 4]"

    def store(self, access: Access, place: Polynomial, value: str, lanes: Any = None) -> str:
        """The statement that writes an element, or where `lanes` is "all" four of them. Raises Unknown for a part of a
        texel: those are written whole."""
        if access.texture is None:
            return f"{self.at(access, place, lanes)} = {value};"
        channels = access.texture.channels
        if (channels == TEXEL) != (lanes == "all"):
            raise Unknown("an element that is no whole texel")
        kind = f"vec4<{texel_type(access.dtype)}>"
        if channels == 1 or access.dtype == "float16":
            value = f"{kind}({value}{'' if channels == TEXEL else ', 0, 0, 0'})"
        number, *at = self._coordinates(access.texture, place, lanes)
        if access.texture.objects > 1:
            return f"write_{access.name}({number}, {', '.join(at)}, {value});"
        return f"textureStore({access.name}, {access.texture.place(at)}, {value});"

    def _texel(self, access: Access, texture: Texture, place: Polynomial, lanes: Any) -> str:
        """What a texture holds of a texel: all of it, or the one element."""
        number, *at = self._coordinates(texture, place, lanes)
        if texture.objects > 1:
            text = f"read_{access.name}({number}, {', '.join(at)})"
        else:
            text = f"textureLoad({access.name}, {texture.place(at)}, 0)"
        if access.dtype == "float16":
            text = f"vec4<f16>({text})"
        if texture.channels == TEXEL and lanes == "all":
            return text
        channel = self._part(place, "floormod", texture.channels)
        return f"{text}[{bare(self.polynomial(channel, lanes))}]"

    def _coordinates(self, texture: Texture, place: Polynomial, lanes: Any) -> list[str]:
        """Texts of the number of the object, x, y and z. Of four lanes the first says where their texel is."""
        rest = self._part(place, "floordiv", texture.channels)
        found = []
        extents = (*texture.size, texture.objects)
        for number, extent in enumerate(extents):
            # The outermost one that there is has no end to be seen to.
            last = all(one == 1 for one in extents[number + 1 :])
            one = rest if last else self._part(rest, "floormod", extent)
            found.append(bare(self.polynomial(one, None if lanes == "all" else lanes)) if extent > 1 else "0")
            rest = self._part(rest, "floordiv", extent)
        return [found[3], *found[:3]]

    def _part(self, found: Polynomial, kind: str, divisor: int) -> Polynomial:
        operands = self.indices.expression(found), Expression("constant", "int64", (), divisor)
        return self.indices(Expression(kind, "int64", operands))

    def _load(self, found: Expression, lanes: Any) -> str:
        if str(found.value) not in self.buffers:
            raise Unknown(f"a load of {found.value}")
        access = self.buffers[str(found.value)]
        place = self.flat(found)
        if lanes != "all":
            return self.at(access, place, lanes)
        if access.width == 4 and self.in_a_row(place):
            return self.at(access, place, "all")
        each = [self.at(access, place, n) for n in range(4)]
        return f"vec4<{wgsl_type(access.dtype)}>({', '.join(each)})"

    def polynomial(self, found: Polynomial, lanes: Any = None) -> str:
        """The text of an index, in parentheses where it needs any. `lanes`: the lane whose it is."""
        text = ""
        for product, c in sorted(found.terms.items(), key=lambda term: (not term[0], -abs(term[1]))):
            factors = [tight(self.atom(part, lanes)) for part in product]
            if abs(c) != 1 or not factors:
                factors.append(str(abs(c)))
            term = " * ".join(factors)
            text += f" {'-' if c < 0 else '+'} {term}" if text else f"-{term}" if c < 0 else term
        if any(abs(c) >= 2**31 for c in found.terms.values()):
            raise Unknown("an index beyond what an i32 holds")
        return f"({text})" if " " in text else text or "0"

    def atom(self, part: Atom, lanes: Any = None) -> str:
        if isinstance(part, str):
            if part in self.variables:
                text = self.variables[part]
                return f"({text} + {lanes})" if part == self.lane and lanes else text
            if part not in self.indices.symbols:
                raise Unknown(f"the variable {part}")
            self.symbols[part] = None
            return f"size.{of_symbol(part)}"
        found = self.indices.opaque[part]
        if not self.varies(found):
            lanes = None
        number = self._numbers(found)
        known = self.known(number, lanes)
        if known is None:
            known = self._atom(found, lanes)
            if not known.isidentifier():
                hint = {"floordiv": "quotient", "floormod": "remainder", "load": str(found.value)}
                known = self.let(hint.get(found.kind, "index"), known)
            self.remember(number, lanes, known)
        return known

    def _atom(self, found: Expression, lanes: Any) -> str:
        if found.kind == "load" or not is_index(found) or found.kind not in ("floordiv", "floormod", "div", "mod"):
            if is_index(found) and found.kind in ("min", "max"):
                a, b = (bare(self.polynomial(self.indices(operand), lanes)) for operand in found.operands)
                return f"{found.kind}({a}, {b})"
            wgsl_type(found.dtype)
            made = self._made(found, lanes) if not is_index(found) else self._plain(found, lanes)
            return made if wgsl_type(found.dtype) == "i32" else f"i32({bare(made)})"
        dividend, divisor = map(self.indices, found.operands)
        above, below = self.polynomial(dividend, lanes), self.polynomial(divisor, lanes)
        low = self.indices.low(dividend)
        if (low is not None and low >= 0 and (divisor.constant or 0) > 0) or found.kind == "div":
            return f"({tight(above)} {'/' if found.kind.endswith('div') else '%'} {tight(below)})"
        name = {"floordiv": "floordiv", "floormod": "floormod", "mod": "remainder"}[found.kind]
        return f"tapml_{name}({bare(above)}, {bare(below)})"

    def _plain(self, found: Expression, lanes: Any) -> str:
        """An index of another kind: a choice, bits."""
        operands = [bare(self._written(operand, lanes)) for operand in found.operands]
        if found.kind in ("select", "if_then_else"):
            return f"select({operands[2]}, {operands[1]}, {operands[0]})"
        if found.kind == "cast":
            return f"i32({operands[0]})"
        if found.kind in INFIX:
            return f"({operands[0]} {INFIX[found.kind]} {operands[1]})"
        raise Unknown(f"{found.kind} in an index")
