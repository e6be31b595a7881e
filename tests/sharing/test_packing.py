"""Bytes inside an HTML file: they come back, and no parser trips over them."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapml.sharing import packing

FORBIDDEN = {0x00, 0x0D, 0x3C}


@given(st.binary(max_size=2000))
def test_what_is_packed_comes_back_and_holds_no_byte_that_html_changes(data: bytes) -> None:
    packed, length = packing.pack(data)
    assert not FORBIDDEN & set(packed)
    assert b"".join(packing.unpack([packed], length)) == data
    bytewise = packing.unpack((packed[i : i + 1] for i in range(len(packed))), length)
    assert b"".join(bytewise) == data


def test_a_block_in_which_every_key_is_taken_is_cut_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 bytes may leave no key; 84 always do."""
    monkeypatch.setattr(gzip, "compress", lambda data, *_, **__: data)
    # No two of the absent ones are 13 apart in XOR, so that each key gives NUL or CR.
    absent = [byte for byte in range(256) if byte < byte ^ 13][:56]
    data = bytes(byte for byte in range(256) if byte not in absent) * 3
    packed, length = packing.pack(data)
    assert length == 84
    assert not FORBIDDEN & set(packed)


def test_weights_and_noise_stay_close_to_their_size() -> None:
    random = np.random.default_rng(5)
    weights = random.standard_normal(1 << 19).astype(np.float32).tobytes()
    noise = random.bytes(2 << 20)
    assert len(packing.pack(weights)[0]) < len(weights)
    assert len(packing.pack(noise)[0]) < len(noise) * 1.006


@pytest.mark.parametrize(
    "change", [lambda p: p[:-1], lambda p: p[1:], lambda p: p + b"x", lambda p: b"", lambda p: p[:300]]
)
def test_what_was_damaged_is_refused(change: object) -> None:
    data = np.random.default_rng(1).bytes(5000)
    packed, length = packing.pack(data)
    with pytest.raises(ValueError, match=r"end|no blocks|header|invalid|incorrect|Error|block"):
        list(packing.unpack([change(packed)], length))  # type: ignore[operator]


def test_a_small_file_does_not_fill_the_memory() -> None:
    bomb, length = packing.pack(bytes(50_000_000))
    sizes = [len(piece) for piece in packing.unpack([bomb], length)]
    assert sum(sizes) == 50_000_000
    assert max(sizes) <= 1 << 20
