"""How large the pieces of attention are that a workgroup takes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tapml.compilers.native.kernel import WORKGROUP_MEMORY

LANES = 128

ROWS = (32, 16, 8, 4, 2, 1)
"""Of a workgroup: the most for which there is memory."""
_FEW_ROWS, _MOST_OF_FEW, _MOST_READ = 2, 768, 36e6
"""Rows of a workgroup where there are no more workgroups than that, which read no more bytes of keys and values: of 12
heads of 64 rows and keys of 32 it takes an H200 half as long as with 16 rows."""
_FILLED = {1: 256, 2: 256, 4: 128, 8: 128}
"""Workgroups of so many rows that fill a large device: where they would be fewer, keys are shared out."""
_LEAST_SHARE = 256
"""Keys of a share, of all rows; and no more than half of that of one row."""
_LEAST_SPLITS, _MOST_SPLITS = 4, 64
"""With fewer it takes longer to put them together than to go over all keys; with more, to put them together. These are
the fastest of an H200 for 16 shapes from 12 heads of 128 keys to 2 of 8,192 with 8 queries each, but for 12 % at most,
and for 64 shares of one head."""
LOWEST = "-3.4028234e+38f"


@dataclass(frozen=True)
class Shape:
    """`rows` of a workgroup, `keys` of a tile; `splits` workgroups share the keys of a row. `fours`: lanes beside each
    other that have four columns of values each, or `wide`."""

    rows: int
    keys: int
    splits: int
    inner: int
    fours: int
    wide: int = 4

    @property
    def groups(self) -> int:
        return LANES // self.fours

    @property
    def row_groups(self) -> int:
        """Lanes' groups that have different rows; the others have different keys."""
        return min(self.groups, self.rows) if self.rows > 8 else 1

    @property
    def parts(self) -> int:
        return self.groups // self.row_groups

    @property
    def own_rows(self) -> int:
        """Of a lane."""
        return -(-self.rows // self.row_groups)

    @property
    def scores(self) -> int:
        """Of a lane, in a tile."""
        return max(1, self.rows * self.keys // LANES)

    @property
    def depth(self) -> int:
        """How far along queries and keys a step goes: a part of the keys is that wide."""
        return 32 if self.keys <= 32 else 16

    @property
    def memory(self) -> int:
        vectors = self.rows * -(-self.inner // 4) + self.keys * (self.depth // 4 + 1)
        numbers = self.rows * self.keys + LANES + 2 * self.rows
        together = 20 * LANES if self.parts > 1 else 0
        return 16 * vectors + 4 * numbers + together


def few_rows(rows: int, batch: int, keys: int, length: int) -> bool:
    """Whether workgroups of very few rows each do not read too much: where all rows would be many, or there is little
    to read. `length`: numbers of a key and its value."""
    workgroups = batch * -(-rows // _FEW_ROWS)
    little = workgroups <= _MOST_OF_FEW and 4 * workgroups * keys * length <= _MOST_READ
    return little and (rows > max(_FILLED) or keys <= LANES)


def splits_of(workgroups: int, filled: int, most: int) -> int:
    """How many share out the keys of each of so many, `most` at most, that `filled` are there: a power of two."""
    splits = 1
    while workgroups * splits < filled and 2 * splits <= most:
        splits *= 2
    return splits


def shape_of(rows: int, batch: int, keys: int, inner: int, width: int, little: bool) -> Shape | None:
    """The one for so many of each; None where a row of values is longer than a workgroup takes. `little`: whether
    `few_rows` are for them."""
    fours = 1 << (-(-width // 4) - 1).bit_length()
    if fours > LANES:
        return None
    for most in (_FEW_ROWS, *ROWS) if little else ROWS:
        at_once = min(most, 1 << (rows - 1).bit_length())
        tile = 32 if at_once > 8 else 64 if at_once > 4 else LANES
        found = Shape(at_once, tile, 1, inner, fours)
        if found.memory <= WORKGROUP_MEMORY:
            break
    else:
        return None
    if found.rows not in _FILLED:
        return found
    most = min(_MOST_SPLITS, keys // min(_LEAST_SHARE // 2, _LEAST_SHARE // found.rows))
    splits = splits_of(batch * -(-rows // found.rows), _FILLED[found.rows], most)
    return dataclasses.replace(found, splits=splits if splits >= _LEAST_SPLITS else 1)
