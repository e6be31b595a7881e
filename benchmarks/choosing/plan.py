"""What a machine with a GPU measures that has nothing but node and Dawn: works for benchmarks/kernels/measure.mjs.

    python -m benchmarks.choosing.plan works minilm -o plan.json.gz
    gunzip -c plan.json.gz | node --no-warnings measure.mjs > result.jsonl
    python -m benchmarks.choosing result plan.json.gz result.jsonl -o table.json

The last line makes a table (tapml.tuned/1) of what was measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.choosing.operators import operators_of
from benchmarks.kernels.candidates import texts_of
from tapml.compilers.auto.digest import digest, judged_sizes
from tapml.compilers.auto.space import candidates
from tapml.lowering.operator import Operator


def plan(models: Sequence[str], only: Sequence[str]) -> Iterator[dict[str, Any]]:
    for model in models:
        for name, operator, rotated in operators_of(model):
            key = digest(operator)
            if key is not None and (not only or any(part in name for part in only)):
                yield from _work(name, operator, key, rotated)


def _work(name: str, operator: Operator, key: str, rotated: int) -> Iterator[dict[str, Any]]:
    sizes = judged_sizes(operator)
    found = candidates([operator]).get(operator.name)
    if found is None:
        return
    given = [
        {"role": argument["role"], "dtype": found.dtype, "bytes": found.nbytes, "below": 2}
        for argument, found in zip(operator.arguments, operator.types(sizes), strict=True)
    ]
    inputs = sum(one["role"] == "input" for one in given)
    yield {
        "name": name,
        "digest": key,
        "dtype": next(one["dtype"] for one in given if one["role"] == "output"),
        "arguments": given,
        "rotated": [*range(inputs - rotated, inputs)],
        "candidates": [
            text for one in found for text in texts_of(one.compiler, one.name, one.kernel, sizes)
        ],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="works, small, or models as `tapml carve` takes them")
    parser.add_argument("--only", action="append", default=[], help="operators whose names have this in them")
    parser.add_argument("--part", default="1/1", help="I/N: only the I-th of N parts")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    works = [*plan(options.models, options.only)][part - 1 :: parts]
    settings = {"turns": 5, "warm": 300, "calls": 40, "microseconds": 2000, "check": False}
    options.output.write_bytes(gzip.compress(json.dumps({"works": works, **settings}).encode()))
    print(f"{len(works)} works, {sum(len(work['candidates']) for work in works)} texts: {options.output}")


if __name__ == "__main__":
    main()
