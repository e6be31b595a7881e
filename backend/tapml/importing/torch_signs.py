"""Functions of one and two numbers in terms of what the importer converts (`torch_decompositions.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def _negative(x: Any) -> Any:
    """Whether its sign is set, as that of -0 is, which no comparison tells: an angle does."""
    import torch

    return torch.atan2(x, torch.full((), -1.0, dtype=x.dtype)) < 0 if x.dtype.is_floating_point else x < 0


def _signed(a: Any, b: Any) -> Any:
    import torch

    dtype = torch.result_type(a, b)
    size = a.to(dtype if dtype.is_floating_point else torch.get_default_dtype()).abs()
    if isinstance(b, torch.Tensor):
        return torch.where(_negative(b), -size, size)
    return -size if math.copysign(1, b) < 0 else size


def _without_nan(choose: str) -> Callable[..., Any]:
    """The greater or the lesser one; where one is NaN the other."""

    def chosen(a: Any, b: Any) -> Any:
        import torch

        function, dtype = getattr(torch, choose), torch.result_type(a, b)
        a, b = a.to(dtype), b.to(dtype)
        if not dtype.is_floating_point:
            return function(a, b)
        return torch.where(torch.isnan(a), b, torch.where(torch.isnan(b), a, function(a, b)))

    return chosen


def _power_of_two(x: Any) -> Any:
    import torch

    return torch.pow(2.0, x)


SIGNS: dict[str, Callable[..., Any]] = {
    "aten.copysign": _signed,
    "aten.exp2": _power_of_two,
    "aten.fmax": _without_nan("maximum"),
    "aten.fmin": _without_nan("minimum"),
    "aten.signbit": _negative,
}
"""By the operator's name."""
