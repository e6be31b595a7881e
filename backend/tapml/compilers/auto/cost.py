"""What a kernel does, counted in its text: operations, bytes, barriers.

No text is run: statements are counted as often as loops with known ends go round, for the first invocation of the
first workgroup. It is an estimate, and the same for every compiler's text.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, fields

from tapml.compilers.auto.counting import Counting, Counts
from tapml.compilers.auto.kept import Uniforms, kept
from tapml.compilers.auto.kernel_text import KernelText
from tapml.expressions import evaluate
from tapml.kernels.bundle import CompiledKernel
from tapml.kernels.wgsl_module import NotUnderstood


@dataclass(frozen=True)
class Cost:
    """Of one call of a kernel, all its invocations together; `path` is what one invocation does of operations and
    reads, one after the other, over all launches."""

    launches: float = 0.0
    operations: float = 0.0
    reads: float = 0.0
    """How often storage is read."""
    bytes: float = 0.0
    """That these and what is written are."""
    shared: float = 0.0
    """How often workgroup memory is read or written."""
    barriers: float = 0.0
    """Times invocations."""
    path: float = 0.0
    waits: float = 0.0
    """Reads and barriers of one invocation."""
    workgroups: float = 0.0
    suspended: float = 0.0
    """Invocations that wait for each other at barriers, which a GPU in software has to keep one by one."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """In their order."""
        return tuple(map(self.__getattribute__, _NUMBERS))

    def __add__(self, other: Cost) -> Cost:
        return Cost(*map(operator.add, self.numbers, other.numbers))


_NUMBERS = tuple(field.name for field in fields(Cost))


@functools.lru_cache(64)
def _counted(text: str, entry_point: str, uniforms: Uniforms) -> Counts:
    """Raises as the two do. Nobody changes it. Candidates of an operator are asked for one after the other."""
    return Counting(KernelText(text), dict(uniforms)).function(entry_point)


def cost(
    kernel: CompiledKernel, variant: Mapping[str, object], sizes: Mapping[str, int], keep: bool = False
) -> Cost | None:
    """Of a variant of the kernel; None where its text is not understood, and for one with textures: of their caches
    the model knows nothing. `keep`: for the next process that asks."""
    if variant.get("textures"):
        return None
    texts = {file.name: file.text for file in kernel.files}
    points = {point["name"]: point for point in variant["entry_points"]}  # type: ignore[attr-defined]
    count = kept(_counted) if keep else _counted
    total = Cost()
    try:
        for launch in variant["launches"]:  # type: ignore[attr-defined]
            point = points[launch["entry_point"]]
            uniforms = {one["name"]: evaluate(one["value"], sizes) for one in launch["uniforms"]
                        if not isinstance(one["value"], float)}  # fmt: skip
            counts = count(texts[point["file"]], point["name"], tuple(sorted(uniforms.items())))
            workgroups = float(math.prod(evaluate(extent, sizes) for extent in launch["grid"]))
            invocations = workgroups * math.prod(point["workgroup_size"])
            total += Cost(
                1.0,
                invocations * counts.operations,
                invocations * counts.reads,
                invocations * counts.bytes,
                invocations * counts.shared,
                invocations * counts.barriers,
                counts.operations,
                counts.reads + counts.barriers,
                workgroups,
                invocations if counts.barriers else 0.0,
            )
    except (NotUnderstood, IndexError, KeyError, ValueError):
        return None
    return total
