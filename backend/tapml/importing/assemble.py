"""From an importer's module to an `ImportedModel`: fold, narrow, cast the oracle's outputs to
match.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm

from tapml.errors import InputError
from tapml.expressions import Symbol
from tapml.importing.dtypes import SMALL, narrow_array, stored
from tapml.importing.fold import fold
from tapml.importing.inputs import RawStep
from tapml.importing.model import Array, ImportedModel, Intermediate, Step
from tapml.importing.narrow import narrow
from tapml.importing.refolded import otherwise


def assemble(
    module: tvm.IRModule,
    *,
    tensors: Iterable[tuple[str, Array]],
    steps: Sequence[RawStep],
    expected: Sequence[Sequence[Array]] | None,
    outputs: list[str],
    states: Mapping[str, int] = MappingProxyType({}),
    oracle: str | None,
    oracle_missing: str | None,
    provenance: dict[str, Any],
    symbols: Sequence[Symbol] = (),
    names: Mapping[str, str] = MappingProxyType({}),
    again: Callable[[], Sequence[Sequence[Array]]] | None = None,
    second: Callable[[], tuple[str, Sequence[Sequence[Array]]]] | None = None,
    intermediates: Callable[[bool], Iterable[Intermediate]] | None = None,
    in_detail: Callable[[], ImportedModel] | None = None,
    limits: Mapping[str, str] = MappingProxyType({}),
    unread: Collection[int] | None = None,
    held: Mapping[str, Array] = MappingProxyType({}),
) -> ImportedModel:
    """Finish an import whose `module` has its weights inline and takes the steps' inputs in their
        order.

    `tensors` are the source's own, by name, each once; `expected` holds the oracle's outputs of
    each step; `states` are inputs that are outputs too, by their places there; `limits` as in ImportedModel. `unread`
    are the addresses of weights that nobody has yet (Weights): such a model has no steps. `held`: tensors of the source
    that are not among `tensors`, for they are the module's constants themselves. Raises InputError where a
    dtype cannot be narrowed or the model is not plain data flow.
    """
    dtypes = {str(array.dtype) for array in steps[0].arrays.values()}

    def noted() -> Iterator[tuple[str, Array]]:
        # One by one: each may be a copy.
        for name, array in tensors:
            dtypes.add(str(array.dtype))
            yield name, array

    program = fold(module)
    result = narrow(program, noted(), unread or (), held)
    if len(result.output_dtypes) != len(outputs):
        raise InputError(f"the model declares {len(outputs)} outputs but TVM made {len(result.output_dtypes)} of it")
    notes = [
        f"{name} {'widened' if str(array.dtype) in SMALL else 'narrowed'} from {array.dtype} to {dtype}"
        for name, array in steps[0].arrays.items()
        if (dtype := stored(str(array.dtype))) != str(array.dtype)
    ]

    def cast_all(found: Sequence[Sequence[Array]]) -> list[list[Array]]:
        return [_cast(arrays, result.output_dtypes, outputs) for arrays in found]

    def second_cast() -> tuple[str, list[list[Array]]]:
        assert second is not None
        who, found = second()
        return who, cast_all(found)

    done = []
    for number, step in enumerate(steps if unread is None else ()):
        inputs, changed = step.narrowed()
        notes += [*changed, *_of_nan(step.description, inputs)]
        cast = None if expected is None else _cast(expected[number], result.output_dtypes, outputs)
        done.append(Step(step.description, inputs, step.synthetic, cast))
    if any(name.endswith(".T") for name, _ in result.parameters):
        notes.append("weights that are only read transposed are stored transposed, with .T after the name")
    return ImportedModel(
        module=result.module,
        input_names=list(steps[0].arrays),
        parameters=result.parameters,
        steps=done,
        provenance={**provenance, "notes": [*provenance.get("notes", ()), *notes, *result.notes]},
        outputs=outputs,
        states=states,
        symbols=symbols,
        names=names,
        oracle=oracle,
        oracle_missing=oracle_missing,
        unit=2.0**-7 if "bfloat16" in dtypes else None,
        again=again and (lambda: cast_all(again())),
        second=second and second_cast,
        intermediates=intermediates,
        in_detail=in_detail,
        otherwise=otherwise(program.computation, result.computed, result.parameters),
        limits=limits,
    )


def _of_nan(step: str, inputs: Mapping[str, Array]) -> Iterator[str]:
    """Whatever comes of NaN is NaN, on any platform: such a suite passes and tests little."""
    for name, array in inputs.items():
        if array.dtype.kind == "f" and (count := int(np.isnan(array).sum())):
            of = f"{count} of the {array.size} elements of input {name}"
            yield f"{of} of {step} are NaN: what they reach is not tested"


def _cast(arrays: Sequence[Any], dtypes: Sequence[str], names: Sequence[str]) -> list[Array]:
    """Raises InputError for an integer that the graph's dtype does not hold: what is given in its place is another."""
    cast = []
    for array, dtype, name in zip(map(np.asarray, arrays), dtypes, names, strict=True):
        held = narrow_array(array, f"output {name}")[0] if array.dtype.kind in "iu" else array
        with np.errstate(over="ignore", invalid="ignore"):
            cast.append(held.astype(dtype, order="C"))
    return cast
