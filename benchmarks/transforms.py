"""Transforms of models: how many there are, how many kernels only move elements, and how many bytes these move; fused
as TVM fuses, and where tapml's own kernels read in place (`make bench-transforms`). Nothing is run.

MiniLM, the decoders of `tapml zoo`, and vision models and blocks of `benchmarks.torch_models`.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.pages import between, check_docs
from tapml.carving.prepare import lowered_with_documents, step_call
from tapml.compilers.choose import CHOICES, made_for
from tapml.errors import TapmlError
from tapml.importing import ImportedModel
from tapml.lowering.in_place import Accepts
from tapml.regions.count import Moved, moved

MARK = "made by make bench-transforms"
VISION = (
    "vit", "swin", "swinv2", "segformer", "mobilevit", "beit", "mobilenet_v2", "unet (block)", "diffusion (block)",
    "inception (block)", "yolo (block)", "shifted windows (block)", "spectrogram (block)",
)  # fmt: skip

Row = tuple[str, Moved, Moved]


def models() -> dict[str, Callable[[Path], ImportedModel]]:
    """By name; what they need lies in a folder."""
    from tapml.zoo.configurations import CONFIGURATIONS

    found: dict[str, Callable[[Path], ImportedModel]] = {"MiniLM": lambda folder: _minilm()}
    found |= {f"{name} (zoo)": (lambda folder, name=name: _decoder(name, folder)) for name in CONFIGURATIONS}
    return found | {name: (lambda folder, name=name: _exported(name, folder)) for name in VISION}


def _minilm() -> ImportedModel:
    from tapml.importing.minilm import import_minilm

    return import_minilm([], lambda text: None)


def _decoder(name: str, folder: Path) -> ImportedModel:
    from tapml.importing.load import import_decoder
    from tapml.zoo.configurations import configuration
    from tapml.zoo.made import CAPACITY, CHUNK, PROMPT

    configuration(name).save_pretrained(folder)
    return import_decoder(folder / "config.json", prompt=PROMPT, steps=2, capacity=CAPACITY, chunk=CHUNK, seed=0)


def _exported(name: str, folder: Path) -> ImportedModel:
    from benchmarks.torch_models.cases import exported
    from tapml.importing import import_model

    path, inputs = exported(name, folder)
    return import_model(str(path), input_files=[inputs])


def counted(model: ImportedModel, accepts: Accepts | None) -> dict[str, Moved]:
    """By function, of its first step."""
    lowered, documents = lowered_with_documents(model, accepts)
    found: dict[str, Moved] = {}
    for step in model.steps:
        function, sizes = step_call(lowered, model, step)
        if function not in found:
            at = lowered.at(sizes, documents, function)
            found[function] = moved(at.graph, at.programs)
    return found


def rows(name: str, model: ImportedModel) -> Iterator[Row]:
    """One for each function: fused, and in place."""
    fused, in_place = (counted(model, accepts) for accepts in (None, made_for(CHOICES["native"])))
    for function, before in fused.items():
        yield name if len(fused) == 1 else f"{name}, {function}", before, in_place[function]


def table(found: list[Row]) -> str:
    """In Markdown."""
    columns = [f"{how}: {what}" for how in ("fused", "in place") for what in ("kernel calls", "moves", "bytes moved")]
    lines = [f"| {' | '.join(('', 'transforms', *columns, 'bytes written'))} |", f"| --- |{' --: |' * 8}"]
    total = ("all", *(_sum([row[n] for row in found]) for n in (1, 2)))
    for name, before, after in (*found, total):
        numbers = [before.transforms, before.calls, before.moves, before.bytes, after.calls, after.moves, after.bytes]
        written = f"{before.written:,} → {after.written:,}"
        lines.append(f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} | {written} |")
    return "\n".join(lines)


def _sum(found: list[Any]) -> Moved:
    return Moved(*(sum(getattr(one, name) for one in found) for name in Moved.__dataclass_fields__))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--docs", type=Path, metavar="FILE")
    options = parser.parse_args()
    check_docs(parser, options.docs, MARK)
    warnings.simplefilter("ignore")
    found: list[Row] = []
    for name, made in models().items():
        if not options.only.search(name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                found += rows(name, made(Path(folder)))
            except TapmlError as error:
                print(f"{name}: {error}", file=sys.stderr, flush=True)
                continue
        print(f"{name}: {found[-1][1:]}", file=sys.stderr, flush=True)
    print(table(found))
    if options.docs:
        between(options.docs, MARK, table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
