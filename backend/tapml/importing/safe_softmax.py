"""PyTorch's softmax of attention, which gives zeros where nothing may be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import te, tirx

from tapml.importing.torch_arithmetic import Converter


def converters() -> dict[str, Converter]:
    return {"_safe_softmax.default": _safe_softmax}


def safe_softmax(scores: te.Tensor, axis: int) -> te.Tensor:
    """exp(scores) / sum(exp(scores)) along `axis`, in float32, rounded to their dtype; zeros where all scores are minus
    infinity, or the lowest number of their dtype, which stands for that here (masks.py)."""
    limits = np.finfo(str(scores.dtype)).min, 0, np.finfo(np.float32).tiny
    lowest, nothing, least = (tirx.const(float(limit), "float32") for limit in limits)
    extent = scores.shape[axis]
    others = [size for place, size in enumerate(scores.shape) if place != axis]

    def score(*at: Any) -> Any:
        return scores(*at).astype("float32")

    def reduced(combine: Any, of: Callable[..., Any], name: str) -> te.Tensor:
        along = te.reduce_axis((0, extent), "k")
        return te.compute(others, lambda *at: combine(of(*at[:axis], along, *at[axis:]), axis=along), name=name)

    def rest(at: Any) -> Any:
        return (*at[:axis], *at[axis + 1 :])

    highest = reduced(te.max, score, "highest")

    def weight(*at: Any) -> Any:
        most = highest(*rest(at))
        return tirx.exp(score(*at) - tirx.Select(most <= lowest, nothing, most))

    weights = te.compute(scores.shape, weight, name="weights")
    total = reduced(te.sum, weights, "total")

    # The sum of what holds a greatest score is about 1 at least.
    def share(*at: Any) -> Any:
        return (weights(*at) / tirx.Max(total(*rest(at)), least)).astype(scores.dtype)

    return te.compute(scores.shape, share, name="shares")


def _safe_softmax(node: Any, importer: Any) -> Any:
    data, axis = importer.env[node.args[0]], node.args[1] % len(node.meta["val"].shape)
    return importer.block_builder.emit_te(safe_softmax, data, axis, primfunc_name_hint="safe_softmax")
