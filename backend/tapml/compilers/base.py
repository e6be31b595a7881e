"""The interface of a compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.lower import Lowered, LoweredProgram


class Compiler(Protocol):
    """Makes kernel documents with their WGSL (tapml.kernel/3, docs/suite-format.md) of a model's operators."""

    name: str
    """Stands in the `compiler` of its documents, with `version`."""
    version: str

    def compile(
        self,
        lowered: Lowered | LoweredProgram,
        names: Sequence[str],
        variants: Sequence[str],
        progress: Callable[[int, int], None],
    ) -> Mapping[str, CompiledKernel]:
        """Each named operator of `lowered`; `progress(done, total)` as they finish.

        An operator that it has no WGSL for is a document without variants that says why in `unsupported`. Raises
        InputError for variants that it does not know.
        """
