"""Operators of PyTorch in terms of others that the importer converts, written in PyTorch.

PyTorch has such decompositions of its own for most operators, and leaves some whole that no other compiler knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from tapml.importing.torch_signs import SIGNS
from tapml.importing.torch_windows import WINDOWS

Decomposition = Callable[..., Any]
"""As the operator; NotImplemented where it is to be left whole."""

_LONGEST = 2048
"""Elements along an axis of which each is compared with each."""

_BETTER_IN_PARTS = frozenset({"elu.default", "grid_sampler_2d.default"})
"""Operators of which TVM's importer leaves something out."""


def own() -> dict[Any, Decomposition]:
    """The decompositions of this file, and of `torch_signs.py` and `torch_windows.py`, by the operator."""
    import torch

    table: dict[Any, Decomposition] = {}
    for name, function in {**_OWN, **SIGNS, **WINDOWS}.items():
        package, operator, *overload = name.split(".")
        packet = getattr(getattr(torch.ops, package), operator, None)
        for found in overload or (packet.overloads() if packet is not None else ()):
            if "out" not in found:
                table[getattr(packet, found)] = function
    return table


def remaining(nodes: Iterable[Any], converted: Callable[[str], bool]) -> dict[Any, Decomposition]:
    """PyTorch's own decompositions of those operators of a program's nodes that the importer does not convert."""
    from torch._decomp import decomposition_table

    return {
        node.target: decomposition_table[node.target]
        for node in nodes
        if node.target in decomposition_table and (not converted(node.target.__name__) or _better_in_parts(node))
    }


def _better_in_parts(node: Any) -> bool:
    """Whether TVM's importer has the operator, but not as PyTorch means it."""
    name = node.target.__name__
    places = name.startswith("max_pool") and any(user.args[1] == 1 and user.users for user in node.users)
    return places or name in _BETTER_IN_PARTS


# ---------------------------------------------------- pooling


def _adaptive_average(x: Any, sizes: Any) -> Any:
    """Windows of several lengths, as products with tables of weights, one axis after the other."""
    import torch

    if all(
        isinstance(n, int) and isinstance(m, int) and n % m == 0
        for n, m in zip(x.shape[-len(sizes) :], sizes, strict=True)
    ):
        return NotImplemented
    for axis, size in enumerate(sizes, x.ndim - len(sizes)):
        extent, place = x.shape[axis], torch.arange(x.shape[axis])
        first = torch.arange(size) * extent // size
        last = (torch.arange(1, size + 1) * extent + size - 1) // size
        inside = (place >= first[:, None]) & (place < last[:, None])
        x = (x.movedim(axis, -1) @ (inside / (last - first)[:, None]).to(x.dtype).T).movedim(-1, axis)
    return x


def _average_by(
    x: Any, kernel: Any, stride: Any = (), padding: Any = 0, ceil: bool = False, include: bool = True, by: Any = None
) -> Any:
    """With a divisor of its own: windows of what is padded by as many zeros as the last one reaches over."""
    from torch.nn import functional

    if by is None:
        return NotImplemented
    rank = len(kernel)
    strides, pads = list(stride or kernel), [padding] * rank if isinstance(padding, int) else list(padding) * rank
    around: list[Any] = []
    for extent, size, step, pad in zip(x.shape[-rank:], kernel, strides, pads, strict=False):
        over = -(extent + 2 * pad - size) % step if ceil else 0
        # No window begins in what it pads behind.
        over = 0 if (extent + 2 * pad + over - size) // step * step >= extent + pad else over
        around[:0] = [pad, pad + over]
    pool = {2: functional.avg_pool2d, 3: functional.avg_pool3d}[rank]
    return pool(functional.pad(x, around), kernel, strides) * (math.prod(kernel) / by)


# ---------------------------------------------------- distances


def _distances(a: Any, b: Any, p: float, mode: Any = None) -> Any:
    import torch

    return torch.linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, -1)


def _distances_inside(x: Any, p: float = 2) -> Any:
    import torch

    rows, columns = torch.triu_indices(x.shape[0], x.shape[0], 1).unbind()
    return torch.linalg.vector_norm(x[rows] - x[columns], p, -1)


# ---------------------------------------------------- order


def _least(dtype: Any) -> Any:
    import torch

    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _so_far(x: Any) -> Any:
    """[n, n]: whether the element of the column is none behind that of the row."""
    import torch

    return torch.ones(x.shape[-1], x.shape[-1], dtype=torch.bool).tril()


def _largest_so_far(x: Any, axis: int) -> Any:
    """And its place: that of the last of equals."""
    import torch

    if x.ndim == 0 or x.shape[axis] > _LONGEST or x.dtype == torch.bool:
        return NotImplemented
    x, before = x.movedim(axis, -1), _so_far(x.movedim(axis, -1))
    values = torch.where(before, x.unsqueeze(-2), _least(x.dtype)).amax(-1)
    same = before & (x.unsqueeze(-2) == values.unsqueeze(-1))
    places = torch.where(same, torch.arange(x.shape[-1]), -1).amax(-1)
    return values.movedim(-1, axis), places.movedim(-1, axis)


def _smallest_so_far(x: Any, axis: int) -> Any:
    if not x.dtype.is_floating_point:
        return NotImplemented
    found = _largest_so_far(-x, axis)
    return found if found is NotImplemented else (-found[0], found[1])


def _sums_of_powers_so_far(x: Any, axis: int) -> Any:
    """log(cumsum(exp(x)))"""
    import torch

    if x.ndim == 0 or x.shape[axis] > _LONGEST:
        return NotImplemented
    x = x.movedim(axis, -1)
    return torch.where(_so_far(x), x.unsqueeze(-2), -math.inf).logsumexp(-1).movedim(-1, axis)


def _kth(x: Any, k: int, axis: int = -1, keep: bool = False) -> Any:
    if x.ndim == 0:
        return NotImplemented
    values, places = x.sort(axis)
    picked = values.narrow(axis, k - 1, 1), places.narrow(axis, k - 1, 1)
    return picked if keep else tuple(one.squeeze(axis) for one in picked)


def _stable(x: Any, *, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    """The kernel of any sort leaves equals in their order."""
    return x.sort(dim, descending)


def _median(x: Any) -> Any:
    return _middle(x.reshape(-1), 0)[0]


def _middle(x: Any, axis: int, keep: bool = False) -> Any:
    """The lower one of two."""
    return NotImplemented if x.ndim == 0 else _kth(x, (x.shape[axis] + 1) // 2, axis, keep)


def _commonest(x: Any, axis: int = -1, keep: bool = False) -> Any:
    """The least of those that are as common, at its last place."""
    import torch

    if x.ndim == 0 or x.shape[axis] > _LONGEST or x.dtype == torch.bool:
        return NotImplemented
    x = x.movedim(axis, -1)
    count = (x.unsqueeze(-1) == x.unsqueeze(-2)).sum(-1)
    most = math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).max
    value = torch.where(count == count.amax(-1, keepdim=True), x, most).amin(-1, keepdim=True)
    place = torch.where(x == value, torch.arange(x.shape[-1]), -1).amax(-1, keepdim=True)
    picked = value.movedim(-1, axis), place.movedim(-1, axis)
    return picked if keep else tuple(one.squeeze(axis) for one in picked)


def _searched(
    ordered: Any, x: Any, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Any:
    """How many of the numbers in order are smaller, or on the right: not larger."""
    import torch

    if sorter is not None:
        ordered = ordered.gather(-1, sorter)
    number = x if isinstance(x, torch.Tensor) else torch.tensor(x)
    rows = ordered.unsqueeze(-2) if ordered.ndim > 1 else ordered
    below = rows <= number.unsqueeze(-1) if right or side == "right" else rows < number.unsqueeze(-1)
    return below.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def _bucket(x: Any, ends: Any, out_int32: bool = False, right: bool = False) -> Any:
    return _searched(ends, x, out_int32, right)


def _histogram(x: Any, bins: int = 100, low: float = 0, high: float = 0) -> Any:
    import torch

    if low >= high:
        return NotImplemented
    x = x.reshape(-1)
    place = ((x - low) / (high - low) * bins).floor().clamp(max=bins - 1).to(torch.int64)
    hit = (place.unsqueeze(-1) == torch.arange(bins)) & ((x >= low) & (x <= high)).unsqueeze(-1)
    return hit.sum(0).to(x.dtype)


# ---------------------------------------------------- places


def _masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """The elements of `source` in a row, one after the other at the places of the mask."""
    import torch

    mask = mask.expand_as(x)
    number = (mask.reshape(-1).cumsum(0) - 1).clamp(min=0).reshape(x.shape)
    return torch.where(mask, source.reshape(-1)[number], x)


def _repeated(repeats: Any, output_size: Any = None) -> Any:
    """The place of each of `output_size` elements among those that are repeated."""
    import torch

    if output_size is None:
        return NotImplemented
    ends = repeats.cumsum(0)
    return _searched(ends, torch.arange(output_size), right=True).to(repeats.dtype)


_NEUTRAL = {"sum": 0, "prod": 1, "mean": 0, "amin": math.inf, "amax": -math.inf}


def _scattered(x: Any, axis: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Means, and what leaves out what was there, by the reductions that there are."""
    import torch

    if (include_self and reduce != "mean") or not x.dtype.is_floating_point:
        return NotImplemented
    base = x
    if not include_self:
        base = torch.where(torch.zeros_like(x).scatter(axis, index, 1.0) > 0, _NEUTRAL[reduce], x)
    if reduce != "mean":
        return base.scatter_reduce(axis, index, source, reduce)
    count = torch.zeros_like(x).scatter_add(axis, index, torch.ones_like(source))
    count = count + 1 if include_self else count.clamp(min=1)
    return base.scatter_add(axis, index, source) / count


def _strided(x: Any, size: Any, stride: Any, offset: Any = 0) -> Any:
    """Of a tensor whose elements lie in a row."""
    import torch

    if not x.is_contiguous() or not all(isinstance(n, int) for n in (*x.shape, *size, *stride)):
        return NotImplemented
    places = torch.full([1] * len(size), offset or 0)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        places = places + (torch.arange(count) * step).reshape([-1, *([1] * (len(size) - axis - 1))])
    return x.reshape(-1)[places]


def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale: bool = False,
    mode: int = 0,
    sparse: bool = False,
    weights: Any = None,
    last: bool = False,
    padding: int = -1,
) -> Any:
    """Sums, means or maxima of rows; which bag each row is in follows from where the bags begin."""
    import torch

    starts = offsets[:-1] if last else offsets
    number = torch.arange(indices.shape[0])
    # Of bags that begin at the same place all but the last are empty.
    bag = _searched(starts, number, right=True) - 1
    member = bag == torch.arange(starts.shape[0]).unsqueeze(-1)
    if padding >= 0:
        member = member & (indices != padding)
    rows, sizes = weight[indices], member.sum(-1)
    if mode == 2:
        chosen = torch.where(member.unsqueeze(-1), rows, -math.inf)
        made = torch.where(sizes.unsqueeze(-1) > 0, chosen.amax(1), 0.0)
        largest = indices[chosen.argmax(1)]
    else:
        share = member.to(weight.dtype) * (1 if weights is None else weights)
        made, largest = share @ rows, torch.zeros_like(sizes)
        made = made / sizes.clamp(min=1).unsqueeze(-1) if mode == 1 else made
    return made, bag, sizes, largest


# ---------------------------------------------------- arithmetic


def _grouped_product(a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Rows of `a`, of which group e ends at offs[e], each with its group's matrix."""
    import torch

    if offs is None or bias is not None or a.ndim != 2 or b.ndim != 3:
        return NotImplemented
    group = _searched(offs, torch.arange(a.shape[0]), right=True)
    rows = torch.where((group == torch.arange(b.shape[0]).unsqueeze(-1)).unsqueeze(-1), a, 0.0)
    return (rows @ b).sum(0).to(out_dtype or a.dtype)


def _trilinear(a: Any, b: Any, c: Any, at_a: Any, at_b: Any, at_c: Any, summed: Any, unroll: int = 1) -> Any:
    def spread(x: Any, axes: Any) -> Any:
        for axis in sorted(axes):
            x = x.unsqueeze(axis)
        return x

    return (spread(a, at_a) * spread(b, at_b) * spread(c, at_c)).sum(summed)


def _spread_and_mean(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return x.var(dim, correction=correction, keepdim=keepdim), x.mean(dim, keepdim=keepdim)


def _complement(x: Any) -> Any:
    import torch

    return 1 - torch.erf(x)


def _randomly_leaky(
    x: Any, noise: Any, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Any:
    from torch.nn import functional

    return NotImplemented if training else (functional.leaky_relu(x, (lower + upper) / 2), noise)


def _unchecked(*_: Any) -> None:
    """The oracle's run has checked it."""


def _normalized_batch(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> Any:
    """In training: by the batch's own mean and variance, which move the running ones."""
    if not training:
        return NotImplemented
    axes = [0, *range(2, x.ndim)]
    own_mean, own_variance = x.mean(axes), x.var(axes, correction=0)
    root, count = (own_variance + eps).rsqrt(), x.numel() // x.shape[1]

    def spread(values: Any) -> Any:
        return values.reshape([-1, *([1] * (x.ndim - 2))])

    made = (x - spread(own_mean)) * spread(root)
    made = made if weight is None else made * spread(weight)
    made = made if bias is None else made + spread(bias)
    unbiased = own_variance * (count / max(count - 1, 1))
    moved = [momentum * new + (1 - momentum) * old for new, old in ((own_mean, mean), (unbiased, variance))]
    return made, own_mean, root, *moved


def _hypotenuse(a: Any, b: Any) -> Any:
    return (a * a + b * b).sqrt()


def _whole(*_: Any) -> Any:
    """PyTorch's own compares all scores of attention with minus infinity, reduces that, and chooses, beside the
    softmax: `safe_softmax.py` is one operator."""
    return NotImplemented


_OWN: dict[str, Decomposition] = {
    "aten._safe_softmax": _whole,
    "aten._adaptive_avg_pool2d": _adaptive_average,
    "aten._adaptive_avg_pool3d": _adaptive_average,
    "aten.avg_pool2d": _average_by,
    "aten.avg_pool3d": _average_by,
    "aten._cdist_forward": _distances,
    "aten._pdist_forward": _distances_inside,
    "aten.cummax": _largest_so_far,
    "aten.cummin": _smallest_so_far,
    "aten.logcumsumexp": _sums_of_powers_so_far,
    "aten.kthvalue": _kth,
    "aten.sort.stable": _stable,
    "aten.median.default": _median,
    "aten.median.dim": _middle,
    "aten.mode": _commonest,
    "aten.searchsorted": _searched,
    "aten.bucketize": _bucket,
    "aten.histc": _histogram,
    "aten.masked_scatter": _masked_scatter,
    "aten.repeat_interleave.Tensor": _repeated,
    "aten.scatter_reduce.two": _scattered,
    "aten.as_strided": _strided,
    "aten._embedding_bag": _embedding_bag,
    "aten._embedding_bag_forward_only": _embedding_bag,
    "aten._grouped_mm": _grouped_product,
    "transformers.grouped_mm_fallback": _grouped_product,
    "aten._trilinear": _trilinear,
    "aten.var_mean.correction": _spread_and_mean,
    "aten._native_batch_norm_legit_functional": _normalized_batch,
    "aten.erfc": _complement,
    "aten.hypot": _hypotenuse,
    "aten.rrelu_with_noise_functional": _randomly_leaky,
    "aten._linalg_check_errors": _unchecked,
}
"""By the operator's name, with its overload where only that one."""
