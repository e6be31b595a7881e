"""The methods of a device: parameters, progress and results of each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from tapml.expressions import Sizes
from tapml.protocol.base import (
    MAX_BYTES,
    MAX_MESSAGE_BYTES,
    Bytes,
    Digest,
    JsonNumber,
    LongText,
    Message,
    Name,
    Shape,
    TensorRef,
    TensorType,
    Text,
    Tolerance,
)
from tapml.protocol.errors import ErrorReport
from tapml.protocol.fields import Count, Line
from tapml.protocol.kernels import Kernel

# ------------------------------------------------ validate: carved tests, compared on the device


class Test(Message):
    """One carved call of an operator."""

    id: Name
    kernel: Name
    sizes: Sizes = Field(default_factory=dict)
    """Of the kernel's symbols."""
    inputs: list[TensorRef]
    outputs: list[TensorRef]
    """Expected outputs; the device's buffers start filled with 0xFF (NaN for floats)."""
    tolerances: list[Tolerance]
    """One for each output."""


class ValidateParams(Message):
    kernels: list[Kernel]
    tests: list[Test]


Token = Annotated[int, Field(ge=0, lt=2**31)]
"""Of a vocabulary."""

Verdict = TypeAliasType("Verdict", Literal["pass", "fail", "error", "unsupported", "unbounded"])
"""fail: an element mismatched; unbounded: none did, but some are unbounded, which is no pass either."""


class Element(Message):
    index: list[int]
    expected: JsonNumber
    got: JsonNumber
    bound: JsonNumber
    """What it may differ by; Infinity where it is unbounded."""


class Comparison(Message):
    """One output against the expected one."""

    total: Count
    mismatched: Count
    unbounded: Count
    """Elements whose bound is Infinity, whatever their value; they are never mismatched."""
    tied: Count
    """Elements that differ from the expected ones and pass by their group of ties."""
    nan: Count
    """Elements that are NaN on the device while the expected one is not."""
    inf: Count
    """Elements that are infinite on the device while the expected one is not."""
    max_abs_error: float
    """Over the elements where both are finite."""
    max_rel_error: float
    """The same, over those whose expected value is larger than what they may differ by: others may be 0, and an error
    relative to that says nothing."""
    max_ulp: float
    """Distance in representable values of the dtype, over the same; for integers the largest absolute difference."""
    ulp_histogram: Annotated[list[Count], Field(max_length=64)]
    """Counts of elements with ULP distance 0, 1, 2, 3-4, 5-8, 9-16, ... (powers of two up to 2^32), last: NaN on one
    side. 35 counts for every dtype; Inf counts as the value after the largest finite one. Floating-point elements that
    differ and may be 0 are in none."""
    first: Element | None
    """The first mismatched element; where there is none, the first unbounded one."""
    worst: Element | None
    """Of the bounded elements the one with the largest abs(got - expected) / bound[e] (without bounds: excess over the
    tolerance), NaN and Inf before all others; null if none differs."""
    disturbed: Count = 0
    """Of an output that overwrites an input: mismatched elements whose expected value is, bit for bit, what the input
    held, that is those which the operator leaves alone."""


class TestSeconds(Message):
    fetch: float
    compile: float
    run: float
    """An equal share of the batch the test ran in."""
    compare: float
    gpu: float | None = None
    """Seconds between timestamps at the begin and end of the test's dispatches, where the device has timestamps."""


class TestVerdict(Message):
    """Progress of "validate", one for each test."""

    kind: Literal["verdict"]
    id: Name
    kernel: Name
    variant: Name | None
    """The variant of the kernel that ran; null where none did."""
    verdict: Verdict
    outputs: list[Comparison]
    """One for each output; empty for error and unsupported."""
    message: LongText
    """One sentence for a person; empty when it passed."""
    error: ErrorReport | None
    seconds: TestSeconds


class Compiling(Message):
    """Progress of every method that compiles, before the compilation of a kernel begins: a runner whose own thread
    compiles says nothing while it does, and when that never ends, the last kernel that was announced is to blame."""

    kind: Literal["compiling"]
    kernel: Name


class CompileProgress(Message):
    """Progress of every method that compiles: the compilation of a kernel has ended."""

    kind: Literal["compile"]
    kernel: Name
    done: int
    """Kernels compiled so far, of how many."""
    total: int
    seconds: float


class GeneratedStep(Message):
    """The calls of the model that a token was chosen by: one, or several where the prompt is longer than a chunk."""

    function: Name
    """The one that was called last."""
    tokens: Annotated[int, Field(ge=1)]
    """That the calls were given."""
    seconds: float
    """Of the calls, until their outputs were read back."""
    gpu_seconds: float | None
    """Of their dispatches by the GPU's timestamps; null where the device has none."""
    states: Bytes
    """That the model's states have on the GPU behind the calls."""
    logits: Annotated[str, Field(max_length=MAX_MESSAGE_BYTES)]
    """Of the last call, behind the last token: float32, little-endian, in base64."""


class GeneratedToken(Message):
    """Progress of "generate", one for each token that was chosen."""

    kind: Literal["token"]
    text: Annotated[int, Field(ge=0)]
    """The number of its prompt, from 0 on."""
    id: Token
    position: Annotated[int, Field(ge=0)]
    """Where it stands, from 0 on: behind the prompt."""
    seconds: float
    """Since the model began with the prompt."""
    guessed: bool
    """Whether it was guessed, so that its call gave more than one token."""
    step: GeneratedStep | None = None
    """Where the text is inspected."""


class Alive(Message):
    """Progress of every method, every few seconds: the runner is still at it."""

    kind: Literal["alive"]
    doing: Text


class ValidateSeconds(Message):
    fetch: float
    compile: float
    upload: float
    run: float
    compare: float
    total: float


class ValidateResult(Message):
    """Every verdict has already travelled as progress."""

    seconds: ValidateSeconds


# ------------------------------------------------ execute: commands over tensors that stay on the device


class LoadCommand(Message):
    """Compiles kernels and keeps them under the name of a library. One of that name is replaced."""

    op: Literal["load"] = "load"
    library: Name
    kernels: list[Kernel]


class UnloadCommand(Message):
    op: Literal["unload"] = "unload"
    library: Name


class UploadCommand(TensorRef):
    """The bytes of a blob into a new tensor. A tensor of that name is replaced."""

    op: Literal["upload"] = "upload"
    tensor: Name


class AllocateCommand(TensorType):
    """A new tensor, filled with 0xFF."""

    op: Literal["allocate"] = "allocate"
    tensor: Name


class ViewCommand(Message):
    """The same buffer under a second name and shape, with its dtype and encoding."""

    op: Literal["view"] = "view"
    tensor: Name
    of: Name
    shape: Shape


class CopyCommand(Message):
    """The elements of `of` into `tensor`, which is there and has as many bytes."""

    op: Literal["copy"] = "copy"
    tensor: Name
    of: Name


class CallCommand(Message):
    """One call of a kernel: its inputs, then its outputs."""

    op: Literal["call"] = "call"
    library: Name
    kernel: Name
    sizes: Sizes = Field(default_factory=dict)
    """Of the kernel's symbols."""
    arguments: list[Name]


class DownloadCommand(Message):
    """Bytes go, one download after the other, in the body of one POST to /api/calls/<call>/downloads."""

    op: Literal["download"] = "download"
    tensor: Name


class SyncCommand(Message):
    """Wait until the GPU has done all that came before."""

    op: Literal["sync"] = "sync"


class FreeCommand(Message):
    """Tensors that are not there are passed over."""

    op: Literal["free"] = "free"
    tensors: list[Name]


class FreePrefixCommand(Message):
    """Free every tensor whose name starts with this."""

    op: Literal["free_prefix"] = "free_prefix"
    prefix: str


Command = TypeAliasType(
    "Command",
    Annotated[
        LoadCommand
        | UnloadCommand
        | UploadCommand
        | AllocateCommand
        | ViewCommand
        | CopyCommand
        | CallCommand
        | DownloadCommand
        | SyncCommand
        | FreeCommand
        | FreePrefixCommand,
        Field(discriminator="op"),
    ],
)


class ExecuteParams(Message):
    """Commands run in order. After an error nothing further runs; what was done before stays done."""

    commands: list[Command]
    timing: bool
    """Ask for the GPU time of each call."""


class ExecuteSeconds(Message):
    fetch: float
    compile: float
    run: float
    total: float
    cpu: float | None = None
    """CPU time of the runner's process while commands ran, that of a GPU in software among it; null where the runner
    does not know it."""


class MemoryUse(Message):
    """GPU buffers of this runner, without those of models."""

    buffers: int
    """In use."""
    bytes: int
    """Of those in use."""
    idle_bytes: int
    """Of those that wait to be used again."""


class ExecuteResult(Message):
    downloads: list[Bytes]
    """Bytes of each download, in order."""
    variants: dict[str, str]
    """"library/kernel" -> variant taken, for what was loaded by this call."""
    gpu_seconds: list[float] | None
    """GPU time of each call command, in order; null where it was not asked for or the device has no timestamps."""
    memory: MemoryUse
    """After the call."""
    seconds: ExecuteSeconds


# ------------------------------------------------ run_model: the whole model through the tvmjs virtual machine


class RunModelParams(Message):
    wasm: Digest
    """The model library: TVM's runtime and the model's code, linked to one wasm file."""
    function: Name
    arguments: list[TensorRef]
    """Inputs, then parameters, in the order of the function's arguments."""
    outputs: list[TensorType]
    replace: dict[str, Digest]
    """WGSL to use instead of what the library holds, by entry point."""
    runs: Annotated[int, Field(ge=1, le=10_000)]
    """Times to run it; the first run's outputs are downloaded as in "execute"."""


class RunModelSeconds(Message):
    fetch: float
    instantiate: float
    compile: float
    upload: float
    runs: list[float]


class RunModelResult(Message):
    downloads: list[Bytes]
    seconds: RunModelSeconds


# ------------------------------------------------ run_compiled: a compiled model, as a page runs it

MOST_CALLS = 1000
"""Of a function, in one message."""


class CaptureOptions(Message):
    """What `model.capture` of the runtime is told (docs/capture.md)."""

    nodes: Annotated[list[Name], Field(min_length=1, max_length=20_000)] | None = None
    """Nodes of the model's program, or kernels; null for all."""
    sample: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_bytes: Annotated[int, Field(gt=0, le=MAX_BYTES)] = 1 << 26
    weights: bool = False


class CaptureParams(CaptureOptions):
    operators: Annotated[dict[Line, Digest], Field(max_length=20_000)]
    """By kernel, the text of what it computes, as far as the model has it."""


class FormerCall(Message):
    """A call for what it leaves in the states. Its outputs are not sent back."""

    function: Name
    inputs: dict[Line, TensorRef]


class RunCompiledParams(Message):
    """The blobs of a compiled model are its document and its shards of weights, by their digests (model-format.md)."""

    model: Digest
    """Its document, `model.json`."""
    function: Name
    calls: Annotated[list[dict[Line, TensorRef]], Field(min_length=1, max_length=MOST_CALLS)]
    """Inputs by name, of calls one after the other: each begins with the states that the former left. The outputs of
    each are downloaded, element by element as their dtypes say, whatever their encodings."""
    before: Annotated[list[FormerCall], Field(max_length=MOST_CALLS)] = Field(default_factory=list)
    """Calls of any function that come before these."""
    repeat: Annotated[int, Field(ge=0, le=10_000)]
    """How often the last call is made again, for its time alone."""
    capture: CaptureParams | None = None
    """Of the last call (before it is repeated). The file is what comes behind the downloads."""


class RunCompiledSeconds(Message):
    load: float
    """Fetching, checking and compiling, until the first call can begin."""
    calls: list[float]
    """Of each call, the repeated ones too, until its outputs are read back."""


class RunCompiledResult(Message):
    downloads: list[Bytes]
    """Bytes of each output of each call, in order."""
    captured: Bytes = 0
    """Bytes of the captured call's file."""
    variants: dict[str, str]
    """Kernel -> variant taken."""
    bytes: Bytes
    """Of the GPU buffers that the model has."""
    seconds: RunCompiledSeconds


# ------------------------------------------------ generate: a text that a compiled model writes, as a page has it


_Prompt = Annotated[list[Token], Field(min_length=1, max_length=1_000_000)]


class KeptTexts(Message):
    """Texts that a device keeps between calls, each with states of its own, by names that whoever asks gives them. One
    that is not there is computed of its tokens."""

    writer: Name
    """In which the prompt is written."""
    forks: Annotated[dict[Name, Name], Field(max_length=1000)]
    """Copies that are made before that: their names, and what they are copies of."""
    drop: Annotated[list[Name], Field(max_length=1000)]
    """Texts that are given back then. With the last of a model the model is."""


class GenerateParams(Message):
    """What is written behind prompts, each in a sequence of its own, and how tokens are chosen (docs/runtime.md). Each
    token is told as progress."""

    model: Digest
    """Its document, `model.json`, as for "run_compiled"."""
    prompts: Annotated[list[_Prompt], Field(max_length=1000)]
    """None where texts are given back only."""
    tokens: Annotated[int, Field(ge=1, le=1_000_000)]
    """How many at most, of each text."""
    stop_ids: Annotated[list[Token], Field(max_length=10_000)]
    """Tokens that end a text, besides the model's own."""
    greedy: bool
    temperature: Annotated[float, Field(gt=0)] | None
    top_k: Annotated[int, Field(ge=1)] | None
    top_p: Annotated[float, Field(gt=0, le=1)] | None
    repetition_penalty: Annotated[float, Field(gt=0)]
    seed: Annotated[int, Field(ge=0, le=2**53 - 1)] | None
    speculate: Annotated[int, Field(ge=1)] | None
    """How many tokens are guessed at a time; null for none."""
    draft: Digest | None = None
    """The document of the model that guesses them; null where they are what stood behind the last ones before."""
    given: dict[Line, TensorRef] = Field(default_factory=dict)
    """What the model's encoder left: inputs of every call."""
    kept: KeptTexts | None = None
    """Of one prompt: where its states are found, and left. Null for states that are given back with the call."""
    inspect: bool = False
    """Of one prompt that is not kept, without guesses: each token comes with its step. Logits are read back and each
    dispatch is timed, so that calls take longer than those of a page; the text is the same."""


class GenerateResult(Message):
    tokens: int
    """How many were chosen, of all texts."""
    load_seconds: float
    """Fetching, checking and compiling, until it could begin with the prompt."""
    variants: dict[str, str]
    """Kernel -> variant taken."""
    bytes: Bytes
    """Of the GPU buffers that the model has."""


class PingParams(Message):
    """Nothing."""


class PingResult(Message):
    """Nothing."""
