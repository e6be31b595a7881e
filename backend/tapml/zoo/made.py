"""What is made of a configuration: with random weights it is imported, carved and built, once for all devices."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.compiled.files import CompiledFiles
from tapml.compilers.choose import compilers_of
from tapml.importing import import_decoder
from tapml.suite import Suite
from tapml.zoo.code import DEFAULT, UNKNOWN, code, compiler_of
from tapml.zoo.configurations import configuration

PROMPT = [3, 17, 42, 99, 7, 100, 31, 55, 12, 60, 4]
COUNT = 64
CAPACITY, CHUNK = 80, 8
"""The prompt and what follows fit; its 11 tokens are two chunks."""

_SEEDS, _MANY = 24, 12
"""Of weights that are tried, until there are so many different tokens."""

_FACTS, _SOURCE = "made.json", "source.npy"


@dataclass(frozen=True)
class Made:
    """`wanted`: the tokens that transformers generates behind the prompt; `chunk`: how many a call takes; `source`:
    what the encoder is given, where there is one (`encoder`, beside `decoder`, is a name of suites then); `code` made
    all of it."""

    suites: dict[str, Suite]
    models: dict[str, CompiledFiles]
    wanted: list[int]
    chunk: int
    source: np.ndarray | None
    code: str


def made(name: str, folder: Path, any_code: bool = False, compiler: str = DEFAULT) -> Made:
    """In `folder`, where it may be already: of this code, or with `any_code` of whatever code made it, and with kernels
    of `compiler`. Raises TapmlError where the configuration is refused."""
    facts = _facts(folder)
    if facts is None or not (any_code or facts.get("code") == code()) or compiler_of(facts) != compiler:
        _make(name, folder, compiler)
        facts = json.loads((folder / _FACTS).read_text("utf-8"))
    source = folder / _SOURCE
    return Made(
        {part: Suite(folder / f"{part}.suite") for part in facts["parts"]},
        {part: CompiledFiles(folder / f"{part}.tapml") for part in facts["parts"]},
        facts["wanted"],
        facts["chunk"],
        np.load(source) if source.is_file() else None,
        facts.get("code", UNKNOWN),
    )


def _facts(folder: Path) -> dict[str, Any] | None:
    path = folder / _FACTS
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def _make(name: str, folder: Path, compiler: str) -> None:
    (folder / _FACTS).unlink(missing_ok=True)  # or what is half made would be taken for what it was before
    configuration(name).save_pretrained(folder)
    config = folder / "config.json"
    seed, wanted, source = _telling(config)
    imported = import_decoder(config, prompt=PROMPT, steps=2, capacity=CAPACITY, chunk=CHUNK, seed=seed)
    parts = {"decoder": imported}
    if source is not None:
        np.save(folder / _SOURCE, source)
        parts["encoder"] = import_decoder(config, seed=seed, encoder=True)
    for part, model in parts.items():
        suite = carve(
            model,
            folder / f"{part}.suite",
            name=part,
            compilers=compilers_of(compiler),
            keep_disagreeing=True,
            overwrite=True,
        )
        build(suite, folder / f"{part}.tapml", keep_disagreeing=True, overwrite=True)
    chunk = imported.steps[0].inputs["input_ids"].shape[1]
    facts = {"parts": [*parts], "wanted": wanted, "chunk": chunk, "code": code(), "compiler": compiler}
    (folder / _FACTS).write_text(json.dumps(facts), "utf-8")


def _telling(config: Path) -> tuple[int, list[int], np.ndarray | None]:
    """transformers' own tokens, of the first seed that gives many different ones: a model of random weights may repeat
    one for ever, whatever its attention does. Of those that give few the one with most. And what its encoder is given,
    where it has one."""
    from tapml.importing.hf_encoder import has_encoder, source_of
    from tapml.importing.hf_import import greedy
    from tapml.importing.hf_model import open_decoder

    found: list[tuple[int, list[int], np.ndarray | None]] = []
    for seed in range(_SEEDS):
        model = open_decoder(config, seed).model
        source = source_of(model, None, seed) if has_encoder(model) else None
        array = None if source is None else next(iter(source.values())).numpy()
        found.append((seed, greedy(model, PROMPT, COUNT, source), array))
        if len(set(found[-1][1])) >= _MANY:
            break
    return max(found, key=lambda each: len(set(each[1])))
