"""What is known of one wrong output: what pattern detectors look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from tapml.compare.elements import errors, excesses, largest, outside
from tapml.locating.held_out import halves
from tapml.operators.program import OperatorProgram
from tapml.results.base import Element
from tapml.results.locate import FoundPattern


@dataclass(frozen=True)
class Finding:
    """One thing that is true of the mismatch. `strength` (0..1): how much of it this explains, and how specifically."""

    pattern: str
    text: str
    strength: float
    details: Mapping[str, Any] = field(default_factory=dict)
    formula: object = field(default=None, repr=False, compare=False)
    """What the output is by this, a Node (formula/nodes.py), where a formula says it."""

    def to_json(self) -> FoundPattern:
        said = {name: value for name, value in vars(self).items() if name != "formula"}
        return cast(FoundPattern, {**jsonable(said), "strength": round(float(self.strength), 4)})


@dataclass(frozen=True)
class Evidence:
    """One output of one failing test, as the device gave it (several times) and as the reference did.

    `bound`: float64, what each element may differ by. `runs`: the outputs of all runs, `got` is the first of them;
    `fills`: the byte that the output's buffer held before each run.
    `accepted`: elements that differ and are right all the same (ties). `names`: of the inputs. `program`:
    the operator's, where it has one; `output`: which of its outputs this is; `beside`: that output of other failing
    tests, on which an explanation has to hold as well; `trials`: and of calls that nobody carved (trials.py).
    """

    got: np.ndarray
    expected: np.ndarray
    bound: np.ndarray
    inputs: Sequence[np.ndarray] = ()
    runs: Sequence[np.ndarray] = ()
    fills: Sequence[int] = ()
    accepted: np.ndarray | None = None
    names: Sequence[str] = ()
    program: OperatorProgram | None = None
    output: int = 0
    beside: Sequence[Evidence] = ()
    trials: Sequence[Evidence] = ()

    @cached_property
    def g(self) -> np.ndarray:
        """`got` in float64."""
        return self.got.astype(np.float64)

    @cached_property
    def e(self) -> np.ndarray:
        """`expected` in float64."""
        return self.expected.astype(np.float64)

    @cached_property
    def error(self) -> np.ndarray:
        found = errors(self.got, self.expected)
        return found if self.accepted is None else np.where(self.accepted, 0.0, found)

    @cached_property
    def wrong(self) -> np.ndarray:
        """Mask of the elements outside their bound."""
        return outside(self.error, self.bound)

    @cached_property
    def excess(self) -> np.ndarray:
        return excesses(self.error, self.bound)

    @cached_property
    def count(self) -> int:
        """How many elements are wrong."""
        return int(self.wrong.sum())

    @property
    def nan(self) -> int:
        """Elements that are NaN and should not be."""
        return int((np.isnan(self.g) & ~np.isnan(self.e)).sum())

    @property
    def inf(self) -> int:
        """Elements that are infinite and should not be."""
        return int((np.isinf(self.g) & ~np.isinf(self.e)).sum())

    @property
    def max_abs_error(self) -> float:
        """Of the elements that are finite on both sides."""
        return largest(self.error[np.isfinite(self.g) & np.isfinite(self.e)])

    @property
    def first(self) -> Element | None:
        """The first wrong element."""
        return self._element(self.wrong) if self.count else None

    @property
    def worst(self) -> Element | None:
        """The wrong element that is furthest outside its bound."""
        return self._element(np.where(self.wrong, self.excess, -1.0)) if self.count else None

    def _element(self, key: np.ndarray) -> Element:
        """The one with the largest key."""
        place = np.unravel_index(int(np.argmax(key)), self.shape)
        return {
            "index": [int(i) for i in place],
            "expected": jsonable(self.e[place]),
            "got": jsonable(self.g[place]),
            "bound": jsonable(self.bound[place]),
        }

    @property
    def shape(self) -> tuple[int, ...]:
        return self.got.shape

    def name(self, number: int) -> str:
        """Of an input, for people."""
        return self.names[number] if number < len(self.names) else f"input {number}"

    def of(self, n: int) -> str:
        """So many of the wrong elements: "all 12", "7 of 12"."""
        return f"{'all' if n == self.count else f'{n} of'} {self.count}"

    @cached_property
    def finite(self) -> np.ndarray:
        """Wrong elements that are finite on both sides: those that arithmetic can explain."""
        return np.asarray(self.wrong & np.isfinite(self.g) & np.isfinite(self.e))

    @cached_property
    def fitted(self) -> np.ndarray:
        """Half of `finite`, from which the numbers of a hypothesis may be taken; the others test it."""
        places = np.flatnonzero(self.finite.reshape(-1))
        mask = np.zeros(self.finite.size, np.bool_)
        mask[places[halves(len(places))[0]]] = True
        return mask.reshape(self.shape)

    @cached_property
    def held(self) -> np.ndarray:
        """The wrong elements that no number was taken from."""
        return np.asarray(self.wrong & ~self.fitted)

    @cached_property
    def sample(self) -> np.ndarray:
        """Flat places of up to 1024 wrong elements, spread over all of them."""
        places = np.flatnonzero(self.finite.reshape(-1))
        return np.asarray(places[:: max(1, len(places) // 1024)][:1024])

    @cached_property
    def allowed(self) -> np.ndarray:
        """What each element of a hypothesis may differ by, `bound` at least. Of what the operator cuts off, negative
        numbers say, nothing is uncertain; of what it is where it is not cut off, as much as of the others."""
        known = self.bound[np.isfinite(self.bound) & (self.bound > 0)]
        return np.maximum(self.bound, float(np.median(known))) if known.size else self.bound

    def explains(self, predicted: np.ndarray, where: np.ndarray | None = None) -> np.ndarray:
        """Mask of the wrong elements (of `where`) that a hypothesis gives, but for rounding.

        What is left of the error must be inside the bound of such a value and a tenth of the error: a hypothesis that
        is merely a little nearer explains nothing.
        """
        mask = self.finite if where is None else where & self.finite
        return np.asarray(mask & explained(self.g, predicted, self.e, self.allowed))


def explained(got: np.ndarray, predicted: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Mask of the elements that are what a hypothesis gives, but for rounding."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        left = np.abs(got - predicted)
        near = (left <= allowance(got, predicted, expected, bound)) & (left <= 0.1 * np.abs(got - expected))
        odd = ~np.isfinite(got) & np.isfinite(expected)
        same = (np.isnan(got) & np.isnan(predicted)) | (got == predicted)
    return np.asarray(np.where(odd, same, near))


def allowance(got: np.ndarray, predicted: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """What a hypothesis may be off by.

    The bound belongs to the expected value: for a larger one it grows with it, and for a smaller one it counts no more
    than a thousandth of that (a mask of -3.4e38 may be off by 1e31, which is no measure for a score of 3).
    """
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        size = np.maximum(np.abs(got), np.abs(predicted))
        grown = np.where(np.isfinite(bound), bound, 0.0) * np.maximum(1.0, size / np.abs(expected))
        found = np.minimum(np.nan_to_num(grown, nan=0.0, posinf=np.inf), 1e-3 * size)
        return np.asarray(np.maximum(found, 2.0**-21 * size))


def jsonable(value: Any) -> Any:
    """Numbers of numpy as JSON's; what is not finite by name; arrays and sequences as lists; mappings as dicts."""
    if isinstance(value, Mapping):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return [jsonable(item) for item in value.tolist()]
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def apart(value: float, other: float) -> str:
    """A number for people that is another than `other`, in as many digits as show it."""
    said = short(value)
    for digits in range(7, 18):
        if value == other or said != short(other):
            break
        said = f"{value:.{digits}g}"
    return said


def short(value: float) -> str:
    """A number for people: six digits at most."""
    value = float(value)
    if not np.isfinite(value):
        return str(jsonable(value))
    return str(int(value)) if value == int(value) and abs(value) < 1e7 else f"{value:.6g}"
