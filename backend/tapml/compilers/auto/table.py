"""What kernels take on a class of devices, as it was measured there (tapml.tuned/1, docs/choosing.md)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tapml.errors import InputError
from tapml.files import sha256
from tapml.formats import format_version, validated
from tapml.kernels.wgsl_tokens import is_name, token_texts
from tapml.protocol.base import Digest, Message, Name, Text
from tapml.strict_json import parse_json

FORMAT = "tapml.tuned/1"
_MOST_BYTES = 32_000_000
_DOCUMENTED = " (docs/choosing.md)"

_ClassName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)?$", max_length=100)]
_CandidateName = Annotated[str, Field(pattern=r"^[a-z]+(\.[a-z0-9.x-]+)?$", max_length=100)]


class Measured(Message):
    """A candidate. `text` is `text_key` of what ran."""

    name: _CandidateName
    text: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    microseconds: Annotated[float, Field(gt=0)] | None = None
    refused: Text | None = None
    """Why it has no time: the device cannot run it, or it did not give what the others give."""


class MeasuredKernel(Message):
    """The candidates of an operator; `operator` is its digest, `name` is for people."""

    operator: Digest
    name: Text
    sizes: dict[Name, int] = Field(default_factory=dict)
    candidates: Annotated[list[Measured], Field(max_length=1000)]


class Tuned(Message):
    """A table. `classes`: those of the device, from the closest; its times stand for the first."""

    format: Text
    classes: Annotated[list[_ClassName], Field(min_length=1, max_length=8)]
    device: Text
    """What it was measured on, for people."""
    clock: Literal["gpu", "cpu", "wall"]
    """`gpu`: timestamps of the GPU; `cpu`: of a GPU in software, CPU time of the process that it is in, which a busy
    machine changes little; `wall`: the time until all of many calls were done, over how many they were."""
    kernels: Annotated[list[MeasuredKernel], Field(max_length=100_000)]

    @functools.cached_property
    def by_operator(self) -> dict[str, MeasuredKernel]:
        return {kernel.operator: kernel for kernel in self.kernels}


def read_table(path: Path) -> Tuned:
    """Raises InputError naming `path`, and the field that is wrong."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): give a table that `tapml tune` wrote") from error
    if len(content) > _MOST_BYTES:
        raise InputError(f"{path} is larger than a table of `tapml tune` may be ({_MOST_BYTES} bytes)")
    found = parse_json(content, path, f"give a table that `tapml tune` wrote{_DOCUMENTED}")
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no JSON object: give a table that `tapml tune` wrote{_DOCUMENTED}")
    format_version(path, found, FORMAT, "a table of times")
    return validated(path, Tuned, found, _DOCUMENTED)


@functools.cache
def shipped() -> tuple[Tuned, ...]:
    """The tables that come with tapml."""
    folder = resources.files("tapml.compilers.auto") / "tables"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".json"))
    return tuple(Tuned.model_validate_json((folder / name).read_bytes()) for name in names)


def text_key(texts: Sequence[str]) -> str:
    """Of WGSL, whatever its functions and variables are called: a time is of a text, and of no other."""
    known: dict[str, str] = {}
    names = itertools.count()
    parts = [token for text in texts for token in token_texts(text) or ()]
    for token in dict.fromkeys(parts):
        known[token] = f"n{next(names)}" if is_name(token) else token
    return sha256(" ".join([known[token] for token in parts]))[:16]
