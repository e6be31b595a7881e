"""What is computed at import, as other roundings would make it.

The coordinates of a grid are computed like anything else: x * 2 / 15 - 1 is off by a unit in the last place, and what
is made of it by more. Once that is folded nothing shows that a weight of 0 might as well be 1e-6, which it is for an
oracle that rounds in another order. So it is computed again, with every result moved to a neighbour.

Where it goes over a step (floor, a comparison, a cast to integers) it does as it did: which elements are taken is no
matter of rounding, and weights of those that were taken tell by how much those of others would differ.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from tapml.importing.dtypes import narrow_array
from tapml.importing.fold import Computation
from tapml.importing.model import Array, Computed, Otherwise
from tapml.importing.relax_ir import Expr, names, operator_name, tensor_dtype

_TIMES = 3

_STEPS = names("floor ceil round trunc sign mod floor_mod floor_divide")
_ROUNDED = names(
    "add subtract multiply divide power sqrt rsqrt square exp log sin cos tan tanh sinh cosh asin acos atan sigmoid "
    "erf arange sum mean prod cumsum matmul variance std nn.softmax"
)

_OF_STEP, _OF_ROUNDED = "step", "rounded"
"""Why a result is looked at."""

_LARGEST = 0.25
"""Of the largest number of a dtype: beyond it, it stands for infinity, as in masks."""

_BITS = {"float16": (np.uint16, 10), "float32": (np.uint32, 23), "float64": (np.uint64, 52)}
"""An unsigned integer as wide, and the bits of the fraction."""


def otherwise(
    computation: Computation | None,
    computed: Mapping[Expr, Sequence[Computed]],
    parameters: Iterable[tuple[str, Array]],
) -> Otherwise | None:
    """Of the parameters that are `computed`, by the variables that the computation has for them; None where none of
    them rounds."""
    made = {name for var, found in computed.items() if _is_float(var) for name, _ in found}
    if not made or computation is None or all(_looked_at(binding) != _OF_ROUNDED for binding in computation.bindings):
        return None
    own = {name: array for name, array in parameters if name in made}
    return Otherwise(made, functools.partial(_parameters, computation, computed, own))


def _parameters(
    computation: Computation, computed: Mapping[Expr, Sequence[Computed]], parameters: Mapping[str, Array]
) -> list[dict[str, Array]]:
    """What is the same for several of what is wanted is one parameter: it is moved as that which is moved most."""
    found = []
    for values in _refolded(computation):
        others: dict[str, Array] = {}
        for var, array in values.items():
            for name, axes in computed.get(var, ()):
                own = parameters[name]
                other, _ = narrow_array(array if axes is None else array.transpose(axes), name)
                before = others.get(name, own)
                with np.errstate(invalid="ignore"):
                    others[name] = np.where(np.abs(other - own) > np.abs(before - own), other, before)
        found.append(others)
    return found


def _refolded(computation: Computation) -> list[dict[Expr, Array]]:
    """The floating-point tensors of what is wanted, a few times, each time rounded otherwise. Raises InputError."""
    wanted = [place for place, var in enumerate(computation.wanted) if _is_float(var)]
    found = []
    with _Roundings().called() as roundings:
        results = computation.run(roundings.emit)
        for number in range(_TIMES + 1):
            roundings.begin(number)
            values = results()
            found.append({computation.wanted[place]: values[place].numpy() for place in wanted})
    return found[1:]


class _Roundings:
    """What looks at results while they are computed: as they are in a first run, and moved in those that follow. It
    gives copies, for what a result lies in is used again once it was looked at."""

    def __init__(self) -> None:
        self._kept: list[Array] = []
        self._number = self._place = 0
        self._random = np.random.default_rng()
        self._names = {kind: f"tapml.importing.{kind}.{id(self)}" for kind in (_OF_STEP, _OF_ROUNDED)}

    def emit(self, builder: Any, binding: Expr) -> None:
        """A binding, in a computation that is run while it is `called`."""
        kind = _looked_at(binding)
        if kind is not None:
            raw = builder.emit(binding.value)
            call = relax.op.call_pure_packed(self._names[kind], raw, ty_args=binding.var.ty)
            binding = relax.VarBinding(binding.var, builder.normalize(call))
        builder.emit_normalized(binding)

    def begin(self, number: int) -> None:
        """A run; 0 is the first one."""
        self._number, self._place = number, 0
        self._random = np.random.default_rng(number)

    @contextmanager
    def called(self) -> Iterator[_Roundings]:
        """Within it the computation finds it."""
        for kind, function in ((_OF_STEP, self._step), (_OF_ROUNDED, self._rounded)):
            tvm_ffi.register_global_func(self._names[kind], function)
        try:
            yield self
        finally:
            for name in self._names.values():
                tvm_ffi.registry.remove_global_func(name)

    def _step(self, result: Any) -> Any:
        if self._number == 0:
            self._kept.append(result.numpy())
        self._place += 1
        return tvm.runtime.tensor(self._kept[self._place - 1])

    def _rounded(self, result: Any) -> Any:
        array = result.numpy()
        return tvm.runtime.tensor(array if self._number == 0 else moved(array, self._random))


def moved(array: Array, random: np.random.Generator) -> Array:
    """Each number, or a neighbour of it one time in two. Of few digits, as whole numbers and halves are, it came out
    exactly: where it lies on a step, that is meant. So are masks."""
    kind, fraction = _BITS[str(array.dtype)]
    digits = array.view(kind) & kind((1 << (fraction + 1) // 2) - 1)
    moves = (digits != 0) & (np.abs(array) < _LARGEST * np.finfo(array.dtype).max) & (random.random(array.shape) < 0.5)
    towards = np.where(random.random(array.shape) < 0.5, array.dtype.type(np.inf), array.dtype.type(-np.inf))
    with np.errstate(over="ignore", under="ignore"):
        found: Array = np.where(moves, np.nextafter(array, towards), array)
    return found


def _looked_at(binding: Expr) -> str | None:
    """Why a binding's result is looked at; None where it is not."""
    call = binding.value
    if not isinstance(call, tvm.ir.Call) or not isinstance(binding.var.ty, relax.TensorType):
        return None
    steps = not _is_float(binding.var) and any(map(_is_float, call.args))
    if steps or operator_name(call) in _STEPS:
        return _OF_STEP
    return _OF_ROUNDED if _is_float(binding.var) and operator_name(call) in _ROUNDED else None


def _is_float(expr: Expr) -> bool:
    return tensor_dtype(getattr(expr, "ty", None)) in _BITS
