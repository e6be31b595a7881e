"""Pattern analysis: each family is told by its own pattern, in words that are true of the data."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tapml.locating.evidence import Evidence, Finding
from tapml.locating.patterns import PATTERNS, findings, rest

Change = Callable[[np.ndarray, np.ndarray], np.ndarray]
SHAPE = (512, 96)


def evidence(got: np.ndarray, expected: np.ndarray, *inputs: np.ndarray, bound: float = 1e-5) -> Evidence:
    return Evidence(got, expected, np.full(expected.shape, bound), inputs)


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (scale * np.random.default_rng(5).standard_normal(shape)).astype(np.float32)


def strongest(got: np.ndarray, expected: np.ndarray, *inputs: np.ndarray, bound: float = 1e-5) -> Finding:
    return findings(evidence(got, expected, *inputs, bound=bound))[0]


def put(where: object, value: float | np.ndarray) -> Change:
    def change(array: np.ndarray, _: np.ndarray) -> np.ndarray:
        array[where] = value  # type: ignore[call-overload]
        return array

    return change


@pytest.mark.parametrize(
    ("change", "pattern", "words"),
    [
        (lambda a, e: -a, "sign", "the sign is flipped"),
        (lambda a, e: np.abs(a), "sign", "the minus sign is lost"),
        (lambda a, e: a * np.float32(0.125), "scale", "0.125 (1/8) times the expected one"),
        (lambda a, e: a * np.float32(1.7), "scale", "1.7 times the expected one"),
        (lambda a, e: 1 / a, "scale", "reciprocal"),
        (lambda a, e: a * np.linspace(0.5, 2, 512, dtype=np.float32)[:, None], "scale", "each row is multiplied"),
        (lambda a, e: a + np.float32(2.5), "offset", "the expected one + 2.5"),
        (lambda a, e: a + np.linspace(1, 2, 96, dtype=np.float32), "offset", "each column is shifted"),
        (lambda a, e: np.minimum(a, np.float32(1.0)), "saturation", "values stop at 1:"),
        (lambda a, e: np.maximum(a, np.float32(0.0)), "saturation", "expected below it"),
        (lambda a, e: np.zeros_like(a), "constant", "every element is 0"),
        (lambda a, e: np.trunc(8 * a) / 8 * 0 + np.trunc(a), "dtype-conversion", "fraction is cut off"),
        (lambda a, e: a.astype(np.float16).astype(np.float32), "dtype-conversion", "rounded to float16"),
        (lambda a, e: a.astype(ml_dtypes.bfloat16).astype(np.float32), "dtype-conversion", "rounded to bfloat16"),
        (lambda a, e: a[np.minimum(np.arange(512), 255)], "repeat-row", "rows from 256 on repeat row 255"),
        (lambda a, e: a[np.zeros(512, int)], "broadcast", "all 512 rows are the same"),
        (lambda a, e: a[np.arange(512) % 64], "broadcast", "rows repeat after 64"),
        (lambda a, e: np.roll(a, -1, 0), "shift", "the next row's value"),
        (lambda a, e: np.roll(a, 32, 1), "shift", "of the column 32 earlier"),
        (lambda a, e: np.ascontiguousarray(a.T).reshape(a.shape), "transpose", "transposed by [1, 0]"),
        (lambda a, e: a[:, ::-1], "transpose", "the expected output backwards along the last axis"),
        (lambda a, e: a[::-1, ::-1], "transpose", "backwards along axis 0 and backwards along the last axis"),
        (lambda a, e: a.reshape(-1, 6)[:, ::-1].reshape(a.shape), "transpose", "backwards in every 6 in memory"),
        (lambda a, e: np.rint(a * 8) / 8, "dtype-conversion", "rounded to multiples of 0.125"),
        (put((slice(None), slice(None, None, 8)), 9.0), "constant", "9"),
        (put((slice(500, None), slice(None)), np.nan), "nan-range", "NaN in 1152 of 49152 elements (rows 500 to 511"),
    ],
)  # fmt: skip
def test_what_is_wrong(change: Change, pattern: str, words: str) -> None:
    expected = normal(*SHAPE, scale=3.0)
    found = strongest(np.asarray(change(expected.copy(), expected), np.float32), expected)
    assert (found.pattern, words in found.text) == (pattern, True), found.text
    assert found.strength > 0.5


@pytest.mark.parametrize(
    ("where", "pattern", "words"),
    [
        ((slice(None), slice(64, None, 64)), "tile-edge", "column 64"),
        ((slice(None, None, 64), slice(None)), "stride", "first wrong element [0, 0], every 64th row"),
        ((slice(None), slice(0, None, 8)), "stride", "every 8th column"),
        ((slice(448, None), slice(None)), "tile-edge", "rows 448 to 511 (the end): from a multiple of 64 on"),
        ((slice(501, None), slice(None)), "tail", "wrong only at the end: rows 501 to 511"),
        ((slice(64, 128), slice(None)), "tile-edge", "rows 64 to 127: a whole tile"),
        ((slice(None), 5), "scattered", "wrong only in column 5"),
    ],
)
def test_where_it_is_wrong(where: tuple[object, ...], pattern: str, words: str) -> None:
    expected = normal(*SHAPE)
    got = expected.copy()
    noise = np.random.default_rng(9).standard_normal(got.shape).astype(np.float32)
    got[where] += 1 + np.abs(noise[where])  # type: ignore[index]
    found = findings(evidence(got, expected))
    chosen = next((f for f in found if f.pattern == pattern), found[0])
    if (pattern, words) == ("tile-edge", "column 64"):  # only one column of 96 is a 64th behind the first
        assert "column 64" in found[0].text
        return
    assert words in chosen.text, [f.text for f in found]


def test_every_other_invocation_by_its_place_in_memory() -> None:
    expected = normal(10, 99)
    got = expected.copy()
    got.reshape(-1)[3::16] += 1 + np.arange(len(got.reshape(-1)[3::16]), dtype=np.float32)
    found = strongest(got, expected)
    assert found.pattern == "stride"
    assert "modulo 16 is 3 (100% of those)" in found.text


def test_nan_above_a_threshold_of_the_input() -> None:
    x = normal(64, 64, scale=20.0)
    expected = np.tanh(x)
    got = np.where(x > 43.6, np.float32(np.nan), expected)
    found = strongest(got, expected, x)
    assert found.pattern == "nan-range"
    beyond = float(x[x <= 43.6].max())
    assert found.text.startswith(f"NaN for input 0 above {beyond:.6g}; the reference gives 1 there")
    assert np.array_equal(np.isnan(got), x > found.details["above"])


def test_nan_of_large_magnitude_in_a_row() -> None:
    x = normal(512, 32)
    x[::9] *= 200
    expected = (x / np.sqrt((x**2).mean(1, keepdims=True))).astype(np.float32)
    got = expected.copy()
    got[::9] = np.inf
    found = strongest(got, expected, x)
    assert found.pattern == "nan-range"
    assert "Infinity for the largest |input 0| of the row above" in found.text


def test_wrong_only_where_the_mask_is_set() -> None:
    x = normal(256, 64)
    mask = (np.random.default_rng(2).random((256, 64)) < 0.2).astype(np.float32)
    expected = np.where(mask > 0, np.float32(-1e9), x)
    got = np.where(mask > 0, x - np.float32(5), x)
    found = [f for f in findings(evidence(got, expected, x, mask)) if f.pattern == "mask"]
    assert found
    assert "wrong only where input 1 is 1" in found[0].text


def test_an_input_that_comes_out_as_it_came_in() -> None:
    x = normal(64, 64)
    found = strongest(x.copy(), x * np.float32(0.3) + np.float32(np.pi) * np.sin(x), x)
    assert (found.pattern, "are input 0 as it came in" in found.text) == ("mask", True)


def test_wrong_only_for_negative_inputs() -> None:
    x = normal(128, 128)
    expected = np.where(x < 0, np.float32(0), x)
    got = np.where(x < 0, x * np.float32(0.01), x)
    found = {f.pattern: f for f in findings(evidence(got, expected, x, bound=1e-9))}
    assert "input 0 is below" in found["mask"].text
    assert found["mask"].details["precision"] == 1.0


def test_integers_that_wrap_around() -> None:
    expected = np.arange(-500, 1500, dtype=np.int32).reshape(40, 50)
    for got, words in (
        (expected.astype(np.uint8).astype(np.int32), "modulo 2^8, unsigned"),
        (expected.astype(np.int8).astype(np.int32), "modulo 2^8, signed"),
    ):
        found = strongest(got, expected, bound=0)
        assert (found.pattern, words in found.text) == ("dtype-conversion", True), found.text


def test_arithmetic_in_half_precision_is_seen_by_its_error() -> None:
    expected = normal(64, 64, scale=4.0)
    exact = expected.astype(np.float64)
    got = (exact * (1 + np.random.default_rng(3).uniform(-1, 1, exact.shape) * 2.0**-11)).astype(np.float32)
    found = findings(evidence(got, expected, bound=1e-7))
    assert "as if computed in float16" in next(f for f in found if f.pattern == "dtype-conversion").text


def test_values_in_each_others_places() -> None:
    expected = normal(32, 32)
    got = expected.copy()
    got.reshape(-1)[100:400] = np.random.default_rng(1).permutation(got.reshape(-1)[100:400])
    assert any("right numbers in wrong places" in f.text for f in findings(evidence(got, expected)))


def test_what_is_off_by_rounding_has_not_changed_places() -> None:
    """A constant that is one unit off: sorted, got and expected are as close as they are at their own places."""
    expected = normal(*SHAPE)
    got = expected * np.float32(1 + 2.0**-22)
    assert not any("wrong places" in f.text for f in findings(evidence(got, expected, bound=1e-9)))


def test_one_wrong_element_is_no_scale_and_no_offset() -> None:
    expected = normal(16, 16)
    got = expected.copy()
    got[3, 4] += 1.5
    assert {f.pattern for f in findings(evidence(got, expected))} <= {"scattered", "tail", "tile-edge"}


def test_noise_makes_no_claims() -> None:
    expected = normal(128, 128)
    got = expected + np.random.default_rng(4).standard_normal(expected.shape).astype(np.float32)
    (found,) = findings(evidence(got, expected))
    assert found.pattern == "noise"
    assert found.strength < 0.5


def test_a_right_output_has_no_findings() -> None:
    expected = normal(16, 16)
    assert findings(evidence(expected.copy(), expected)) == []


def test_accepted_ties_are_not_wrong() -> None:
    expected = np.arange(8, dtype=np.int32)
    got = expected[::-1].copy()
    accepted = np.ones(8, bool)
    assert Evidence(got, expected, np.zeros(8), accepted=accepted).count == 0


def test_an_unbounded_element_is_not_wrong() -> None:
    expected = normal(8)
    got = np.full_like(expected, np.nan)
    assert Evidence(got, expected, np.full(8, np.inf)).count == 0


def numbers(dtype: str) -> st.SearchStrategy[np.ndarray]:
    shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=9)
    elements = st.floats(width=32, allow_nan=True) if dtype == "float32" else st.integers(-300, 300)
    return arrays.arrays(np.dtype(dtype), shapes, elements=elements)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(["float32", "int32"]))
def test_any_mismatch_is_described_without_error(data: st.DataObject, dtype: str) -> None:
    expected = data.draw(numbers(dtype))
    elements = st.floats(width=32) if dtype == "float32" else st.integers(-300, 300)
    got = data.draw(arrays.arrays(expected.dtype, expected.shape, elements=elements))
    runs = [got, got.copy(), data.draw(st.sampled_from([got, expected]))]
    case = Evidence(got, expected, np.full(expected.shape, 1e-3), [expected, got], runs, [255, 255, 0])
    found = findings(case)
    assert bool(found) or not case.count
    for finding in found:
        assert finding.pattern in PATTERNS
        assert 0 <= finding.strength <= 1
        explained = finding.details.get("explained", 0)
        assert explained <= case.count
        assert finding.to_json()["text"] == finding.text
    assert [f.strength for f in found] == sorted((f.strength for f in found), reverse=True)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(4, 40), columns=st.integers(4, 40), factor=st.sampled_from([0.5, 2.0, 3.0, 0.25]),
    start=st.integers(0, 3),
)  # fmt: skip
def test_a_factor_is_found_wherever_it_is(rows: int, columns: int, factor: float, start: int) -> None:
    expected = np.abs(normal(rows, columns)) + np.float32(0.5)
    got = expected.copy()
    got[start:] *= np.float32(factor)
    found = {f.pattern: f for f in findings(evidence(got, expected))}
    assert found["scale"].details["factor"] == pytest.approx(factor)
    assert found["scale"].details["explained"] == got[start:].size


def test_few_unwritten_elements_are_told_before_noise_everywhere() -> None:
    expected = normal(*SHAPE)
    got = expected + np.float32(0.001) * np.random.default_rng(2).standard_normal(SHAPE).astype(np.float32)
    runs = [got.copy(), got.copy(), got.copy()]
    for run, fill in zip(runs, (np.nan, np.nan, 0.0), strict=True):
        run[:, 64] = np.array([0xFFFFFFFF], np.uint32).view(np.float32)[0] if fill != 0.0 else 0.0
    seen = Evidence(runs[0], expected, np.full(SHAPE, 1e-5), (), runs=runs, fills=[0xFF, 0xFF, 0x00])
    assert findings(seen)[0].pattern == "unwritten"
    (noise,) = rest.detect(seen)
    assert "the largest is Infinity" not in noise.text
    assert "512 are NaN or infinite" in noise.text


def test_a_race_tells_nothing_of_what_was_there_before() -> None:
    expected = normal(8, 8)
    runs = [expected + number for number in (1, 2, 3)]
    seen = Evidence(runs[0], expected, np.full((8, 8), 1e-5), (), runs=runs, fills=[0xFF, 0xFF, 0x00])
    assert [f.pattern for f in findings(seen) if f.pattern in ("race", "uninitialised")] == ["race"]
