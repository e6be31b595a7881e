"""What all messages are made of: names, digests, dtypes, tensors, tolerances."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Field, model_validator
from typing_extensions import TypeAliasType

from tapml.encodings import Encoding, check_encoding
from tapml.first_error import FirstErrorModel, in_words

PROTOCOL_VERSION = 8
"""Raised whenever a message changes shape; the server refuses a runner that speaks another one."""

MAX_BYTES = 2**40
"""More than any GPU buffer; products of extents stay exact far beyond it."""

MAX_MESSAGE_BYTES = 16_000_000
"""Larger messages end the connection they came by (Socket.IO's max_http_buffer_size); bulk travels over HTTP."""


MAX_WGSL_BYTES = 4_000_000
"""Of one WGSL file; what compilers generate has some ten thousand."""


class Message(FirstErrorModel):
    """Closed (unknown fields are an error) and unchangeable."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False, strict=True
    )


Digest = TypeAliasType(
    "Digest",
    Annotated[str, Field(pattern=in_words(r"^[0-9a-f]{64}$", "a SHA-256 digest is 64 of the digits 0-9 and a-f"))],
)
"""Lower-case hexadecimal SHA-256 of bytes that `/blobs/<digest>` serves."""

DType = TypeAliasType("DType", Literal["float32", "float16", "int32", "uint32", "int8", "uint8", "bool"])
"""What an element may be. WGSL has no i64 and f64, and stores a bool as an encoding only."""

DTYPES: tuple[str, ...] = get_args(DType.__value__)

JsonNumber = TypeAliasType("JsonNumber", float | Literal["NaN", "Infinity", "-Infinity"])
"""A number as JSON can carry it: non-finite values travel as strings."""

Text = Annotated[str, Field(max_length=2000)]
"""A name or a line."""

LongText = Annotated[str, Field(max_length=20_000)]
"""A message or a stack."""

Name = Annotated[str, Field(min_length=1, max_length=500)]
"""An identifier: of a tensor, a kernel, a test."""

Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
"""A size in bytes."""

MOST_ELEMENTS = 2**32
"""Along one axis."""

Extent = Annotated[int, Field(ge=0, le=MOST_ELEMENTS)]
"""Elements, workgroups or invocations along one axis."""

Shape = Annotated[list[Extent], Field(max_length=32)]
"""Extents, outermost first; a scalar has none."""


class TensorType(Message):
    """Dtype and shape of a tensor; elements lie in row-major order without gaps."""

    dtype: DType
    shape: Shape
    encoding: Encoding | None = None
    """How its elements are stored, where that is not one by one; bytes are always those that are stored."""

    @model_validator(mode="after")
    def _fits(self) -> TensorType:
        check_encoding(self.encoding, self.dtype)
        if self.dtype == "bool" and self.encoding is None:
            raise ValueError("a tensor of bool is on no device but as uint8x4, or another encoding")
        return self


class TensorRef(TensorType):
    """A tensor whose bytes are a blob."""

    digest: Digest


class Tolerance(Message):
    """Element e passes when abs(got - expected) <= bound[e], or absolute + relative * abs(expected) without `bound`."""

    absolute: Annotated[float, Field(ge=0)]
    relative: Annotated[float, Field(ge=0)]
    bound: TensorRef | None = None
    """float32, of the output's shape. Where it is Infinity the element is unbounded: it neither passes nor fails."""
    ties: TensorRef | None = None
    """For integer outputs, int32 [n, 3]: rows (group, kind, number), kind 0 for an element's position (row-major) and 1
    for a value. The elements at a group's positions pass when all are among its values and no two are equal; else they
    are held against the expected ones as all others are."""
