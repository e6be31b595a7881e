"""Running an operator's program in float64, with what a device's results may be off by."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from tapml.bounds.blocks import accumulation, apart, is_product_sum, last_uses, loads_floats_only, parts
from tapml.bounds.buffers import Buffers
from tapml.bounds.contraction import Product, contract
from tapml.bounds.converted import Converted
from tapml.bounds.expression import Grid, Operation, wrapped
from tapml.bounds.rounding import Rounding
from tapml.bounds.stacked import CALL, differ
from tapml.bounds.ties import Ranking
from tapml.bounds.uncertain import (
    FLOATS,
    NotDerivable,
    Uncertain,
    distance,
    largest,
    product_error,
    smallest_normal,
    unit,
)
from tapml.bounds.windows import USUALLY_HALVED, Windows, evenly, halved_off, windows_of
from tapml.operators.program import Block, Expression, Let, OperatorProgram, Store

CONFIDENCE = 3.0
"""A sum of K terms is off by at most min(K - 1, CONFIDENCE sqrt(K)) units of its largest partial sum.

The first is the worst case (Higham, section 4.2, gamma_K), the second holds for roundings that do not conspire: with a
probability of failure of 3e-8 a sum where results are rounded to nearest, which is half a unit (Higham and Mary, "A New
Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41, 2019, Theorem 2.4: 2 exp(-lambda^2 / 2)
with lambda = 2 CONFIDENCE). In any order no partial sum is larger than all terms of one sign together.
"""

MOST_STEPS = 1 << 14
"""Of a sequential block: each is evaluated by itself."""

MOST_TURNS = 1 << 26
"""Of a sequential block, for all of its spatial axes."""


def accumulation_factor(terms: int) -> float:
    """Units in the last place that a sum of so many terms may be off by, of its largest partial sum."""
    return min(max(terms - 1.0, 0.0), CONFIDENCE * math.sqrt(terms))


class Run:
    """A program in float64 (int64, bool) with errors, for some inputs."""

    def __init__(
        self,
        program: OperatorProgram,
        inputs: Sequence[np.ndarray],
        functions: Mapping[str, Operation],
        choice: int = 0,
        rounding: Rounding | None = None,
        converted: Converted | None = None,
    ) -> None:
        """`functions` as of a Grid. `choice`: of equals an argmax takes this one, where there are so many.
        `rounding`: every result is rounded by it, and nothing is off by anything then. `converted`: of former runs that
        may have had the same inputs. A program of stacked calls (stacked.py) gives for each what it would alone.

        Raises NotDerivable where the program has something else than maps and reductions, and for stacked calls that
        are not alike.
        """
        self._declared = {buffer.name: buffer for buffer in (*program.parameters, *program.temporaries)}
        self._functions = functions
        self._choice = choice
        self._rounding = rounding
        self.most_equals = 1
        """The most candidates among which an argmax could choose."""
        self.rankings: list[Ranking] = []
        """What was ranked (importing/portable.py, `_ranked`)."""
        self._converted = converted or Converted()
        self._buffers = Buffers(self._converted)
        for buffer, array in zip(program.parameters, inputs, strict=False):
            self._buffers.give(buffer, array)
        results = {buffer.name for buffer in program.parameters[len(inputs) :]}
        uses = last_uses(program.blocks)
        for place, block in enumerate(program.blocks):
            self._run(block)
            for name in self._buffers.keys() - results:
                if uses[name] == place:
                    del self._buffers[name]
        names = [buffer.name for buffer in program.parameters[len(inputs) :]]
        missing = [name for name in names if name not in self._buffers]
        if missing:
            raise NotDerivable(f"{missing[0]} is not written by a block")
        self.outputs = [self._buffers[name] for name in names]
        """In the outputs' shapes."""

    def _run(self, block: Block) -> None:
        # A loop of one turn may be written as its number.
        if any(axis.value.kind != "variable" and axis.extent != 1 for axis in block.axes):
            raise NotDerivable("blocks that are not simple loops")
        extents = {axis.variable: axis.extent for axis in block.axes}
        reductions = _reductions(block)
        stores = [statement for statement in block.body if isinstance(statement, Store)]
        lets = [statement for statement in block.body if isinstance(statement, Let)]
        for store in stores:
            self._allocate(store.buffer)
        if block.sequential:
            self._in_order(block, extents, reductions)
            return
        spatial = {var: extent for var, extent in extents.items() if var not in reductions}
        product = stores[0] if reductions and len(stores) == 1 and is_product_sum(stores[0]) else None
        bound = {let.variable: let.value for let in lets}
        # As one call's would be cut: a sum's last bit may depend on it.
        own, own_spatial = (_without_call(one) if reductions else one for one in (extents, spatial))
        for part in parts(own, own_spatial, stores, product):
            ranges = {var: part.get(var, range(extent)) for var, extent in extents.items()}
            grid = self._grid(ranges)
            if not reductions:
                for let in lets:
                    grid.bind(let.variable, let.value)
                # All are evaluated before any is stored: they happen at once.
                for store, found in [(store, grid.evaluate(store.value)) for store in stores]:
                    self._store(grid, block, store, found)
            elif (sums := apart(stores, bound)) is None and (lets or len(stores) == 2):
                self._argument_of_extremum(grid, block, stores, bound)
            else:
                for store in sums or stores:
                    self._store(grid, block, store, self._reduce(grid, block, store))
        if block.name == "rank" and reductions:
            self._note_ranking(reductions, stores[0])
        if CALL in extents:
            _check_alike([self._buffers[store.buffer] for store in stores])

    def _in_order(self, block: Block, extents: Mapping[str, int], reductions: Set[str]) -> None:
        """The turns of a sequential block, each of which sees what the former ones stored."""
        steps = {var: extent for var, extent in extents.items() if var in reductions}
        if math.prod(steps.values()) > MOST_STEPS or math.prod(extents.values()) > MOST_TURNS:
            raise NotDerivable(f"more than {MOST_STEPS} steps, one after the other, or {MOST_TURNS} turns of all")
        for turn in itertools.product(*map(range, steps.values())):
            at = dict(zip(steps, turn, strict=True))
            ranges = {v: range(at[v], at[v] + 1) if v in at else range(extent) for v, extent in extents.items()}
            grid = self._grid(ranges)
            for statement in block.body:
                if isinstance(statement, Let):
                    grid.bind(statement.variable, statement.value)
                else:
                    self._store(grid, block, statement, grid.evaluate(statement.value))

    def _grid(self, ranges: Mapping[str, range]) -> Grid:
        return Grid(ranges, self._buffers, self._functions, self._rounding.settle if self._rounding else None)

    def _note_ranking(self, reductions: Set[str], store: Store) -> None:
        condition = accumulation(store)[1].operands[0]
        while condition.kind in ("or", "and"):
            condition = condition.operands[0]
        for load in condition.operands:
            along = [axis for axis, index in enumerate(load.operands) if index.value in reductions]
            if len(along) == 1:
                ranks = self._buffers[store.buffer].value
                self.rankings.append(Ranking(self._buffers[str(load.value)], along[0], ranks))

    def _allocate(self, name: str) -> None:
        if name not in self._buffers:
            dtype = self._declared[name].dtype
            kind = np.float64 if dtype in FLOATS else np.bool_ if dtype == "bool" else np.int64
            self._buffers[name] = Uncertain(np.zeros(self._declared[name].shape, kind))

    def _store(self, grid: Grid, block: Block, store: Store, found: Uncertain) -> None:
        held = self._buffers[store.buffer]
        reductions = _reductions(block)
        shape = [1 if var in reductions else len(values) for var, values in grid.ranges.items()]
        at, laid_out = grid.places(store.indices, held.value.shape, shape)
        if at is None:
            raise NotDerivable(f"writes outside {store.buffer}")
        error, ends = held.error, held.ends
        if found.ends is not None and ends is None:
            ends = (np.array(held.low, np.float64), np.array(held.high, np.float64))
        held.value[at] = laid_out(found.value)
        # Not `any`, which takes ten times as long; what is no number counts.
        if found.error is not None and error is None and not found.error.max(initial=0.0) <= 0:
            error = np.zeros(held.value.shape)
        parts = [(error, found.spread)] if error is not None else []
        parts += zip(ends, (found.low, found.high), strict=True) if ends is not None else []
        for array, part in parts:
            array[at] = laid_out(part)
        self._buffers[store.buffer] = Uncertain(held.value, error, ends)

    # ------------------------------------------------ reductions

    def _reduce(self, grid: Grid, block: Block, store: Store) -> Uncertain:
        kind, update = accumulation(store)
        reductions = _reductions(block)
        axes = tuple(axis for axis, var in enumerate(grid.ranges) if var in reductions)
        terms = math.prod(axis.extent for axis in block.axes if axis.reduction)
        start = _start(block, store)
        if kind == "add":
            return self._sum(grid, update, axes, terms, start, store.value.dtype)
        found = grid.evaluate(update)
        choose = np.maximum if kind == "max" else np.minimum
        value = choose(choose.reduce(found.value, axis=axes, keepdims=True), start)
        if found.exact:
            return Uncertain(value)
        low = choose(choose.reduce(found.low, axis=axes, keepdims=True), start)
        high = choose(choose.reduce(found.high, axis=axes, keepdims=True), start)
        return Uncertain(value, distance(value, low, high))

    def _sum(
        self, grid: Grid, update: Expression, axes: tuple[int, ...], terms: int, start: Any, dtype: str
    ) -> Uncertain:
        extents = [len(values) for values in grid.ranges.values()]
        if update.dtype == dtype and loads_floats_only(update):
            apart = _call_axis(grid)
            a, b = map(grid.evaluate, update.operands)
            if dtype not in FLOATS:
                value = contract(a.value, b.value, extents, axes)
                exact = a.exact and b.exact
                off = None if exact else self._products_off(a, b, extents, axes, apart)
                return Uncertain(wrapped(value.astype(np.int64), dtype) + start, off)
            product = Product(a.value, b.value, extents, axes, apart)
            value = product.sum()
            variables = [*grid.ranges]
            windows = windows_of(update, dict(zip(variables, extents, strict=True)), [variables[axis] for axis in axes])
            sizes = functools.partial(self._sizes, windows, axes, (a.value, b.value), apart)
            if self._rounding is not None:
                each = 1.0
                if windows is not None and windows.halved:
                    each += USUALLY_HALVED * (unit("float16") / unit(dtype)) ** 2
                squares = functools.partial(sizes, product, power=2)
                return Uncertain(self._rounding.sum(value, squares, terms, dtype, each=each) + start)
            size = sizes(product, power=1)
            off = np.zeros((1,) * grid.rank)
            if not (a.exact and b.exact):
                off = self._products_off(a, b, extents, axes, apart)
            # Each product is rounded, or flushed, on its own. Where all are 0 there is nothing to round.
            off = off + unit(dtype) * size + smallest_normal(dtype) * terms * (size + off > 0)
            if windows is not None and windows.halved:
                again = Product(a.value, b.value, extents, axes, apart)
                squared = sizes(again, power=2)
                off = off + halved_off((a.value, b.value), windows, axes, size, squared, CONFIDENCE, apart)
        else:
            found = grid.evaluate(update)
            value, off = (_total(each, extents, axes) for each in (found.value, found.spread))
            if dtype not in FLOATS:
                return Uncertain(wrapped(value, dtype) + start, None if found.exact else off)
            size = _total(np.abs(found.value), extents, axes)
            if found.exact and _sums_exactly(found.value, size, extents, axes, dtype):
                return Uncertain(value + start)
            if self._rounding is not None:
                squares = functools.partial(_total, found.value**2, extents, axes)
                return Uncertain(self._rounding.sum(value, squares, terms, dtype, each=0.0) + start)
            off = off + (smallest_normal(dtype) * (size > 0) if terms > 1 else 0.0)
        with np.errstate(invalid="ignore"):
            # In the worst order all terms of one sign come first.
            peak = (size + np.abs(value)) / 2 + off
            error = off + accumulation_factor(terms) * unit(dtype) * peak
            error = np.where(~(peak < largest(dtype)) | np.isnan(error), np.inf, error)
        return Uncertain(value + start, error)

    def _sizes(
        self,
        windows: Windows | None,
        axes: tuple[int, ...],
        factors: tuple[np.ndarray, np.ndarray],
        apart: int | None,
        product: Product,
        power: int,
    ) -> np.ndarray:
        """The sum of the sizes of a product's terms, or of their squares: of the terms as they are written, or as an
        algorithm for windows has them, whichever is more. The product is not to be used any more."""
        size = product.each(np.square if power == 2 else self._converted.absolute).sum()
        if windows is not None:
            size = np.maximum(size, evenly(factors, windows, axes, power, apart))
        return size

    def _products_off(
        self, a: Uncertain, b: Uncertain, extents: list[int], axes: tuple[int, ...], apart: int | None
    ) -> np.ndarray:
        finite = np.isfinite(a.spread).all() and np.isfinite(b.spread).all()
        if not finite and apart is not None:
            raise NotDerivable("calls of which some have no bound")
        if not finite:
            return _total(product_error(a, b), extents, axes)
        off = np.zeros((1,) * len(extents))
        if not b.exact:
            off = off + contract(np.abs(a.value) + a.spread, b.spread, extents, axes, apart)
        if not a.exact:
            off = off + contract(a.spread, np.abs(b.value), extents, axes, apart)
        return off

    # ------------------------------------------------ argmax

    def _argument_of_extremum(
        self, grid: Grid, block: Block, stores: Sequence[Store], lets: Mapping[str, Expression]
    ) -> None:
        """A reduction of pairs (place, value): of equals, or of what rounding may make equal, one is chosen."""
        by_kind = {s.value.dtype in FLOATS: (s, lets.get(str(s.value.value), s.value)) for s in stores}
        if len(stores) != 2 or len(by_kind) != 2 or any(v.kind != "select" for _, v in by_kind.values()):
            raise NotDerivable("a reduction of several values that is no argmax")
        (value_store, pick), (place_store, place_pick) = by_kind[True], by_kind[False]
        largest_wins = pick.operands[0].kind in ("gt", "ge")
        candidates, places = grid.evaluate(pick.operands[2]), grid.evaluate(place_pick.operands[2])
        reductions = _reductions(block)
        axes = tuple(axis for axis, var in enumerate(grid.ranges) if var in reductions)
        shape = np.broadcast_shapes(candidates.value.shape, places.value.shape)
        sign = 1.0 if largest_wins else -1.0
        value = np.broadcast_to(sign * candidates.value, shape)
        spread = np.broadcast_to(candidates.spread, shape)
        best = (value - spread).max(axis=axes, keepdims=True)
        equal = value + spread >= best
        count = equal.sum(axis=axes, keepdims=True)
        self.most_equals = max(self.most_equals, int(count.max()))
        top = value.max(axis=axes, keepdims=True)
        # The first of those that are the best by value comes first, then the others in order.
        order = np.where(equal, np.where(value == top, 0, 1), 2) * (1 << 40) + np.broadcast_to(places.value, shape)
        flat = np.moveaxis(order, axes, range(-len(axes), 0)).reshape(*_kept(order.shape, axes), -1)
        number = np.minimum(self._choice, count.reshape(flat.shape[:-1]) - 1)[..., None]
        picked = np.take_along_axis(np.sort(flat, axis=-1), number, axis=-1)[..., 0] & ((1 << 40) - 1)
        kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
        error = None if candidates.exact else (value + spread).max(axis=axes, keepdims=True) - top
        self._store(grid, block, place_store, Uncertain(picked.reshape(kept)))
        self._store(grid, block, value_store, Uncertain(sign * top, error))


def _without_call(extents: Mapping[str, int]) -> dict[str, int]:
    return {variable: extent for variable, extent in extents.items() if variable != CALL}


def _call_axis(grid: Grid) -> int | None:
    return [*grid.ranges].index(CALL) if CALL in grid.ranges else None


def _check_alike(stored: Sequence[Uncertain]) -> None:
    """Of stacked calls: what follows depends on whether what they have stored is exact."""
    if any(found.error is not None and differ(found.error) for found in stored):
        raise NotDerivable("calls of which some are exact")


def _reductions(block: Block) -> set[str]:
    return {axis.variable for axis in block.axes if axis.reduction}


def _start(block: Block, store: Store) -> Any:
    if not block.first:
        raise NotDerivable("a reduction without a start")
    for other in block.first:
        if isinstance(other, Store) and other.buffer == store.buffer and other.value.kind == "constant":
            return other.value.value
    raise NotDerivable("a reduction whose start is no number")


def _total(terms: np.ndarray, extents: Sequence[int], axes: tuple[int, ...]) -> np.ndarray:
    """Their sum over `axes`, also over those that they do not depend on."""
    shape = np.broadcast_shapes(terms.shape, [extent if axis in axes else 1 for axis, extent in enumerate(extents)])
    total: np.ndarray = np.broadcast_to(terms, shape).sum(axis=axes, keepdims=True)
    return total


def _sums_exactly(
    values: np.ndarray, size: np.ndarray, extents: Sequence[int], axes: tuple[int, ...], dtype: str
) -> bool:
    """One term that is not zero (a selection by a sum), or small whole numbers (counting): nothing is rounded."""
    if int(_total(values != 0, extents, axes).max(initial=0)) <= 1:
        return True
    return bool((size * unit(dtype) < 1).all()) and np.array_equal(values, np.rint(values))


def _kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> list[int]:
    return [extent for axis, extent in enumerate(shape) if axis not in axes]
