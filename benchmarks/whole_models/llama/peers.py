"""Measures the Llama beside ONNX Runtime Web in Chromium, on a site that is made, with nothing but Python's standard
library: `python -m benchmarks.whole_models.llama.peers --site FOLDER`."""

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

MARK = "made by make bench-llama PEERS=1"
PEER = "ONNX Runtime Web 1.30.0"
ACTIVATIONS = {"half": "float16", "half-int8": "float16, 8 bits in products", "single": "float32"}
"""By the kind of the peer's model. The second is what onnxruntime-genai's builder writes for WebGPU of weights of 4 and
8 bits (`accuracy_level` 4: a product may round what it is given to 8 bits)."""
_AGREE = {"half": 2e-2, "half-int8": None, "single": 1e-3}
"""How far logits may be off tapml's, to the largest of these; None: products that round more are not held to it."""
_CALLS = ("prefill", "decode")
_SWITCHES = ("--enable-dawn-features=vulkan_enable_f16_on_nvidia",)


def measure(
    site: Path, chromium: str, stored: Sequence[str], kinds: Sequence[str], rounds: int, seconds: float, *, grows: bool
) -> dict[str, Any]:
    """Each round has every runtime once, in a fresh browser, so that they meet the same machine. `kinds`: of the peer's
    models, of `ACTIVATIONS`, where the site has them; `grows`: with a cache that each call makes anew."""
    found: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    for name in stored:
        own = [kind for kind in kinds if (site / f"peers/{name}-{kind}/peer.json").is_file()]
        runtimes = {"ours": f"ours {name}"}
        runtimes |= {kind: f"{'peer-grows' if grows else 'peer'} {name}-{kind}" for kind in own}
        ones: dict[str, list[dict[str, Any]]] = {runtime: [] for runtime in runtimes}
        refused: dict[str, str] = {}
        for number in range(rounds):
            for runtime, asked in runtimes.items():
                if runtime in refused:
                    continue
                try:
                    loads = session(chromium, site, asked, ("start", "run"), None, seconds, _SWITCHES)
                except PageFailed as error:
                    refused[runtime] = str(error)
                    print(f"{name}: {error}", file=sys.stderr, flush=True)
                    continue
                facts = facts or {key: of for key, of in loads["start"].items() if key in ("userAgent", "adapter")}
                ones[runtime].append(loads["run"])
                print(
                    f"{name}, round {number + 1}: {runtime}, {loads['run']['loaded'] / 1e3:.1f} s to load",
                    file=sys.stderr,
                )
        ours = ones["ours"][0] if ones["ours"] else None
        each = {runtime: _summary(of, ours, _AGREE.get(runtime)) for runtime, of in ones.items() if of}
        found[name] = {"runtimes": each, "refused": refused}
    asked = json.loads((site / "asked.json").read_text())
    return {
        **facts,
        "rounds": rounds,
        **{key: asked[key] for key in ("prompt", "context")},
        "calls": asked["rounds"],
        "models": found,
    }


def _summary(found: Sequence[Mapping[str, Any]], ours: Mapping[str, Any] | None, most: float | None) -> dict[str, Any]:
    """Of all calls of all browsers: `gpu` and `least` in ms, null without timestamps; `off`: the largest difference of
    logits to tapml's, to the largest of these, and whether the likeliest token is the same."""
    summary: dict[str, Any] = {"loaded": statistics.median(one["loaded"] for one in found)}
    for call in _CALLS:
        gpu = [time for one in found for time in one[call]["gpu"]]
        summary[call] = {
            "gpu": statistics.median(gpu) if gpu else None,
            "least": min(gpu, default=None),
            "whole": statistics.median(time for one in found for time in one[call]["whole"]),
            "first": statistics.median(one[call]["first"] for one in found),
            "passes": found[0][call]["passes"],
        }
        if ours is not None:
            offs = [_off(one[call]["logits"], ours[call]["logits"]) for one in found]
            summary[call] |= {"off": max(offs), "same": all(_token(one, call) == _token(ours, call) for one in found)}
    summary["agrees"] = ours is None or most is None or all(summary[call]["off"] <= most for call in _CALLS)
    return summary


def _token(one: Mapping[str, Any], call: str) -> int:
    logits = [float("-inf") if number is None else number for number in one[call]["logits"]]
    return logits.index(max(logits))


def _off(found: Sequence[float | None], expected: Sequence[float]) -> float:
    """None: of a number that is not finite, which JSON has not."""
    if len(found) != len(expected):
        return float("inf")
    apart = max(float("inf") if one is None else abs(one - wanted) for one, wanted in zip(found, expected, strict=True))
    return apart / max(map(abs, expected))


def table(found: Mapping[str, Any], on: str | None = None) -> str:
    """As Markdown."""
    adapter, prompt = found["adapter"], found["prompt"]
    gpu = on or adapter["description"] or " ".join(filter(None, (adapter["vendor"], adapter["architecture"])))
    browser = next((word for word in found["userAgent"].split() if "Chrom" in word), "").replace("Headless", "")
    lines = [
        f"{browser} on {gpu}: a prompt of {prompt:,} tokens in one call, and a token behind {found['context']:,}. GPU "
        f"time is that in which a compute pass of a call runs, the median of {found['calls']} calls, in "
        f"{found['rounds']} fresh browser{'s' if found['rounds'] > 1 else ''} of each.",
        "",
        "| weights | runtime | activations | prefill, GPU ms | tokens a second | to tapml's | a token, GPU ms | "
        "tokens a second | to tapml's | logits off tapml's |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, model in found["models"].items():
        ours = model["runtimes"].get("ours")
        for runtime in [*model["runtimes"], *model["refused"]]:
            who = "@tapml/runtime | float32" if runtime == "ours" else f"{PEER} | {ACTIVATIONS[runtime]}"
            one = model["runtimes"].get(runtime)
            if one is None:
                lines.append(f"| {name} | {who} | does not run it |||||||")
                continue
            cells = [
                cell
                for call, tokens in (("prefill", prompt), ("decode", 1))
                for cell in _cells(one[call], tokens, ours and ours[call])
            ]
            off = ""
            if runtime != "ours" and ours:
                off = f"{max(one[call]['off'] for call in _CALLS):.0e}{'' if one['agrees'] else ' WRONG'}"
            lines.append(f"| {name} | {who} | {' | '.join(cells)} | {off} |")
    return "\n".join(lines)


def _cells(one: Mapping[str, Any], tokens: int, ours: Mapping[str, Any] | None) -> tuple[str, str, str]:
    """ms, tokens a second, and how many times tapml's ms."""
    if one["gpu"] is None:
        return "", "", ""
    ratio = f"{one['gpu'] / ours['gpu']:.2f}" if ours and ours["gpu"] else ""
    return f"{one['gpu']:.2f}", f"{1e3 * tokens / one['gpu']:,.0f}", ratio


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 where logits are further off tapml's than rounding to the activations' type explains, or one of the
    two does not run a model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, required=True)
    parser.add_argument("--stored", help="how weights are stored: of the models in the site, by default all")
    parser.add_argument("--kinds", default=",".join(ACTIVATIONS), help="of the peer's models (default: %(default)s)")
    parser.add_argument("--grows", action="store_true", help="the peer's cache is made anew by each call")
    parser.add_argument("--chromium", default=os.environ.get("TAPML_CHROMIUM") or shutil.which("chromium"))
    parser.add_argument("--rounds", type=int, default=1, help="fresh browsers of each (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=300, help="that a page may take")
    parser.add_argument("--json", type=Path, help="where to write what was found")
    parser.add_argument("--on", help="what the table says of the device and the day")
    parser.add_argument("--docs", type=Path, help="the page that the table goes to")
    options = parser.parse_args(arguments)
    check_docs(parser, options.docs, MARK)
    site, kinds = options.site.resolve(), options.kinds.split(",")
    if unknown := next((kind for kind in kinds if kind not in ACTIVATIONS), None):
        parser.error(f"--kinds {unknown}: the peer's models are {', '.join(ACTIVATIONS)}")
    stored = options.stored.split(",") if options.stored else json.loads((site / "asked.json").read_text())["models"]
    found = measure(site, options.chromium, stored, kinds, options.rounds, options.seconds, grows=options.grows)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    if "adapter" not in found:
        return 1
    print(table(found, options.on))
    if options.docs:
        between(options.docs, MARK, table(found, options.on))
    agree = [one["agrees"] for model in found["models"].values() for one in model["runtimes"].values()]
    return 1 if any(model["refused"] for model in found["models"].values()) or not all(agree) else 0


if __name__ == "__main__":
    sys.exit(main())
