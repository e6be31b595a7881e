"""Weights as integers with scales: how they are packed, and what they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from tapml.errors import InputError
from tapml.importing import quantise
from tapml.importing.quantise import MODES, Q4F16, Q4F32, Q8, Kind, Packed, pack

KINDS = (Q4F16, Q4F32, Q8)
SHAPES = ((32, 64), (33, 45), (40, 7), (5, 1000))


def weight(rows: int, inner: int, seed: int = 0) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal((rows, inner)).astype(np.float32)
    found[rows // 2] = 0
    return found * np.float32(0.05)


def scales_of(packed: Packed) -> np.ndarray:
    """Of each element."""
    group = packed.kind.group or packed.shape[1]
    return np.repeat(packed.scales, group, 1)[:, : packed.shape[1]]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_element_is_the_nearest_there_is(kind: Kind, shape: tuple[int, int]) -> None:
    array = weight(*shape)
    packed = pack(array, kind, "w")
    found, scales = packed.array(), scales_of(packed)
    assert found.shape == shape
    assert found.dtype == np.float32
    # A float16 may be less than what the largest of a group asks for.
    slack = 2.0**-11 * kind.zero * scales if kind.half else 2.0**-16 * kind.zero * scales
    assert (np.abs(found.astype(np.float64) - array) <= scales / 2 + slack).all()
    assert (found[shape[0] // 2] == 0).all()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_integer_times_scale_is_a_float32_exactly(kind: Kind) -> None:
    packed = pack(weight(16, 256) * np.float32(1 / 3), kind, "w")
    scales = scales_of(packed).astype(np.float64)
    integers = np.rint(packed.array() / np.where(scales == 0, 1, scales))
    assert np.abs(integers).max() == kind.zero
    assert (integers * scales == packed.array()).all()
    assert not kind.half or (packed.scales == packed.scales.astype(np.float16)).all()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_packed_is_packed_as_itself(kind: Kind) -> None:
    found = pack(weight(33, 70), kind, "w").array()
    np.testing.assert_array_equal(pack(found, kind, "w").array(), found)


def test_the_layout_is_that_of_q4f16_1() -> None:
    array = np.zeros((1, 40), np.float32)
    array[0, :9] = [-7, -6, -1, 0, 1, 2, 3, 7, 4]
    array[0, 39] = 3.5
    packed = pack(array, Q4F16, "w")
    assert packed.words.dtype == np.uint32
    assert packed.words.shape == (1, 5)
    assert packed.words[0, 0] == 0xEA987610
    assert packed.words[0, 1] == 0x7777777B
    assert packed.words[0, 4] == 0xE7777777
    assert packed.scales.tolist() == [[1.0, 0.5]]


def test_parts_are_packed_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    array = weight(37, 64)
    whole = pack(array, Q4F32, "w")
    monkeypatch.setattr(quantise, "_AT_ONCE", 300)
    parts = pack(array, Q4F32, "w")
    np.testing.assert_array_equal(parts.words, whole.words)
    np.testing.assert_array_equal(parts.scales, whole.scales)
    np.testing.assert_array_equal(parts.array(), whole.array())


@pytest.mark.parametrize(("value", "said"), [(np.nan, "1 element that is NaN"), (np.inf, "1 element that is NaN")])
def test_what_is_no_number_is_refused(value: float, said: str) -> None:
    array = weight(32, 32)
    array[3, 5] = value
    with pytest.raises(InputError, match=f"the weight layers.0.w has {said} or infinite"):
        pack(array, Q8, "layers.0.w")


def test_scales_beyond_float16_are_refused_and_small_ones_kept() -> None:
    with pytest.raises(InputError, match="the weight w has elements up to 1e\\+06, whose scale no float16 holds"):
        pack(np.full((32, 32), 1e6, np.float32), Q4F16, "w")
    np.testing.assert_allclose(pack(np.full((32, 32), 1e6, np.float32), Q4F32, "w").array(), 1e6, rtol=1e-6)
    tiny = np.full((32, 32), 1e-5, np.float32)
    np.testing.assert_allclose(pack(tiny, Q4F16, "w").array(), tiny, rtol=0.03)
    assert (pack(np.full((32, 32), 1e-40, np.float32), Q8, "w").array() == 0).all()


def test_a_mixed_mode_takes_eight_bits_in_attention() -> None:
    mixed = MODES["q844"]
    names = ("model.layers.0.self_attn.q_proj.weight", "encoder.layer.0.attention.output.dense.weight")
    assert {mixed(name) for name in names} == {Q8}
    assert mixed("model.embed_tokens.weight") == mixed("model.layers.0.mlp.up_proj.weight") == Q4F16


def test_bytes() -> None:
    assert Q4F16.nbytes(256, 256) == 256 * (128 + 16)
    assert Q4F32.nbytes(256, 256) == 256 * (128 + 32)
    assert Q8.nbytes(256, 256) == 256 * (256 + 4)
