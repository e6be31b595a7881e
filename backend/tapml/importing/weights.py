"""The model's tensors as parameters: named after the source, stored once, transposed once."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

import numpy as np
import tvm
from tvm import relax

from tapml.files import unique
from tapml.importing.dtypes import narrow_array
from tapml.importing.model import Array, Computed
from tapml.importing.relax_ir import Expr, attributes, elements, operator_name


def digest(array: Array) -> str:
    """Identifies a tensor by dtype, shape and content."""
    content = np.ascontiguousarray(array)
    found = hashlib.sha256(f"{content.dtype}{array.shape}".encode())
    found.update(content.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def _place(array: Array) -> tuple[int, str, tuple[int, ...], tuple[int, ...]]:
    return array.ctypes.data, str(array.dtype), array.shape, array.strides


class Weights:
    """Turns constants into parameters of main.

    TVM's importers inline tensors without their names; equal content finds the name again. Where
    several source tensors are equal (fresh biases are all zero) each keeps a parameter of its own;
    one that is shared is one.
    """

    def __init__(
        self,
        tensors: Iterable[tuple[str, Array]],
        unread: Collection[int] = (),
        held: Mapping[str, Array] = MappingProxyType({}),
    ) -> None:
        """`tensors` are the source's, by name; a tensor that the source shares comes once. Those that lie at addresses
        of `unread` are told apart by these, and nothing reads or copies their elements: what stands for them in
        `parameters` has their type alone. `held`: tensors of the source that are the program's constants themselves, by
        name: what they are told apart by is computed once."""
        self._unread = unread
        # With the arrays: an address counts as long as nothing else comes to lie there.
        self._held = {_place(array): (digest(array), array) for array in held.values()}
        self._source_names: dict[str, list[str]] = {}
        for name, array in itertools.chain(held.items(), tensors):
            self._source_names.setdefault(self._digest(array), []).append(name)
        self._keys: dict[Expr, tuple[str, int]] = {}
        self._seen: Counter[str] = Counter()
        self._variables: dict[object, Expr] = {}
        self._permuted: dict[tuple[str, int], set[tuple[int, ...] | None]] = {}
        self._taken: set[str] = set()
        self.parameters: list[tuple[str, Array]] = []
        self.notes: list[str] = []

    @property
    def variables(self) -> list[Expr]:
        """The Relax variables of `parameters`, in the same order."""
        return list(self._variables.values())

    def note_uses(self, values: Iterable[Expr]) -> None:
        """Look at all expressions of the program, to learn which tensors are only ever read
        permuted.
        """
        for value in values:
            if not isinstance(value, tvm.ir.Call):
                continue
            axes = _permutation(value)
            for argument in value.args:
                for part in argument.fields if isinstance(argument, relax.Tuple) else [argument]:
                    if isinstance(part, tvm.ir.GenericConst):
                        self._permuted.setdefault(self._key(part), set()).add(axes)

    def name(self, constant: Expr) -> str:
        """The source's name of a tensor, or one that says it was computed."""
        key, number = self._key(constant)
        if key in self._source_names:
            return self._source_names[key][number]
        array = elements(constant)
        # An importer may transpose a matrix before tapml sees it.
        turned = self._source_names.get(self._digest(array.T)) if array.ndim == 2 else None
        return f"{turned[0]}.T" if turned else "computed"

    def computed(self, constants: Mapping[Expr, Expr]) -> dict[Expr, list[Computed]]:
        """The parameters that are made of constants and are no tensors of the source, by what the constants are by."""
        names = dict(zip(self._variables, (name for name, _ in self.parameters), strict=True))
        found: dict[Expr, list[Computed]] = {}
        for var, constant in constants.items():
            key = self._keys.get(constant)
            if key is None or key[0] in self._source_names:
                continue
            for axes in {None} | self._permuted.get(key, set()):
                name = names.get(key if axes is None else (key, axes))
                if name is not None:
                    found.setdefault(var, []).append((name, axes))
        return found

    def parameter(self, constant: Expr) -> Expr:
        """The variable of a constant; raises InputError where its values cannot be narrowed."""
        return self._declare(self._key(constant), self.name(constant), elements(constant))

    def permuted(self, call: Expr) -> Expr | None:
        """The variable of an already permuted tensor, where `call` permutes one that is only read
        this way.
        """
        axes = _permutation(call)
        if axes is None or not isinstance(call.args[0], tvm.ir.GenericConst):
            return None
        constant = call.args[0]
        key = self._key(constant)
        if self._permuted.get(key) != {axes}:
            return None
        suffix = ".T" if axes == (1, 0) else ".permuted" + "".join(map(str, axes))
        array = elements(constant).transpose(axes)
        return self._declare((key, axes), self.name(constant) + suffix, array)

    def scalar(self, constant: Expr) -> Array:
        """The narrowed value of a constant without dimensions."""
        return self._narrow(constant.value.numpy(), "a number in the model")

    def _declare(self, key: object, name: str, array: Array) -> Expr:
        if key not in self._variables:
            data = _of_type(array) if self.is_unread(array) else as_tvm_holds(self._narrow(array, name))
            name = unique(name, self._taken.__contains__, ".")
            self._taken.add(name)
            self.parameters.append((name, data))
            # Kernels are called, and their arguments, after TVM's variables.
            plain = re.sub(r"^(?=\d)|[^\w.]", "_", name)
            self._variables[key] = relax.Var(plain, relax.TensorType(data.shape, str(data.dtype)))
        return self._variables[key]

    def is_unread(self, array: Array) -> bool:
        """Whether nothing may look at its elements."""
        return array.ctypes.data in self._unread

    def _digest(self, array: Array) -> str:
        if self.is_unread(array):
            return f"{array.ctypes.data} {array.shape}"
        known = self._held.get(_place(array))
        return known[0] if known else digest(array)

    def _narrow(self, array: Array, name: str) -> Array:
        narrow, note = narrow_array(array, name)
        if note and note not in self.notes:
            self.notes.append(note)
        return narrow

    def _key(self, constant: Expr) -> tuple[str, int]:
        """Tells tensors apart: by content, and equal ones by the source tensor they stand for."""
        if constant not in self._keys:
            content = self._digest(elements(constant))
            last = len(self._source_names.get(content, [""])) - 1
            self._keys[constant] = (content, min(self._seen[content], last))
            self._seen[content] += 1
        return self._keys[constant]


def _of_type(array: Array) -> Array:
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)


def as_tvm_holds(array: Array) -> Array:
    """In memory that TVM takes as it is (`Reference.shared`): the weights are in a process once."""
    if array.ctypes.data % 64 == 0 and array.flags.c_contiguous:
        return array
    if array.dtype == np.bool_ or not array.size:
        return np.from_dlpack(tvm.runtime.tensor(array))
    held = np.from_dlpack(tvm.runtime.empty(array.shape, str(array.dtype)))
    np.copyto(held, array)  # and so what is transposed is copied once
    return held


def _permutation(value: Expr) -> tuple[int, ...] | None:
    """The axes of a permute_dims call, None for any other."""
    if operator_name(value) != "relax.permute_dims":
        return None
    axes = attributes(value)["axes"]
    rank = len(value.args[0].ty.shape.values)
    return tuple(reversed(range(rank))) if axes is None else tuple(int(axis) % rank for axis in axes)
