"""The operator set com.microsoft: what ONNX Runtime's optimizer, its quantizer and its exporters write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tapml.importing.onnx_fused import FUSED
from tapml.importing.onnx_fused_attention import ATTENTION
from tapml.importing.onnx_qlinear import QLINEAR

MICROSOFT: Mapping[str, Callable[..., Any]] = {**FUSED, **ATTENTION, **QLINEAR}
"""Operator -> its converter, as in `onnx_operators`."""
