"""Products of float32 whose weights lie in memory as float16 (tapml.compilers.halves): shared out for that, and by
subgroup matrices, which multiply float16 alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tapml.compilers.halves import halved
from tapml.compilers.native.compile import NATIVE, generated_of, has_words, recognised, with_first
from tapml.compilers.native.kernel import Found, Launch
from tapml.compilers.native.matmul import shape_of
from tapml.compilers.native.matrices import FEATURES, uses_matrices
from tapml.compilers.native.stages import rewritten
from tapml.compilers.tvm.variants import BASE
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator
from tapml.operators.program import Expression


def read_as_stored(kernel: CompiledKernel, operator: Operator, arguments: Collection[int]) -> CompiledKernel | None:
    """The kernel of an operator with these of its arguments, inputs of float32, read as float16; None where its text
    does something else with one of them than to read an element (tapml.compilers.halves.halved).

    Where it is a native one, products of few rows are shared out for what they read, and a variant of subgroup matrices
    stands before the others, where there is none without; one of integers is made anew for scales in float16.
    """
    found = recognised(operator) if kernel.document["compiler"]["name"] == NATIVE.name else None
    if found is None:
        return halved(kernel, arguments)
    made = halved(_by_matrices_again(_shared_out_again(kernel, found, arguments), found, arguments), arguments)
    if made is None or any(uses_matrices(file.text) for file in kernel.files):
        return made
    fast = generated_of(read_as_float16(found, arguments), matrices=True)
    if fast is None or not any(uses_matrices(launch.text) for launch in fast):
        return made
    return with_first(NATIVE.document(operator, f"{BASE.name}+matrices", fast, "@matrices"), made)


def read_as_float16(found: Found, arguments: Collection[int]) -> Found:
    """The operator, with these of its arguments of float16: what it computes with is float32, as before."""
    program = found.program
    names = _names(found, arguments)
    parameters = [
        dataclasses.replace(buffer, dtype="float16") if buffer.name in names else buffer
        for buffer in program.parameters
    ]

    def read(part: Expression) -> Expression | None:
        if part.kind != "load" or part.value not in names:
            return None
        return Expression("cast", part.dtype, (dataclasses.replace(part, dtype="float16"),))

    stages = [dataclasses.replace(stage, value=rewritten(stage.value, read)) for stage in found.stages]
    program = dataclasses.replace(program, parameters=tuple(parameters))
    return Found(found.operator, program, stages, found.threads)


def _names(found: Found, arguments: Collection[int]) -> frozenset[str]:
    return frozenset(found.program.parameters[place].name for place in arguments)


def _shared_out_again(kernel: CompiledKernel, found: Found, arguments: Collection[int]) -> CompiledKernel:
    """The kernel of a product of few rows, of whose variants what the template makes of such arguments takes the place
    of the native ones that every device has: these were chosen for float32."""
    document, shape = kernel.document, shape_of(found)
    natives = [variant for variant in document["variants"] if _is_native(variant)]
    if shape is None or shape.tiled or not natives:
        return kernel
    after = generated_of(dataclasses.replace(found, stored=_names(found, arguments)))
    if not after:
        return kernel
    *others, last = natives
    made = _in_place_of(last, found, after, "@stored")
    if "expected" in last:
        best = {name: min(one["expected"][name] for one in natives) for name in last["expected"]}
        made.document["variants"][0]["expected"] = best
    return _with(made, kernel, last, others)


def _by_matrices_again(kernel: CompiledKernel, found: Found, arguments: Collection[int]) -> CompiledKernel:
    """The kernel of a product with integers, of whose variants what the template makes for subgroup matrices where
    scales are such arguments takes the place of the one that was made for float32."""
    fast = next((one for one in kernel.document["variants"] if FEATURES[0] in one["requires"]["features"]), None)
    if fast is None or not has_words(found.operator):
        return kernel
    after = generated_of(dataclasses.replace(found, stored=_names(found, arguments)), matrices=True)
    if after is None or not any(uses_matrices(launch.text) for launch in after):
        return kernel
    return _with(_in_place_of(fast, found, after, "@stored-matrices"), kernel, fast)


def _in_place_of(variant: Mapping[str, Any], found: Found, launches: Sequence[Launch], suffix: str) -> CompiledKernel:
    """One variant of these launches, with all that the other one says of itself."""
    made = NATIVE.document(found.operator, variant["name"], launches, suffix)
    fresh = made.document["variants"][0]
    fresh |= {key: value for key, value in variant.items() if key not in fresh}
    return made


def _with(
    fresh: CompiledKernel,
    kernel: CompiledKernel,
    before: Mapping[str, Any],
    others: Collection[Mapping[str, Any]] = (),
) -> CompiledKernel:
    """The kernel with the only variant of another in place of one of its own, and without `others`."""
    (made,) = fresh.document["variants"]
    of_all = kernel.document["variants"]
    variants = [made if variant is before else variant for variant in of_all if variant not in others]
    points = [point for variant in variants for point in variant["entry_points"]]
    texts = {file.name: file for file in (*kernel.files, *fresh.files)}
    files = [texts[name] for name in dict.fromkeys(point["file"] for point in points)]
    return CompiledKernel({**kernel.document, "variants": variants}, files)


def _is_native(variant: Mapping[str, Any]) -> bool:
    return variant.get("compiler", NATIVE.name) == NATIVE.name and not variant["requires"]["features"]
