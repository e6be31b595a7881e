"""What measure.mjs found, as the table that people read."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any


def summary(line: Mapping[str, Any], prompt: int, weights: int) -> dict[str, float]:
    """Of a model: ms of the GPU (medians), tokens a second by these, GB/s of its weights (bytes) for a token; and
    tokens a second of a text as it is written, by the clock."""
    prefill, decode = (statistics.median(line[name]["gpu"]) for name in ("prefill", "decode"))
    return {
        "prefill_ms": prefill,
        "prefill_tokens_s": 1e3 * prompt / prefill,
        "decode_ms": decode,
        "decode_tokens_s": 1e3 / decode,
        "weights_gb_s": weights / decode / 1e6,
        "written_tokens_s": 1e3 / line["written"]["decode"],
        "written_prefill_tokens_s": 1e3 * prompt / line["written"]["prefill"],
    }


def table(lines: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], on: str | None = None) -> str:
    """As Markdown. `lines` as measure.mjs wrote them; `facts` as `site.facts` gives them."""
    device = next((line["device"] for line in lines if "device" in line), "")
    prompt, context = facts["prompt"], facts["context"]
    found = [
        f"{on or f'Dawn in node on {device}'}: a prompt of {prompt:,} tokens in one call, and a token behind "
        f"{context:,}. GPU time is that in which a compute pass of a call runs, the median of {facts['rounds']} calls; "
        f"as a text is written, by the clock: {facts['tokens']} tokens behind the prompt, greedily.",
        "",
        "| weights | | prefill, GPU ms | tokens a second | a token, GPU ms | tokens a second | weights read | "
        "prefill as written, tokens a second | written, tokens a second |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for line in lines:
        if "name" not in line:
            continue
        name, size = line["name"], facts["weights"][line["name"]]
        if "error" in line:
            found.append(f"| {name} | {size / 1e9:.2f} GB | {line['error']} |||||||")
            continue
        one = summary(line, prompt, size)
        found.append(
            f"| {name} | {size / 1e9:.2f} GB | {one['prefill_ms']:.1f} | {one['prefill_tokens_s']:,.0f} | "
            f"{one['decode_ms']:.2f} | {one['decode_tokens_s']:,.1f} | {one['weights_gb_s']:,.0f} GB/s | "
            f"{one['written_prefill_tokens_s']:,.0f} | {one['written_tokens_s']:,.1f} |"
        )
    return "\n".join(found)


def shares(line: Mapping[str, Any]) -> str:
    """Which kernels a model's calls spend their time in, as text."""
    rows = []
    for function in ("prefill", "decode"):
        for one in line[function]["kernels"]:
            rows.append(f"{line['name']:6} {function:8} {one['ms']:9.3f} ms {one['dispatches']:4} x {one['kernel']}")
    return "\n".join(rows)
