"""Parts of a product's factors in workgroup memory as float16, which subgroup matrices are loaded from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tapml.compilers.native.blocks import SIDE, fits
from tapml.compilers.native.words import tight


def factor_at(side: str, order: str, place: str, offset: int, stride: int) -> str:
    """A matrix of float16 in workgroup memory, "left" or "right"; `order`: how rows of it lie there."""
    kind = f"subgroup_matrix_{side}<f16, {SIDE}, {SIDE}>"
    return f"subgroupMatrixLoad<{kind}, {order}_major>(&{place}, {offset}u, {stride}u)"


def odd(count: int) -> int:
    """The least odd number that is not below."""
    return count if count % 2 else count + 1


@dataclass(frozen=True)
class Part:
    """One factor's part in workgroup memory: for each of `groups` of lines (those of a row or a column of subgroups)
    an array, so that all but the first index is constant."""

    name: str
    lines: int
    groups: int
    depth: int
    invocations: int
    across: bool
    begin: str
    made: tuple[str, ...] = ("",)
    """Of what vectors are read as, functions that make what is kept in an array each; "": as it is."""
    eights: tuple[str, ...] = ()
    """Where several vectors are read at once, of points of the inner axis beside each other, the texts of each, of what
    was read in place of {}."""
    kind: str = "vec4<u32>"
    """What is read."""

    @property
    def each(self) -> int:
        return self.lines // self.groups

    @property
    def stride(self) -> int:
        """Vectors from one line, or point of the inner axis, to the next: odd, so that they lie in different banks."""
        return odd((self.each if self.across else self.depth) // 8)

    @property
    def size(self) -> int:
        return self.stride * (self.depth if self.across else self.each)

    @property
    def arrays(self) -> Sequence[str]:
        return [f"{self.name}_part", f"{self.name}_rest_part"][: len(self.made)]

    @property
    def declarations(self) -> Iterable[str]:
        for array in self.arrays:
            yield f"var<workgroup> {array} : array<array<vec4<u32>, {self.size}>, {self.groups}>;"

    @property
    def shares(self) -> int:
        """What each invocation reads: vectors, or as many of them together."""
        return self.lines * self.depth // 8 // self.together // self.invocations

    @property
    def fits(self) -> bool:
        """Whether all invocations bring equally many vectors, of the same numbers in their lines."""
        return fits(self.lines, self.depth // self.together, self.invocations, self.across)

    def placed(self) -> Iterable[str]:
        """Which vectors an invocation brings: its first, and from there on always as many further."""
        fast = self._fast
        yield f"let {self.name}_fast = index % {fast};"
        yield f"let {self.name}_slow = index / {fast};"

    @property
    def together(self) -> int:
        """Vectors that are read at once."""
        return max(1, len(self.eights))

    @property
    def _fast(self) -> int:
        """Of what invocations beside each other read: so many lie beside each other."""
        return self.lines // 8 if self.across else self.depth // 8 // self.together

    def _share(self, share: int) -> tuple[str, str]:
        """The number of what is read in its line, or of a vector of lines; and the line, or the point of the inner
        axis."""
        step = self.invocations // self._fast
        return f"{self.name}_fast", f"{self.name}_slow{f' + {share * step}' if share else ''}"

    def brought(self, k: str, function: str = "") -> Iterable[str]:
        """`function`: of a vector, by default that which knows where the inner axis ends."""
        function = function or f"{self.name}8"
        for share in range(self.shares):
            fast, slow = self._share(share)
            if self.across:
                point = f"{tight(slow)} * {self.together}" if self.together > 1 else slow
                given = f"{self.begin} + {fast} * 8, {k} + {point}"
            else:
                given = f"{self.begin} + {slow}, {k} + {fast} * {8 * self.together}"
            yield f"{self.name}_{share} = {function}(batch, {given});"

    def kept(self) -> Iterable[str]:
        """Writes to workgroup memory what is made of what was read."""
        for place, read in self._read():
            for array, function in zip(self.arrays, self.made, strict=True):
                yield f"{array}{place} = {f'{function}({read})' if function else read};"

    def _read(self) -> Iterable[tuple[str, str]]:
        """Where each vector is kept, and the text of what it is made of."""
        for share in range(self.shares):
            fast, slow = self._share(share)
            found = f"{self.name}_{share}"
            if self.across:
                eights = self.each // 8
                for n in range(self.together):
                    point = f"{tight(slow)} * {self.together} + {n}" if self.together > 1 else slow
                    read = self.eights[n].format(found) if self.eights else found
                    yield f"[{fast} / {eights}][({point}) * {self.stride} + {fast} % {eights}]", read
                continue
            for n in range(self.together):
                at = f"{fast} * {self.together}{f' + {n}' if n else ''}" if self.together > 1 else fast
                read = self.eights[n].format(found) if self.eights else found
                yield f"[({slow}) / {self.each}][({slow}) % {self.each} * {self.stride} + {at}]", read

    def matrix(self, own: str, number: int, step: int, rest: bool = False) -> str:
        """The subgroup matrix of the group's lines from number * SIDE on, at that step along the inner axis; `rest`: of
        the second array."""
        side = "right" if self.name == "right" else "left"
        order = "row" if self.across == (side == "right") else "col"
        if self.across:
            place = step * SIDE * self.stride + number * SIDE // 8
        else:
            place = number * SIDE * self.stride + step * SIDE // 8
        return factor_at(side, order, f"{self.arrays[rest]}[{own}]", place, self.stride)

    def said(self, what: str) -> str:
        who = f"{' and '.join(self.arrays)} {'have' if len(self.made) > 1 else 'has'},"
        if self.across:
            return f"{who} for each point of the inner axis, vectors of eight {what}s"
        return f"{who} for each {what}, vectors of eight along the inner axis"
