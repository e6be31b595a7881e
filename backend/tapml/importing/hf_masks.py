"""What tokens see of the places of a cache, by transformers' own functions of masks.

transformers makes each mask of a function of places (`mask_function`: causal, windows, chunks and what models add).
Here it is asked at the tokens' positions and at all places of the cache.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from tapml.errors import InputError

UNSEEN = -1e30
"""Added to the score of a place that is not seen: what softmax makes of it is 0."""

MaskFunction = Callable[[int, int, torch.Tensor, torch.Tensor], Any]
"""Of the batch, the head, places of queries and places of keys, the latter two broadcast: what is seen."""

Mask = int | None
"""How many of the last places a token sees: 0 for all up to its own; None where that does not tell."""

_ROWS = 1024
"""Of positions that a mask is looked at."""


def seen_at(function: MaskFunction, positions: torch.Tensor, places: int) -> torch.Tensor:
    """Which of `places` tokens at `positions` [n] see: bool [n, places]."""
    found = torch.as_tensor(function(0, 0, positions.long()[:, None], torch.arange(places)[None, :]))
    return found.expand(positions.shape[0], places)


def added_at(function: MaskFunction, positions: torch.Tensor, places: int) -> torch.Tensor:
    """What is added to scores: float32 [n, places], 0 for what is seen and UNSEEN for what is not."""
    return torch.where(seen_at(function, positions, places), torch.zeros(()), torch.full((), UNSEEN))


def mask_kind(function: MaskFunction, capacity: int) -> Mask:
    """Raises InputError for a mask that lets tokens see later ones."""
    positions = torch.linspace(0, capacity - 1, min(capacity, _ROWS)).long().unique()
    found, places = seen_at(function, positions, capacity), torch.arange(capacity)[None, :]
    own = positions[:, None]
    if bool((found & (places > own)).any()):
        raise InputError("a mask lets tokens see later ones: tapml generates with causal decoders only")
    window = int(found[-1].sum())
    for kind in (0, window):
        if torch.equal(found, (places <= own) & (places > own - (kind or capacity))):
            return kind
    return None


class _RowsAt:
    """In place of a buffer [1, 1, places, places] of what tokens see, of which a model takes the rows of its last
    tokens: those of tokens at `positions`."""

    def __init__(self, seen: torch.Tensor, positions: torch.Tensor) -> None:
        self._seen, self._positions = seen, positions

    def __getitem__(self, taken: tuple[slice, ...]) -> torch.Tensor:
        batch, heads, _, places = taken
        return self._seen.index_select(2, self._positions)[batch, heads, :, places]


@contextlib.contextmanager
def masks_at(model: torch.nn.Module, positions: torch.Tensor) -> Iterator[None]:
    """While the block runs, the masks of eager attention are those of tokens at `positions` [n]: float32 [1, 1, n,
    places]; and so are the rows of masks that the model holds as buffers (GPT-Neo's of local attention)."""

    def mask(*, kv_length: int, mask_function: MaskFunction, dtype: torch.dtype = torch.float32, **_: Any) -> Any:
        return added_at(mask_function, positions, kv_length).to(dtype)[None, None]

    held = [
        (module, name, seen) for module in model.modules() for name, seen in module._buffers.items() if _tells(seen)
    ]
    for module, name, seen in held:
        vars(module)[name] = _RowsAt(seen, positions)  # found before the buffer of the name
    ALL_MASK_ATTENTION_FUNCTIONS["eager"] = mask
    try:
        yield
    finally:
        del ALL_MASK_ATTENTION_FUNCTIONS["eager"]
        for module, name, _ in held:
            del vars(module)[name]


def _tells(buffer: torch.Tensor | None) -> bool:
    """Whether it may tell what tokens see of places."""
    return (
        buffer is not None
        and buffer.dtype == torch.bool
        and buffer.dim() == 4
        and buffer.shape[:2] == (1, 1)
        and buffer.shape[2] == buffer.shape[3] > 1
    )
