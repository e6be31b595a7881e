"""What `tapml locate` found, as text: suspects by certainty, their reasons, and heat maps of shade characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from tapml.reports.console import Table
from tapml.reports.terminal import COLOURS, mark, number, warn_synthetic
from tapml.results.headline import times_bound
from tapml.results.locate import (
    GrownNode,
    HeatMap,
    LocateDocument,
    MissingBarrier,
    ModelCheck,
    Suspect,
    Suspicious,
    WrongOutput,
)
from tapml.text import counted, exact, listed, one_line

_SHADES = ((0.0, "·"), (0.4, "░"), (0.6, "▒"), (0.8, "▓"), (1.0, "█"))
_MOST_PICTURES = 5
_MOST_FINDINGS = 4
_MOST_ROWS = 16
_MOST_GROWN = 8


def show_locate(console: Console, document: LocateDocument) -> None:
    """A row a suspect, what is known of each, then the whole model."""
    warn_synthetic(console, document["synthetic"])
    suspects = document["kernels"]
    if suspects:
        console.print(_table(suspects))
    for place, found in enumerate(suspects):
        if found["verdict"] != "unsupported":
            _suspect(console, place + 1, found, picture=place < _MOST_PICTURES)
    for beyond in document["suspicious"]:
        _suspicious(console, beyond)
    for lacking in document["missing_barriers"]:
        _missing_barrier(console, lacking)
    if document["positions"] is not None:
        console.print()
        console.print(Text(one_line(document["positions"]["text"]), style="dim"))
    if document["model"] is not None:
        _model(console, document["model"])
    alike = {"clean": "pass", "faulty": "fail", "compound": "fail", "unknown": "unsupported"}
    verdict = document["summary"]["verdict"]
    wary = verdict == "clean" and (document["suspicious"] or document["missing_barriers"])
    console.print()
    console.print(
        one_line(verdict_line(document), 5000), style=COLOURS["suspicious" if wary else alike.get(verdict, verdict)]
    )


def verdict_line(document: LocateDocument) -> str:
    """One line: what was looked at, who is accused, and who is suspicious."""
    summary = document["summary"]
    named = {"suspicious": summary["suspicious_kernels"], "a barrier is missing": summary["racing_kernels"]}
    return _verdict(document) + "".join(f"; {what}: {', '.join(names)}" for what, names in named.items() if names)


def _verdict(document: LocateDocument) -> str:
    summary = document["summary"]
    device = document["devices"][0]["name"]
    looked = f"{counted(summary['tests'], 'test')} on {device} in {summary['seconds']:.1f} s"
    if document["interrupted"]:
        looked += ", interrupted"
    accused = {"faulty": summary["faulty_kernels"], "unbounded": summary["unbounded_kernels"]}
    if any(accused.values()):
        named = [
            f"{counted(len(names), f'{what} kernel')}: {', '.join(names)}" for what, names in accused.items() if names
        ]
        return f"{looked}: {'; '.join(named)}"
    if summary["verdict"] == "compound":
        return f"{looked}: no kernel is faulty by itself, but the whole model fails"
    if summary["verdict"] == "unknown":
        return f"{looked}: nothing suspected until then"
    edited = document["edited_kernels"]
    kernels = f" (edited: {', '.join(edited)})" if edited else ""
    rest = ", and so does the whole model" if document["model"] is not None else "; the whole model was not run"
    unsupported = [found["kernel"] for found in document["kernels"] if found["verdict"] == "unsupported"]
    if unsupported:
        kernels += f", but for what the device cannot run ({listed(unsupported, 6)})"
    return f"{looked}: every operator passes{kernels}{rest}"


def _table(suspects: Sequence[Suspect]) -> Table:
    columns = ("", "kernel", "score", "verdict", "tests", "runs alike", "reason")
    table = Table(*columns, right=("", "score", "tests"))
    for place, found in enumerate(suspects):
        alike = {True: "yes", False: "NO", None: "-"}[found["deterministic"]]
        tests = found["tests"]
        table.add_row(
            "-" if found["verdict"] == "unsupported" else f"{place + 1}.",
            found["kernel"] + (" (edited)" if found["edited"] else ""),
            f"{found['score']:.2f}",
            mark(found["verdict"]),
            f"{tests['failed']} of {tests['total']}",
            alike,
            Text(one_line(found["reason"], 300)),
        )
    return table


def _suspect(console: Console, place: int, found: Suspect, *, picture: bool) -> None:
    console.print()
    head = one_line(f"{place}. {found['kernel']}, test {found['test']}")
    names = [f"{node} ({found['names'][node]})" if node in found["names"] else node for node in found["nodes"]]
    word = "are unbounded" if found["verdict"] == "unbounded" else "fail"
    nodes = f"; nodes {listed(names, 6)} {word}"
    if found["passing_nodes"]:
        nodes += f", {listed(found['passing_nodes'], 6)} pass"
    console.print(Text(head, style="bold") + Text(one_line(nodes)))
    for finding in found["findings"][:_MOST_FINDINGS]:
        console.print(Text(f"   {finding['pattern']}: ", style="bold") + Text(one_line(finding["text"])))
    if found["runs"] and found["deterministic"] is False:
        differing = f"{found['differing']} elements differ between {found['runs']} runs"
        console.print(f"   not deterministic: {differing}", style="yellow")
    for output in found["outputs"]:
        _output(console, output, several=len(found["outputs"]) > 1)
        if picture and output["mismatched"]:
            for line in picture_lines(output["heatmap"]):
                console.print("   " + line)


def _suspicious(console: Console, found: Suspicious) -> None:
    console.print()
    head = f"suspicious: {found['kernel']}{' (edited)' if found['edited'] else ''}, test {found['test']}"
    console.print(Text(one_line(head), style=f"bold {COLOURS['suspicious']}"))
    console.print(Text(f"   {one_line(found['text'])}"))


def _missing_barrier(console: Console, found: MissingBarrier) -> None:
    console.print()
    head = f"a barrier is missing: {found['kernel']} (edited), {found['file']}:{found['written']}"
    console.print(Text(one_line(head), style=f"bold {COLOURS['suspicious']}"))
    console.print(Text(f"   {one_line(found['text'])}"))


def _output(console: Console, output: WrongOutput, *, several: bool) -> None:
    shape = " x ".join(map(str, output["shape"])) or "a scalar"
    name = f"output {output['output']}" if several else "output"
    worst = f"{times_bound(float(output['max_excess']))}, " if output["mismatched"] else ""
    text = f"   {name} {output['dtype']} {shape}: {worst}{output['mismatched']} of {output['total']} outside the bound"
    if output["unbounded"]:
        text += f", {output['unbounded']} unbounded"
    if output["nan"] or output["inf"]:
        text += f" ({output['nan']} NaN, {output['inf']} infinite)"
    console.print(text)
    for name, element in (("first", output["first"]), ("worst", output["worst"])):
        if element:
            console.print(
                f"   {name} {element['index']}: expected {exact(element['expected'])}, got {exact(element['got'])}, "
                f"may differ by {exact(element['bound'])}"
            )
    if output["mismatched"]:
        bound = output["bound"]
        console.print("   bound: " + " to ".join(dict.fromkeys(exact(bound[key]) for key in ("min", "max"))))
        for reason in bound["reasons"]:
            console.print(f"     {one_line(reason)}")


def picture_lines(heatmap: HeatMap) -> list[str]:
    """A heat map in shade characters: · inside the bound, █ a million times it; at most 16 lines, equal ones once."""
    rows = heatmap["values"]
    merged = -(-len(rows) // _MOST_ROWS) or 1
    lines = []
    for start in range(0, len(rows), merged):
        worst = [_worst(column) for column in zip(*rows[start : start + merged], strict=True)]
        lines.append("".join(_shade(value) for value in worst))
    if not lines:
        return []
    lines = [text for line, same in groupby(lines) for text in _repeated(line, len(list(same)))]
    down, across = heatmap["row_extent"] * merged, heatmap["column_extent"]
    cell = f"{down} row{'s' if down > 1 else ''} x {across} column{'s' if across > 1 else ''}"
    free = ", ∞ unbounded" if any(None in row for row in rows) else ""
    return [*lines, f"each character is {cell}: · inside, ░ ▒ ▓ █ outside by ever more{free}"]


def _repeated(line: str, times: int) -> list[str]:
    """Rows that look alike, said once."""
    return [line] * times if times <= 2 else [f"{line}  {times} times"]


def _worst(column: Sequence[float | None]) -> float | None:
    """What is outside says more than what is unbounded."""
    known = max((value for value in column if value is not None), default=0.0)
    return known if known or None not in column else None


def _shade(value: float | None) -> str:
    return "∞" if value is None else next(shade for most, shade in _SHADES if value <= most)


def _model(console: Console, model: ModelCheck) -> None:
    console.print()
    runs = "1 run" if model["model_runs"] == 1 else f"{model['model_runs']} runs"
    console.print(mark(model["verdict"]) + Text(f" whole model, {runs}: {one_line(model['text'], 2000)}"))
    if model["verdict"] != "fail":
        return
    numbers = ("error", "relative", "of its own", "amplification")
    table = Table("node", "kernel", *numbers, right=numbers, title="where the error grows most")
    guilty = set(model["minimal_nodes"] or ())
    for node in steepest(model["growth"])[:_MOST_GROWN]:
        style = "bold red" if node["node"] in guilty else ""
        cells = (number(node[key]) for key in ("error", "relative", "local", "amplification"))
        table.add_row(node["node"], node["kernel"], *cells, style=style)
    console.print(table)


def steepest(growth: Sequence[GrownNode]) -> list[GrownNode]:
    """The nodes that amplify most first."""

    def key(node: GrownNode) -> float:
        value = node["amplification"]
        return -1.0 if value is None else float("inf") if isinstance(value, str) else float(value)

    return sorted(growth, key=key, reverse=True)
