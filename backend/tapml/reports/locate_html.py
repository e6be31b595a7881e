"""What `tapml locate` found, as one page that needs nothing else. Every text in it is escaped; it has no script."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from html import escape

from tapml.reports.locate import steepest, verdict_line
from tapml.reports.terminal import gpu_name
from tapml.results import LocateDocument
from tapml.results.locate import GrownNode, ModelCheck, Suspect, WrongOutput
from tapml.text import one_line

_CELL = 8
_BAR = 320

_STYLE = """
:root { color-scheme: light dark; --back: light-dark(#f6f7f9, #101318); --card: light-dark(#fff, #181c23);
  --line: light-dark(#dde1e7, #2b313c); --text: light-dark(#1b2027, #e4e8ee); --muted: light-dark(#5b6675, #98a3b3);
  --fail: light-dark(#c0232d, #ff8087); --pass: light-dark(#17733a, #5fd08a); --heat: light-dark(#c0232d, #ff6b73);
  --inside: light-dark(#e9edf2, #232a34); --free: #1a9a9a; --accent: light-dark(#3554d1, #8ea6ff); }
body { font: 14px/1.5 system-ui, "Segoe UI", sans-serif; background: var(--back); color: var(--text); margin: 0; }
main { max-width: 1100px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 1.5rem; margin: 0; }
h2 { font-size: 1.1rem; margin: 0 0 6px; }
h3 { font-size: .95rem; margin: 14px 0 4px; }
.muted { color: var(--muted); } .fail { color: var(--fail); } .pass { color: var(--pass); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px;
  margin: 14px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
th { text-align: left; color: var(--muted); font-weight: 600; }
td, th { padding: 3px 14px 3px 0; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
code { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, monospace; font-size: .92em; overflow-wrap: anywhere; }
.reason { font-size: 1.02rem; margin: 4px 0 8px; } ul { margin: 4px 0; padding-left: 20px; }
.legend { display: flex; gap: 14px; flex-wrap: wrap; align-items: center; }
.legend span { display: inline-flex; gap: 5px; align-items: center; }
svg { display: block; max-width: 100%; height: auto; }
.swatch { width: 12px; height: 12px; border: 1px solid var(--line); }
.guilty { color: var(--fail); font-weight: 600; }
"""


def locate_page(document: LocateDocument) -> str:
    """tapml.locate/1 as HTML."""
    summary = document["summary"]
    good = summary["verdict"] == "clean"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{_text(document['suite_name'])}: faulty kernels</title><style>{_STYLE}</style></head><body><main>",
        f"<h1>{_text(document['suite_name'])}: faulty kernels</h1>",
        f'<p class="{"pass" if good else "fail"}"><strong>{_text(verdict_line(document))}</strong></p>',
        f'<p class="muted">{_text(_where(document))}</p>',
    ]
    if document["kernels"]:
        parts.append(_ranking(document["kernels"]))
    parts += [_suspect(place, found) for place, found in enumerate(document["kernels"], 1)]
    if document["model"] is not None:
        parts.append(_model(document["model"]))
    parts.append("</main></body></html>")
    return "\n".join(parts) + "\n"


def _text(value: object) -> str:
    return escape(one_line(str(value), 2000))


def _head(*names: str) -> str:
    """A table's head; names that end in .n stand over numbers."""
    cells = (f'<th class="n">{name[:-2]}</th>' if name.endswith(".n") else f"<th>{name}</th>" for name in names)
    return f"<tr>{''.join(cells)}</tr>"


def _where(document: LocateDocument) -> str:
    gpu = gpu_name(document["devices"][0])
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in document["summary"]["parts"].items())
    made_up = "; carved from made-up inputs" if document["synthetic"] else ""
    return f"{document['created']}; {gpu or 'the GPU is not named'}; {parts}{made_up}"


def _ranking(suspects: Sequence[Suspect]) -> str:
    rows = []
    for place, found in enumerate(suspects, 1):
        tests = found["tests"]
        name = _text(found["kernel"]) + (" (edited)" if found["edited"] else "")
        rows.append(
            f'<tr><td class="n">{place}.</td><td><a href="#k{place}"><code>{name}</code></a></td>'
            f'<td class="n">{found["score"]:.2f}</td><td>{_text(found["verdict"])}</td>'
            f'<td class="n">{tests["failed"]} of {tests["total"]}</td><td>{_text(found["reason"])}</td></tr>'
        )
    head = _head("", "kernel", "score.n", "verdict", "tests.n", "reason")
    return f'<section class="scroll"><table>{head}{"".join(rows)}</table></section>'


def _suspect(place: int, found: Suspect) -> str:
    alike = {True: "all runs alike", False: "differs from run to run", None: "not run again"}[found["deterministic"]]
    nodes = ", ".join(found["nodes"])
    passing = f"; pass: {', '.join(found['passing_nodes'])}" if found["passing_nodes"] else ""
    parts = [
        f'<section id="k{place}"><h2>{place}. <code>{_text(found["kernel"])}</code></h2>',
        f'<p class="reason">{_text(found["reason"])}</p>',
        f'<p class="muted">test {_text(found["test"])}, {alike} ({found["runs"]} runs); nodes that fail: '
        f"{_text(nodes)}{_text(passing)}</p>",
    ]
    if found["findings"]:
        rows = "".join(
            f'<tr><td>{_text(finding["pattern"])}</td><td class="n">{finding["strength"]:.2f}</td>'
            f"<td>{_text(finding['text'])}</td></tr>"
            for finding in found["findings"]
        )
        head = _head("pattern", "strength.n", "what is true of the wrong elements")
        parts.append(f'<div class="scroll"><table>{head}{rows}</table></div>')
    parts += [_output(output) for output in found["outputs"]]
    return "".join(parts) + "</section>"


def _output(output: WrongOutput) -> str:
    shape = " x ".join(map(str, output["shape"])) or "scalar"
    counts = [f"{output['mismatched']} of {output['total']} outside their bound"]
    counts += [
        f"{count} {name}"
        for name, count in (("unbounded", output["unbounded"]), ("NaN", output["nan"]), ("infinite", output["inf"]))
        if count
    ]
    parts = [f"<h3>output {output['output']}: {_text(output['dtype'])} {shape}</h3><p>{_text(', '.join(counts))}</p>"]
    rows = "".join(
        f"<tr><td>{name}</td><td><code>{_text(element['index'])}</code></td>"
        + "".join(f'<td class="n">{_value(element[key])}</td>' for key in ("expected", "got", "bound"))
        + "</tr>"
        for name, element in (("first", output["first"]), ("worst", output["worst"]))
        if element
    )
    if rows:
        head = _head("", "element", "expected.n", "got.n", "may differ by.n")
        parts.append(f'<div class="scroll"><table>{head}{rows}</table></div>')
    parts.append(_heatmap(output))
    bound = output["bound"]
    reasons = "".join(f"<li>{_text(reason)}</li>" for reason in bound["reasons"])
    parts.append(
        f'<p class="muted">bound: {_value(bound["min"])} to {_value(bound["max"])}, '
        f'{_value(bound["median"])} in the middle</p><ul class="muted">{reasons}</ul>'
    )
    return "".join(parts)


def _value(value: float | str | None) -> str:
    return _text("-" if value is None else value if isinstance(value, str) else f"{value:.6g}")


def _heatmap(output: WrongOutput) -> str:
    """Cells of one row that are alike are one rectangle: most maps are mostly inside."""
    heatmap = output["heatmap"]
    rows, columns = heatmap["rows"], heatmap["columns"]
    if not rows or not columns:
        return ""
    wide = max(_CELL, min(24, 384 // columns))
    tall = max(_CELL, min(24, 384 // rows))
    cells = []
    for y, row in enumerate(heatmap["values"]):
        x = 0
        for value, same in itertools.groupby(row):
            count = len(list(same))
            if value is None or value:
                fill = "var(--free)" if value is None else "var(--heat)"
                cells.append(
                    f'<rect x="{x * wide}" y="{y * tall}" width="{count * wide}" height="{tall}" '
                    f'fill="{fill}" fill-opacity="{1 if value is None else value}"/>'
                )
            x += count
    width, height = columns * wide, rows * tall
    down, across = heatmap["row_extent"], heatmap["column_extent"]
    title = f"error of output {output['output']} over its last two axes, {down} by {across} elements a cell"
    swatches = "".join(
        f'<span><svg class="swatch" viewBox="0 0 1 1"><rect width="1" height="1" fill="{fill}"/></svg>'
        f"{_text(name)}</span>"
        for fill, name in (
            ("var(--inside)", "inside its bound"),
            ("color-mix(in srgb, var(--heat) 25%, transparent)", "just outside"),
            ("var(--heat)", "a million times the bound, NaN or Infinity"),
            ("var(--free)", "unbounded: WGSL promises nothing"),
        )
        if name[:9] != "unbounded" or any(None in row for row in heatmap["values"])
    )
    return (
        f'<h3>{_text(title)}</h3><svg role="img" aria-label="{_text(title)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><rect width="{width}" height="{height}" fill="var(--inside)"/>'
        f'{"".join(cells)}</svg><p class="legend muted">{swatches}</p>'
    )


def _model(model: ModelCheck) -> str:
    guilty = set(model["minimal_nodes"] or ())
    parts = [
        f"<section><h2>The whole model: {_text(model['verdict'])}</h2>",
        f'<p class="reason">{_text(model["text"])}</p><p class="muted">{model["model_runs"]} model runs</p>',
    ]
    if model["growth"]:
        parts.append("<h3>error along the graph, largest of each node's output, logarithmic</h3>")
        parts.append(_curve(model["growth"], guilty))
        rows = "".join(
            f'<tr class="{"guilty" if node["node"] in guilty else ""}"><td>{_text(node["node"])}</td>'
            f"<td><code>{_text(node['kernel'])}</code></td>"
            + "".join(
                f'<td class="n">{_value(node[key])}</td>' for key in ("error", "relative", "local", "amplification")
            )
            + "</tr>"
            for node in steepest(model["growth"])[:12]
        )
        head = _head("node", "kernel", "error.n", "relative.n", "of its own.n", "amplification.n")
        parts.append(f'<div class="scroll"><table>{head}{rows}</table></div>')
    return "".join(parts) + "</section>"


def _curve(growth: Sequence[GrownNode], guilty: set[str]) -> str:
    """A bar a node; 10^-9 of the largest and less is none."""
    numbers = [node["error"] if not isinstance(node["error"], str) else math.inf for node in growth]
    finite = [value for value in numbers if math.isfinite(value)]
    largest = max(finite, default=0.0) or 1.0
    wide = max(2, min(14, 1040 // len(growth)))
    bars = []
    for place, (node, value) in enumerate(zip(growth, numbers, strict=True)):
        share = 1.0 if math.isinf(value) else max(0.0, 1 + math.log10(value / largest) / 9) if value > 0 else 0.0
        tall = share * _BAR / 2
        colour = "var(--fail)" if node["node"] in guilty else "var(--accent)"
        title = f"{node['node']} {node['kernel']}: {_value(node['error'])}"
        bars.append(
            f'<rect x="{place * wide}" y="{_BAR / 2 - tall:.1f}" width="{wide - 1}" height="{tall:.1f}" '
            f'fill="{colour}"><title>{_text(title)}</title></rect>'
        )
    width, height = wide * len(growth), _BAR // 2
    return (
        f'<svg role="img" aria-label="error along the graph" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><rect width="{width}" height="{height}" fill="var(--inside)"/>'
        f"{''.join(bars)}</svg>"
    )
