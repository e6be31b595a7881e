"""Kernels of a compiled model: that each variant is whole, and what it asks for at the sizes of a dispatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tapml.compiled.algebra import Algebra, Scope, Value, shown
from tapml.compiled.bytes import bound, check_stored, padded
from tapml.compiled.model import CompiledEntryPoint, CompiledKernel, CompiledVariant
from tapml.expressions import ExpressionError
from tapml.kernels.textures import check_textures, misused_texture
from tapml.protocol.base import MOST_ELEMENTS
from tapml.protocol.kernels import ArgumentOperand, Launch, TextureOperand

_RANGES = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1)}

Access = tuple[tuple[int, bool], ...]
"""What one launch binds: which operand of a dispatch (its arguments, then its temporaries), and whether written."""


@dataclass(frozen=True)
class Needs:
    """At the sizes of a dispatch: extents of each argument, and of each temporary the bytes that any variant takes."""

    shapes: Sequence[Sequence[Value]]
    temporaries: Sequence[Sequence[Value]]


class KernelProof:
    """A kernel whose parts fit together. Raises ExpressionError naming the kernel."""

    def __init__(self, kernel: CompiledKernel, wgsl: int, algebra: Algebra) -> None:
        self.kernel = kernel
        self._algebra = algebra
        self._needs: dict[object, Needs] = {}
        self.temporaries = max(len(variant.temporaries) for variant in kernel.variants)
        self.arguments = len(kernel.arguments)
        self.accesses: list[Access] = []
        """Of each launch of each variant."""
        self.overwritten: dict[int, int] = {}
        """Output -> the input in whose bytes it is written."""
        where = f"kernel {kernel.kernel}"
        names = set()
        for symbol in kernel.symbols:
            if symbol.name in names:
                raise ExpressionError(f"{where}: the symbol {symbol.name} stands twice")
            names.add(symbol.name)
        for number, argument in enumerate(kernel.arguments):
            try:
                check_stored(argument.dtype, argument.encoding)
            except ExpressionError as error:
                raise ExpressionError(f"{where}: argument {number}: {error}") from None
            if number and argument.role == "input" and kernel.arguments[number - 1].role == "output":
                raise ExpressionError(f"{where}: argument {number} is an input behind outputs")
            if argument.overwrites is not None:
                self._check_overwrites(f"{where}: argument {number} overwrites argument {argument.overwrites}", number)
        for variant in kernel.variants:
            self._check_variant(f"{where}: variant {variant.name}", variant, wgsl)
        self.written = {operand for access in self.accesses for operand, written in access if written}

    def needs(self, sizes: Mapping[str, Value]) -> Needs:
        """Raises ExpressionError where, at these sizes of its symbols, a number may be none that can be."""
        key = tuple(tuple(value.terms.items()) for value in sizes.values())
        if key not in self._needs:
            self._needs[key] = self._at(sizes)
        return self._needs[key]

    def _check_overwrites(self, where: str, number: int) -> None:
        argument, arguments = self.kernel.arguments[number], self.kernel.arguments
        before = argument.overwrites
        assert before is not None
        if argument.role != "output" or before >= len(arguments) or arguments[before].role != "input":
            raise ExpressionError(f"{where}, and only an output overwrites an input")
        given = arguments[before]
        if (given.dtype, given.shape, given.encoding) != (argument.dtype, argument.shape, argument.encoding):
            raise ExpressionError(f"{where}, which has another type")
        if before in self.overwritten.values():
            raise ExpressionError(f"{where}, as another does")
        self.overwritten[number] = before

    def _check_variant(self, where: str, variant: CompiledVariant, wgsl: int) -> None:
        entry_points: dict[str, CompiledEntryPoint] = {}
        for entry_point in variant.entry_points:
            if entry_point.name in entry_points:
                raise ExpressionError(f"{where}: the entry point {entry_point.name} stands twice")
            entry_points[entry_point.name] = entry_point
            if entry_point.wgsl >= wgsl:
                raise ExpressionError(f"{where}: there is no WGSL text {entry_point.wgsl}")
            if len({found.binding for found in entry_point.bindings}) != len(entry_point.bindings):
                raise ExpressionError(f"{where}: a binding of {entry_point.name} stands twice")
        written: set[int] = set()
        for number, launch in enumerate(variant.launches):
            if launch.entry_point not in entry_points:
                raise ExpressionError(f"{where}: launch {number} is of no entry point")
            access = self._access(f"{where}: launch {number}", launch, entry_points[launch.entry_point], variant)
            written.update(operand for operand, writes in access if writes)
            self.accesses.append(access)
        if (misused := misused_texture(variant)) is not None:
            raise ExpressionError(f"{where} {misused}")
        for number, argument in enumerate(self.kernel.arguments):
            if argument.role == "output" and number not in written:
                raise ExpressionError(f"{where}: no launch writes argument {number}, an output")

    def _access(self, where: str, launch: Launch, called: CompiledEntryPoint, variant: CompiledVariant) -> Access:
        bindings = sorted(called.bindings, key=lambda found: found.binding)
        storage = [found for found in bindings if found.access != "uniform"]
        if len(storage) != len(launch.operands):
            raise ExpressionError(f"{where}: {len(launch.operands)} operands for {len(storage)} bindings")
        if len(bindings) - len(storage) != (1 if launch.uniforms else 0):
            raise ExpressionError(f"{where}: its uniforms do not fit the bindings")
        if (misfit := check_textures(launch, called.bindings, variant.textures)) is not None:
            raise ExpressionError(f"{where}: operand {misfit[0]} does not fit its binding")
        found = []
        for binding, operand in zip(storage, launch.operands, strict=True):
            if isinstance(operand, TextureOperand):
                continue  # nothing but these launches sees it
            is_argument = isinstance(operand, ArgumentOperand)
            number = operand.argument if isinstance(operand, ArgumentOperand) else operand.temporary
            if number >= (self.arguments if is_argument else len(variant.temporaries)):
                raise ExpressionError(f"{where}: there is no {'argument' if is_argument else 'temporary'} {number}")
            if is_argument and number in self.overwritten.values():
                raise ExpressionError(f"{where}: it binds argument {number}, which an output overwrites")
            found.append((number if is_argument else self.arguments + number, binding.access == "read_write"))
        return tuple(found)

    def _at(self, sizes: Scope) -> Needs:
        value = self._algebra.value
        shapes = [[value(extent, sizes) for extent in argument.shape] for argument in self.kernel.arguments]
        temporaries: list[list[Value]] = [[] for _ in range(self.temporaries)]
        for variant in self.kernel.variants:
            for number, count in enumerate(variant.temporaries):
                if value(count, sizes).low < 0:
                    raise ExpressionError(f"temporary {number} may take {shown(count)} bytes, less than none")
                temporaries[number].append(value(bound(padded(count)), sizes))
            for launch in variant.launches:
                self._check_launch(launch, sizes)
        return Needs(shapes, temporaries)

    def _check_launch(self, launch: Launch, sizes: Scope) -> None:
        for extent in launch.grid:
            found = self._algebra.value(extent, sizes)
            if self._algebra.least(found) < 0 or self._algebra.greatest(found) > MOST_ELEMENTS:
                raise ExpressionError(f"the grid may be {shown(extent)}, from {found.low} to {found.high}")
        for uniform in launch.uniforms:
            number = uniform.value
            if isinstance(number, float) and uniform.dtype == "float32":
                continue
            if isinstance(number, float) and not number.is_integer():
                raise ExpressionError(f"the uniform {uniform.name} is no {uniform.dtype}")
            found = self._algebra.value(int(number) if isinstance(number, float) else number, sizes)
            low, high = _RANGES.get(uniform.dtype, (found.low, found.high))
            if self._algebra.least(found) < low or self._algebra.greatest(found) > high:
                raise ExpressionError(f"the uniform {uniform.name} may be from {found.low} to {found.high}")
