"""An operator that no program describes: a call of somebody else's implementation (tapml.external/1).

Like a program it is data. What it may name is bounded here, and who runs it (importing/external.py) calls nothing
but operators of ONNX and of PyTorch, and functions that were given in this very process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, Field, ValidationError

from tapml.errors import InputError
from tapml.protocol.base import Message
from tapml.protocol.fields import DType

FORMAT: Final = "tapml.external/1"

_DEEPEST = 4
_MOST_ITEMS = 1000
_LONGEST = 2000
_WHO = {
    **{"onnx": "ONNX Runtime", "onnx_reference": "ONNX's reference implementation"},
    **{"torch": "PyTorch", "python": "a Python function", "tapml": "tapml"},
}


def _checked(found: Any, depth: int = 0) -> Any:
    if isinstance(found, list):
        if depth == _DEEPEST or len(found) > _MOST_ITEMS:
            raise ValueError(f"lists of at most {_MOST_ITEMS} items are taken, {_DEEPEST} deep")
        return [_checked(item, depth + 1) for item in found]
    plain = found is None or isinstance(found, str | bool | int) or (isinstance(found, float) and math.isfinite(found))
    tensor = isinstance(found, dict) and set(found) == {"tensor"} and found["tensor"] in get_args(DType)
    if not (plain or tensor) or len(str(found)) > _LONGEST:
        raise ValueError(f"{str(found)[:80]!r} is no number, text, tensor or list of these")
    return found


def _without_tensors(found: Any) -> Any:
    if list(_tensors(found)):
        raise ValueError("a tensor stands among the operands only")
    return found


_Operand = Annotated[Any, AfterValidator(_checked)]
"""A number, a text, null, {"tensor": dtype}, or a list of these."""

_Literal = Annotated[_Operand, AfterValidator(_without_tensors)]


class External(Message):
    """A call: the tensors among `operands`, in their order, are the node's inputs, and its outputs the node's.

    Dtypes are those of the implementation; the graph's are what tapml stores for them.
    """

    format: Literal["tapml.external/1"] = FORMAT
    source: Literal["onnx", "onnx_reference", "torch", "python", "tapml"]
    domain: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]*$", max_length=100)] = ""
    """Of an ONNX operator; "" is ONNX's own."""
    version: Annotated[int, Field(ge=1, le=1000)] = 1
    """Of an ONNX operator's set."""
    operator: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.\w+){0,2}$", max_length=200)]
    """Its type, an overload of torch.ops ("aten.i0.default"), or the name of the function, given or tapml's own."""
    operands: Annotated[list[_Operand], Field(max_length=1000)]
    attributes: Annotated[dict[Annotated[str, Field(max_length=200)], _Literal], Field(max_length=200)]
    outputs: Annotated[list[DType | None], Field(min_length=1, max_length=1000)]
    """Dtypes; null for one that the model does not read."""

    @property
    def inputs(self) -> list[str]:
        """Dtypes of the tensors among the operands."""
        return list(_tensors(self.operands))

    @property
    def counts(self) -> tuple[int, int]:
        """Of a node's inputs and outputs."""
        return len(self.inputs), sum(dtype is not None for dtype in self.outputs)

    @property
    def name(self) -> str:
        """A kernel's."""
        return self.operator.split(".")[1 if self.source == "torch" else 0]

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.domain}.{self.operator}" if self.domain else self.operator

    @property
    def who(self) -> str:
        """What computes it, for people."""
        return f"{_WHO[self.source]} ({self.title})"


def _tensors(operand: Any) -> Iterator[str]:
    if isinstance(operand, dict):
        yield operand["tensor"]
    elif isinstance(operand, list):
        for item in operand:
            yield from _tensors(item)


def external_of(text: str) -> External:
    """What stands as the name of the function in a Relax call out of TVM. Raises InputError for another name."""
    try:
        return External.model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"the model calls {text[:80]!r} out of TVM, which nothing here computes") from error
