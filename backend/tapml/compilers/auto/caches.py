"""Attention to long caches, of which two compilers have kernels: those by hand (tapml.compilers.cache) are one dispatch
of a workgroup a head, native ones share out the keys of few rows among workgroups."""

from __future__ import annotations

from collections.abc import Sequence

from tapml.compilers.base import Progress
from tapml.compilers.native.attention import CACHES
from tapml.compilers.native.compile import NATIVE
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.by_hand import made_with
from tapml.lowering.operator import Operator

LONG = 1024
"""Places from which on a native kernel is taken. A token behind 1,280 of 2,048 places takes an H200 a fiftieth of the
time by hand (docs/performance.md); with few places that second dispatch, which puts parts together, is what counts."""


class LongCaches:
    """One of the compilers (tapml.compilers.base): native kernels of attention to long caches."""

    name = NATIVE.name
    version = NATIVE.version

    def compile(
        self, operators: Sequence[Operator], variants: Sequence[str], progress: Progress = lambda done, total: None
    ) -> dict[str, CompiledKernel]:
        """As all compilers do: nothing for what is no such attention."""
        return NATIVE.compile([one for one in operators if _is_long(one)], variants, progress)


def _is_long(operator: Operator) -> bool:
    if made_with(operator.prim_func, "cached_attention") is None:
        return False
    return int(operator.types({symbol.name: symbol.maximum for symbol in operator.symbols})[CACHES[0]].shape[1]) >= LONG


LONG_CACHES = LongCaches()
