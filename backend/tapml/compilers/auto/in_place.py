"""Whether a kernel is to read what another one would move for it: what both are expected to take, against what the
kernel takes then.

It is counted in the texts of native kernels (cost.py), so that a choice for each element of a concatenation, and loads
of single elements in place of four, count as often as they are done: a product that reads a factor many times gains by
another stride, and seldom by a choice.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from tapml.compilers.auto.choice import CLOSE
from tapml.compilers.auto.expected import modelled
from tapml.compilers.auto.space import Candidate
from tapml.compilers.native.compile import NATIVE
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator


def is_better(move: Operator, reader: Operator, both: Operator, readers: int) -> bool:
    """Whether `both`, one kernel, is expected to take less than `reader` and its share of `move`, which has so many
    readers: each of its variants, in the mean of all kinds of devices, and on none of them clearly more; at the least
    and at the most that sizes may be, in no more dispatches."""
    kernels = [NATIVE.compile([operator], ("256",)).get(operator.name) for operator in (move, reader, both)]
    moved, before, after = (kernel.document["variants"] if kernel is not None else [] for kernel in kernels)
    if not moved or not before or len(before) != len(after):
        return False
    least = {symbol.name: symbol.minimum for symbol in both.symbols}
    most = {symbol.name: symbol.maximum for symbol in both.symbols}
    judged = [least] if least == most else [least, most]
    for place in range(-len(before), 0):
        if len(after[place]["launches"]) > len(before[place]["launches"]):
            return False
        of_each = [(kernel, -1 if kernel is kernels[0] else place) for kernel in kernels if kernel is not None]
        for sizes in judged:
            times = [time for kernel, at in of_each if (time := _expected(kernel, at, sizes)) is not None]
            if len(times) < len(of_each):
                return False
            moving, reading, together = times
            ratios = [together[kind] / (reading[kind] + moving[kind] / readers) for kind in together]
            if max(ratios) > CLOSE or math.prod(ratios) > 1:
                return False
    return True


def _expected(kernel: CompiledKernel, variant: int, sizes: Mapping[str, int]) -> dict[str, float] | None:
    """Microseconds of a variant, by kind of device."""
    document = {**kernel.document, "variants": [kernel.document["variants"][variant]]}
    return modelled(Candidate("native", dataclasses.replace(kernel, document=document)), sizes)
