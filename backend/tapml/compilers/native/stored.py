"""Products of float32 whose weights lie in memory as float16 (tapml.compilers.halves), by subgroup matrices."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from tapml.compilers.native.compile import NATIVE, generated_of, recognised, with_first
from tapml.compilers.native.kernel import Found
from tapml.compilers.native.matrices import uses_matrices
from tapml.compilers.native.stages import rewritten
from tapml.compilers.tvm.variants import BASE
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator
from tapml.operators.program import Expression


def with_matrices_of(kernel: CompiledKernel, operator: Operator, arguments: Collection[int]) -> CompiledKernel:
    """A native kernel that reads these of its arguments as float16, and before its variants one of subgroup matrices,
    which multiply float16 alone; the kernel as it is where that has none, or there is one without."""
    document = kernel.document
    if document["compiler"]["name"] != NATIVE.name or any(uses_matrices(file.text) for file in kernel.files):
        return kernel
    found = recognised(operator)
    fast = generated_of(read_as_float16(found, arguments), matrices=True) if found is not None else None
    if fast is None or not any(uses_matrices(launch.text) for launch in fast):
        return kernel
    return with_first(NATIVE.document(operator, f"{BASE.name}+matrices", fast, "@matrices"), kernel)


def read_as_float16(found: Found, arguments: Collection[int]) -> Found:
    """The operator, with these of its arguments of float16: what it computes with is float32, as before."""
    program = found.program
    parameters = [
        dataclasses.replace(buffer, dtype="float16") if place in arguments else buffer
        for place, buffer in enumerate(program.parameters)
    ]
    names = {program.parameters[place].name for place in arguments}

    def read(part: Expression) -> Expression | None:
        if part.kind != "load" or part.value not in names:
            return None
        return Expression("cast", part.dtype, (dataclasses.replace(part, dtype="float16"),))

    stages = [dataclasses.replace(stage, value=rewritten(stage.value, read)) for stage in found.stages]
    program = dataclasses.replace(program, parameters=tuple(parameters))
    return Found(found.operator, program, stages, found.threads)
