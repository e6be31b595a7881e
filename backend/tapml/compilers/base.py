"""The interface of a compiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from tapml.kernels.bundle import CompiledKernel
from tapml.kernels.document import FORMAT
from tapml.lowering.operator import Operator

Progress = Callable[[int, int], None]
"""progress(done, total)"""


Finish = Callable[[Progress], dict[str, CompiledKernel]]
"""Gives, once, what `Compiler.compile` would, after as much time as there is still to do."""


class Compiler(Protocol):
    """Makes kernel documents with their WGSL (tapml.kernel/4, docs/suite-format.md) of a model's operators."""

    name: str
    """Stands in the `compiler` of its documents, with `version`."""
    version: str

    def compile(
        self, operators: Sequence[Operator], variants: Sequence[str], progress: Progress
    ) -> dict[str, CompiledKernel]:
        """By name, those of `operators` that it knows; `progress` as they finish.

        One that it knows but has no WGSL for is a document without variants that says why in `unsupported`. Raises
        InputError for variants that it does not know.
        """


@runtime_checkable
class Checking(Protocol):
    """A compiler that knows what it will refuse, without compiling anything."""

    def check(self, operators: Sequence[Operator], variants: Sequence[str]) -> None:
        """Raise the InputError that `compile` would raise."""


@runtime_checkable
class Beginning(Protocol):
    """A compiler that can work beside others."""

    def begun(self, operators: Sequence[Operator], variants: Sequence[str]) -> AbstractContextManager[Finish]:
        """Have a second process begin, where there can be one; it ends with the `with` block. Raises as `compile`."""


def described(compiler: Compiler, operator: Operator, **more: Any) -> dict[str, Any]:
    """A kernel's document of `operator`, yet without variants; `more` stands in its `compiler`."""
    numerics = {**dataclasses.asdict(operator.numerics), "builtins": list(operator.numerics.builtins)}
    return {
        "format": FORMAT,
        "kernel": operator.name,
        "compiler": {"name": compiler.name, "version": compiler.version, **more},
        "symbols": [symbol.model_dump() for symbol in operator.symbols],
        "arguments": list(operator.arguments),
        "numerics": numerics,
        "variants": [],
        "unsupported": None,
    }
