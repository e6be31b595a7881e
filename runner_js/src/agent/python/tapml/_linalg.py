"""Products, and linear algebra of matrices in the last two axes."""

import json
import math

import _tapml_arrays as _js

from tapml._array import BOOL, Array, axis_of, broadcast_shapes, call, of, promote
from tapml._creation import eye
from tapml._elementwise import binary, real, unary
from tapml._layout import broadcast_to, diagonal, moveaxis, permute_dims, reshape, stack
from tapml._rows import FUNCTIONS


def matmul(x1, x2):
    """Products of matrices; an array of one axis is a row on the left, a column on the right."""
    a, b = of(x1), of(x2)
    if not a.ndim or not b.ndim:
        raise ValueError("matmul takes arrays with axes")
    row, column = a.ndim == 1, b.ndim == 1
    a = reshape(a, (1, *a.shape)) if row else a
    b = reshape(b, (*b.shape, 1)) if column else b
    (n, k), (other, m) = a.shape[-2:], b.shape[-2:]
    if k != other:
        raise ValueError(f"shapes {of(x1).shape} and {of(x2).shape} have no product: {k} is not {other}")
    dtype = promote(a.dtype, b.dtype)
    if dtype is BOOL:
        raise TypeError("matmul takes numbers, not bool: use astype")
    stacked = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    pairs = list(zip(_starts(a, stacked), _starts(b, stacked), strict=True))
    found = Array(_js.matmul(a.data, b.data, dtype.name, n, k, m, json.dumps(pairs)), dtype, (*stacked, n, m))
    shape = list(stacked) + [n] * (not row) + [m] * (not column)
    return reshape(found, shape) if row or column else found


def _starts(x, stack):
    """Where the matrix of each place of the stack begins."""
    count = math.prod(x.shape[:-2])
    size = math.prod(x.shape[-2:])
    numbers = reshape(of(list(range(count))), x.shape[:-2]) if count else None
    flat = reshape(broadcast_to(numbers, stack), (-1,)).tolist() if count else []
    return [int(one) * size for one in flat]


def tensordot(x1, x2, axes=2):
    a, b = of(x1), of(x2)
    if isinstance(axes, int):
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    first, second = [axis_of(one, a.ndim) for one in axes[0]], [axis_of(one, b.ndim) for one in axes[1]]
    if [a.shape[i] for i in first] != [b.shape[i] for i in second]:
        raise ValueError(f"shapes {a.shape} and {b.shape} do not agree along these axes")
    kept, others = [i for i in range(a.ndim) if i not in first], [i for i in range(b.ndim) if i not in second]
    n, k, m = (math.prod(x.shape[i] for i in which) for x, which in ((a, kept), (a, first), (b, others)))
    left = reshape(permute_dims(a, [*kept, *first]), (n, k))
    right = reshape(permute_dims(b, [*second, *others]), (k, m))
    return reshape(matmul(left, right), [*(a.shape[i] for i in kept), *(b.shape[i] for i in others)])


def vecdot(x1, x2, axis=-1):
    """Sums of products along an axis; integers are taken modulo their size, as in matmul."""
    a, b = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    found = matmul(reshape(a, (*a.shape[:-1], 1, a.shape[-1])), reshape(b, (*b.shape, 1)))
    return reshape(found, found.shape[:-2])


def outer(x1, x2):
    return binary("multiply", reshape(x1, (-1, 1)), reshape(x2, (1, -1)))


def cross(x1, x2):
    """Of vectors of three numbers in the last axis."""
    x1, x2 = of(x1), of(x2)
    if x1.shape[-1] != 3 or x2.shape[-1] != 3:
        raise ValueError("cross takes vectors of three numbers")
    (a, b, c), (d, e, f) = ([x[..., i] for i in range(3)] for x in (x1, x2))
    pairs = [(b, f, c, e), (c, d, a, f), (a, e, b, d)]
    return stack(
        [binary("subtract", binary("multiply", p, q), binary("multiply", r, s)) for p, q, r, s in pairs], -1
    )


def _square(x):
    x = of(x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"shape {x.shape} has no square matrices")
    return x, real(x.dtype), x.shape[-1], math.prod(x.shape[:-2])


def det(x):
    x, dtype, n, count = _square(x)
    return Array(_js.det(x.data, dtype.name, n, count), dtype, x.shape[:-2])


def solve(x1, x2):
    """Raises ValueError for a matrix that is singular. `x2` of one axis is a vector."""
    a, dtype, n, _ = _square(x1)
    b = of(x2)
    vector = b.ndim == 1
    b = reshape(b, (*b.shape, 1)) if vector else b
    if b.shape[-2] != n:
        raise ValueError(f"shapes {a.shape} and {of(x2).shape} do not fit")
    dtype = promote(dtype, real(b.dtype))
    stacked = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m = b.shape[-1]
    a, b = broadcast_to(a, (*stacked, n, n)), broadcast_to(b, (*stacked, n, m))
    data = call(ValueError, _js.solve, a.data, b.data, dtype.name, n, m, math.prod(stacked))
    return Array(data, dtype, (*stacked, n) if vector else (*stacked, n, m))


def inv(x):
    x, dtype, n, _ = _square(x)
    return solve(x, eye(n, dtype=dtype))


def cholesky(x):
    """The lower triangle; raises ValueError for a matrix that is not positive definite."""
    x, dtype, n, count = _square(x)
    return Array(call(ValueError, _js.cholesky, x.data, dtype.name, n, count), dtype, x.shape)


def trace(x, offset=0):
    return FUNCTIONS["sum"](diagonal(x, offset), axis=-1)


def vector_norm(x, axis=None, keepdims=False, ord=2):
    x = unary("abs", x).astype(real(of(x).dtype), copy=False)
    if ord in (math.inf, -math.inf):
        return FUNCTIONS["max" if ord > 0 else "min"](x, axis=axis, keepdims=keepdims)
    if ord == 0:
        return FUNCTIONS["sum"](binary("not_equal", x, 0), axis=axis, keepdims=keepdims).astype(x.dtype)
    powers = binary("pow", x.astype(float), float(ord))
    total = FUNCTIONS["sum"](powers, axis=axis, keepdims=keepdims)
    return binary("pow", total, 1.0 / ord).astype(x.dtype)
