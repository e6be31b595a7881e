"""A compiler that gives each operator a variant for every encoding that a template writes it in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tapml.compilers.base import Progress
from tapml.compilers.native.compile import NATIVE, TEMPLATES, recognised
from tapml.compilers.native.encoded import encoded, encodings
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator


class EncodedCompiler:
    """Of the native compiler's kernels. `accepted` and `refused`: names of encodings by operator. `wanted`: which of
    them are looked at; `alone`: whether an operator that has some has no variant of buffers."""

    name, version = "native", NATIVE.version

    def __init__(self, wanted: Callable[[str], bool] = lambda name: True, alone: bool = False) -> None:
        self.accepted: dict[str, list[str]] = {}
        self.refused: dict[str, list[str]] = {}
        self._wanted, self._alone = wanted, alone

    def compile(
        self, operators: Sequence[Operator], variants: Sequence[str], progress: Progress = lambda done, total: None
    ) -> dict[str, CompiledKernel]:
        return {operator.name: self._kernel(operator) for operator in operators}

    def _kernel(self, operator: Operator) -> CompiledKernel:
        kernels = [*self._encoded(operator)]
        if not kernels or not self._alone:
            kernels.append(NATIVE.compile([operator], ["256"])[operator.name])
        variants: list[dict[str, Any]] = [variant for one in kernels for variant in one.document["variants"]]
        if len(variants) > 1:
            # A validation runs them all.
            variants = [{**variant, "expected": {"gpu": 1.0, "software": 1.0}} for variant in variants]
        document = {**kernels[-1].document, "variants": variants}
        return CompiledKernel(document, [file for one in kernels for file in one.files])

    def _encoded(self, operator: Operator) -> Iterator[CompiledKernel]:
        found = recognised(operator)
        assert found is not None
        self.accepted[operator.name], self.refused[operator.name] = [], []
        for name, layouts in encodings(found):
            if not self._wanted(name):
                continue
            launches = encoded(dataclasses.replace(found), layouts, TEMPLATES)
            (self.refused if launches is None else self.accepted)[operator.name].append(name)
            if launches is not None:
                yield NATIVE.document(operator, f"256+{name}", launches, f"@{name}", layouts)
