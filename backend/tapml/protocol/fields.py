"""What documents are made of: those of a suite and results, beside what messages have."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, with_config
from typing_extensions import TypedDict

from tapml.encodings import Encoding
from tapml.first_error import FirstErrorModel
from tapml.protocol.base import Digest, Shape

DType = Literal[
    "bool",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
]  # fmt: skip
"""numpy's names, and ml_dtypes' bfloat16."""

NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
"""Of a kernel, which names files."""

KernelName = Annotated[str, Field(pattern=f"^{NAME}$", max_length=200)]
WgslName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_@+.-]*\.wgsl$", max_length=255)]
Id = Annotated[str, Field(min_length=1, max_length=500)]
"""Of a value, a node, a test."""

Line = Annotated[str, Field(max_length=10_000)]
"""A name that the model gave, or a sentence."""


class Open(FirstErrorModel):
    """Later versions may add fields: unknown ones are let be, and what is known is checked strictly."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, allow_inf_nan=False, strict=True, use_attribute_docstrings=True
    )


def _iso(text: str) -> str:
    datetime.datetime.fromisoformat(text)
    return text


Created = Annotated[str, Field(max_length=64), AfterValidator(_iso)]
"""ISO 8601."""


def day(text: str) -> str:
    """YYYY-MM-DD only: fromisoformat also takes 20270131 and weeks."""
    try:
        if datetime.date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise ValueError("it is not a date such as 2027-01-31")


Count = Annotated[int, Field(ge=0, le=2**53)]
"""Of elements; JavaScript knows no larger whole numbers."""


@with_config(ConfigDict(extra="ignore", allow_inf_nan=False, strict=True, use_attribute_docstrings=True))
class Plain(TypedDict):
    """As `Open`, for dicts: documents that a suite has by the ten thousand are not made objects of twice."""


class RefDocument(Plain):
    """A tensor whose bytes are a file of the suite; dense, row-major."""

    digest: Digest
    dtype: DType
    shape: Shape
    encoding: NotRequired[Encoding]
    """How its elements are stored, where that is not one by one."""


class ToleranceDocument(Plain):
    """What one output may differ by: |got - expected| <= `bound`, or absolute + relative * |expected| without one."""

    absolute: Annotated[float, Field(ge=0)]
    relative: Annotated[float, Field(ge=0)]
    reasons: Annotated[list[Line], Field(default_factory=list)]
    bound: NotRequired[RefDocument | None]
    """What each element may differ by: float32, of the output's shape."""
    ties: NotRequired[RefDocument | None]
    """Groups of equals, any of which an index element may be: int32 [n, 3]."""
