"""What an import gives: one Relax module, its weights, real inputs and what they should give."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import tvm

from tapml.expressions import Symbol
from tapml.program.generation import Generation

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Progress: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Replace:
    """Of a tensor of a source, what stands in its place, of its shape and dtype; None where it stays. `rounds`: of one
    that stands there as yet, whether products by it from the right take activations rounded to 8-bit integers
    (activations.py)."""

    tensor: Callable[[Array], Array | None]
    rounds: Callable[[Array], bool] = lambda _: False

    def __call__(self, tensor: Array) -> Array | None:
        return self.tensor(tensor)


Functions: TypeAlias = Mapping[str, Callable[..., Any]]
"""Name of an operator -> what computes it: takes its operands, and its attributes by name; gives arrays."""


Computed: TypeAlias = tuple[str, tuple[int, ...] | None]
"""The name of a parameter that was computed at import, and the axes of one that is stored permuted."""


@dataclass(frozen=True)
class Otherwise:
    """The parameters `names`, which were computed at import, as other roundings would make them: `found` gives them a
    few times, by name, and may raise InputError."""

    names: Collection[str]
    found: Callable[[], Sequence[Mapping[str, Array]]]


Intermediate: TypeAlias = tuple[int, str, Array]
"""A value that an oracle's operator gives: number of the step, what it is for people, the value."""


@dataclass(frozen=True)
class Step:
    """One run: real (or, if `synthetic`, made-up) inputs and what the oracle gives for them.

    `inputs` maps every input name to a C-contiguous array of the graph's dtype (narrowed: int32,
    float32, ...). `expected` holds the oracle's outputs in the order of `ImportedModel.outputs`, in
    the graph's output dtypes; None where there is no oracle. Of a state that is an input it holds what
    the first step begins with.
    """

    description: str
    inputs: dict[str, Array]
    synthetic: bool
    expected: list[Array] | None


WORDS, SCALES, ZEROS = ".words", ".scales", ".zeros"
"""What the parameters are called that stand in place of a quantised weight, behind its name; ZEROS where each of its
groups has an integer of its own that stands for 0."""


@dataclass(frozen=True)
class QuantisedWeight:
    """A weight `[rows, inner]` that is stored as integers: `kind` says of how many bits, with what scales. `nbytes`: of
    both, on a device."""

    name: str
    kind: str
    shape: tuple[int, int]
    nbytes: int
    half: bool
    """Whether its scales are numbers of float16."""
    dtype: str
    """Of what it stands for: float32 or float16."""


@dataclass(frozen=True)
class Quantised:
    """What was quantised of a model, by the names of its source. `left`: other matrices that products read, and why
    they stay. `cost`: how far it is from the model that it was (quantise_cost.py), where that is known."""

    mode: str
    weights: Sequence[QuantisedWeight]
    left: Mapping[str, str]
    cost: Mapping[str, Any] | None
    activations: str | None = None
    """What activations are rounded to before products with quantised weights; None: they stay what they are."""
    products: int = 0
    """Before how many they are."""

    @property
    def halves(self) -> list[str]:
        """Names of the scales that are numbers of float16."""
        return [f"{found.name}{SCALES}" for found in self.weights if found.half]

    def to_json(self) -> dict[str, Any]:
        weights = [
            {"name": found.name, "kind": found.kind, "shape": [*found.shape], "bytes": found.nbytes}
            for found in self.weights
        ]
        rounded = {} if self.activations is None else {"activations": self.activations}
        return {"mode": self.mode, **rounded, "weights": weights, "left": dict(self.left), "cost": self.cost}


@dataclass(frozen=True)
class ImportedModel:
    """A model file as a Relax module, ready to be lowered.

    `module` has one Relax function "main" that takes the inputs, then the parameters, all tensors;
    a size of an input may be a variable with the name of one of `symbols`. No int64, uint64,
    float64 or bool tensor is an argument, a result or crosses a kernel boundary. `parameters` are in
    the order of main's arguments after the inputs, under the source's names.
    """

    module: tvm.IRModule
    input_names: list[str]
    parameters: list[tuple[str, Array]]
    steps: list[Step]
    provenance: dict[str, object]
    outputs: list[str]
    symbols: Sequence[Symbol] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """Variable of main -> the name that the source has for the value, printable and no longer than 120 characters."""
    states: Mapping[str, int] = field(default_factory=dict)
    """Name of an input that each step after the first takes from the former one -> place among its outputs."""
    oracle: str | None = None
    """Who computed `Step.expected`: a name with a version, never TVM."""
    oracle_missing: str | None = None
    tokenizer: str | None = None
    """What makes its inputs of texts: tokenizer.json of Hugging Face's tokenizers."""
    specialized: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Functions to make of main, by name: the sizes of symbols that are fixed in each. None: main itself, as it is."""
    beside: Mapping[str, ImportedModel] = field(default_factory=dict)
    """Functions of other inputs, by name, that share nothing with it: each a module of its own, of fixed sizes, without
    parameters and states, whose steps follow those of the model."""
    generation: Generation | None = None
    """Of a language model: how tokens are generated with it."""
    functions: Functions = field(default_factory=dict)
    """What computes the operators that no suite holds."""
    unit: float | None = None
    """One unit in the last place of 1 in the narrowest floating-point dtype that the source computes with, where that
    is coarser than what stands for it here (bfloat16: 2^-7)."""
    again: Callable[[], Sequence[Sequence[Array]]] | None = None
    """Asks the oracle once more: `expected` of each step. Raises InputError."""
    second: Callable[[], tuple[str, Sequence[Sequence[Array]]]] | None = None
    """Asks another oracle, which is too slow to be the first: who it is, and `expected` of each step. Raises
    InputError."""
    intermediates: Callable[[bool], Iterable[Intermediate]] | None = None
    """What the oracle's own operators give, or those of the second oracle (true), in the order in which they do. Raises
    InputError, also on the way."""
    in_detail: Callable[[], ImportedModel] | None = None
    """The same model for the same inputs, with every value that its operators give as an output, in their order, said
    with the operator. Raises InputError where that cannot be had."""
    otherwise: Otherwise | None = None
    """Of what it was computed at import in floating point; None where nothing was."""
    limits: Mapping[str, str] = field(default_factory=dict)
    """Outputs (int32 [1]) that are not 0 where a call asks for more than the module can do, so that nothing that it
    gives may be believed: with what is wrong then, for people."""

    quantised: Quantised | None = None
    """What of it is quantised; None where that was not asked for."""

    halves: Collection[str] = ()
    """Of a model without weights, the names of those that will hold float16; of weights that are there it is looked
    up."""

    def of_function(self, name: str) -> ImportedModel:
        """Who says what inputs and outputs of a function are called."""
        return self.beside.get(name, self)
