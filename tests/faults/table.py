"""The gallery as the table of docs/fault-gallery.md; run as a program it writes it there."""

from __future__ import annotations

from pathlib import Path

import gallery
from gallery import Case, Edit, Fault

DOCUMENT = Path(__file__).parents[2] / "docs" / "fault-gallery.md"
_BEGIN, _END = "<!-- table: tests/faults/table.py writes it -->", "<!-- end of the table -->"


def updated(document: str) -> str:
    """The document with the table as it must be now."""
    before, rest = document.split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}\n{table()}{_END}{after}"


def table() -> str:
    """A line for each entry."""
    lines = ["| bug | found | reproduced here | on | verdict | locate says |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [_line(slug, gallery.load(slug)) for slug in gallery.SLUGS]
    return "\n".join(lines) + "\n"


def _line(slug: str, fault: Fault) -> str:
    sources = ", ".join(f"[{_short(source)}]({source})" for source in fault.sources)
    cells = [
        f"[{fault.title}](../tests/faults/{slug})",
        sources,
        f"{fault.how} {_kernels(fault)}",
        fault.faulty.device,
        _verdict(fault.faulty),
        _says(fault),
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _kernels(fault: Fault) -> str:
    """What is between the correct and the faulty case."""
    if isinstance(fault.faulty.kernel, Edit):
        edit = fault.faulty.kernel
        return f"Faulty: `{edit.old.strip()}` is " + (f"`{edit.new}`." if edit.new else "left out.")
    if fault.faulty.kernel is None:
        return "Faulty: the device."
    whose = "TVM's" if fault.correct.kernel is None else "by hand"
    return f"Correct: {whose}; faulty: by hand."


def _verdict(case: Case) -> str:
    found = dict.fromkeys(case.verdicts)
    return ", ".join(found) + (" or pass, from run to run" if case.race else "")


def _says(fault: Fault) -> str:
    if not fault.says:
        return f"nothing: no kernel is accused{f' ({fault.tied} elements are tied)' if fault.tied else ''}"
    told = f"{fault.pattern}: {fault.says}" if fault.pattern else f"not accused: {fault.says}"
    return told.replace("[", "\\[")


def _short(url: str) -> str:
    """A link's text: "onnxruntime#26732", "doi:10.1145/3728957", "WebKit 301878"."""
    host, *parts = url.removeprefix("https://").split("/")
    if host == "github.com":
        return f"{parts[1]}#{parts[3]}"
    return f"doi:{'/'.join(parts)}" if host == "doi.org" else f"WebKit {url.rpartition('=')[2]}"


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text()))
