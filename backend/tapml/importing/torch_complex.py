"""Complex tensors of PyTorch programs as pairs of real ones: WebGPU has none.

They live between operators only (spectra, rotary embeddings): what a program takes and gives is real.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm import relax
from tvm.relax import op

from tapml.errors import InputError
from tapml.importing.onnx_signal import table, transformed
from tapml.importing.relax_ir import Expr
from tapml.importing.torch_arithmetic import as_tensor


@dataclass(frozen=True)
class Complex:
    """What stands for a complex tensor while a program is imported."""

    real: Expr
    imaginary: Expr


_PARTS = frozenset(
    [
        "alias",
        "cat",
        "clone",
        "constant_pad_nd",
        "copy",
        "cumsum",
        "detach",
        "diagonal",
        "expand",
        "expand_copy",
        "flip",
        "gather",
        "index",
        "index_select",
        "lift_fresh_copy",
        "masked_fill",
        "mean",
        "neg",
        "permute",
        "repeat",
        "reshape",
        "roll",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "squeeze_copy",
        "sum",
        "transpose",
        "unbind",
        "unfold",
        "unsqueeze",
        "view",
        "where",
    ]
)
"""They do to each part what they do to the whole; a real operand of one beside a complex one has no second part."""


def is_complex(node: Any) -> bool:
    """Whether a node gives complex tensors, or takes them."""
    return any(_complex_value(found) for found in (node, *node.all_input_nodes))


def convert_complex(node: Any, importer: Any, convert: Callable[[Any], Any]) -> Any:
    """A pair, or a real tensor; `convert` is for nodes of real ones. Raises InputError for an operator that has no
    such form."""
    name = node.target.__name__.partition(".")[0]
    if (made := FORMULAS.get(name)) is not None:
        return made(node, importer)
    if name == "getitem":
        return importer.retrieve_args(node)[0][node.args[1]]
    if name in _PARTS:
        return _paired(node, *_by_parts(node, importer, convert))
    raise InputError(
        f"the operator {node.target.__name__} (at {node.name}) has no form for complex tensors, which WebGPU lacks: "
        "write it with the real and the imaginary part (torch.view_as_real)",
        reason="WebGPU has no complex tensors",
    )


def split_constants(program: Any) -> None:
    """Make real tensors, with the parts as a last axis, of a program's complex parameters, buffers and constants."""
    import torch

    graph, aten = program.graph, torch.ops.aten
    last = [node for node in graph.nodes if node.op == "placeholder"][-1:]
    names = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs if spec.target is not None}
    for node in list(graph.nodes):
        if node.op == "placeholder" and node.name in names and _complex_value(node):
            for held in (program.state_dict, program.constants):
                if (tensor := held.get(names[node.name])) is not None:
                    held[names[node.name]] = torch.view_as_real(tensor.detach().resolve_conj()).clone()
            value = node.meta["val"]
            with graph.inserting_after(last[0]):
                whole = graph.call_function(aten.view_as_complex.default, (node,))
            node.replace_all_uses_with(whole, delete_user_cb=lambda user, whole=whole: user is not whole)
            whole.meta["val"] = value
            with value.fake_mode:
                node.meta["val"] = torch.view_as_real(value)


# ---------------------------------------------------- part by part


def _complex_value(node: Any) -> bool:
    value = getattr(node, "meta", {}).get("val")
    values = value if isinstance(value, tuple | list) else [value]
    return any(getattr(getattr(found, "dtype", None), "is_complex", False) for found in values)


def _by_parts(node: Any, importer: Any, convert: Callable[[Any], Any]) -> list[Any]:
    found = []
    for number in (0, 1):
        with _one_part(node, importer, number):
            found.append(convert(node))
    return found


@contextlib.contextmanager
def _one_part(node: Any, importer: Any, number: int) -> Iterator[None]:
    """While complex operands are their real parts, or their imaginary ones."""
    import torch
    from torch.utils import _pytree

    def real(value: Any) -> Any:
        if not getattr(getattr(value, "dtype", None), "is_complex", False):
            return value
        with value.fake_mode:
            return value.real

    kept = {one: one.meta["val"] for one in (node, *node.all_input_nodes) if "val" in one.meta}
    environment, importer.env = importer.env, dict(importer.env)
    joins = node.target.__name__.startswith(("cat.", "where."))
    try:
        for one in node.all_input_nodes:
            pair = environment[one]
            if isinstance(pair, Complex):
                importer.env[one] = (pair.real, pair.imaginary)[number]
            elif joins and number and kept[one].dtype is not torch.bool:
                importer.env[one] = importer.block_builder.emit(op.zeros_like(pair))
        for one, value in kept.items():
            one.meta["val"] = _pytree.tree_map(real, value)
        yield
    finally:
        importer.env = environment
        for one, value in kept.items():
            one.meta["val"] = value


def _paired(node: Any, real: Any, imaginary: Any) -> Any:
    if isinstance(node.meta["val"], tuple | list):
        return [
            Complex(relax.TupleGetItem(real, place), relax.TupleGetItem(imaginary, place))
            if isinstance(real, relax.Expr)
            else Complex(real[place], imaginary[place])
            for place in range(len(node.meta["val"]))
        ]
    return Complex(real, imaginary)


# ---------------------------------------------------- by formulas

_Function = Callable[[Any, Any], Any]


def _pair(importer: Any, value: Any, dtype: str = "float32") -> Complex:
    """A real tensor's or a number's imaginary part is 0."""
    if isinstance(value, Complex):
        return value
    if isinstance(value, complex):
        return Complex(relax.const(value.real, dtype), relax.const(value.imag, dtype))
    return Complex(as_tensor(importer, value, dtype), relax.const(0.0, dtype))


def _operands(node: Any, importer: Any, count: int) -> tuple[str, list[Any]]:
    """The dtype of the parts, and the operands: pairs, and tensors of that dtype where they are real."""
    dtypes = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
    values = [one.meta["val"] for one in (node, *node.all_input_nodes) if _complex_value(one)]
    dtype = dtypes[str(values[0].dtype).removeprefix("torch.")]
    given = importer.retrieve_args(node)[:count]
    found = (_pair(importer, value) if isinstance(value, complex) else value for value in given)
    return dtype, [value if isinstance(value, Complex) else as_tensor(importer, value, dtype) for value in found]


def _added(function: Callable[..., Any]) -> _Function:
    def convert(node: Any, importer: Any) -> Complex:
        emit = importer.block_builder.emit
        dtype, operands = _operands(node, importer, 2)
        a, b = (_pair(importer, operand, dtype) for operand in operands)
        if (alpha := node.kwargs.get("alpha", 1)) != 1:
            b = _product(emit, b, relax.const(alpha, dtype))
        return _full(node, importer, emit(function(a.real, b.real)), emit(function(a.imaginary, b.imaginary)))

    return convert


def _full(node: Any, importer: Any, *parts: Expr) -> Complex:
    """Parts of the result's shape, where one was a number."""
    shape = list(parts[0].ty.shape if parts[0].ty.ndim >= parts[1].ty.ndim else parts[1].ty.shape)
    wide = (part if part.ty.ndim == len(shape) else op.broadcast_to(part, shape) for part in parts)
    return Complex(*(importer.block_builder.emit(part) for part in wide))


def _product(emit: Callable[[Any], Any], a: Any, b: Any, times: Callable[..., Any] = op.multiply) -> Any:
    if not isinstance(a, Complex):
        a, b = (a, b) if times is not op.multiply else (b, a)
    if not isinstance(a, Complex):
        return Complex(emit(times(a, b.real)), emit(times(a, b.imaginary)))
    if not isinstance(b, Complex):
        return Complex(emit(times(a.real, b)), emit(times(a.imaginary, b)))
    real = op.subtract(emit(times(a.real, b.real)), emit(times(a.imaginary, b.imaginary)))
    imaginary = op.add(emit(times(a.real, b.imaginary)), emit(times(a.imaginary, b.real)))
    return Complex(emit(real), emit(imaginary))


def _multiplied(times: Callable[..., Any]) -> _Function:
    def convert(node: Any, importer: Any) -> Complex:
        _, (a, b) = _operands(node, importer, 2)
        return _product(importer.block_builder.emit, a, b, times)  # type: ignore[no-any-return]

    return convert


def _divided(node: Any, importer: Any) -> Complex:
    emit = importer.block_builder.emit
    _, (a, b) = _operands(node, importer, 2)
    return _quotient(emit, a, b)


def _quotient(emit: Callable[[Any], Any], a: Any, b: Any) -> Complex:
    if not isinstance(b, Complex):
        return Complex(emit(op.divide(a.real, b)), emit(op.divide(a.imaginary, b)))
    product = _product(emit, a, Complex(b.real, emit(op.negative(b.imaginary))))
    size = _squared(emit, b)
    return Complex(emit(op.divide(product.real, size)), emit(op.divide(product.imaginary, size)))


def _reciprocal(node: Any, importer: Any) -> Complex:
    dtype, (value,) = _operands(node, importer, 1)
    return _quotient(importer.block_builder.emit, relax.const(1.0, dtype), value)


def _power(node: Any, importer: Any) -> Complex:
    """By a small whole number."""
    emit = importer.block_builder.emit
    exponent = node.args[1]
    if exponent not in (2, 3, 4):
        raise InputError(
            f"the operator {node.target.__name__} (at {node.name}): a power of complex tensors other than 2, 3 and 4: "
            "write it with abs and angle",
            reason="a power of complex tensors",
        )
    _, (value,) = _operands(node, importer, 1)
    made = value
    for _ in range(int(exponent) - 1):
        made = _product(emit, made, value)
    return made  # type: ignore[no-any-return]


def _squared(emit: Callable[[Any], Any], value: Complex) -> Expr:
    squares = [emit(op.multiply(part, part)) for part in (value.real, value.imaginary)]
    return emit(op.add(*squares))


def _polar(node: Any, importer: Any) -> Complex:
    size, angle = importer.retrieve_args(node)
    return _turned(importer.block_builder.emit, size, angle)


def _turned(emit: Callable[[Any], Any], size: Expr, angle: Expr) -> Complex:
    return Complex(*(emit(op.multiply(size, emit(turn(angle)))) for turn in (op.cos, op.sin)))


def _exponential(node: Any, importer: Any) -> Complex:
    emit, value = importer.block_builder.emit, importer.env[node.args[0]]
    return _turned(emit, emit(op.exp(value.real)), value.imaginary)


def _size(node: Any, importer: Any) -> Expr:
    emit = importer.block_builder.emit
    return emit(op.sqrt(_squared(emit, importer.env[node.args[0]])))


def _angle(node: Any, importer: Any) -> Expr:
    value = importer.env[node.args[0]]
    return importer.block_builder.emit(op.atan2(value.imaginary, value.real))


def _conjugate(node: Any, importer: Any) -> Complex:
    value = importer.env[node.args[0]]
    return Complex(value.real, importer.block_builder.emit(op.negative(value.imaginary)))


def _cast(node: Any, importer: Any) -> Any:
    """To complex numbers, or, which leaves the imaginary part out, to real ones."""
    value = importer.env[node.args[0]]
    wanted = node.meta["val"]
    if not wanted.dtype.is_complex:
        return as_tensor(importer, value.real, str(wanted.dtype).removeprefix("torch."))
    if isinstance(value, Complex):
        return value
    real = as_tensor(importer, value, "float32")
    return Complex(real, importer.block_builder.emit(op.zeros_like(real)))


def _from_real(node: Any, importer: Any) -> Complex:
    emit, pairs = importer.block_builder.emit, importer.env[node.args[0]]
    return Complex(*_split(emit, pairs))


def _split(emit: Callable[[Any], Any], pairs: Expr) -> list[Expr]:
    axis = pairs.ty.ndim - 1
    return [emit(op.squeeze(emit(op.strided_slice(pairs, [axis], [n], [n + 1])), [axis])) for n in (0, 1)]


def _joined(emit: Callable[[Any], Any], value: Complex) -> Expr:
    return emit(op.stack([value.real, value.imaginary], axis=value.real.ty.ndim))


# ---------------------------------------------------- spectra


def _spectrum(node: Any, importer: Any) -> Complex:
    """Of real numbers: the last axis that is named first, of which half may be left out, then the others."""
    data, axes, normalization, onesided = importer.retrieve_args(node)
    scale = _scale(normalization, [data.ty.shape[axis] for axis in axes])
    emit = importer.block_builder.emit
    data = _along(importer, node, emit(op.expand_dims(data, data.ty.ndim)), axes[-1], onesided=onesided, scale=scale)
    for axis in axes[:-1]:
        data = _along(importer, node, data, axis)
    return Complex(*_split(emit, data))


def _spectrum_of_pairs(node: Any, importer: Any) -> Complex:
    value, axes, normalization, forward = importer.retrieve_args(node)
    emit = importer.block_builder.emit
    scale = _scale(normalization, [value.real.ty.shape[axis] for axis in axes])
    data = _joined(emit, value)
    for place, axis in enumerate(axes):
        data = _along(importer, node, data, axis, inverse=not forward, scale=1.0 if place else scale)
    return Complex(*_split(emit, data))


def _from_spectrum(node: Any, importer: Any) -> Expr:
    """Real numbers of half a spectrum."""
    value, axes, normalization, length = importer.retrieve_args(node)
    emit = importer.block_builder.emit
    scale = _scale(normalization, [*(value.real.ty.shape[axis] for axis in axes[:-1]), length])
    data = _joined(emit, value)
    for axis in axes[:-1]:
        data = _along(importer, node, data, axis, inverse=True)
    data = _along(importer, node, data, axes[-1], inverse=True, onesided=True, count=length, scale=scale)
    return emit(op.squeeze(data, [data.ty.ndim - 1]))


def _scale(normalization: int, sizes: list[Any]) -> float:
    if normalization == 0:
        return 1.0
    count = math.prod(_fixed(size) for size in sizes)
    return 1.0 / (math.sqrt(count) if normalization == 1 else count)


def _fixed(size: Any) -> int:
    found = getattr(size, "value", size)
    if not isinstance(found, int):
        raise InputError("a Fourier transform along an axis whose size varies: carve one size at a time")
    return found


def _along(
    importer: Any,
    node: Any,
    data: Expr,
    axis: int,
    inverse: bool = False,
    onesided: bool = False,
    count: int | None = None,
    scale: float = 1.0,
) -> Expr:
    """Not divided by the length; `data` has the parts as its last axis."""
    axis %= data.ty.ndim - 1
    size, parts = _fixed(data.ty.shape[axis]), int(data.ty.shape[data.ty.ndim - 1])
    count = size if count is None else count
    weights = table(size, count, parts, inverse, onesided) * (scale * (count if inverse else 1))
    return transformed(importer.block_builder, data, axis, weights)


FORMULAS: dict[str, _Function] = {
    "_conj": _conjugate,
    "_conj_physical": _conjugate,
    "_fft_c2c": _spectrum_of_pairs,
    "_fft_c2r": _from_spectrum,
    "_fft_r2c": _spectrum,
    "_to_copy": _cast,
    "abs": _size,
    "add": _added(op.add),
    "angle": _angle,
    "bmm": _multiplied(op.matmul),
    "complex": lambda node, importer: Complex(*importer.retrieve_args(node)),
    "conj_physical": _conjugate,
    "div": _divided,
    "exp": _exponential,
    "imag": lambda node, importer: importer.env[node.args[0]].imaginary,
    "mm": _multiplied(op.matmul),
    "mul": _multiplied(op.multiply),
    "polar": _polar,
    "pow": _power,
    "real": lambda node, importer: importer.env[node.args[0]].real,
    "reciprocal": _reciprocal,
    "resolve_conj": lambda node, importer: importer.env[node.args[0]],
    "sub": _added(op.subtract),
    "view_as_complex": _from_real,
    "view_as_real": lambda node, importer: _joined(importer.block_builder.emit, importer.env[node.args[0]]),
}
"""By the operator's name without its overload."""
