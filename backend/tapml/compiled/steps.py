"""A function's code as steps: instructions with their numbers, and which tensors each reads and writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tapml.compiled.instructions import MOST_INSTRUCTIONS, Call, Copy, Dispatch, Fill, If, Instruction, Loop, Read
from tapml.compiled.model import CompiledFunction
from tapml.compiled.owners import Owners, Region
from tapml.compiled.verify_kernel import KernelProof
from tapml.expressions import ExpressionError

MOST_TURNS = 2**20
"""Instructions that run in one call."""

_DEEPEST = 16
_MOST_BLOCKS = 1000


@dataclass(frozen=True)
class Step:
    """An instruction, and tensors by their number: what it reads, what it writes whole, what it leaves undefined."""

    where: str
    instruction: Instruction
    reads: Sequence[int] = ()
    writes: Sequence[int] = ()
    leaves: Sequence[int] = ()
    blocks: Sequence[Sequence[Step]] = ()
    parts: Sequence[Step] = ()

    @property
    def turns(self) -> int:
        """Instructions that may run, this one included."""
        found = sum(step.turns for block in self.blocks for step in block)
        return 1 + found * (self.instruction.most if isinstance(self.instruction, Loop) else 1)

    def affect(self, owners: Owners, regions: Sequence[Region]) -> None:
        """What holds behind it, of what held before it."""
        for tensor in self.leaves:
            owners.destroy(regions[tensor])
        for tensor in self.writes:
            owners.write(regions[tensor])
        if isinstance(self.instruction, Loop):
            self.repeat(owners, regions)
        elif self.blocks:
            then, otherwise = (_after(block, owners, regions) for block in self.blocks)
            then.keep(otherwise)
            owners.take(then)

    def repeat(self, owners: Owners, regions: Sequence[Region]) -> None:
        """Of a loop: what holds before each turn, and behind the last: there may be none."""
        owners.keep(_after(self.blocks[0], owners, regions))


def _after(block: Sequence[Step], owners: Owners, regions: Sequence[Region]) -> Owners:
    found = owners.copy()
    for step in block:
        step.affect(found, regions)
    return found


class Steps:
    """Makes them. Raises ExpressionError for a kernel, a tensor or a number of operands that there is not, and for what
    is too deep or too long."""

    def __init__(self, name: str, function: CompiledFunction, kernels: Sequence[KernelProof]) -> None:
        self._name = name
        self._function = function
        self._kernels = kernels
        self._number = 0
        self._blocks = 0

    def of(self, code: Sequence[Instruction], depth: int = 0) -> list[Step]:
        self._blocks += 1
        if depth > _DEEPEST:
            raise ExpressionError(f"{self._name}: blocks stand more than {_DEEPEST} deep")
        if self._blocks > _MOST_BLOCKS:
            raise ExpressionError(f"{self._name}: there are more than {_MOST_BLOCKS} blocks")
        return [self._step(instruction, depth) for instruction in code]

    def _step(self, found: Instruction, depth: int) -> Step:
        where = f"{self._name}: instruction {self._number} ({self._title(found)})"
        self._number += 1
        if self._number > MOST_INSTRUCTIONS:
            raise ExpressionError(f"{self._name}: there are more than {MOST_INSTRUCTIONS} instructions")
        if isinstance(found, Dispatch):
            return self._dispatch(where, found)
        if isinstance(found, Copy):
            self._check_tensors(where, (found.target,), written=True)
            if found.bytes is None:
                return self._with(where, found, (found.source,), (found.target,))
            return self._with(where, found, (found.source, found.target))
        if isinstance(found, Fill):
            return self._with(where, found, (), (found.tensor,))
        if isinstance(found, Read):
            return self._with(where, found, (found.tensor,))
        if isinstance(found, Call):
            return self._with(where, found, found.inputs, found.outputs)
        if isinstance(found, If):
            blocks = (self.of(found.then, depth + 1), self.of(found.otherwise, depth + 1))
            return Step(where, found, blocks=blocks)
        if isinstance(found, Loop):
            until = () if found.until is None else (found.until,)
            self._with(where, found, until)
            return Step(where, found, until, blocks=(self.of(found.body, depth + 1),))
        return Step(where, found)

    def _dispatch(self, where: str, found: Dispatch) -> Step:
        if found.kernel >= len(self._kernels):
            raise ExpressionError(f"{where}: there is no kernel {found.kernel}")
        proof = self._kernels[found.kernel]
        if len(found.operands) != proof.arguments:
            raise ExpressionError(f"{where}: {len(found.operands)} operands for {proof.arguments} arguments")
        if len(found.temporaries) != proof.temporaries:
            raise ExpressionError(f"{where}: {len(found.temporaries)} temporaries for {proof.temporaries}")
        outputs = [argument.role == "output" for argument in proof.kernel.arguments]
        reads = [tensor for tensor, output in zip(found.operands, outputs, strict=True) if not output]
        writes = [tensor for tensor, output in zip(found.operands, outputs, strict=True) if output]
        # An input that a launch writes into.
        spoilt = [found.operands[n] for n in range(proof.arguments) if n in proof.written and not outputs[n]]
        whole = self._with(where, found, reads, writes, (*spoilt, *found.temporaries))
        if not found.parts:
            return whole
        known = {*reads}
        parts = []
        for one in found.each:
            parts.append(self._part(where, found, one, known))
            known.update(parts[-1].writes)
        if sorted(tensor for part in parts for tensor in part.writes) != sorted(writes):
            raise ExpressionError(f"{where}: its parts do not write what it writes, each once")
        return replace(whole, parts=parts)

    def _part(self, where: str, whole: Dispatch, found: Dispatch, known: Collection[int]) -> Step:
        """`known`: what the dispatch reads, and what the parts before write."""
        part = self._dispatch(f"{where}: part {self._title(found)}", found)
        if whole.temporaries or whole.sizes or part.leaves:
            raise ExpressionError(f"{where}: it has parts, and temporaries or sizes or what is left undefined")
        if not {*part.reads} <= {*known}:
            raise ExpressionError(f"{part.where}: it reads what the dispatch does not, and no part before it writes")
        return part

    def _with(
        self,
        where: str,
        found: Instruction,
        reads: Sequence[int],
        writes: Sequence[int] = (),
        leaves: Sequence[int] = (),
    ) -> Step:
        self._check_tensors(where, reads)
        self._check_tensors(where, (*writes, *leaves), written=True)
        return Step(where, found, reads, writes, leaves)

    def _check_tensors(self, where: str, tensors: Sequence[int], *, written: bool = False) -> None:
        for number in tensors:
            if number >= len(self._function.tensors):
                raise ExpressionError(f"{where}: there is no tensor {number}")
            tensor = self._function.tensors[number]
            if written and tensor.at[0] in ("weights", "input"):
                what = "a weight" if tensor.at[0] == "weights" else "an input"
                raise ExpressionError(f"{where}: {tensor.name} is {what}, which nothing may write")

    def _title(self, found: Instruction) -> str:
        if isinstance(found, Dispatch) and found.kernel < len(self._kernels):
            return f"dispatch {self._kernels[found.kernel].kernel.kernel}"
        if isinstance(found, Call):
            return f"call {found.module}.{found.function}"
        return found.op
