"""Mutation operators on WGSL as TVM writes it: each a mistake that people who write kernels make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.localization.mutations import arithmetic, control, places, precision, tiles
from benchmarks.localization.mutations.edit import Edit
from benchmarks.localization.wgsl_text import Code, Span
from tapml.files import sha256


@dataclass(frozen=True)
class Mutant:
    """One mistake in one file. `line`, counted from 1, is where it begins."""

    operator: str
    line: int
    description: str
    edit: Span
    replacement: str
    original: str = field(repr=False)

    @property
    def text(self) -> str:
        """The whole file, mutated."""
        return self.original[: self.edit.start] + self.replacement + self.original[self.edit.end :]


def mutants(wgsl: str) -> list[Mutant]:
    """All mutants of a file, in the order of OPERATORS and then of the text. None of them can loop for ever."""
    code = Code(wgsl)
    found: dict[str, Mutant] = {}
    for operator, edits in OPERATORS.items():
        for span, replacement, description in edits(code):
            if code[span] != replacement:
                mutant = Mutant(operator, code.line_of(span.start), description, span, replacement, wgsl)
                found.setdefault(sha256(mutant.text), mutant)
    return list(found.values())


OPERATORS: dict[str, Callable[[Code], Iterator[Edit]]] = {
    "index off by one": places.index_off_by_one,
    "swapped operands": arithmetic.swapped_operands,
    "dropped barrier": places.dropped_barrier,
    "wrong epsilon": arithmetic.wrong_epsilon,  # before "wrong constant", which finds the same places
    "other epsilon": arithmetic.other_epsilon,
    "wrong constant": arithmetic.wrong_constant,
    "rounded constant": arithmetic.rounded_constant,
    "sign": arithmetic.sign,
    "dropped guard": control.dropped_guard,
    "inverted guard": control.inverted_guard,
    "mask off by one": control.mask_off_by_one,
    "dtype conversion": precision.dtype_conversion,
    "narrow arithmetic": precision.narrow_arithmetic,
    "saturated value": arithmetic.saturated_value,
    "wrong accumulation start": control.accumulation_start,
    "swapped axes": places.swapped_axes,
    "swapped pairs": places.swapped_pairs,
    "mirrored index": places.mirrored_index,
    "stale rows": places.stale_rows,
    "tile column": tiles.tile_column,
    "missing last tile": tiles.missing_last_tile,
    "removed max-subtraction": arithmetic.removed_max_subtraction,
    "wrong reduction bound": control.reduction_bound,
}
