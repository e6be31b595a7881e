"""GPU time of kernels in Dawn in node, tapml's own beside TVM's in the same run, by turns.

    python -m benchmarks.kernels --only GEMM --json times.json
    python -m benchmarks.kernels --small          # sizes that a GPU in software takes: it says nothing of speed
    python -m benchmarks.kernels --kinds          # operators of many kinds and shapes: which are slower than TVM's?
    python -m benchmarks.kernels --sweep          # every parameter that a template has, too
    python -m benchmarks.kernels --sweep '^blocks .*packed'   # those with such names
    python -m benchmarks.kernels --plan FILE      # for `gunzip -c FILE | node measure.mjs` on another machine

A time is that of a compute pass of many calls, by the GPU's timestamps, over how many they are: the least of several
passes. Exit code 1 where two compilers' kernels do not give the same.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.kernels.candidates import plan
from benchmarks.kernels.kinds import kinds
from benchmarks.kernels.table import least, table
from benchmarks.kernels.works import Work, works
from benchmarks.pages import between, check_docs
from tapml.browsers.headless import find_runtime

_MARK = "made by make bench-kernels"

_APART = {"float32": 1e-3, "float16": 5e-2}
"""How far results may be apart that are added up in other orders, in float16 by TVM also in float16."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="works whose names have this in them, with f32 or f16 behind")
    parser.add_argument("--small", action="store_true", help="sizes that a GPU in software takes")
    parser.add_argument("--kinds", action="store_true", help="operators of many kinds and shapes, in place of works")
    parser.add_argument(
        "--sweep", type=re.compile, nargs="?", const=re.compile(""), metavar="REGEX",
        help="also every parameter that a template has, or those whose names have this in them",
    )  # fmt: skip
    parser.add_argument(
        "--prepared", action="store_true", help="also without launches that read nothing but weights, which run once"
    )
    parser.add_argument("--plan", type=Path, help="only write there what measure.mjs reads, compressed by gzip")
    parser.add_argument(
        "--check", action="store_true", help="only compile all texts, those in float16 too: without a GPU"
    )
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--warm", type=int, default=700, help="milliseconds of passes that do not count, for each work")
    parser.add_argument("--calls", type=int, default=40, help="of a pass, at most")
    parser.add_argument("--microseconds", type=int, default=4000, help="of a pass, about")
    parser.add_argument("--json", type=Path, help="write what was measured there, too")
    parser.add_argument(
        "--of", type=Path, action="append", help="print the table of such a file; of several, the least"
    )
    parser.add_argument("--on", help="what the table says of the device and the day")
    parser.add_argument("--docs", type=Path, help="put the table into this page, too")
    options = parser.parse_args()
    check_docs(parser, options.docs, _MARK)
    if options.of:
        _say(least([json.loads(path.read_text()) for path in options.of]), options)
        return 0
    chosen = [work for work in (kinds() if options.kinds else works(options.small)) if _named(work, options.only)]
    if not chosen:
        parser.error(f"no work has {' or '.join(options.only)} in its name")
    if options.plan:
        options.plan.write_bytes(gzip.compress(json.dumps(_given(chosen, options)).encode(), mtime=0))
        return 0
    found: dict[str, Any] = {"device": None, "small": options.small, "works": []}
    wrong: list[str] = []
    for line in measured(chosen, options):
        if "device" in line:
            found |= line
            continue
        work = next(one for one in chosen if (one.name, one.dtype) == (line["name"], line["dtype"]))
        line["goal"] = work.goal
        found["works"].append(line)
        for one in line.get("candidates", ()):
            who = " ".join(filter(None, (one["compiler"], one["parameters"])))
            if "error" in one and "the maximum allowed" not in one["error"]:
                wrong.append(f"{work.name} {work.dtype}: {who}: {one['error']}")
            if "us" in one and not (one["apart"] or 0) <= _APART[work.dtype]:
                wrong.append(f"{work.name} {work.dtype}: {who} is {one['apart']} off the first")
        print(f"{line['name']} {line['dtype']}", file=sys.stderr, flush=True)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))
    if options.check:
        print(f"{sum(len(line['candidates']) for line in found['works'])} texts")
    else:
        _say(found, options)
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


def _say(found: dict[str, Any], options: argparse.Namespace) -> None:
    made = table(found, options.on or found["device"])
    print(made)
    if options.docs:
        between(options.docs, _MARK, made)


def _named(work: Work, only: Sequence[str] | None) -> bool:
    name = f"{work.name} {work.dtype.replace('float', 'f')}"
    return not only or any(part in name for part in only)


def _given(chosen: Sequence[Work], options: argparse.Namespace) -> dict[str, Any]:
    """What measure.mjs reads."""
    return {
        "works": [plan(work, options.sweep, options.prepared) for work in chosen],
        "turns": options.turns,
        "warm": options.warm,
        "calls": options.calls,
        "microseconds": options.microseconds,
        "check": options.check,
    }


def measured(chosen: Sequence[Work], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What measure.mjs says, line by line."""
    given = _given(chosen, options)
    runtime = find_runtime("node-dawn")
    script = Path(__file__).with_name("measure.mjs")
    with subprocess.Popen(
        [runtime.arguments[0], "--no-warnings", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **runtime.environment},
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(given))
        process.stdin.close()
        for line in process.stdout:
            if line.startswith("{"):
                yield json.loads(line)
            else:
                print(line, end="", file=sys.stderr)  # Dawn's warnings
    if process.returncode != 0:
        sys.exit(f"measuring ended with exit code {process.returncode}")


if __name__ == "__main__":
    sys.exit(main())
