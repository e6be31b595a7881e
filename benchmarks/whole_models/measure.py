"""Measures on a site that is made, without network: `python -m benchmarks.whole_models.measure --site FOLDER`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.pages import between, check_docs
from benchmarks.web_runtimes.chromium import PageFailed, session

SITE = Path("build/whole_models/site")
RUNTIMES = {
    "auto": "@tapml/runtime",
    "tvm": "the same, TVM's kernels",
    "ort": "ONNX Runtime Web 1.30.0",
    "tfjs": "TensorFlow.js 4.22.0",
}
_MARK = "made by make bench-whole-models"
_AGREE = {"float32": 1e-3, "float16": 2e-2}
"""To the largest number of the result."""


def measure(
    site: Path, chromium: str, models: Sequence[str], rounds: int, calls: int, seconds: float
) -> dict[str, Any]:
    """Each round has every runtime once, in a fresh browser, so that they meet the same machine."""
    found: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    for model in models:
        asked = json.loads((site / f"models/{model}/asked.json").read_text())
        ones: dict[str, list[dict[str, Any]]] = {name: [] for name in RUNTIMES}
        refused: dict[str, str] = {}
        for number in range(rounds):
            for name in RUNTIMES:
                if name in refused:
                    continue
                try:
                    loads = session(chromium, site, f"{name} {model} {calls}", ("start", "run"), None, seconds)
                except PageFailed as error:
                    refused[name] = str(error)
                    print(f"{model}: {error}", file=sys.stderr, flush=True)
                    continue
                facts = facts or loads["start"]
                ones[name].append(loads["run"])
                print(f"{model}, round {number + 1}: {name}", file=sys.stderr, flush=True)
        most = _AGREE[asked["result"]["dtype"]]
        runtimes = {name: _summary(each, most) for name, each in ones.items() if each}
        found[model] = {"title": asked["title"], "runtimes": runtimes, "refused": refused}
    return {**facts, "rounds": rounds, "calls": calls, "models": found}


def _summary(found: Sequence[Mapping[str, Any]], most: float) -> dict[str, Any]:
    """Of all calls of all browsers; `gpu` in ms, null without timestamps."""
    gpu = [time for one in found for time in one["gpu"]]
    off = max(float("inf") if one["off"] is None else one["off"] for one in found)
    return {
        "gpu": statistics.median(gpu) if gpu else None,
        "least": min(gpu, default=None),
        "whole": statistics.median(time for one in found for time in one["whole"]),
        "passes": found[0]["passes"],
        "off": off,
        "agrees": off <= most,
    }


def table(found: Mapping[str, Any]) -> str:
    """As Markdown."""
    adapter = found["adapter"]
    gpu = adapter["description"] or " ".join(filter(None, (adapter["vendor"], adapter["architecture"])))
    browser = next((word for word in found["userAgent"].split() if "Chrom" in word), "").replace("Headless", "")
    lines = [
        f"{browser} on {gpu}; medians of {found['calls']} calls in each of {found['rounds']} fresh browsers, by turns. "
        "GPU time is that in which a compute pass of a call runs, by the timestamps that each pass writes; a call is "
        "what the page waits for, without them.",
        "",
        "| model | runtime | GPU time, ms | to tapml's | a call, ms | compute passes | off ONNX Runtime's on the CPU |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for model in found["models"].values():
        ours = model["runtimes"].get("auto", {}).get("gpu")
        for name, one in model["runtimes"].items():
            spent = "" if one["gpu"] is None else f"{one['gpu']:.3f}"
            ratio = f"{one['gpu'] / ours:.2f}" if one["gpu"] is not None and ours else ""
            off = f"{one['off']:.0e}{'' if one['agrees'] else ' WRONG'}"
            lines.append(
                f"| {model['title']} | {RUNTIMES[name]} | {spent} | {ratio} | {one['whole']:.2f} | "
                f"{one['passes'] or ''} | {off} |"
            )
        lines += [f"| {model['title']} | {RUNTIMES[name]} | does not run it |||||" for name in model["refused"]]
    return "\n".join(lines)


def main(models: Sequence[str] | None = None, arguments: Sequence[str] | None = None) -> int:
    """`models`: of the site; by default all that are in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, default=SITE)
    parser.add_argument("--chromium", default=os.environ.get("TAPML_CHROMIUM") or shutil.which("chromium"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=300, help="that a page may take")
    parser.add_argument("--json", type=Path, help="where to write what was found")
    parser.add_argument("--docs", type=Path, help="the page that the table goes to")
    options = parser.parse_args(arguments)
    check_docs(parser, options.docs, _MARK)
    site = options.site.resolve()
    names = models or sorted(path.parent.name for path in site.glob("models/*/asked.json"))
    found = measure(site, options.chromium, names, options.rounds, options.calls, options.seconds)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    print(table(found))
    if options.docs:
        between(options.docs, _MARK, table(found))
    return 0 if all(one["agrees"] for model in found["models"].values() for one in model["runtimes"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
