"""How large what is computed at import may become: a few numbers of a file can ask for any amount of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tapml.errors import InputError

MOST_BYTES = 1 << 28
"""What a buffer of WebGPU holds where no more is asked for."""


def require_small(what: str, shape: Sequence[int], dtype: str) -> None:
    """Raises InputError for a constant of more than `MOST_BYTES`. `what` makes it."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size > MOST_BYTES:
        raise InputError(
            f"{what} makes a constant of {' x '.join(map(str, shape))} elements, {size / 1e6:.0f} MB, and "
            f"{MOST_BYTES / 1e6:.0f} MB are the most that is computed at import: give it smaller sizes",
            reason="a constant is too large",
        )
