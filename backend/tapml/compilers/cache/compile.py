"""The compiler of a cache's operators."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tapml.compilers.base import Progress, described
from tapml.compilers.cache.append import AFTER, CACHE, NEW, POSITIONS, append, append_grid
from tapml.compilers.cache.attention import attention, attention_grid
from tapml.files import sha256
from tapml.kernels.bundle import CompiledKernel, WgslFile, bindings, requirements, workgroup_size
from tapml.lowering.by_hand import made_with
from tapml.lowering.operator import Operator

ENTRY_POINT = re.compile(r"@compute[^{]*?\bfn (\w+)")


class CacheCompiler:
    """One of the compilers (tapml.compilers.base): of the operators of a cache that it has a kernel for."""

    name = "cache"
    version = "1"

    def compile(
        self, operators: Sequence[Operator], variants: Sequence[str], progress: Progress
    ) -> dict[str, CompiledKernel]:
        """As all compilers do; a kernel has one variant, whatever is asked for."""
        return {operator.name: kernel for operator in operators if (kernel := self._kernel(operator)) is not None}

    def _kernel(self, operator: Operator) -> CompiledKernel | None:
        found = made_with(operator.prim_func, "cached_attention")
        if found is not None and (text := attention(operator, found)) is not None:
            return self._single(operator, text, [*range(len(operator.arguments))], attention_grid(operator))
        found = made_with(operator.prim_func, "cache_append")
        if found is not None and (text := append(operator, found)) is not None:
            # The cache itself is bound as what it becomes.
            return self._single(operator, text, [AFTER, NEW, POSITIONS], append_grid(operator), {AFTER: CACHE})
        return None

    def _single(
        self,
        operator: Operator,
        text: str,
        bound: Sequence[int],
        workgroups: list[Any],
        overwrites: Mapping[int, int] = MappingProxyType({}),
    ) -> CompiledKernel:
        """A kernel of one dispatch, which binds these arguments; `overwrites`: output -> input in whose bytes it is."""
        file = WgslFile(f"{operator.name}.wgsl", text)
        entry_point = ENTRY_POINT.findall(text)[0]
        least = {symbol.name: symbol.minimum for symbol in operator.symbols}
        variant = {
            "name": "256",
            "requires": requirements([text], max(found.nbytes for found in operator.types(least))),
            "entry_points": [
                {
                    "name": entry_point,
                    "file": file.name,
                    "generated_sha256": sha256(text),
                    "workgroup_size": workgroup_size(text),
                    "bindings": bindings(text),
                }
            ],
            "launches": [
                {
                    "entry_point": entry_point,
                    "operands": [{"argument": number} for number in bound],
                    "uniforms": [],
                    "grid": workgroups,
                }
            ],
            "temporaries": [],
        }
        arguments = [
            {**argument, **({"overwrites": overwrites[place]} if place in overwrites else {})}
            for place, argument in enumerate(operator.arguments)
        ]
        return CompiledKernel({**described(self, operator), "arguments": arguments, "variants": [variant]}, [file])


CACHE_KERNELS = CacheCompiler()
