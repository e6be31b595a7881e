"""What a decoder's suite stores, to what there is to store: `make bench-decoder-storage`.

Distinct values are the bytes of every tensor that the suite refers to, each once; of a state that is a version of the
one before, the rows (along the last axis) that differ from it, and of its first version those that are not zeros.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from tapml.cli import main as tapml
from tapml.suite import Suite, TensorRef
from tapml.zoo.configurations import configuration

GOAL = 1.2


def stored_bytes(suite: Suite) -> int:
    """Of all files of the suite's tensors."""
    return sum(path.stat().st_size for path in (suite.path / "tensors").rglob("*") if path.is_file())


def distinct_bytes(suite: Suite) -> int:
    """Of the values that are in them."""
    states: set[str] = set()
    changed = 0
    for versions in _versions(suite):
        before = np.zeros_like(suite.tensors.get(versions[0]))
        for ref in versions:
            array = suite.tensors.get(ref)
            rows = (array != before).reshape(-1, array.shape[-1]).any(axis=1)
            changed += int(rows.sum()) * array.shape[-1] * array.itemsize
            before = array
        states |= {ref.digest for ref in versions}
    others = {ref.digest: ref.type.nbytes for ref in suite.refs() if ref.digest not in states}
    return changed + sum(others.values())


def _versions(suite: Suite) -> list[list[TensorRef]]:
    graph, steps = suite.graphs[0], suite.manifest["steps"]
    found = []
    for before, after in graph.states.values():
        given = [*steps[0]["inputs"].values()][graph.inputs.index(before)]
        left = [step["outputs"][graph.outputs.index(after)] for step in steps]
        found.append([TensorRef.from_json(ref) for ref in (given, *left)])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configuration", default="llama")
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--capacity", type=int, default=128)
    parser.add_argument("--suite", type=Path, help="a suite that is there, in place of one that is carved now")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        suite = options.suite or carved(Path(folder), options.configuration, options.steps, options.capacity)
        opened = Suite(suite)
        stored, distinct = stored_bytes(opened), distinct_bytes(opened)
        whole = sum({ref.digest: ref.type.nbytes for ref in opened.refs()}.values())
    print(f"{len(opened.tests)} tests of {len(opened.manifest['steps'])} steps")
    print(f"stored {stored:,} bytes, distinct {distinct:,}: {stored / distinct:.3f} x (goal {GOAL})")
    print(f"with every version of a state whole: {whole:,}, {whole / distinct:.3f} x")
    return 0 if stored <= GOAL * distinct else 1


def carved(folder: Path, name: str, steps: int, capacity: int) -> Path:
    """The suite of a tiny decoder with random weights."""
    configuration(name).save_pretrained(folder)
    suite = folder / "decoder.suite"
    prompt = ",".join(str(token) for token in range(3, 14))
    options = ["--prompt-ids", prompt, "--steps", str(steps), "--capacity", str(capacity)]
    if tapml(["carve", "--hf", str(folder / "config.json"), *options, "-o", str(suite)]) != 0:
        raise SystemExit(1)
    return suite


if __name__ == "__main__":
    raise SystemExit(main())
