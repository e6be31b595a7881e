"""ONNX's own tests of single operators: those that tapml converts itself (`make bench-onnx` runs all)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from benchmarks.onnx_nodes.cases import cases

from tapml.importing import ImportedModel, import_model

NAMES = [
    "add_int8",
    "attention_23_boolmask_fullymasked_row_nan_robustness",
    "attention_3d_with_past_and_present_qk_matmul_softcap",
    "attention_4d_causal_nonpad_attn_mask_composition",
    "attention_local_window_gqa_rank4_mask",
    "bitcast_2d_float32_to_int32",
    "bitcast_bool_to_uint8",
    "bitcast_int32_to_float32",
    "bitcast_int8_to_uint8",
    "bitshift_left_int32_negative_shift",
    "bitshift_left_int32_shift_ge_width",
    "bitshift_right_int8_negative_shift",
    "blackmanwindow",
    "causal_conv_with_state_silu_with_past_state",
    "clip_default_int8_min",
    "constantofshape_float_ones",
    "convinteger_with_padding",
    "cumsum_1d_reverse_exclusive",
    "dequantizelinear_blocked",
    "dft_inverse",
    "einsum_batch_matmul",
    "gru_bidirectional",
    "isinf_positive",
    "isnan",
    "l2normalization_axis_0",
    "layer_normalization_2d_axis0",
    "linear_attention_gated_delta_gqa",
    "lstm_batchwise",
    "lstm_with_peepholes",
    "matmulinteger",
    "maxunpool_export_with_output_shape",
    "mod_float_edge_cases_fmod_0_float32",
    "mod_int64_fmod",
    "mod_mixed_sign_float16",
    "mod_mixed_sign_int8",
    "onehot_negative_indices",
    "pow_types_float32_uint64",
    "pow_types_int64_int64",
    "qlinearconv",
    "qlinearmatmul_3D_int8_float32",
    "quantizelinear",
    "quantizelinear_blocked_asymmetric",
    "range_int32_type_negative_delta",
    "reduce_log_sum_exp_empty_set",
    "reduce_max_empty_set",
    "reduce_sum_keepdims_random",
    "reshape_allowzero_reordered",
    "resize_upsample_sizes_nearest",
    "reversesequence_batch",
    "rms_normalization_3d_axis1_epsilon",
    "rotary_embedding_3d_input",
    "rotary_embedding_interleaved",
    "rotary_embedding_with_interleaved_rotary_dim",
    "scan_sum",
    "scatter_elements_with_duplicate_indices",
    "scatter_elements_with_negative_indices",
    "scatter_elements_with_reduction_max",
    "scatternd",
    "scatternd_add",
    "simple_rnn_reverse",
    "slice_neg",
    "slice_start_out_of_bounds",
    "split_zero_size_splits_opset18",
    "stft_with_window",
    "swiglu",
    "tensorscatter_circular",
    "triu_zero",
    "xor3d",
]


@pytest.mark.parametrize("name", NAMES)
def test_gives_what_onnx_expects(
    name: str, tmp_path: Path, evaluate: Callable[[ImportedModel], list[np.ndarray]]
) -> None:
    case = cases()[f"test_{name}"]
    graph = case.test.model.graph
    onnx.save(case.test.model, tmp_path / "model.onnx")
    inputs = {value.name: np.asarray(array) for value, array in zip(graph.input, case.inputs, strict=True)}
    np.savez(tmp_path / "inputs.npz", **inputs)
    results = evaluate(import_model(str(tmp_path / "model.onnx"), input_files=[tmp_path / "inputs.npz"]))
    for result, expected in zip(results, case.expected, strict=True):
        assert result.shape == np.shape(expected)
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=1e-4, atol=1e-6)


def test_a_shape_that_is_given_is_noted(tmp_path: Path) -> None:
    case = cases()["test_reshape_extended_dims"]
    onnx.save(case.test.model, tmp_path / "model.onnx")
    data, shape = case.inputs
    np.savez(tmp_path / "inputs.npz", data=data, shape=shape)
    model = import_model(str(tmp_path / "model.onnx"), input_files=[tmp_path / "inputs.npz"])
    assert model.input_names == ["data"]
    assert f"input shape is fixed to what was given: {shape.tolist()}" in model.provenance["notes"]  # type: ignore[operator]
