"""The token that a decoder chooses greedily, as an operator of its program, so that the device can choose it."""

from __future__ import annotations

import torch


@torch.library.custom_op("tapml::most_likely", mutates_args=())  # type: ignore[untyped-decorator]  # torch has no types
def most_likely(logits: torch.Tensor) -> torch.Tensor:
    """Of logits [n, vocabulary] the tokens int32 [n] of the largest, of equal ones that of the lowest id, as argmax has
    it. Where that logit is no number to choose by (infinite, or NaN, which counts as the largest), -1 - token: what is
    wrong is told without the logits."""
    token = logits.argmax(-1)
    finite = logits.gather(-1, token[:, None])[:, 0].isfinite()
    return torch.where(finite, token, -1 - token).int()


@most_likely.register_fake  # type: ignore[untyped-decorator]  # as above
def _(logits: torch.Tensor) -> torch.Tensor:
    return logits.new_empty((logits.shape[0],), dtype=torch.int32)
