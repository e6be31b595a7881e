"""The measurements as Markdown tables, each with its ratio to tapml's, and what they are held against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

NAMES = {
    "tapml": "@tapml/runtime",
    "ort": "ONNX Runtime Web 1.30.0",
    "transformers": "transformers.js 4.3.1",
    "tvmjs": "tvmjs 0.27.0",
}
MOST_RUNTIME_BYTES = 40_000
MOST_MEMORY = 1.05
"""Times plan and weights."""


def page(found: Mapping[str, Any]) -> str:
    """All tables."""
    return "\n\n".join([_where(found), _loading(found), _host(found), _memory(found), _verdicts(found)])


def targets(found: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """What issue and documentation promise, in words, and whether it held."""
    chromium, node = found["chromium"], found["node"]
    ours = chromium["tapml"]
    for name, measured in chromium.items():
        yield f"{NAMES[name]} gives the reference's embedding, to {measured['difference']:.1e}", measured["agrees"]
    size = next(count for path, count in ours["files"].items() if path.endswith("tapml-runtime.js"))
    yield f"the runtime has {size} bytes compressed, at most {MOST_RUNTIME_BYTES}", size <= MOST_RUNTIME_BYTES
    for name in ("ort", "transformers"):
        other = chromium[name]
        for load in ("cold", "warm"):
            faster = ours[load]["first"] < other[load]["first"]
            yield f"{load}: the first embedding comes before that of {NAMES[name]}", faster
        yield f"less bytes beyond weights than {NAMES[name]}", ours["cold"]["other"] < other["cold"]["other"]
    for name in ("ort", "tvmjs"):
        ratio = _each(ours["host"]) / _each(chromium[name]["host"])
        yield (
            f"in Chromium a dispatch takes {ratio:.2f} times the CPU time of {NAMES[name]}'s, at most half",
            ratio <= 0.5,
        )
    ratio = _each(node["tapml"]) / _each(node["tvmjs"])
    yield f"in node a dispatch takes {ratio:.2f} times the CPU time of {NAMES['tvmjs']}'s, at most half", ratio <= 0.5
    ratio = ours["memory"]["live"] / found["planned"]
    yield f"GPU memory is {ratio:.4f} times plan and weights, at most {MOST_MEMORY}", ratio <= MOST_MEMORY


def _each(host: Mapping[str, float]) -> float:
    return host["cpu"] / host["dispatches"]


def _where(found: Mapping[str, Any]) -> str:
    adapter = found["adapter"]
    gpu = adapter["description"] or " ".join(part for part in (adapter["vendor"], adapter["architecture"]) if part)
    browser = next((part for part in found["browser"].split() if "Chrom" in part), found["browser"]).replace(
        "Headless", ""
    )
    line = f"a line of {found['megabits']:g} Mbit/s" if found["megabits"] else "no limit to the line"
    return f"{browser.replace('/', ' ')} on {gpu}, {line}; medians of {found['rounds']} fresh browsers each."


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _against(value: float, ours: float) -> str:
    return "" if value == ours else f" ({value / ours:.1f}x)"


def _loading(found: Mapping[str, Any]) -> str:
    ours = found["chromium"]["tapml"]
    rows = []
    for name, measured in found["chromium"].items():
        cold, warm = measured["cold"], measured["warm"]
        rows.append((
            NAMES[name],
            f"{cold['first'] / 1000:.2f} s{_against(cold['first'], ours['cold']['first'])}",
            f"{warm['first'] / 1000:.2f} s{_against(warm['first'], ours['warm']['first'])}",
            f"{cold['other'] / 1000:,.0f} kB{_against(cold['other'], ours['cold']['other'])}",
            f"{cold['weights'] / 1e6:.1f} MB",
            f"{measured['difference']:.0e}",
        ))  # fmt: skip
    head = ("", "first embedding, cold", "warm", "bytes beyond weights", "weights", "off the reference")
    return _table(head, rows)


def _host(found: Mapping[str, Any]) -> str:
    rows = []
    for where, names in (("Chromium", found["chromium"]), ("node, null backend", found["node"])):
        ours = _host_of(names["tapml"])
        for name, measured in names.items():
            host = _host_of(measured)
            each = _each(host) * 1000
            rows.append((
                where,
                NAMES[name],
                f"{host['dispatches']:.0f}",
                f"{host['submissions']:.0f}",
                f"{host['until']:.2f} ms",
                f"{host['whole']:.1f} ms{_against(host['whole'], ours['whole'])}" if "whole" in host else "",
                f"{host['cpu']:.2f} ms{_against(host['cpu'], ours['cpu'])}",
                f"{each:.1f} µs{_against(_each(host), _each(ours))}",
            ))  # fmt: skip
    head = (
        "",
        "",
        "dispatches",
        "submissions",
        "until submitted",
        "until its result",
        "CPU time of a call",
        "CPU time of a dispatch",
    )
    return _table(head, rows)


def _host_of(measured: Mapping[str, Any]) -> Mapping[str, float]:
    host: Mapping[str, float] = measured.get("host", measured)
    return host


def _memory(found: Mapping[str, Any]) -> str:
    planned = found["planned"]
    rows = [
        (
            NAMES[name],
            f"{measured['memory']['live'] / 1e6:.1f} MB",
            f"{measured['memory']['most'] / 1e6:.1f} MB",
            f"{measured['memory']['buffers']:.0f}",
            f"{measured['memory']['live'] / planned:.4f}",
        )
        for name, measured in found["chromium"].items()
    ]
    return _table(("", "GPU buffers", "at most", "buffers", "to plan and weights of tapml's"), rows)


def _verdicts(found: Mapping[str, Any]) -> str:
    return "\n".join(f"- {'held' if held else '**missed**'}: {line}" for line, held in targets(found))
