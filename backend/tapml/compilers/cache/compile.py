"""The compiler of a cache's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapml.compilers.base import Progress, described
from tapml.compilers.cache.attention import attention, grid
from tapml.files import sha256
from tapml.kernels.bundle import CompiledKernel, WgslFile, bindings, requirements, workgroup_size
from tapml.lowering.by_hand import options_of
from tapml.lowering.operator import Operator


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
        options = options_of(operator.prim_func, "cached_attention")
        text = None if options is None else attention(operator, options)
        if text is None:
            return None
        return self._single(operator, text, "cached_attention", [*range(len(operator.arguments))], grid(operator))

    def _single(
        self, operator: Operator, text: str, entry_point: str, arguments: Sequence[int], workgroups: list[Any]
    ) -> CompiledKernel:
        """A kernel of one dispatch, which binds these `arguments`."""
        file = WgslFile(f"{operator.name}.wgsl", text)
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
                    "operands": [{"argument": number} for number in arguments],
                    "uniforms": [],
                    "grid": workgroups,
                }
            ],
            "temporaries": [],
        }
        return CompiledKernel({**described(self, operator), "variants": [variant]}, [file])


CACHE = CacheCompiler()
