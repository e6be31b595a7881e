"""Inputs that say what shapes a model's tensors have, or how an operator goes about: constants of the import.

ONNX lets axes, shapes, pads, scales and trip counts arrive with each call; kernels are made for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tapml.importing.inputs import InputSpec, RawStep
from tapml.importing.onnx_file import nodes
from tapml.importing.onnx_tensors import subgraphs, tensors


def _each(operators: str, *places: int) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys(operators.split(), places)


_FIXED: Mapping[str, Sequence[int]] = {
    **_each("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd", 1),
    **_each("ReduceSum ReduceSumSquare Squeeze Unsqueeze", 1),
    **_each("AffineGrid CenterCropPad CumProd CumSum Expand OneHot Reshape Split Tile TopK Trilu Upsample", 1),
    **_each("BlackmanWindow ConstantOfShape HammingWindow HannWindow", 0),
    **_each("Col2Im DFT", 1, 2),
    **_each("Pad STFT", 1, 3),
    **_each("Range", 0, 1, 2),
    **_each("Resize", 1, 2, 3),
    **_each("Slice", 1, 2, 3, 4),
    **_each("NonMaxSuppression", 2, 3, 4),
    **_each("MelWeightMatrix", 0, 1, 2, 3, 4),
    **_each("Loop", 0),
    **_each("MaxUnpool", 2),
}
"""Operator -> operands that its output's shape, or the kernel itself, depends on."""

_CONDITIONS: Mapping[str, Sequence[int]] = {**_each("If", 0), **_each("Loop", 1)}
"""Operator -> its condition, which is known where inputs are, or depends on other data in any case."""

_PASSED = {
    **_each("Add Cast Ceil Concat Div Floor Gather Identity Max Min Mul Neg Reshape Slice Squeeze Sub Unsqueeze"),
    **_each("And Equal Greater GreaterOrEqual Less LessOrEqual Mod Not Or Where Xor"),
}
"""Operators of which shapes and conditions are computed."""

_KNOWN = {*_PASSED, "Constant", "ConstantOfShape", "Shape", "Size"}

_MOST = 256
"""Elements: more are no shape."""


def fix_inputs(
    model: Any, specs: Sequence[InputSpec], steps: Sequence[RawStep], *, loops: bool
) -> tuple[list[InputSpec], list[RawStep], list[str]]:
    """Make constants of such inputs, where they are the same in all steps; with `loops` those that say how many turns a
    loop takes, too.

    `model` is changed; gives the inputs that are left, the steps without them, and a note for each.
    """
    from onnx import numpy_helper

    needed = set(_needed(model.graph, () if loops else ("Loop",)))
    found = {
        spec.name: step
        for spec in specs
        if spec.name in needed and (step := _common([step.arrays[spec.name] for step in steps])) is not None
    }
    for name, array in found.items():
        (value,) = (value for value in model.graph.input if value.name == name)
        model.graph.input.remove(value)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    kept = [
        dataclasses.replace(step, arrays={n: array for n, array in step.arrays.items() if n not in found})
        for step in steps
    ]
    notes = [f"input {name} is fixed to what was given: {array.tolist()}" for name, array in found.items()]
    return [spec for spec in specs if spec.name not in found], kept, notes


def _common(arrays: Sequence[Any]) -> Any:
    """The array, where it is small and the same in all steps."""
    first = arrays[0]
    same = all(array.shape == first.shape and np.array_equal(array, first) for array in arrays)
    return first if same and first.size <= _MOST else None


def _needed(graph: Any, without: Collection[str]) -> Iterator[str]:
    """Names of the values that such an operand is, or is computed of; `without` some operators."""
    asking = [node for node in nodes(graph) if node.op_type not in without]
    makers = {name: node for node in nodes(graph) for name in node.output}
    yield from _computed_of([name for node in asking for name in _operands(node, _FIXED)], makers)
    graphs = [graph, *(inner for node in nodes(graph) for inner in subgraphs(node))]
    given = {found.name for found in (*(value for inner in graphs for value in inner.input), *tensors(graph))}
    for condition in (name for node in asking for name in _operands(node, _CONDITIONS)):
        found = _computed_of([condition], makers)
        if all(makers[name].op_type in _KNOWN if name in makers else name in given for name in found):
            yield from found


def _operands(node: Any, places: Mapping[str, Sequence[int]]) -> list[str]:
    found = places.get(node.op_type, ())
    return [node.input[place] for place in found if place < len(node.input) and node.input[place]]


def _computed_of(names: Sequence[str], makers: Mapping[str, Any]) -> set[str]:
    """These, and what they are computed of by operators of shapes and conditions."""
    waiting, seen = [*names], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        maker = makers.get(name)
        if maker is not None and maker.op_type in _PASSED:
            waiting += [operand for operand in maker.input if operand]
    return seen
