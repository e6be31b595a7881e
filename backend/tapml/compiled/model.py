"""`model.json`: a compiled model (tapml.model/1, docs/model-format.md). What one document cannot say by types alone is
for the verifier (verify.py)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from typing_extensions import TypeAliasType

from tapml.compiled.instructions import MOST_INSTRUCTIONS, Index, Instruction
from tapml.compiled.stored import Stored
from tapml.encodings import Encoding
from tapml.expressions import CheckedExpression, Symbol
from tapml.program.generation import Generation
from tapml.protocol.base import MAX_BYTES, MAX_WGSL_BYTES, Bytes, Digest, DType, Extent, Message, Name, Text
from tapml.protocol.fields import Id, KernelName, Line, WgslName
from tapml.protocol.kernels import MOST_TEXELS, Binding, Expected, Launch, Requires, TexelFormat, TextureDimension
from tapml.protocol.methods import Verdict

FORMAT = "tapml.model/1"

ALIGNMENT = 256
"""Of every offset in a buffer and in a single file: the default minStorageBufferOffsetAlignment of WebGPU, and no
device asks for more."""

MOST_SHARD_BYTES = 2**24
"""Small enough to be loaded beside others."""

_BufferBytes = Annotated[int, Field(ge=4, le=MAX_BYTES, multiple_of=4)]
_Offset = Annotated[int, Field(ge=0, le=MAX_BYTES, multiple_of=ALIGNMENT)]
_FileName = Annotated[str, Field(pattern=r"^(operators/)?[A-Za-z0-9_][A-Za-z0-9_.+-]*$", max_length=255)]


def aligned(offset: int) -> int:
    """The next multiple of ALIGNMENT, or itself."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _as_tuple(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else found


_Range = Annotated[tuple[CheckedExpression, CheckedExpression], WithJsonSchema({"tsType": "[Expression, Expression]"})]
_Initial = Annotated[tuple[Index, _Offset], WithJsonSchema({"tsType": "[number, number]"})]

Place = TypeAliasType(
    "Place",
    Annotated[
        tuple[Literal["weights", "arena"], Index, _Offset] | tuple[Literal["state", "input", "output"], Index],
        BeforeValidator(_as_tuple),
        WithJsonSchema({"tsType": '["weights" | "arena", number, number] | ["state" | "input" | "output", number]'}),
    ],
)
"""Where a tensor's bytes begin: ["weights" or "arena", number of the buffer, offset], or a whole buffer, ["state",
"input" or "output", number]."""


class ModelFacts(Message):
    """What was compiled."""

    kind: Line
    source: Line
    sha256: Line
    title: Line | None
    notes: Annotated[list[Line], Field(max_length=1000)]


class CompilerFacts(Message):
    """A compiler of kernels."""

    name: Text
    version: Text


class Provenance(Message):
    """Where the model comes from: neither date nor path, so that the same suite gives the same bytes."""

    tapml: Text
    """Version."""
    model: ModelFacts
    compilers: Annotated[list[CompilerFacts], Field(max_length=100)]
    suite: Digest | None
    """Of the suite it was built from."""
    doubts: Annotated[list[Line], Field(max_length=10_000)]
    """Why the reference run of that suite is not to be believed, a sentence each."""
    edited: Annotated[list[KernelName], Field(max_length=10_000)]
    """Kernels whose WGSL, or how they are launched, differs from what was generated."""


class Shard(Message):
    """A file of `bytes` bytes, `weights/<sha256>.bin`: those of a weight buffer from `offset` on. Those of float32
    numbers that are `stored` in 16 bits become twice as many there."""

    sha256: Digest
    bytes: Annotated[int, Field(ge=4, le=MOST_SHARD_BYTES, multiple_of=4)]
    buffer: Index
    offset: _Offset
    stored: Stored | None = None

    @property
    def extent(self) -> int:
        """Bytes in the buffer."""
        return self.bytes if self.stored is None else 2 * self.bytes


class Weights(Message):
    """Buffers that are only read. `shards`, in order, cover them without gaps and without overlap."""

    buffers: Annotated[list[_BufferBytes], Field(max_length=10_000)]
    shards: Annotated[list[Shard], Field(max_length=100_000)]


class CompiledTensor(Message):
    """A tensor of a function. Its bytes, those that are stored of it, padded to a multiple of 4 and at least 4, begin
    at `at`."""

    name: Line
    """For people."""
    dtype: DType
    shape: Annotated[list[CheckedExpression], Field(max_length=32)]
    """Over the model's symbols."""
    encoding: Encoding | None = None
    at: Place
    view: Index | None = None
    """The tensor, one before it, whose bytes it shows under another shape; both have the same bytes at the same place.
    Tensors that share bytes otherwise overwrite each other."""


class CompiledState(Message):
    """A tensor that outlives a call and is changed by it: `["state", number]`."""

    name: Id
    dtype: DType
    shape: Annotated[list[Extent | Id], Field(max_length=32)]
    """One of its extents may be `generation.places`, along which it grows."""
    encoding: Encoding | None = None
    initial: Annotated[_Initial | None, BeforeValidator(_as_tuple)]
    """Weight buffer and offset of what the first call begins with; null: zeros."""


class Argument(Message):
    """Of a kernel: inputs, then outputs."""

    dtype: DType
    shape: Annotated[list[CheckedExpression], Field(max_length=32)]
    encoding: Encoding | None = None
    role: Literal["input", "output"]
    overwrites: Index | None = None
    """Of an output: the input, by its place, whose bytes it is written into. Both operands are one tensor then, which
    holds what was before the dispatch and what is behind it."""


class CompiledEntryPoint(Message):
    """One WGSL compute entry point; `wgsl` is the index of its text in the model's `wgsl`."""

    name: Name
    file: WgslName
    """Shown in diagnostics."""
    wgsl: Index
    workgroup_size: Annotated[list[Extent], Field(min_length=3, max_length=3)]
    bindings: Annotated[list[Binding], Field(max_length=1000)]


class CompiledTexture(Message):
    """A texture that the launches of a dispatch have between them: of one size, whatever the sizes of the call are."""

    dimension: TextureDimension
    format: TexelFormat
    size: Annotated[list[Annotated[int, Field(ge=1, le=MOST_TEXELS)]], Field(min_length=3, max_length=3)]
    """Width, height, and depth or layers, in texels."""


class CompiledVariant(Message):
    """One implementation of a kernel, as tapml.kernel/4 has it (docs/suite-format.md)."""

    name: Name
    requires: Requires
    entry_points: Annotated[list[CompiledEntryPoint], Field(min_length=1, max_length=1000)]
    launches: Annotated[list[Launch], Field(min_length=1, max_length=10_000)]
    temporaries: Annotated[list[CheckedExpression], Field(max_length=1000)]
    textures: Annotated[list[CompiledTexture], Field(max_length=100, default_factory=list)]
    expected: Expected | None = None


class CompiledKernel(Message):
    """Of the variants whose requirements it meets a device takes the one that is expected to take the least time there,
    or the first, where that is not known of all of them."""

    kernel: KernelName
    symbols: Annotated[list[Symbol], Field(max_length=100)]
    arguments: Annotated[list[Argument], Field(max_length=10_000)]
    variants: Annotated[list[CompiledVariant], Field(min_length=1, max_length=100)]


class Port(Message):
    """An input or an output: the k-th one is the tensor at `["input", k]` or `["output", k]`."""

    name: Id
    tensor: Index


class InputPort(Port):
    """An input, whose elements are from `range[0]` to `range[1]`, over the model's symbols, where these are indices of
    an axis."""

    range: Annotated[_Range | None, BeforeValidator(_as_tuple)] = None


class CompiledFunction(Message):
    """Given its inputs, `code` makes its outputs, in `arena`: scratch buffers of so many bytes, which hold nothing from
    call to call."""

    inputs: Annotated[list[InputPort], Field(max_length=10_000)]
    outputs: Annotated[list[Port], Field(max_length=10_000)]
    arena: Annotated[list[_BufferBytes], Field(max_length=1000)]
    tensors: Annotated[list[CompiledTensor], Field(max_length=2**17)]
    code: Annotated[list[Instruction], Field(max_length=MOST_INSTRUCTIONS)]


class ValidatedAdapter(Message):
    """GPUAdapterInfo; empty where it is not told."""

    vendor: Text
    architecture: Text
    device: Text
    description: Text


class ValidatedDevice(Message):
    """Where kernels were validated."""

    name: Line
    """With its version: "Chromium 156"."""
    runtime: Line
    """"browser", "node", "deno"; empty where it is not known."""
    user_agent: Line
    adapter: ValidatedAdapter


class Validation(Message):
    """What came of the carved tests on a device: the worst verdict of each kernel that was tested there."""

    device: ValidatedDevice
    kernels: Annotated[dict[KernelName, Verdict], Field(max_length=10_000)]


class MemoryFacts(Message):
    """What the memory plan of a function takes, and would take, in bytes."""

    strategy: Text
    naive: Bytes
    """If nothing shared."""
    planned: Bytes
    lower_bound: Bytes
    """Of the largest set of tensors that live at once."""


class Tokenizer(Message):
    """What makes the inputs of text, as the model brought it: an attachment."""

    file: _FileName
    kind: Text


class Attachment(Message):
    """A file beside the model: `tokenizer.json`, and `operators/NAME.json` for running on a machine without WebGPU."""

    name: _FileName
    sha256: Digest
    bytes: Annotated[int, Field(ge=0, le=2**28)]


class CompiledModel(Message):
    """Everything but the bytes of weights and attachments."""

    format: Literal["tapml.model/1"]
    name: Name
    title: Line
    provenance: Provenance
    symbols: Annotated[list[Symbol], Field(max_length=100)]
    weights: Weights
    states: Annotated[list[CompiledState], Field(max_length=10_000)]
    wgsl: Annotated[list[Annotated[str, Field(max_length=MAX_WGSL_BYTES)]], Field(max_length=20_000)]
    """Each text once."""
    kernels: Annotated[list[CompiledKernel], Field(max_length=10_000)]
    functions: Annotated[dict[Id, CompiledFunction], Field(max_length=100)]
    """By name; `main`, or the only one, is meant where a caller names none."""
    validation: Annotated[list[Validation], Field(max_length=1000)]
    memory: Annotated[dict[Id, MemoryFacts], Field(max_length=100)]
    """By function."""
    generation: Generation | None = None
    """Of a language model; null or left out for others."""
    tokenizer: Tokenizer | None
    attachments: Annotated[list[Attachment], Field(max_length=20_000)]
