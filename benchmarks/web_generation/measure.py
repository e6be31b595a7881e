"""Measures on a site that is made, without network: `python -m benchmarks.web_generation.measure --site FOLDER`."""

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
from benchmarks.web_runtimes.chromium import session

SITE = Path("build/web_generation/site")
NAMES = {"tapml": "@tapml/runtime", "ort": "ONNX Runtime Web 1.30.0"}
_LOADS = ("start", "write")
_MARK = "made by make bench-generation"


def measure(site: Path, chromium: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Each round has every runtime once, in a fresh browser, so that they meet the same machine."""
    asked = json.loads((site / "asked.json").read_text())
    sessions: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
    for number in range(rounds):
        for name in NAMES:
            sessions[name].append(session(chromium, site, name, _LOADS, None, seconds))
            print(f"round {number + 1}: {name}", file=sys.stderr, flush=True)
    start = sessions["tapml"][0]["start"]
    written = {name: _summary([found["write"] for found in ones], asked) for name, ones in sessions.items()}
    return {**start, "rounds": rounds, "prompt": len(asked["prompt"]), "tokens": asked["tokens"], "runtimes": written}


def _summary(found: Sequence[Mapping[str, Any]], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Medians, of the second text of each session; `idle` of the third."""
    behind_first = asked["tokens"] - 1
    idle = [one["idle"] for one in found if one["idle"] is not None]
    speeds = [behind_first / one["decodeSeconds"] for one in found]
    return {
        "loaded": statistics.median(one["loaded"] for one in found),
        "first": statistics.median(one["prefillSeconds"] for one in found),
        "speed": statistics.median(speeds),
        "speeds": [round(speed, 2) for speed in speeds],
        "idle": statistics.median(idle)
        if (idle := [one["idle"] for one in found if one["idle"] is not None])
        else None,
        "equal": all(one["ids"] == one["first"]["ids"] == one["third"]["ids"] == asked["expected"] for one in found),
    }


def _share(idle: float | None) -> str:
    """Of the time; nothing where the device has no timestamps."""
    return "" if idle is None else f"{100 * idle:.0f} %"


def table(found: Mapping[str, Any]) -> str:
    """As Markdown."""
    adapter = found["adapter"]
    gpu = adapter["description"] or " ".join(filter(None, (adapter["vendor"], adapter["architecture"])))
    browser = next((word for word in found["userAgent"].split() if "Chrom" in word), found["userAgent"])
    browser = browser.replace("Headless", "")
    ours = found["runtimes"]["tapml"]["speed"]
    rows = [
        f"| {NAMES[name]} | {one['loaded']:,.0f} | {1000 * one['first']:,.1f} | {one['speed']:,.1f} | "
        f"{one['speed'] / ours:.2f} | {_share(one['idle'])} | "
        f"{'yes' if one['equal'] else 'NO'} |"
        for name, one in found["runtimes"].items()
    ]
    return "\n".join(
        [
            f"{found['tokens']} tokens behind {found['prompt']}, greedily; {browser} on {gpu}; medians of "
            f"{found['rounds']} fresh browsers each, by turns, which write the text three times: the second time "
            "counts. The GPU's idle time is of the third: what lies between the compute passes behind the first token, "
            "by the timestamps that each pass writes.",
            "",
            "| runtime | loaded, ms | first token, ms | tokens a second | to tapml's | GPU idle | tokens as "
            "transformers' |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *rows,
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, default=SITE)
    parser.add_argument("--chromium", default=os.environ.get("TAPML_CHROMIUM") or shutil.which("chromium"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=300, help="that a page may take")
    parser.add_argument("--json", type=Path, help="where to write what was found")
    parser.add_argument("--docs", type=Path, help="the page that the table goes to")
    options = parser.parse_args(arguments)
    check_docs(parser, options.docs, _MARK)
    found = measure(options.site.resolve(), options.chromium, options.rounds, options.seconds)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    print(table(found))
    if options.docs:
        between(options.docs, _MARK, table(found))
    return 0 if all(one["equal"] for one in found["runtimes"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
