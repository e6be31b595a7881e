"""Arrays with functions named as in NumPy and the Array API standard: `import tapml.arrays as np` (docs/field.md)."""

import math

from tapml import _elementwise, _rows
from tapml._array import DTYPES, Array, DType, broadcast_shapes, of
from tapml._creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from tapml._dtypes import can_cast, finfo, iinfo, isdtype, result_type
from tapml._elementwise import where
from tapml._layout import (
    broadcast_arrays,
    broadcast_to,
    concat,
    concatenate,
    count_nonzero,
    diagonal,
    expand_dims,
    flip,
    matrix_transpose,
    meshgrid,
    moveaxis,
    nonzero,
    permute_dims,
    repeat,
    reshape,
    roll,
    split,
    squeeze,
    stack,
    swapaxes,
    take,
    tile,
    transpose,
    tril,
    triu,
    unstack,
)
from tapml._linalg import cholesky, cross, det, inv, matmul, outer, solve, tensordot, trace, vecdot, vector_norm
from tapml._rows import (
    argsort,
    cumulative_prod,
    cumulative_sum,
    diff,
    mean,
    searchsorted,
    sort,
    std,
    take_along_axis,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    var,
)

globals().update(DTYPES)
globals().update(_elementwise.FUNCTIONS)
globals().update(_rows.FUNCTIONS)

newaxis = None
pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
array, unique = asarray, unique_values


def astype(x, dtype, copy=True):
    return of(x).astype(dtype, copy)


def clip(x, min=None, max=None):
    """None: no limit. The type stays the array's."""
    x = of(x)
    for name, limit in (("maximum", min), ("minimum", max)):
        if limit is not None:
            x = _elementwise.binary(name, x, limit).astype(x.dtype, copy=False)
    return x


def _methods():
    names = "sum prod max min argmax argmin all any".split()
    functions = {name: _rows.FUNCTIONS[name] for name in names}
    functions.update(mean=mean, var=var, std=std, sort=sort, argsort=argsort, take=take, repeat=repeat)
    functions.update(squeeze=squeeze, swapaxes=swapaxes, clip=clip, round=_elementwise.FUNCTIONS["round"])
    for name, function in functions.items():
        setattr(Array, name, function)

    def shaped(x, *shape):
        return reshape(x, shape[0] if len(shape) == 1 else shape)

    Array.reshape = shaped
    Array.flatten = lambda x: reshape(x, (-1,))
    Array.T = property(transpose)
    Array.mT = property(matrix_transpose)
    Array.__matmul__ = matmul
    Array.__rmatmul__ = lambda x, y: matmul(y, x)


_methods()
