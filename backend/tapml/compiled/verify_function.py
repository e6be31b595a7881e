"""One function of a compiled model: what its host program does, instruction by instruction, for all sizes in range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from tapml.compiled.algebra import Algebra, Scope, Value, same, shown
from tapml.compiled.instructions import Call, Copy, Dispatch, If, Let, Loop, Read
from tapml.compiled.model import CompiledFunction, CompiledModel
from tapml.compiled.owners import Owners
from tapml.compiled.steps import MOST_TURNS, Step, Steps
from tapml.compiled.tensors import Tensors, described
from tapml.compiled.verify_kernel import KernelProof
from tapml.expressions import ExpressionError

_RANGES = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1)}


class _Placed(ExpressionError):
    """It begins with its function and instruction."""


@contextmanager
def _placed(step: Step) -> Iterator[None]:
    """Where it is said where nothing did yet."""
    try:
        yield
    except _Placed:
        raise
    except ExpressionError as error:
        raise _Placed(f"{step.where}: {error}") from None


class FunctionProof:
    """Raises ExpressionError, a sentence that begins with the function, for what cannot be shown."""

    def __init__(
        self,
        name: str,
        function: CompiledFunction,
        model: CompiledModel,
        kernels: Sequence[KernelProof],
        algebra: Algebra,
        symbols: Scope,
    ) -> None:
        self._name = name
        self._function = function
        self._kernels = kernels
        self._algebra = algebra
        self._symbols = symbols
        self._tensors = Tensors(name, function, model, algebra, symbols)

    def check(self) -> None:
        steps = Steps(self._name, self._function, self._kernels).of(self._function.code)
        if sum(step.turns for step in steps) > MOST_TURNS:
            raise ExpressionError(f"{self._name}: more than {MOST_TURNS} instructions may run in a call")
        owners = Owners()
        for state in self._tensors.states:
            owners.write(state)
        self._check_block(steps, dict(self._symbols), owners)
        for output in self._function.outputs:
            if not owners.holds(self._tensors.regions[output.tensor]):
                raise ExpressionError(f"{self._name}: the output {output.name} is not written on every path")
        for state in self._tensors.states:
            if not owners.holds(state):
                raise ExpressionError(f"{self._name}: {self._tensors.describe(state.root)}, a state, is left undefined")

    def _check_block(self, steps: Sequence[Step], names: dict[str, Value], owners: Owners) -> None:
        """`names` are those around the block, and its own when it ends."""
        for step in steps:
            with _placed(step):
                self._check(step, names, owners)

    def _check(self, step: Step, names: dict[str, Value], owners: Owners) -> None:
        found = step.instruction
        if not isinstance(found, Loop):
            for tensor in step.reads:
                self._require(tensor, owners)
        if isinstance(found, Dispatch):
            self._check_dispatch(step, found, names)
            self._check_accesses(found)
            for part in step.parts:
                assert isinstance(part.instruction, Dispatch)
                with _placed(part):
                    self._check_dispatch(part, part.instruction, names)
        elif isinstance(found, Copy):
            self._check_copy(found, names)
        elif isinstance(found, Let):
            self._name_new(found.name, names, self._algebra.value(found.value, names))
        elif isinstance(found, Read):
            self._check_read(found, names)
        elif isinstance(found, Call):
            self._check_apart([(tensor, True) for tensor in found.outputs])
        if isinstance(found, If):
            self._algebra.value(found.condition, names)
            branches = [owners.copy() for _ in step.blocks]
            for block, branch in zip(step.blocks, branches, strict=True):
                self._check_block(block, dict(names), branch)
            branches[0].keep(branches[1])
            owners.take(branches[0])
        elif isinstance(found, Loop):
            self._check_loop(step, found, names, owners)
        else:
            step.affect(owners, self._tensors.regions)

    def _check_dispatch(self, step: Step, found: Dispatch, names: Scope) -> None:
        proof = self._kernels[found.kernel]
        needs = proof.needs(self._sizes(proof, found, names))
        for number, (tensor, argument) in enumerate(zip(found.operands, proof.kernel.arguments, strict=True)):
            given, shape = self._function.tensors[tensor], self._tensors.shapes[tensor]
            fits = (given.dtype, given.encoding, len(shape)) == (argument.dtype, argument.encoding, len(argument.shape))
            if not fits or not all(map(same, shape, needs.shapes[number])):
                takes = described(argument.dtype, argument.shape, argument.encoding)
                text = f"operand {number} is {self._tensors.describe(tensor)}, and the kernel takes {takes}"
                raise ExpressionError(text)
        for number, (tensor, counts) in enumerate(zip(found.temporaries, needs.temporaries, strict=True)):
            given = self._function.tensors[tensor]
            if (given.dtype, given.encoding) != ("uint32", None):
                raise ExpressionError(f"temporary {number} is {self._tensors.describe(tensor)}, and must be uint32")
            if not all(self._algebra.fits(count, self._tensors.bytes[tensor]) for count in counts):
                raise ExpressionError(f"temporary {number}, {self._tensors.describe(tensor)}, may be too small")
        for output, before in proof.overwritten.items():
            if found.operands[output] != found.operands[before]:
                both = " and ".join(self._tensors.describe(found.operands[place]) for place in (before, output))
                text = f"operands {before} and {output} are {both}"
                raise ExpressionError(f"{text}, and must be one tensor, which the kernel overwrites")
        tensors = [*found.operands, *found.temporaries]
        written = {*step.writes, *step.leaves}
        once = [tensor for place, tensor in enumerate(tensors) if place not in proof.overwritten.values()]
        self._check_apart([(tensor, tensor in written) for tensor in once])

    def _check_accesses(self, found: Dispatch) -> None:
        """No part is launched alone, so what one reads may lie in the buffer that it writes into."""
        tensors = [*found.operands, *found.temporaries]
        for access in self._kernels[found.kernel].accesses:
            self._algebra.spend(len(access))
            bound: dict[tuple[str, int], bool] = {}
            for operand, writes in access:
                buffer = self._tensors.regions[tensors[operand]].buffer
                if bound.setdefault(buffer, writes) != writes:
                    raise ExpressionError(f"one launch reads and writes {buffer[0]} {buffer[1]}")

    def _sizes(self, proof: KernelProof, found: Dispatch, names: Scope) -> dict[str, Value]:
        """Of the kernel's symbols."""
        known = {symbol.name for symbol in proof.kernel.symbols}
        for name in found.sizes:
            if name not in known:
                raise ExpressionError(f"the kernel has no symbol {name}")
        sizes = {}
        for symbol in proof.kernel.symbols:
            size = self._algebra.value(found.sizes.get(symbol.name, symbol.name), names)
            low, high = self._algebra.least(size), self._algebra.greatest(size)
            if low < symbol.minimum or high > symbol.maximum:
                takes = f"{symbol.minimum} to {symbol.maximum}"
                raise ExpressionError(f"{symbol.name} may be from {low} to {high}, and the kernel takes {takes}")
            sizes[symbol.name] = size
        return sizes

    def _check_apart(self, tensors: Sequence[tuple[int, bool]]) -> None:
        """What is written overlaps nothing else; `tensors`: each with whether it is written."""
        found = [(self._tensors.regions[tensor], tensor, written) for tensor, written in tensors]
        found.sort(key=lambda entry: (entry[0].buffer, entry[0].begin))
        for _, group in groupby(found, key=lambda entry: entry[0].buffer):
            last = last_written = (0, -1)  # end, tensor
            for region, tensor, written in group:
                end, other = last if written else last_written
                if region.begin < end:
                    names = f"{self._tensors.describe(other)} and {self._tensors.describe(tensor)}"
                    raise ExpressionError(f"{names} overlap, and one of them is written")
                last = max(last, (region.end, tensor))
                last_written = max(last_written, (region.end, tensor)) if written else last_written

    def _check_copy(self, found: Copy, names: Scope) -> None:
        source, target = (self._tensors.regions[tensor].buffer for tensor in (found.source, found.target))
        if source == target:
            raise ExpressionError(f"both tensors lie in {source[0]} {source[1]}")
        offsets = [self._algebra.value(offset, names) for offset in (found.from_offset, found.to_offset)]
        sizes = [self._tensors.stored[tensor] for tensor in (found.source, found.target)]
        if found.bytes is None:
            if not same(*sizes) or any(offset.low or offset.high for offset in offsets):
                both = f"{self._tensors.describe(found.source)} and {self._tensors.describe(found.target)}"
                raise ExpressionError(f"{both} have not the same bytes from their beginning on")
            return
        count = self._algebra.value(found.bytes, names)
        for what, value in (("from_offset", offsets[0]), ("to_offset", offsets[1]), ("bytes", count)):
            if self._algebra.least(value) < 0 or not self._algebra.multiple(value, 4):
                raise ExpressionError(f"{what} may be negative, or no multiple of 4")
        ends = [
            self._algebra.value(["add", offset, found.bytes], names) for offset in (found.from_offset, found.to_offset)
        ]
        for end, size, tensor in zip(ends, sizes, (found.source, found.target), strict=True):
            if not self._algebra.fits(end, size):
                raise ExpressionError(f"it may end behind {self._tensors.describe(tensor)}")

    def _check_read(self, found: Read, names: dict[str, Value]) -> None:
        tensor = self._function.tensors[found.tensor]
        low, high = _RANGES.get(tensor.dtype, (0, -1))
        if tensor.encoding is not None or not low <= found.minimum <= found.maximum <= high:
            text = f"{self._tensors.describe(found.tensor)} is not read as {found.minimum} to {found.maximum}"
            raise ExpressionError(text)
        index = self._algebra.value(found.index, names)
        end = self._algebra.value(["add", found.index, 1], names)
        if self._algebra.least(index) < 0 or not self._algebra.fits(end, self._tensors.elements[found.tensor]):
            raise ExpressionError(f"{shown(found.index)} may be no element of {self._tensors.describe(found.tensor)}")
        self._name_new(found.name, names, self._algebra.name(found.minimum, found.maximum))

    def _check_loop(self, step: Step, found: Loop, names: Scope, owners: Owners) -> None:
        count = self._algebra.value(found.count, names)
        low, high = self._algebra.least(count), self._algebra.greatest(count)
        if low < 0 or high > found.most:
            raise ExpressionError(f"its count may be from {low} to {high}, and at most {found.most} turns are made")
        inside = dict(names)
        self._name_new(found.variable, inside, self._algebra.turn(count))
        step.repeat(owners, self._tensors.regions)
        after = owners.copy()
        self._check_block(step.blocks[0], inside, after)
        if found.until is not None:
            tensor = self._function.tensors[found.until]
            if tensor.dtype not in _RANGES or tensor.encoding or any(extent != 1 for extent in tensor.shape):
                text = f"{self._tensors.describe(found.until)} is not one int32 or uint32"
                raise ExpressionError(f"{text}, which says whether to go on")
            self._require(found.until, after)

    def _require(self, tensor: int, owners: Owners) -> None:
        if not self._tensors.always(tensor) and not owners.holds(self._tensors.regions[tensor]):
            text = f"{self._tensors.describe(tensor)} is read, and was not written before on every path"
            raise ExpressionError(f"{text}, or was overwritten")

    def _name_new(self, name: str, names: dict[str, Value], value: Value) -> None:
        if name in names:
            raise ExpressionError(f"the name {name} stands twice")
        names[name] = value
