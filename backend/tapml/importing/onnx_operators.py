"""ONNX operators in terms of Relax, where TVM's importer lacks them or makes of them what is not what ONNX says.

A converter takes a builder, the operands (None where one is left out; `Operands` knows more of them) and the
attributes, with ONNX's defaults filled in, and "outputs", the number of those that the node has. It gives the first
output, or a list of all; None where TVM's importer is to do it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm.relax import op

from tapml.importing.logarithms import mish, softplus
from tapml.importing.onnx_arithmetic import cast, celu, clip, cumulative, einsum, is_inf, of_one, one_hot, power
from tapml.importing.onnx_attention import ATTENTION
from tapml.importing.onnx_bits import bit_cast, shifted
from tapml.importing.onnx_convolutions import col2im, deformable_convolution, transposed_convolution
from tapml.importing.onnx_microsoft import MICROSOFT
from tapml.importing.onnx_moves import determinant, eye_like, pad, space_to_depth, split
from tapml.importing.onnx_normalizations import layer_normalization, lp_normalization, rms_normalization
from tapml.importing.onnx_operands import Operands
from tapml.importing.onnx_pooling import lp_pool, max_pool, max_unpool
from tapml.importing.onnx_quantized import (
    conv_integer,
    dequantize_linear,
    matmul_integer,
    qlinear_conv,
    qlinear_matmul,
    quantize_linear,
)
from tapml.importing.onnx_recurrent import RECURRENT
from tapml.importing.onnx_resize import resize
from tapml.importing.onnx_roi_align import roi_align
from tapml.importing.onnx_sequence import SEQUENCE
from tapml.importing.onnx_shapes import (
    constant_of_shape,
    cut,
    expand,
    flatten,
    gather,
    gather_elements,
    gather_nd,
    numbers_of_range,
    reshape,
    tile,
)
from tapml.importing.onnx_signal import dft, stft
from tapml.importing.relax_ir import Expr

Converter = Callable[[Expr, Operands, Mapping[str, Any]], Any]

OPERATORS: Mapping[str, Converter] = {
    **ATTENTION,
    **RECURRENT,
    **SEQUENCE,
    "BitCast": bit_cast,
    "BitShift": shifted,
    "Cast": cast,
    "CastLike": cast,
    "Celu": celu,
    "Clip": clip,
    "Col2Im": col2im,
    "ConstantOfShape": constant_of_shape,
    "ConvInteger": conv_integer,
    "ConvTranspose": transposed_convolution,
    "CumProd": cumulative(op.cumprod),
    "CumSum": cumulative(op.cumsum),
    "DFT": dft,
    "DeformConv": deformable_convolution,
    "DequantizeLinear": dequantize_linear,
    "Det": determinant,
    "Einsum": einsum,
    "Expand": expand,
    "EyeLike": eye_like,
    "Flatten": flatten,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "IsInf": is_inf,
    "LayerNormalization": layer_normalization,
    "LpNormalization": lp_normalization,
    "LpPool": lp_pool,
    "MatMulInteger": matmul_integer,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
    "Mish": of_one(mish),
    "OneHot": one_hot,
    "Pad": pad,
    "Pow": power,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
    "RMSNormalization": rms_normalization,
    "Range": numbers_of_range,
    "Reshape": reshape,
    "Resize": resize,
    "RoiAlign": roi_align,
    "STFT": stft,
    # ONNX Runtime's, which it writes into ONNX's own set.
    "SimplifiedLayerNormalization": rms_normalization,
    "Slice": cut,
    "Softplus": of_one(softplus),
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Tile": tile,
    "Upsample": resize,
}

_BY_DOMAIN: Mapping[str, Mapping[str, Converter]] = {"": OPERATORS, "ai.onnx": OPERATORS, "com.microsoft": MICROSOFT}


def converter(node: Any) -> Converter | None:
    """Of a node's operator, by its domain."""
    return _BY_DOMAIN.get(node.domain, {}).get(node.op_type)
