"""From a model to the same model with quantised weights.

It is imported twice. The first time tells which weights products read; these are replaced in the source by what their
integers stand for, so that the oracle computes with the numbers that kernels do, and correctness is one thing. The
second time they are packed. How far the two models' results are apart is another thing: what quantising costs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tapml.errors import InputError
from tapml.importing.activations import MOST_TERMS
from tapml.importing.model import SCALES, WORDS, ZEROS, Array, ImportedModel, Quantised, QuantisedWeight, Replace
from tapml.importing.quantise import DTYPES, INT8, MODES, OF_INTEGERS, Q8, Kind, Packed, check_mode, pack
from tapml.importing.quantise_cost import of_outputs, said
from tapml.importing.quantise_module import (
    PackedVariables,
    packed_variables,
    products_of_integers,
    quantised_module,
)
from tapml.importing.quantise_uses import BOTH_AXES, Uses, uses_of
from tapml.importing.relax_ir import Expr, static_shape, tensor_dtype
from tapml.importing.weights import as_tvm_holds, digest
from tapml.lowering.plain_moves import with_plain_moves
from tapml.text import counted, listed, size

OF_SOURCE = "source"
"""The mode of weights that a source holds as integers itself."""

_COMPUTED = "it is computed from other weights"
_SHOWN = 6


@dataclass(frozen=True)
class Chosen:
    """The weights of a model that are packed, by their names."""

    mode: str
    packed: Mapping[str, Packed]
    before: Mapping[str, tuple[str, bool]]
    """Digest of a weight in the source -> its name, and whether it lies `[inner, rows]` there."""
    after: Mapping[str, str]
    """Digest of the `[rows, inner]` that are packed -> name."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Other matrices that products read, and why they stay."""
    activations: str | None = None
    """What activations are rounded to, before products with weights that allow it."""

    @property
    def replaced(self) -> Replace:
        return Replace(self._replaced, self._rounds)

    def _replaced(self, array: Array) -> Array | None:
        if (known := self._known(array)) is None:
            return None
        name, turned = known
        return np.ascontiguousarray(_rows(self.packed[name].array(), turned))

    def _rounds(self, array: Array) -> bool:
        known = self._known(array) if self.activations is not None else None
        return known is not None and self.packed[known[0]].kind in OF_INTEGERS

    def _known(self, array: Array) -> tuple[str, bool] | None:
        """Name of a weight, and whether it lies `[inner, rows]`."""
        if str(array.dtype) not in DTYPES or array.ndim != 2:
            return None
        return self.before.get(digest(array))

    def without(self, names: Collection[str]) -> Chosen:
        """Where these turn out to be no tensors of the source."""
        packed = {name: found for name, found in self.packed.items() if name not in names}
        before = {key: known for key, known in self.before.items() if known[0] in packed}
        left = {**self.left, **dict.fromkeys(names, _COMPUTED)}
        after = {k: n for k, n in self.after.items() if n in packed}
        return replace(self, packed=packed, before=before, after=after, left=left)


def quantised(
    mode: str,
    source: str,
    importer: Callable[[Replace | None], ImportedModel],
    measured: Callable[[Replace], Mapping[str, Any] | None] | None = None,
    activations: str | None = None,
) -> ImportedModel:
    """The model of an `importer`, which is given what replaces the source's tensors. `source`: what it is called;
    `measured`: what replacing them costs, where not by what its oracle gives; `activations`: what they are rounded to,
    by the source too.

    Raises InputError for a mode that there is not, and where there is nothing to quantise, or no product whose
    activations can be rounded.
    """
    check_mode(mode)
    plain = importer(None)
    chosen = choose(plain, mode, source, activations)
    expected = [step.expected for step in plain.steps]
    del plain
    while True:
        again = importer(chosen.replaced)
        found = found_in(again, chosen)
        if not (missing := chosen.packed.keys() - found.values()):
            break
        chosen = chosen.without(missing)
        check_some(chosen.packed, chosen.left, source)
    cost = of_outputs(again, expected) if measured is None else measured(chosen.replaced)
    # Of equal ones, as of a tied table that an importer has twice, there is one.
    packed = {variable: chosen.packed[name] for variable, name in found.items()}
    return _with_packed(again, packed, Quantised(chosen.mode, [], chosen.left, cost, activations))


def choose(model: ImportedModel, mode: str, source: str, activations: str | None = None) -> Chosen:
    """Of a model as it is. Raises InputError for one without products of weights, or whose weights cannot be packed."""
    packed: dict[str, Packed] = {}
    before: dict[str, tuple[str, bool]] = {}
    after: dict[str, str] = {}
    names, uses, arrays = _weights(model)
    left = {names[variable]: why for variable, why in uses.left.items()}
    for variable, turned in uses.products.items():
        name, rows = names[variable], np.ascontiguousarray(_rows(arrays[variable], turned))
        key = digest(rows)
        if (known := before.get(key)) is not None:
            if known[1]:
                left[name] = BOTH_AXES
            continue  # else an equal one is packed, as it will be
        packed[name] = found = pack(rows, kind_of(name, rows.shape[1], mode, activations), name)
        before[key] = name, False
        before.setdefault(digest(rows.T), (name, True))
        after[digest(found.array())] = name
    chosen = Chosen(mode, packed, before, after, left, activations)
    check_some(packed, left, source)
    if activations is not None:
        check_integers(packed, activations, source)
    check_mixed(mode, packed, source)
    return chosen


def check_mixed(mode: str, packed: Mapping[Any, Packed], source: str) -> None:
    """Raise InputError for a mode of several kinds where all weights are of one."""
    if mode == "q844" and len({found.kind for found in packed.values()}) == 1:
        raise InputError(
            f"{source}: q844 takes 8 bits for weights of attention and 4 for the others, and the names of its weights "
            "do not tell these apart: take q4f16 or q8"
        )


def kind_of(name: str, inner: int, mode: str, activations: str | None) -> Kind:
    """How a weight is stored."""
    kind = MODES[mode](name)
    return INT8 if activations is not None and kind == Q8 and inner <= MOST_TERMS else kind


def check_integers(packed: Mapping[str, Packed], activations: str, source: str) -> None:
    """Raise InputError where no product can take integers for activations."""
    if not any(weight.kind in OF_INTEGERS for weight in packed.values()):
        raise InputError(
            f"{source}: products with its weights of 8 bits ({', '.join([*packed][:_SHOWN])}) are sums of more than "
            f"{MOST_TERMS:,} terms, which no int32 holds for sure: leave out --activations {activations}"
        )


def check_some(packed: Mapping[Any, Packed], left: Mapping[str, str], source: str) -> None:
    """Raise InputError where there is nothing to quantise."""
    if not packed:
        why = "; ".join(f"of {name}, {reason}" for name, reason in [*left.items()][:_SHOWN])
        raise InputError(
            f"{source}: there is nothing to quantise, for no product reads a weight of {' or '.join(DTYPES)}, of 32 x "
            f"32 or more{f' ({why})' if why else ''}: leave out --quantise"
        )


def found_in(model: ImportedModel, chosen: Chosen) -> dict[Expr, str]:
    """Variables that stand for what was replaced in this model's source -> names. What no product reads is missing: it
    is none of the source's tensors."""
    _, uses, arrays = _weights(model)
    names = {v: chosen.after.get(digest(_rows(arrays[v], turned))) for v, turned in uses.products.items()}
    return {variable: name for variable, name in names.items() if name is not None}


def quantised_without_weights(
    model: ImportedModel, mode: str, source: str, activations: str | None = None
) -> ImportedModel:
    """Of a model whose weights nobody has, as its shapes say. Raises InputError as `quantised`."""
    check_mode(mode)
    names, uses, _ = _weights(model)
    packed: dict[Expr, Packed] = {}
    for variable, turned in uses.products.items():
        shape = static_shape(variable.ty) or ()
        rows, inner = reversed(shape) if turned else shape
        kind = kind_of(names[variable], inner, mode, activations)
        words = np.broadcast_to(np.uint32(0), (rows, kind.words(inner)))
        scales = np.broadcast_to(np.float32(0), (rows, kind.groups(inner)))
        packed[variable] = Packed(kind, (rows, inner), words, scales, dtype=str(tensor_dtype(variable.ty)))
    left = {names[variable]: why for variable, why in uses.left.items()}
    check_some(packed, left, source)
    check_mixed(mode, packed, source)
    if activations is not None:
        check_integers({names[variable]: one for variable, one in packed.items()}, activations, source)
    return _with_packed(model, packed, Quantised(mode, [], left, None, activations), held=False)


def with_packed_of_source(model: ImportedModel, known: Mapping[str, tuple[str, Packed]]) -> ImportedModel:
    """With what its source holds as integers packed as it is there. `known`: name and weight, by the digest of what it
    stands for."""
    names, uses, arrays = _weights(model)
    packed: dict[Expr, Packed] = {}
    for variable, turned in uses.products.items():
        if (found := known.get(digest(_rows(arrays[variable], turned)))) is not None:
            names[variable], packed[variable] = found
    return _with_packed(model, packed, Quantised(OF_SOURCE, [], {}, None), names) if packed else model


def _with_packed(
    model: ImportedModel,
    packed: Mapping[Expr, Packed],
    found: Quantised,
    names: Mapping[Expr, str] | None = None,
    held: bool = True,
) -> ImportedModel:
    """`names`: of weights, where not as its parameters are called; `held`: whether there are weights."""
    # Before products are of packed weights, which that pass knows nothing of.
    model = replace(model, module=with_plain_moves(model.module))
    own, uses, _ = _weights(model)
    names = names or own
    parameters: list[tuple[str, Array]] = []
    weights: list[QuantisedWeight] = []
    variables: dict[Expr, PackedVariables] = {}
    known: dict[int, PackedVariables] = {}
    for variable, (name, array) in zip(_parameters(model), model.parameters, strict=True):
        if (weight := packed.get(variable)) is None:
            parameters.append((name, array))
            continue
        if id(weight) in known:
            variables[variable] = known[id(weight)]
            continue
        turned = uses.products[variable]
        made = packed_variables(variable, plain_name(variable), weight.kind, turned)
        variables[variable] = known[id(weight)] = made
        for suffix, part in ((WORDS, weight.words), (SCALES, weight.scales), (ZEROS, weight.zeros)):
            if part is not None:
                parameters.append((names[variable] + suffix, as_tvm_holds(part) if held else part))
        kind, shape = weight.kind, weight.shape
        weights.append(QuantisedWeight(names[variable], kind.name, shape, kind.nbytes(*shape), kind.half, weight.dtype))
    # A source without weights does not say which of its products round.
    module = quantised_module(model.module, uses, variables, all_round=found.activations is not None and not held)
    products = products_of_integers(module)
    if found.activations is not None and not products:
        raise InputError(
            f"no linear layer multiplies by a quantised weight: leave out --activations {found.activations}"
        )
    found = replace(found, weights=weights, products=products)
    return with_quantised(replace(model, module=module, parameters=parameters), found)


def with_quantised(model: ImportedModel, found: Quantised) -> ImportedModel:
    """The model, in which it is said."""
    known = model.provenance.get("notes", [])
    notes = [*(known if isinstance(known, Iterable) else []), *_notes(found)]
    if not any(".T" in name for name, _ in model.parameters):
        notes = [note for note in notes if "stored transposed" not in str(note)]
    if model.quantised is not None:
        found = replace(found, weights=[*model.quantised.weights, *found.weights])
    return replace(
        model, provenance={**model.provenance, "notes": notes, "quantised": found.to_json()}, quantised=found
    )


def _notes(found: Quantised) -> list[str]:
    names = ", ".join(sorted({weight.kind for weight in found.weights}))
    before = dict.fromkeys(sorted({weight.dtype for weight in found.weights}), 0)
    for weight in found.weights:
        before[weight.dtype] += np.dtype(weight.dtype).itemsize * weight.shape[0] * weight.shape[1]
    what = "are integers in the file, and stay such" if found.mode == OF_SOURCE else "quantised"
    notes = [
        f"{counted(len(found.weights), 'weight')} of products and embeddings {what} ({names}): "
        f"{size(sum(weight.nbytes for weight in found.weights))} with their scales, in place of "
        + " and ".join(f"{size(nbytes)} of {dtype}" for dtype, nbytes in before.items())
    ]
    if found.activations is not None:
        notes.append(
            f"before {counted(found.products, 'product')} with these activations are rounded to integers of 8 bits "
            f"({found.activations}), with a scale for each row"
        )
    if found.cost is not None:
        notes.append(f"against the model before it was quantised: {said(found.cost)}")
    reasons: dict[str, list[str]] = {}
    for name, why in found.left.items():
        reasons.setdefault(why, []).append(name)
    notes += [f"not quantised, for {why}: {listed(names, _SHOWN)}" for why, names in reasons.items()]
    return notes


def plain_name(variable: Expr) -> str:
    """Of a parameter's variable, for the two that stand in its place."""
    return re.sub(r"[._]T$", "", str(variable.name))


def _weights(model: ImportedModel) -> tuple[dict[Expr, str], Uses, dict[Expr, Array]]:
    """Its parameters' names, without what says that one is stored transposed, uses and arrays."""
    variables = _parameters(model)
    names = {
        variable: re.sub(r"\.T(?=\.\d+$|$)", "", name)
        for variable, (name, _) in zip(variables, model.parameters, strict=True)
    }
    arrays = {variable: array for variable, (_, array) in zip(variables, model.parameters, strict=True)}
    return names, uses_of(model.module, variables), arrays


def _parameters(model: ImportedModel) -> list[Expr]:
    return [*model.module["main"].params][len(model.input_names) :]


def _rows(array: Array, turned: bool) -> Array:
    return array.T if turned else array
