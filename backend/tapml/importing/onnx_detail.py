"""The values between an ONNX model's operators, as the oracle computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tapml.errors import InputError
from tapml.importing.inputs import RawStep
from tapml.importing.model import Array
from tapml.importing.onnx_file import described
from tapml.importing.onnx_run import Oracle


@dataclass(frozen=True)
class Detail:
    """Floating-point values of the file, in the order of its nodes: their names, what they are for people, and what
    they are in each step."""

    names: list[str]
    said: list[str]
    expected: list[list[Array]]


def intermediates(
    path: Path, model: Any, steps: Sequence[RawStep], start: Callable[[bytes, Path | None], Oracle]
) -> list[dict[str, Array]]:
    """What each node of the `model` that `path` holds gives, by what it is for people. Raises InputError where the
    oracle cannot give it."""
    said, found = _run(path, model, steps, start)
    return [dict(zip(said.values(), arrays, strict=True)) for arrays in found]


def in_detail(
    path: Path, model: Any, steps: Sequence[RawStep], start: Callable[[bytes, Path | None], Oracle]
) -> Detail:
    """Of the `model` that `path` holds. Raises InputError where the oracle cannot give them."""
    said, found = _run(path, model, steps, start)
    kept = [place for place in range(len(said)) if all(map(_is_float, (arrays[place] for arrays in found)))]
    names = [*said]
    return Detail(
        [names[place] for place in kept],
        [said[names[place]] for place in kept],
        [[arrays[place] for place in kept] for arrays in found],
    )


def _run(
    path: Path, model: Any, steps: Sequence[RawStep], start: Callable[[bytes, Path | None], Oracle]
) -> tuple[dict[str, str], list[list[Array]]]:
    """The names of all that nodes give, with what they are for people; and what they are in each step."""
    import onnx

    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    opsets = {entry.domain: entry.version for entry in wide.opset_import}
    said = {
        name: f"{name!r}, which {described(node, opsets)} gives"
        for node in wide.graph.node
        for name in node.output
        if name and node.op_type != "Constant"
    }
    del wide.graph.output[:]
    wide.graph.output.extend(onnx.ValueInfoProto(name=name) for name in said)
    try:
        runtime = start(wide.SerializeToString(), path.parent)
    except ValueError as error:  # protobuf's, of 2 GB and more
        raise InputError(f"{path} cannot be run in detail: {error}") from error
    return said, [runtime.run([*said], step.arrays) for step in steps]


def _is_float(found: Any) -> bool:
    return isinstance(found, np.ndarray) and found.dtype.kind == "f" and found.size > 0


def outputs_of(model: Any, detail: Detail) -> None:
    """Make a detail's values the outputs of `model`."""
    import onnx

    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in detail.names)
