"""The session between the server and a runner: introduction, calls, what comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field
from typing_extensions import TypeAliasType

from tapml.protocol.base import LongText, Message, Name, Text
from tapml.protocol.errors import ErrorReport
from tapml.protocol.methods import (
    Alive,
    CompileProgress,
    Compiling,
    ExecuteParams,
    ExecuteResult,
    GeneratedToken,
    GenerateParams,
    GenerateResult,
    PingParams,
    PingResult,
    RunCompiledParams,
    RunCompiledResult,
    RunModelParams,
    RunModelResult,
    TestVerdict,
    ValidateParams,
    ValidateResult,
)

# ---------------------------------------------------------------- runner -> server


class AdapterInfo(Message):
    """GPUAdapterInfo; empty where the implementation does not tell."""

    vendor: Text
    architecture: Text
    device: Text
    description: Text


class Resume(Message):
    """Who the runner was before its connection broke."""

    device: Name
    session: Name
    calls: Annotated[list[Name], Field(max_length=100)]
    """Calls the runner still has messages of: running, or ended without being sure that the end arrived."""


class Hello(Message):
    """Event "hello", acknowledged with HelloAck: first after connecting, and again when the GPU device is another."""

    protocol: int
    runtime: Text
    """What the runner runs in: "browser", "node", "deno"; a runner of your own says its own."""
    resume: Resume | None
    generation: Annotated[int, Field(ge=0)]
    """Counts the GPU devices that this runner has had: tensors and libraries are gone with the one before."""
    secret: Name | None
    """What the server gave to this very runner when it started it, in its address behind "#"; null for all that it did
    not start. One that the server does not know is refused."""
    name: Name
    user_agent: Text
    adapter: AdapterInfo
    features: Annotated[list[Text], Field(max_length=200)]
    limits: Annotated[dict[str, float], Field(max_length=200)]
    unavailable: LongText | None
    """Why this device cannot run kernels (no WebGPU, no adapter); null when it can."""


class Welcome(Message):
    device: Name
    session: Name
    """A secret that proves later that the runner is this one."""
    calls: dict[str, int]
    """Calls the server waits for -> number of their messages that arrived; the runner sends the rest, and drops calls
    that are not here."""


class Refusal(Message):
    error: str


HelloAck = TypeAliasType("HelloAck", Welcome | Refusal)


class Progress(Message):
    """Event "progress": something worth knowing before the call's reply."""

    call: Name
    number: Annotated[int, Field(ge=0)]
    """Counts a call's messages, progress and reply together, from 0: what arrives twice counts once."""
    progress: Annotated[Compiling | CompileProgress | TestVerdict | GeneratedToken | Alive, Field(discriminator="kind")]


class Reply(Message):
    """Event "reply": the end of a call, exactly one for each. `result` when ok, else `error`."""

    call: Name
    number: Annotated[int, Field(ge=0)]
    ok: bool
    result: Any = None
    error: ErrorReport | None = None


# ---------------------------------------------------------------- server -> runner


class CancelCall(Message):
    """Event "cancel": nobody waits for this call any more; stop it at the next chance and reply as to an error."""

    call: Name


HangSeconds = Annotated[float, Field(gt=0)]


class ValidateCall(Message):
    call: Name
    method: Literal["validate"] = "validate"
    hang_seconds: HangSeconds
    """GPU work, and the compilation of an entry point, that takes longer than this is taken for hung, and its device
    for lost."""
    params: ValidateParams


class ExecuteCall(Message):
    call: Name
    method: Literal["execute"] = "execute"
    hang_seconds: HangSeconds
    params: ExecuteParams


class RunModelCall(Message):
    call: Name
    method: Literal["run_model"] = "run_model"
    hang_seconds: HangSeconds
    params: RunModelParams


class RunCompiledCall(Message):
    call: Name
    method: Literal["run_compiled"] = "run_compiled"
    hang_seconds: HangSeconds
    params: RunCompiledParams


class GenerateCall(Message):
    call: Name
    method: Literal["generate"] = "generate"
    hang_seconds: HangSeconds
    params: GenerateParams


class PingCall(Message):
    call: Name
    method: Literal["ping"] = "ping"
    hang_seconds: HangSeconds
    params: PingParams


Call = TypeAliasType(
    "Call",
    Annotated[
        ValidateCall | ExecuteCall | RunModelCall | RunCompiledCall | GenerateCall | PingCall,
        Field(discriminator="method"),
    ],
)
"""Event "call"."""

Params = TypeVar("Params", bound=Message)
Result = TypeVar("Result", bound=Message)


@dataclass(frozen=True)
class Method(Generic[Params, Result]):
    """What a device can be called for: the message that calls it, and what a reply's `result` is."""

    call: Callable[..., Message]
    result: type[Result]


VALIDATE: Method[ValidateParams, ValidateResult] = Method(ValidateCall, ValidateResult)
EXECUTE: Method[ExecuteParams, ExecuteResult] = Method(ExecuteCall, ExecuteResult)
RUN_MODEL: Method[RunModelParams, RunModelResult] = Method(RunModelCall, RunModelResult)
RUN_COMPILED: Method[RunCompiledParams, RunCompiledResult] = Method(RunCompiledCall, RunCompiledResult)
GENERATE: Method[GenerateParams, GenerateResult] = Method(GenerateCall, GenerateResult)
PING: Method[PingParams, PingResult] = Method(PingCall, PingResult)
