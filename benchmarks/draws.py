"""What choosing tokens costs tiny's decode loop in Dawn in node (`make bench-draws`): greedily, and drawn by the device
or by the page.

Of each way: tokens a second, the share of the time in which the GPU waits between the compute passes behind the first
token (by the timestamps that each pass writes, in a text of its own), and bytes that are read back a token. Medians of
the rounds, behind a text that makes what is made once. Exit code 1 where the device and the page draw other tokens. A
software GPU says nothing of speed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tapml as tml
from tapml.browsers.headless import find_runtime
from tapml.carving.carve import carve
from tapml.importing import import_decoder
from tapml.models import folder_of

_HERE = Path(__file__).parent
_PASSES = _HERE / "web_generation/pages/passes.js"
_RUNTIME = Path(tml.__file__).parent / "server/static/runtime"
_PROMPT = "It was a dark and stormy night"
WAYS: Mapping[str, Mapping[str, Any]] = {
    "greedy": {"greedy": True},
    "all tokens": {"seed": 3},
    "temperature 0.8, top-k 50": {"temperature": 0.8, "topK": 50, "seed": 7},
    "top-p 0.9, penalty 1.2": {"topP": 0.9, "repetitionPenalty": 1.2, "seed": 5},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hf", type=Path, default=folder_of("tiny"), help="a folder of transformers (default: tiny)")
    parser.add_argument("--tokens", type=int, default=256, help="of each text (default 256)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write what was found")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = {name: _model(options.hf, Path(folder), name) for name in ("device", "page")}
        found, device = _measured(models, options)
    if options.json:
        options.json.write_text(json.dumps({"device": device, "found": found}, indent=1), "utf-8")
    print(_table(found, options, device))
    by_way = {(one["model"], one["way"]): one["ids"] for one in found}
    return 0 if all(by_way["device", way] == by_way["page", way] for way in WAYS) else 1


def _model(source: Path, folder: Path, name: str) -> str:
    imported = import_decoder(source, prompt=_PROMPT, steps=1, capacity=512, draws=name == "device")
    suite = carve(imported, folder / f"{name}.suite", name=name)
    return str(tml.build(suite, folder / f"{name}.tapml").path)


def _measured(models: Mapping[str, str], options: argparse.Namespace) -> tuple[list[dict[str, Any]], str]:
    from tokenizers import Tokenizer

    runtime = find_runtime("node-dawn")
    asked = {
        "runtime": str(_RUNTIME),
        "passes": str(_PASSES),
        "models": models,
        "ways": WAYS,
        "prompt": Tokenizer.from_file(str(options.hf / "tokenizer.json")).encode(_PROMPT).ids,
        "tokens": options.tokens,
        "rounds": options.rounds,
    }
    command = [runtime.arguments[0], "--no-warnings", str(_HERE / "draws.mjs"), runtime.environment["TAPML_DAWN"]]
    environment = {**os.environ, **runtime.environment}
    ran = subprocess.run(
        command, input=json.dumps(asked), env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    *found, last = map(json.loads, ran.stdout.splitlines())
    return found, last["device"]


def _table(found: list[dict[str, Any]], options: argparse.Namespace, device: str) -> str:
    rows = [
        f"| {one['way']} | {one['model']} | {len(one['ids'])} | {statistics.median(one['speeds']):,.0f} | "
        f"{_share(one['idles'])} | {one['read']:,.0f} |"
        for one in found
    ]
    head = f"At most {options.tokens} tokens, medians of {options.rounds}, Dawn in node on {device}."
    columns = "| tokens are chosen | who draws | tokens | a second | GPU idle | bytes read a token |"
    return "\n".join([head, "", columns, "| --- | --- | --- | --- | --- | --- |", *rows])


def _share(idles: list[float | None]) -> str:
    known = [idle for idle in idles if idle is not None]
    return f"{100 * statistics.median(known):.1f} %" if known else "no timestamps"


if __name__ == "__main__":
    sys.exit(main())
