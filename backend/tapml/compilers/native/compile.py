"""The compiler of native kernels: its templates, and the documents of what they give."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tapml.compilers.base import Progress, described
from tapml.compilers.native.attention import attention, gains
from tapml.compilers.native.axes import nodes
from tapml.compilers.native.dots import uses_dots, with_dots
from tapml.compilers.native.elementwise import elementwise
from tapml.compilers.native.kernel import Found, Launch
from tapml.compilers.native.layouts import Layout
from tapml.compilers.native.matmul import matmul
from tapml.compilers.native.matrices import uses_matrices, with_matrices
from tapml.compilers.native.raster import raster
from tapml.compilers.native.rows import rows
from tapml.compilers.native.staged import Template, of_any, staged
from tapml.compilers.native.stages import inlined, stages_of
from tapml.compilers.native.transposed import transposed
from tapml.compilers.tvm.variants import VariantSpec, parse_specs
from tapml.errors import InputError
from tapml.files import sha256
from tapml.kernels.bundle import CompiledKernel, WgslFile, bindings, requirements, workgroup_size
from tapml.kernels.textures import texture_limits
from tapml.lowering.by_hand import is_by_hand, made_with
from tapml.lowering.operator import Operator
from tapml.operators.program import OperatorProgram

TEMPLATES: tuple[Template, ...] = (transposed, raster, elementwise, matmul, rows, attention)
"""In the order in which they are asked."""

_STORED = ("float32", "float16", "int32", "uint32")
"""Dtypes that a buffer of WGSL holds as they are stored."""

_MOST_NODES = 2000
"""Parts of expressions, beyond which an operator is no readable text."""


class NativeCompiler:
    """One of the compilers (tapml.compilers.base)."""

    name = "native"
    version = "20"
    """Raised whenever it would write something else for the same operator."""

    def compile(
        self, operators: Sequence[Operator], variants: Sequence[str], progress: Progress = lambda done, total: None
    ) -> dict[str, CompiledKernel]:
        """As all compilers do: nothing for an operator that no template knows. A kernel has one variant, with no more
        invocations than the least that is asked for, and before it one of subgroup matrices, or of
        `dot4I8Packed`, where a template has that.
        Raises InputError for variants that there are not."""
        spec = parse_specs(variants)[0]
        found = {}
        for number, operator in enumerate(operators, 1):
            if (kernel := self._kernel(operator, spec)) is not None:
                found[operator.name] = kernel
            progress(number, len(operators))
        return found

    def check(self, operators: Sequence[Operator], variants: Sequence[str]) -> None:
        """Raises InputError for variants that there are not."""
        parse_specs(variants)

    def _kernel(self, operator: Operator, spec: VariantSpec) -> CompiledKernel | None:
        found = recognised(operator, spec.threads)
        launches = generated_of(found) if found is not None else None
        if found is None or launches is None:
            return None
        made = self.document(operator, spec.name, launches)
        if may_have_matrices(operator):
            for name, fast in faster(found):
                made = with_first(self.document(operator, f"{spec.name}+{name}", fast, f"@{name}"), made)
        return made

    def document(
        self,
        operator: Operator,
        variant: str,
        launches: Sequence[Launch],
        suffix: str = "",
        layouts: Mapping[str, Layout] = MappingProxyType({}),
    ) -> CompiledKernel:
        """The kernel of which these are the dispatches, with that one variant. `suffix`: behind its files' names;
        `layouts`: those of its parameters that are not row-major buffers (tapml.compilers.native.encoded).
        """
        program = operator.program
        assert isinstance(program, OperatorProgram)
        numbers = {buffer.name: place for place, buffer in enumerate(program.parameters)}
        scratch = {buffer: size for launch in launches for buffer, size in launch.temporaries.items()}
        textures = {buffer: size for buffer, size in scratch.items() if isinstance(size, dict)}
        temporaries = {buffer: size for buffer, size in scratch.items() if buffer not in textures}
        places = {buffer: {"argument": place} for buffer, place in numbers.items()}
        places |= {buffer: {"temporary": place} for place, buffer in enumerate(temporaries)}
        places |= {buffer: {"texture": place} for place, buffer in enumerate(textures)}
        # The first has the operator's own name.
        stem = f"{operator.name}{suffix}"
        names = [f"{stem}{f'.{number}' if number > 1 else ''}.wgsl" for number in range(1, len(launches) + 1)]
        files = [WgslFile(name, launch.text) for name, launch in zip(names, launches, strict=True)]
        requires = requirements([file.text for file in files], operator.least_binding)
        if any(uses_matrices(file.text) for file in files):
            requires = with_matrices(requires)
        if any(uses_dots(file.text) for file in files):
            requires = with_dots(requires)
        requires["limits"] |= texture_limits([*textures.values()])
        made: dict[str, Any] = {
            "name": variant,
            "requires": requires,
            "entry_points": [
                {
                    "name": launch.entry_point,
                    "file": file.name,
                    "generated_sha256": sha256(file.text),
                    "workgroup_size": workgroup_size(file.text),
                    "bindings": bindings(file.text),
                }
                for launch, file in zip(launches, files, strict=True)
            ],
            "launches": [
                {
                    "entry_point": launch.entry_point,
                    "operands": [places[buffer] for buffer in launch.buffers],
                    "uniforms": [{"name": name, "dtype": "int32", "value": name} for name in launch.symbols],
                    "grid": list(launch.grid),
                }
                for launch in launches
            ],
            "temporaries": [*temporaries.values()],
        }
        if textures:
            made["textures"] = [*textures.values()]
        if layouts:
            named = zip(program.parameters, operator.arguments, strict=True)
            found = {argument["name"]: layouts.get(buffer.name) for buffer, argument in named}
            made["encodings"] = {name: layout.described() for name, layout in found.items() if layout is not None}
        arguments = [dict(argument) for argument in operator.arguments]
        for launch in launches:
            for buffer, axis in launch.grows.items():
                arguments[numbers[buffer]]["grows"] = axis
            for output, given in launch.overwrites.items():
                arguments[numbers[output]]["overwrites"] = numbers[given]
        return CompiledKernel({**described(self, operator), "arguments": arguments, "variants": [made]}, files)


def with_first(first: CompiledKernel, then: CompiledKernel) -> CompiledKernel:
    """One kernel with the variants of two of the same operator, in that order."""
    variants = [*first.document["variants"], *then.document["variants"]]
    return CompiledKernel({**then.document, "variants": variants}, [*first.files, *then.files])


def faster(found: Found) -> Iterator[tuple[str, list[Launch]]]:
    """The dispatches for devices that have more, by what a variant is called for that: "matrices", "dots"."""
    for name, uses in (("matrices", uses_matrices), ("dots", uses_dots)):
        fast = generated_of(found, matrices=name == "matrices", dots=name == "dots")
        if fast is not None and any(uses(launch.text) for launch in fast):
            yield name, fast


def may_have_matrices(operator: Operator) -> bool:
    """Whether there may be products in float16, or of integers in words, among what an operator computes."""
    return has_words(operator) or any(argument["dtype"] == "float16" for argument in operator.arguments)


def has_words(operator: Operator) -> bool:
    """Whether it may read integers that several are in a word."""
    return any(argument["dtype"] == "uint32" for argument in operator.arguments)


NATIVE = NativeCompiler()


def generated(
    operator: Operator,
    threads: int = 256,
    templates: Sequence[Template] = TEMPLATES,
    matrices: bool = False,
    dots: bool = False,
) -> list[Launch] | None:
    """The dispatches of the first template that knows the operator. `matrices`: for a device that has subgroup
    matrices (tapml.compilers.native.matrices); `dots`: for one that has WGSL's `dot4I8Packed`."""
    found = recognised(operator, threads)
    return None if found is None else generated_of(found, templates, matrices, dots)


def generated_of(
    found: Found, templates: Sequence[Template] = TEMPLATES, matrices: bool = False, dots: bool = False
) -> list[Launch] | None:
    """The same, of an operator as templates take it."""
    found = dataclasses.replace(found, matrices=matrices, dots=dots)
    if by_hand(found.operator):
        return of_any((attention,), found)
    return of_any(templates, found) or staged(found, templates)


def attention_gains(operator: Operator) -> bool:
    """Whether it is attention that is better one kernel than three (`attention.gains`)."""
    found = recognised(operator)
    return found is not None and gains(found)


def by_hand(operator: Operator) -> bool:
    """Whether it is attention to a cache: that has no other template."""
    return is_by_hand(operator.prim_func)


def recognised(operator: Operator, threads: int = 256) -> Found | None:
    """The operator as templates take it, whichever they are; None where none can. `threads`: the most invocations of a
    workgroup."""
    if by_hand(operator):
        cached = made_with(operator.prim_func, "cached_attention")
        if cached is None or "blocks" in cached.also:
            return None  # compilers/cache knows more of it than its loops
    if operator.external is not None or any(
        "encoding" in argument or argument["dtype"] not in _STORED for argument in operator.arguments
    ):
        return None
    try:
        program = operator.program
    except InputError:  # TVM compiles what a program cannot say
        return None
    if not isinstance(program, OperatorProgram):
        return None
    stages = stages_of(program)
    roles = zip(program.parameters, operator.arguments, strict=True)
    outputs = {buffer.name for buffer, argument in roles if argument["role"] == "output"}
    stages = inlined(stages, outputs) if stages is not None else None
    if stages is None or nodes(*(stage.value for stage in stages)) > _MOST_NODES:
        return None
    return Found(operator, program, stages, threads)
