"""Tokens per second of several texts at once, on a device: by calls that take a token of each (`--batch`), and each as
a sequence of its own, whose calls take turns (`make bench-batches`).

Of each number of texts the best of the rounds, and how many times that of one. Exit code 1 where a text's tokens are
not the same both ways. A software GPU says little of speed, for weights are in the processor's cache there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import tapml as tml
from tapml.carving.carve import carve
from tapml.importing import import_decoder
from tapml.models import folder_of

PROMPT = "It was a dark and stormy night; the rain fell in torrents, except at occasional intervals"
MOST = 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hf", type=Path, default=folder_of("tiny"), help="a folder of transformers (default: tiny)")
    parser.add_argument("--device", default="node-dawn")
    parser.add_argument("--tokens", type=int, default=128, help="behind each prompt (default 128)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    device = tml.webgpu(options.device)
    with tempfile.TemporaryDirectory() as folder:
        together, apart = (_model(options.hf, Path(folder), batch) for batch in (MOST, 0))
        print(f"{'texts':>5}{'batch':>20}{'sequences':>20}   tokens per second on {device.name}")
        of_one: list[float] = []
        right = True
        for count in (1, 2, 4, 8):
            written = [_written(model, device, count, options) for model in (together, apart)]
            right &= written[0][1] == written[1][1]
            speeds = [speed for speed, _ in written]
            of_one = of_one or speeds
            shown = [f"{speed:11.1f} ({speed / one:4.2f} x)" for speed, one in zip(speeds, of_one, strict=True)]
            print(f"{count:5}{shown[0]:>20}{shown[1]:>20}{'' if right else '   other tokens'}", flush=True)
    return 0 if right else 1


def _model(source: Path, folder: Path, batch: int) -> tml.CompiledModel:
    imported = import_decoder(source, prompt="Once upon a time", steps=1, batch=batch)
    name = f"model{batch}"
    return tml.build(carve(imported, folder / f"{name}.suite", name=name), folder / f"{name}.tapml")


def _written(
    model: tml.CompiledModel, device: tml.Device, count: int, options: argparse.Namespace
) -> tuple[float, list[list[int]]]:
    """Tokens per second behind the first ones, and the tokens of each text. Prompts are of different lengths."""
    words = PROMPT.split()
    prompts = [" ".join(words[: len(words) - number]) for number in range(count)]
    best, ids = 0.0, []
    for _ in range(options.rounds):
        with tml.generate_several(model, prompts, device, greedy=True, tokens=options.tokens) as several:
            for _ in several:
                pass
        ids = [result.ids for result in several.results]
        seconds = max(result.prefill_seconds + result.decode_seconds for result in several.results)
        begun = min(result.prefill_seconds for result in several.results)
        best = max(best, sum(len(found) - 1 for found in ids) / (seconds - begun))
    return best, ids


if __name__ == "__main__":
    sys.exit(main())
