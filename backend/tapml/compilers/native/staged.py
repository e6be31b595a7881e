"""Operators of several reductions over different rows, in several dispatches: temporaries are between them.

The k largest elements, say, are a rank for each element, then a choice by rank. As many stages as a template takes
together are one dispatch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tapml.compilers.native.kernel import Found, Launch
from tapml.compilers.native.stages import Stage, loads
from tapml.compilers.native.words import Unknown
from tapml.compilers.tvm.spelling import SpellingError
from tapml.operators.program import Expression

Template = Callable[[Found], list[Launch] | None]
"""The dispatches of an operator; None, or Unknown is raised, where it is not one of the template's."""

_MOST_STAGES = 12
_MOST_BYTES = 2**27
"""Of a temporary, which WebGPU's default limits let a kernel bind."""


def of_any(templates: Sequence[Template], found: Found) -> list[Launch] | None:
    """The dispatches of the first template that knows these stages."""
    for template in templates:
        try:
            launches = template(found)
        except (Unknown, SpellingError):
            continue
        if launches is not None:
            return launches
    return None


def staged(found: Found, templates: Sequence[Template]) -> list[Launch] | None:
    """The dispatches of all stages, in their order. None where one of them is of no template."""
    stages = [*found.stages]
    if not 1 < len(stages) <= _MOST_STAGES:
        return None
    launches: list[Launch] = []
    while stages:
        for count in range(len(stages), 0, -1):
            made = of_any(templates, _part(found, stages[:count], stages[count:], len(launches)))
            if made is not None:
                break
        else:
            return None
        launches += made
        stages = stages[count:]
    temporaries = [size for launch in launches for size in launch.temporaries.values()]
    sizes = [size for size in temporaries if not isinstance(size, Mapping)]
    indices = found.indices([])
    return launches if all(indices.greatest(nbytes) <= _MOST_BYTES for nbytes in sizes) else None


def _part(found: Found, stages: Sequence[Stage], later: Sequence[Stage], part: int) -> Found:
    """These stages by themselves: they have to leave what is given, and what later ones read."""
    read = {str(load.value) for stage in later for load in loads(*_of(stage))}
    outputs = [stage.buffer for stage in stages if stage.buffer in found.outputs or stage.buffer in read]
    return dataclasses.replace(found, stages=stages, outputs=outputs, part=found.part + part)


def _of(stage: Stage) -> Sequence[Expression]:
    return [stage.value, *stage.indices, *([stage.start] if stage.start is not None else [])]
