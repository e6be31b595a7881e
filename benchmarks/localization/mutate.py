"""Mutation operators on WGSL as TVM and tapml's own compiler write it: each a mistake that writers of kernels make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from benchmarks.localization.mutations import (
    arithmetic,
    chance,
    control,
    narrow,
    others,
    places,
    positions,
    precision,
    staging,
    tiles,
    trees,
)
from benchmarks.localization.mutations.edit import Edit
from benchmarks.localization.native_text import read
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


Operators = Mapping[str, Callable[[Code], Iterator[Edit]]]


def mutants(wgsl: str, operators: Operators | None = None) -> list[Mutant]:
    """All mutants of a file, in the order of the `operators` (OPERATORS) and then of the text. None of them can loop
    for ever."""
    code = read(wgsl)
    found: dict[str, Mutant] = {}
    for operator, edits in (OPERATORS if operators is None else operators).items():
        for span, replacement, description in edits(code):
            if code[span] != replacement:
                mutant = Mutant(operator, code.line_of(span.start), description, span, replacement, wgsl)
                found.setdefault(sha256(mutant.text), mutant)
    return list(found.values())


OPERATORS: Operators = {
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

POSITIONS: Operators = {
    "window": positions.window,
    "position modulo": positions.position_modulo,
    "position limited": positions.position_limited,
    "stale row": positions.stale_row,
    "wrong head": positions.wrong_head,
    "row not written": positions.row_not_written,
}
"""Of a decoder's kernels: what shows at some positions only (positions.py)."""


FURTHER: Operators = {
    "cut off": narrow.cut_off,
    "narrow sums": narrow.narrow_sums,
    "narrow products": narrow.narrow_products,
    "narrow tiles": narrow.narrow_staging,
    "lost step": trees.lost_step,
    "step twice": trees.step_twice,
    "step of other lanes": trees.step_elsewhere,
    "wrong lane": trees.wrong_lane,
    "idle lane": trees.idle_lane,
    "tile stored elsewhere": staging.staged_elsewhere,
    "tile not stored": staging.staging_lost,
    "stale tile": staging.stale_tile,
    "neighbour tile": staging.neighbour_tile,
    "reversed tiles": staging.reversed_loop,
    "tile read elsewhere": staging.tile_read_elsewhere,
    "swapped lanes": staging.swapped_lanes,
    "idle workgroup": staging.idle_group,
    "idle invocations": staging.idle_threads,
    "factor of an index": chance.index_factor,
    "shift of an index": chance.index_shift,
    "offset of an index": chance.index_offset,
    "other buffer": chance.other_buffer,
    "other operation": chance.other_operation,
    "other axis": chance.other_axis,
    "doubled or negative constant": chance.sign_of_constant,
    "not a number": chance.not_a_number,
    "statement lost": chance.lost_statement,
    "statement twice": chance.statement_twice,
    "other summand": chance.other_summand,
    "first element": others.first_element,
    "no limit": others.no_limit,
    "other register": others.other_register,
    "lost summand": others.lost_summand,
    "tighter guard": others.tighter_guard,
    "approximation": others.approximation,
    "stored elsewhere": others.rows_exchanged,
    "few bits": others.few_bits,
    "other shift": others.other_shift,
    "start of a maximum": others.start_of_maximum,
    "scaled result": others.scaled_twice,
}
"""Of explanations only: written down before anything was seen of what is said of them (docs/localization.md)."""
