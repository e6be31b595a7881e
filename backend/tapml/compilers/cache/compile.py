"""The compiler of a decoder's own operators: of its cache, and those that choose a token."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tapml.compilers.base import Progress, described
from tapml.compilers.cache.append import CACHE, append, append_grid
from tapml.compilers.cache.attention import attention, attention_grid
from tapml.compilers.cache.draw import draw
from tapml.compilers.cache.launch import Launch
from tapml.compilers.cache.most_likely import most_likely
from tapml.files import sha256
from tapml.kernels.bundle import CompiledKernel, WgslFile, bindings, requirements, workgroup_size
from tapml.lowering.by_hand import made_with
from tapml.lowering.operator import Operator

KEPT = (1, 2)
"""Among the arguments of attention: the caches of keys and values."""
PLACES = 1
"""The axis of a cache that its positions are on."""

ENTRY_POINT = re.compile(r"@compute[^{]*?\bfn (\w+)")


class CacheCompiler:
    """One of the compilers (tapml.compilers.base): of a decoder's operators those that it has a kernel for."""

    name = "cache"
    version = "3"

    def compile(
        self, operators: Sequence[Operator], variants: Sequence[str], progress: Progress
    ) -> dict[str, CompiledKernel]:
        """As all compilers do; a kernel has one variant, whatever is asked for."""
        return {operator.name: kernel for operator in operators if (kernel := self._kernel(operator)) is not None}

    def _kernel(self, operator: Operator) -> CompiledKernel | None:
        found = made_with(operator.prim_func, "cached_attention")
        if found is not None and (text := attention(operator, found)) is not None:
            grid, every = attention_grid(operator), [*range(len(operator.arguments))]
            return self._single(operator, text, every, grid, dict.fromkeys(KEPT, PLACES))
        found = made_with(operator.prim_func, "cache_append")
        if found is not None and (text := append(operator, found)) is not None:
            # The cache itself is bound as what it becomes.
            after = len(operator.arguments) - 1
            grid, grows = append_grid(operator), {CACHE: PLACES, after: PLACES}
            return self._single(operator, text, [after, *range(CACHE + 1, after)], grid, grows, {after: CACHE})
        found = made_with(operator.prim_func, "most_likely")
        if found is not None and (made := most_likely(operator, found)) is not None:
            return self._made(operator, made.launches, made.temporaries)
        own = operator.external
        if own is not None and (own.source, own.operator) == ("tapml", "draw") and (made := draw(operator)) is not None:
            return self._made(operator, made.launches, made.temporaries)
        return None

    def _single(
        self,
        operator: Operator,
        text: str,
        bound: Sequence[int],
        workgroups: list[Any],
        grows: Mapping[int, int],
        overwrites: Mapping[int, int] = MappingProxyType({}),
    ) -> CompiledKernel:
        """A kernel of one dispatch that binds these arguments; `grows`: argument -> axis of which it takes any size."""
        launch = Launch(text, [{"argument": number} for number in bound], workgroups)
        return self._made(operator, [launch], [], overwrites, grows)

    def _made(
        self,
        operator: Operator,
        launches: Sequence[Launch],
        temporaries: list[Any],
        overwrites: Mapping[int, int] = MappingProxyType({}),
        grows: Mapping[int, int] = MappingProxyType({}),
    ) -> CompiledKernel:
        """`temporaries`: bytes; `overwrites`: output -> input in whose bytes it is; `grows` as above."""
        texts = [launch.text for launch in launches]
        names = [ENTRY_POINT.findall(text)[0] for text in texts]
        # The first has the operator's own name.
        file_names = [f"{operator.name}{f'_{number}' if number else ''}.wgsl" for number in range(len(texts))]
        files = [WgslFile(name, text) for name, text in zip(file_names, texts, strict=True)]
        variant = {
            "name": "256",
            "requires": requirements(texts, operator.least_binding),
            "entry_points": [
                {
                    "name": name,
                    "file": file.name,
                    "generated_sha256": sha256(file.text),
                    "workgroup_size": workgroup_size(file.text),
                    "bindings": bindings(file.text),
                }
                for name, file in zip(names, files, strict=True)
            ],
            "launches": [
                {"entry_point": name, "operands": launch.operands, "uniforms": [], "grid": launch.workgroups}
                for name, launch in zip(names, launches, strict=True)
            ],
            "temporaries": temporaries,
        }
        arguments = [
            {
                **argument,
                **({"grows": grows[place]} if place in grows else {}),
                **({"overwrites": overwrites[place]} if place in overwrites else {}),
            }
            for place, argument in enumerate(operator.arguments)
        ]
        reference = {"reference": operator.external.who} if operator.external else {}
        document = {**described(self, operator, **reference), "arguments": arguments, "variants": [variant]}
        return CompiledKernel(document, files)


CACHE_KERNELS = CacheCompiler()
