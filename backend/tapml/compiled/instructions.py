"""The host program: what is left to do on the host once kernels are WGSL, as data (docs/model-format.md).

Tensors are given by their index in the function's `tensors`, kernels by theirs in the model's `kernels`. Expressions
are over the model's symbols and the names that `let`, `read` and loops around the instruction give.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from tapml.expressions import CheckedExpression, SymbolName
from tapml.protocol.base import Message
from tapml.protocol.fields import Id

MOST_INSTRUCTIONS = 2**16
"""Of one function, as written."""

Index = Annotated[int, Field(ge=0, lt=2**20)]
Turns = Annotated[int, Field(ge=0, le=2**20)]
Word = Annotated[int, Field(ge=0, lt=2**32)]
HostInteger = Annotated[int, Field(ge=-(2**31), lt=2**32)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=200)]
_Tensors = Annotated[list[Index], Field(max_length=10_000)]


class Part(Message):
    """One of the dispatches that a dispatch does the work of; its kernel takes no temporaries."""

    kernel: Index
    operands: _Tensors
    """Of its kernel's arguments, each one of the dispatch's."""
    node: Id | None = None


class Dispatch(Message):
    """All launches of the kernel's variant that the device runs."""

    op: Literal["dispatch"]
    kernel: Index
    operands: _Tensors
    """Of the kernel's arguments: inputs, then outputs. Each output is written whole."""
    temporaries: _Tensors = Field(default_factory=list)
    """uint32; the i-th holds the i-th temporary of whichever variant runs."""
    sizes: dict[SymbolName, CheckedExpression] = Field(default_factory=dict, max_length=100)
    """Kernel's symbol -> its size; a symbol that is left out has the value of its name here."""
    node: Id | None = None
    """Of the model's program, for people and for capturing."""
    parts: Annotated[list[Part], Field(max_length=100)] = Field(default_factory=list)
    """Dispatches whose work it does, each behind those that it needs: where operators are computed by their programs,
    and where they are captured, it is these."""

    @cached_property
    def each(self) -> list[Dispatch]:
        """Its parts as dispatches, or itself."""
        return [Dispatch(op="dispatch", **part.model_dump()) for part in self.parts] or [self]


class Copy(Message):
    """Bytes of a tensor to another, which lies in another buffer."""

    op: Literal["copy"]
    source: Annotated[Index, Field(alias="from")]
    target: Annotated[Index, Field(alias="to")]
    from_offset: CheckedExpression = 0
    to_offset: CheckedExpression = 0
    bytes: CheckedExpression | None = None
    """Multiples of 4, all three. Null: all of both tensors. Any other copy is into a tensor that was written before."""


class Fill(Message):
    """A tensor's bytes become one word, again and again."""

    op: Literal["fill"]
    tensor: Index
    value: Word


class Let(Message):
    """A name for a value, to the end of its block."""

    op: Literal["let"]
    name: SymbolName
    value: CheckedExpression


class Read(Message):
    """A name for an element of a tensor of int32 or uint32, which is waited for; outside its range the call fails."""

    op: Literal["read"]
    name: SymbolName
    tensor: Index
    index: CheckedExpression
    minimum: HostInteger
    maximum: HostInteger
    otherwise: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """What is wrong where it is outside its range, for people: a call asks for more turns than a loop has."""


class If(Message):
    op: Literal["if"]
    condition: CheckedExpression
    """0 is false."""
    then: Annotated[list[Instruction], Field(max_length=MOST_INSTRUCTIONS)]
    otherwise: Annotated[list[Instruction], Field(max_length=MOST_INSTRUCTIONS, alias="else", default_factory=list)]


class Loop(Message):
    """`count` turns, of which `variable` is the number, from 0."""

    op: Literal["loop"]
    variable: SymbolName
    count: CheckedExpression
    most: Turns
    """`count` is never more."""
    until: Index | None = None
    """A tensor of one int32 or uint32, read after each turn: the last one is that after which it is not 0."""
    body: Annotated[list[Instruction], Field(max_length=MOST_INSTRUCTIONS)]


class Call(Message):
    """A function of a host module that the page registered: it is given the elements of `inputs` and gives those of
    `outputs`."""

    op: Literal["call"]
    module: _Name
    function: _Name
    inputs: _Tensors
    outputs: _Tensors


Instruction = TypeAliasType(
    "Instruction", Annotated[Dispatch | Copy | Fill | Let | Read | If | Loop | Call, Field(discriminator="op")]
)

If.model_rebuild()
Loop.model_rebuild()


def every_instruction(code: Iterable[Instruction]) -> Iterator[Instruction]:
    """Those inside branches and loops, too, once."""
    for found in code:
        yield found
        if isinstance(found, If):
            yield from every_instruction((*found.then, *found.otherwise))
        elif isinstance(found, Loop):
            yield from every_instruction(found.body)
