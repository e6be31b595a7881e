"""The sizes that differ among a model's inputs: symbols, their ranges, and what holds for expressions over them."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import tirx

from tapml.errors import InputError
from tapml.expressions import Symbol
from tapml.importing.inputs import InputSpec, RawStep
from tapml.importing.relax_ir import Expr

LONGEST = 65_536
"""The most that a size is taken for where the model does not say."""

Bounds = Mapping[str, tuple[int, int]]
"""Least and most of a size, by the name that the model's file has for it."""

_ARITHMETIC: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
# torch.onnx makes up a name of its own for each axis that was given none.
_MADE_UP = re.compile(r".*_dynamic_axes_\d+")
_OF_TORCH_EXPORT = re.compile(r"[su]\d+")
"""A symbol, where it is given a name by number."""


class Sizes:
    """Of the inputs of all steps: an axis of one size has that size, one whose sizes differ is a symbol.

    `shapes` has the axes of each input, as integers or as TVM's expressions over variables that are called as the
    symbols.
    """

    def __init__(
        self, specs: Sequence[InputSpec], steps: Sequence[RawStep], bounds: Bounds, merged: bool = False
    ) -> None:
        """`merged`: sizes that agree in every step are one symbol, whatever they are called.

        Raises InputError naming input and sizes where steps differ in rank, a size is outside its range, or one that
        is called by arithmetic (`past + length`) is another.
        """
        self._steps = steps
        self._given = bounds
        self._merged = merged
        self._ranges: dict[Expr, tuple[int, int]] = {}
        self._seen: dict[Expr, tuple[int, ...]] = {}
        self._keys: dict[object, Any] = {}
        self._named: dict[str, Any] = {}
        self.shapes = {spec.name: self._shape(spec) for spec in specs}
        # Once all names are known.
        for spec in specs:
            for axis, name in enumerate(spec.shape or ()):
                if isinstance(name, str) and not name.isidentifier():
                    self._put_arithmetic(spec.name, axis, name)
        used = {var for shape in self.shapes.values() for axis in shape for var in variables(axis)}
        self._ranges = {var: found for var, found in self._ranges.items() if var in used}

    @property
    def symbols(self) -> list[Symbol]:
        """In the order of the inputs' axes."""
        return [Symbol(name=var.name, minimum=low, maximum=high) for var, (low, high) in self._ranges.items()]

    @property
    def mergeable(self) -> bool:
        """Whether different symbols agree in every step."""
        return len({self._seen[var] for var in self._ranges}) < len(self._ranges)

    def simplified(self, expression: Any) -> Any:
        """An integer (or bool) where it is the same for all sizes."""
        if isinstance(expression, int):
            return expression
        found = _analyzer(self._ranges).simplify(expression)
        return int(found) if isinstance(found, tirx.IntImm) else found

    def holds(self, condition: Any) -> bool:
        """Whether a condition on sizes holds. Where it does for some of the range only, the range becomes narrower.

        Raises InputError where it holds for some steps and not for others.
        """
        condition = self.simplified(condition)
        if isinstance(condition, int):
            return bool(condition)
        truths = {bool(self._at(condition, number)) for number in range(len(self._steps))}
        if len(truths) > 1:
            raise InputError(
                f"the model does one thing where {condition} and another where not: carve the sizes of each apart"
            )
        (truth,) = truths
        self._require(condition if truth else tirx.Not(condition))
        return truth

    def most_given(self, expression: Any) -> int:
        """The most that it is in a step."""
        return max(self._at(expression, number) for number in range(len(self._steps)))

    # ------------------------------------------------ what the inputs have

    def _shape(self, spec: InputSpec) -> list[Any]:
        shapes = [step.arrays[spec.name].shape for step in self._steps]
        for step, shape in zip(self._steps, shapes, strict=True):
            if len(shape) != len(shapes[0]):
                raise InputError(
                    f"input {spec.name} is {list(shapes[0])} in {self._steps[0].description} but "
                    f"{list(shape)} in {step.description}: all steps need the same number of axes"
                )
        names = spec.shape or [None] * len(shapes[0])
        return [
            self._axis(spec.name, axis, name, sizes)
            for axis, (name, sizes) in enumerate(zip(names, zip(*shapes, strict=True), strict=True))
        ]

    def _axis(self, of: str, axis: int, name: int | str | None, sizes: tuple[int, ...]) -> Any:
        named = isinstance(name, str) and not _MADE_UP.fullmatch(name)
        # One without a name is the size that it always agrees with.
        key = name if named and not self._merged else sizes
        if key not in self._keys:
            self._keys[key] = self._symbol(of, axis, name, sizes) if len(set(sizes)) > 1 else sizes[0]
        if isinstance(name, str):
            self._named[name] = self._keys[key]
        return self._keys[key]

    def _symbol(self, of: str, axis: int, name: int | str | None, sizes: tuple[int, ...]) -> Expr:
        low, high = self._given.get(str(name), (1, max(LONGEST, *sizes)))
        for step, size in zip(self._steps, sizes, strict=True):
            if not low <= size <= high:
                raise InputError(
                    f"{step.description}: the size of {of} along axis {axis} is {size}, the model takes {low} to {high}"
                )
        numbered = name in self._given and _OF_TORCH_EXPORT.fullmatch(str(name))
        own = isinstance(name, str) and not numbered and not _MADE_UP.fullmatch(name)
        called = str(name) if own else f"{of}_{axis}"
        plain = re.sub(r"\W", "_", called, flags=re.ASCII)[:60].lstrip("0123456789") or "size"
        taken = {var.name for var in self._ranges}
        unlike = next(n for n in (plain, *(f"{plain}_{k}" for k in range(len(taken) + 1))) if n not in taken)
        variable = tirx.Var(unlike, "int64")
        self._ranges[variable], self._seen[variable] = (low, high), sizes
        return variable

    def _put_arithmetic(self, of: str, axis: int, name: str) -> None:
        try:
            value = _value(ast.parse(name[:200], mode="eval").body, self._named)
        except (SyntaxError, KeyError, RecursionError):
            return
        for number, step in enumerate(self._steps):
            found, wanted = step.arrays[of].shape[axis], self._at(value, number)
            if found != wanted:
                raise InputError(f"{step.description}: {name} is {wanted}, but {of} has {found} along axis {axis}")
        self.shapes[of][axis] = self.simplified(value)

    # ------------------------------------------------ what holds

    def _at(self, expression: Any, step: int) -> int:
        if isinstance(expression, int):
            return expression
        return int(
            _analyzer({var: (sizes[step], sizes[step]) for var, sizes in self._seen.items()}).simplify(expression)
        )

    def _require(self, condition: Expr) -> None:
        """Narrow the range of a symbol, by no more than it takes for the condition to hold."""
        for var in variables(condition):
            (low, high), least, most = self._ranges[var], min(self._seen[var]), max(self._seen[var])
            for good, bad, upper in ((most, high, True), (least, low, False)):

                def proven(bound: int, upper: bool = upper, low: int = low, high: int = high, var: Expr = var) -> bool:
                    narrow = (low, bound) if upper else (bound, high)
                    return bool(_analyzer({**self._ranges, var: narrow}).can_prove(condition))

                if proven(bad):
                    return
                if proven(good):
                    while abs(bad - good) > 1:
                        middle = (good + bad) // 2
                        good, bad = (middle, bad) if proven(middle) else (good, middle)
                    self._ranges[var] = (low, good) if upper else (good, high)
                    return
        raise InputError(f"the model needs {condition}, which is not so for all sizes: carve one size at a time")


def integer(value: Any) -> Any:
    """A size as TVM's expression of its own dtype for sizes."""
    return tirx.IntImm("int64", value) if isinstance(value, int) else value


def _analyzer(ranges: Mapping[Expr, tuple[int, int]]) -> Any:
    analyzer = tvm.sym.Analyzer()
    for variable, (low, high) in ranges.items():
        analyzer.bind(variable, tvm.ir.Range(low, high + 1))
    return analyzer


def variables(expression: Any) -> list[Expr]:
    """The symbols in an expression over sizes, each once."""
    return [] if isinstance(expression, int) else list(tirx.analysis.undefined_vars(expression))


def _value(tree: ast.expr, named: Mapping[str, Any]) -> Any:
    """Raises KeyError for what is no arithmetic of known names."""
    if isinstance(tree, ast.BinOp):
        return _ARITHMETIC[type(tree.op)](_value(tree.left, named), _value(tree.right, named))
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    return named[tree.id if isinstance(tree, ast.Name) else ""]
