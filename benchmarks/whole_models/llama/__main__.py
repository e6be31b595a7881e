"""GPU time of prefill and decode of a Llama of the shape of 3.2 3B in Dawn in node (`make bench-llama`), by how its
weights are stored. Weights are made up, and activations float32.

    python -m benchmarks.whole_models.llama --json found.json
    python -m benchmarks.whole_models.llama --small                  # sizes that a GPU in software takes
    python -m benchmarks.whole_models.llama --pack llama.tar.gz      # for another machine: tar xzf it there, and
                                                                     # TAPML_DAWN=dawn.node node llama/measure.mjs llama
    python -m benchmarks.whole_models.llama --of lines.json          # the table of what that printed
    python -m benchmarks.whole_models.llama --peers                  # beside ONNX Runtime Web, in Chromium (peers.py)

Exit code 1 where a model could not be measured, or, of small ones, writes other tokens than this machine computes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tapml as tml
from benchmarks.pages import between, check_docs
from benchmarks.whole_models.llama import peers
from benchmarks.whole_models.llama.models import FULL, SMALL, SMALL_OF_PEERS, STORED
from benchmarks.whole_models.llama.site import facts, make_site, pack, put_peers
from benchmarks.whole_models.llama.table import shares, table
from tapml.browsers.headless import find_runtime

_MARK = "made by make bench-llama"
_PACKAGES = Path("build/web_runtimes/packages")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stored", default=",".join(STORED), help="how weights are stored (default: %(default)s)")
    parser.add_argument("--compiler", default="auto", help="tvm, native or auto (the default)")
    parser.add_argument("--small", action="store_true", help="of sizes that a GPU in software takes")
    parser.add_argument("--rounds", type=int, help="calls that are measured (default 20, small ones 2)")
    parser.add_argument("--warm", type=int, default=700, help="milliseconds of calls before them")
    parser.add_argument("--pack", type=Path, metavar="FILE", help="only make it, and pack it for another machine")
    parser.add_argument("--of", type=Path, metavar="FILE", help="the table of lines that measure.mjs printed")
    parser.add_argument("--peers", action="store_true", help="beside ONNX Runtime Web, in Chromium")
    parser.add_argument("--kinds", help="with --peers: of ONNX Runtime's models (default: all, of small ones single)")
    parser.add_argument("--folder", type=Path, help="where it is made (default build/llama)")
    parser.add_argument("--json", type=Path, help="write what was measured there, too")
    parser.add_argument("--on", help="what the table says of the device and the day")
    parser.add_argument("--docs", type=Path, help="put the table into this page, too")
    options = parser.parse_args(arguments)
    check_docs(parser, options.docs, peers.MARK if options.peers else _MARK)
    names = options.stored.split(",")
    if unknown := next((name for name in names if name not in STORED), None):
        parser.error(f"--stored {unknown}: weights are stored as {', '.join(STORED)}")
    if options.peers and options.of:
        parser.error("--peers: it has no lines of measure.mjs; leave --of out")
    default = f"build/llama{'-peers' if options.peers else ''}{'-small' if options.small else ''}"
    folder = options.folder or Path(default)
    if options.of is None:
        rounds = options.rounds or (2 if options.small else 20)
        warm, tokens = (0, 8) if options.small else (options.warm, 64)
        shape = (SMALL_OF_PEERS if options.peers else SMALL) if options.small else FULL
        make_site(folder, shape, names, options.compiler, rounds=rounds, warm=warm, tokens=tokens)
        if options.peers:
            put_peers(folder, shape, names, _PACKAGES)
    if options.pack:
        pack(folder, names, options.pack)
        print(f"{options.pack}: {options.pack.stat().st_size / 1e6:.1f} MB")
        return 0
    if options.peers:
        return _beside_peers(folder, names, options)
    lines: list[dict[str, Any]] = []
    read = measured(folder, names) if options.of is None else map(json.loads, options.of.read_text().splitlines())
    for line in read:
        lines.append(line)
        if options.json:
            options.json.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
        if "prefill" in line:
            print(shares(line), file=sys.stderr, flush=True)
    made = table(lines, facts(folder), options.on)
    print(made)
    if options.docs:
        between(options.docs, _MARK, made)
    wrong = [f"{line['name']}: {line['error']}" for line in lines if "error" in line]
    if options.small:
        wrong += [line["name"] for line in lines if "written" in line and line["written"]["ids"] != here(folder, line)]
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


def _beside_peers(folder: Path, names: Sequence[str], options: argparse.Namespace) -> int:
    # A GPU in software has no float16.
    kinds = options.kinds or ("single" if options.small else None)
    given = {"--kinds": kinds, "--json": options.json, "--on": options.on, "--docs": options.docs}
    words = [str(word) for option in given.items() if option[1] is not None for word in option]
    return peers.main(["--site", str(folder), "--stored", ",".join(names), *words])


def measured(folder: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What measure.mjs says, line by line."""
    runtime = find_runtime("node-dawn")
    command = [runtime.arguments[0], "--no-warnings", str(folder.resolve() / "measure.mjs"), str(folder.resolve())]
    environment = {**os.environ, **runtime.environment}
    with subprocess.Popen([*command, *names], stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode != 0:
        sys.exit(f"measuring ended with exit code {process.returncode}")


def here(folder: Path, line: Mapping[str, Any]) -> list[int]:
    """The tokens that this machine writes with the model, by the programs of its operators."""
    asked = facts(folder)
    model = tml.load_model(folder / f"{line['name']}.tapml")
    generation = model.files.model.generation
    assert generation is not None, "of a language model"
    prompt = [(at * 7919 + 17) % generation.vocabulary for at in range(asked["prompt"])]
    with tml.generate(model, prompt, tokens=asked["tokens"], greedy=True) as pieces:
        for _ in pieces:
            pass
    return [*pieces.result.ids]


if __name__ == "__main__":
    sys.exit(main())
