"""A tensor's bytes inside an HTML file, at hardly more than a byte each.

Base64 would take a third more, and a test of 2.4 MB could not stay below its tensors plus 300 kB. A page in
windows-1252 has a character for every byte; only three of them do not survive an HTML parser: NUL (replaced), CR (a
line end) and "<" (may begin a tag). Bytes are compressed, then XORed in blocks, each with a key that leaves none of
the three.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator

import numpy as np

_FORBIDDEN = (0x00, 0x0D, 0x3C)
# Each byte of a block rules out three keys, so that 84 of them leave one for certain. Compressed bytes are as good as
# random, and nearly always leave one among 200.
BLOCKS = (200, 84)
# Float weights shrink by a tenth at any level; more effort gains nothing.
_LEVEL = 5
_MOST_PIECE = 1 << 20


def pack(data: bytes) -> tuple[bytes, int]:
    """(what stands in the file, its block length): gzip, then for each block its key and its bytes XORed with it."""
    compressed = gzip.compress(data, _LEVEL, mtime=0)
    for length in BLOCKS:
        packed = _xor_blocks(np.frombuffer(compressed, np.uint8), length)
        if packed is not None:
            return packed, length
    raise AssertionError("a block of 84 bytes has a key")


def _xor_blocks(data: np.ndarray, length: int) -> bytes | None:
    pieces = []
    # In parts, for the table of bytes that occur takes 256 bytes a block.
    part = length * 16384
    for start in range(0, len(data), part):
        piece = _xor_part(data[start : start + part], length)
        if piece is None:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def _xor_part(data: np.ndarray, length: int) -> bytes | None:
    count = -(-len(data) // length)
    # What fills up the last block repeats a byte of it, which rules out no other key.
    padded = np.full(count * length, data[-1], np.uint8)
    padded[: len(data)] = data
    blocks = padded.reshape(count, length)
    present = np.zeros((count, 256), bool)
    present[np.arange(count)[:, None], blocks] = True
    keys = np.arange(256)
    allowed = np.ones((count, 256), bool)
    for byte in _FORBIDDEN:
        allowed &= ~present[:, keys ^ byte]
        allowed[:, byte] = False
    if not allowed.any(axis=1).all():
        return None
    key = allowed.argmax(axis=1).astype(np.uint8)
    packed = np.hstack([key[:, None], blocks ^ key[:, None]]).tobytes()
    return packed[: len(packed) - (count * length - len(data))]


def unpack(packed: Iterable[bytes], length: int) -> Iterator[bytes]:
    """Inverse of `pack`, piece by piece, at most _MOST_PIECE bytes each: however much a small file inflates to, whoever
    takes the pieces may stop. ValueError for what `pack` cannot have made.
    """
    if length < 1:
        raise ValueError("no blocks")
    inflating = zlib.decompressobj(wbits=31)  # gzip's header
    for piece in _without_keys(packed, length):
        if inflating.eof and piece:
            raise ValueError("it goes on behind its end")
        try:
            yield inflating.decompress(piece, _MOST_PIECE)
            while inflating.unconsumed_tail:
                yield inflating.decompress(inflating.unconsumed_tail, _MOST_PIECE)
        except zlib.error as error:
            raise ValueError(str(error)) from error
    if not inflating.eof or inflating.unused_data:
        raise ValueError("its end is missing" if not inflating.eof else "it goes on behind its end")


def _without_keys(packed: Iterable[bytes], length: int) -> Iterator[bytes]:
    """The compressed bytes; whole blocks of each piece, and what is left at the end."""
    rest = b""
    for piece in packed:
        data = np.frombuffer(rest + piece, np.uint8)
        whole = len(data) // (length + 1) * (length + 1)
        blocks = data[:whole].reshape(-1, length + 1)
        rest = data[whole:].tobytes()
        yield (blocks[:, 1:] ^ blocks[:, :1]).tobytes()
    if len(rest) == 1:
        raise ValueError("its last block is empty")
    if rest:
        last = np.frombuffer(rest, np.uint8)
        yield (last[1:] ^ last[0]).tobytes()
