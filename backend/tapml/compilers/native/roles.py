"""What the axes of an operator's parameters are: channels, height and width of an image, inputs and outputs of weights.

Any choice is right, for a layout follows from it alone; which axis is cut into slices of four decides what a texel of
four channels is good for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tapml.compilers.native.contraction import factors_of, with_its_end
from tapml.compilers.native.kernel import Found
from tapml.compilers.native.stages import Index, loads, variables_of
from tapml.operators.program import Expression


@dataclass(frozen=True)
class Roles:
    """By parameter: of `tensors` a letter of BHWDC for each axis, of `weights` one of GOHWDI. A parameter that is
    in neither has the default ones."""

    tensors: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, str] = field(default_factory=dict)


def roles_of(found: Found) -> Roles:
    """Those of a product's or a convolution's factors and of its output. The second factor is the weights where it is
    an input as it is."""
    summed = with_its_end(found.stages) if len(found.outputs) == 1 else None
    factors = factors_of(summed[0].value) if summed is not None else None
    if summed is None or factors is None:
        return Roles()
    stage = summed[0]
    data, weights = map(_plain, factors)
    if data is None or weights is None or data.value == weights.value:
        return Roles()
    inner = {index.variable for index in stage.reduction}
    own = _own(stage.spatial, weights, data)
    window = _window(data, inner, own)
    tensors = {str(data.value): _of_tensor([variables_of(index) & inner - window for index in data.operands])}
    made = {stage.buffer: _of_tensor([variables_of(index) & own for index in stage.indices])}
    return Roles(tensors | made, {str(weights.value): _of_weights(weights, inner, window, own)})


def _plain(factor: Expression) -> Expression | None:
    """The load that a factor is, up to a cast, a choice of zero outside of it, and how it is scaled."""
    found = loads(factor)
    return found[0] if len(found) == 1 else None


def _own(axes: Sequence[Index], one: Expression, other: Expression) -> set[str]:
    """Variables of the output that only one of two loads reads by."""
    return {axis.variable for axis in axes} & variables_of(*one.operands) - variables_of(*other.operands)


def _window(data: Expression, inner: set[str], own: set[str]) -> set[str]:
    """Variables of a sum along which an image is read at an offset: with a place of the output in one index."""
    found: set[str] = set()
    for index in data.operands:
        variables = variables_of(index)
        if variables & inner and variables - inner - own:
            found |= variables & inner
    return found


def _of_tensor(channels: Sequence[set[str]]) -> str:
    """`channels` of each axis: what makes it the axis of channels; else that is the last one."""
    place = next((axis for axis, found in enumerate(channels) if found), len(channels) - 1)
    others = len(channels) - 1
    letters = iter({1: "W", 2: "HW", 3: "BHW"}.get(others, "B" * (others - 3) + "HWD"))
    return "".join("C" if axis == place else next(letters) for axis in range(len(channels)))


def _of_weights(weights: Expression, inner: set[str], window: set[str], own: set[str]) -> str:
    letters = ""
    for index in weights.operands:
        variables = variables_of(index)
        if variables & window or not variables:
            letters += "H"
        elif variables & inner:
            letters += "I"
        else:
            letters += "O" if variables & own else "G"
    return letters
