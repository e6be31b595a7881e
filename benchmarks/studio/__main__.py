"""The studio's pages in headless Chromium: how soon they show something, and what axe says (`make bench-studio`).

A decoder of 18 layers (its weights made up) and MiniLM are carved once, into build/bench-studio, and served. Every
figure of time is the median of `--rounds` fresh pages, with a software GPU, on a machine that does whatever else it
does: compare it to the figure beside it, not to another machine's. Prints a table and, with `--json`, writes it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from benchmarks.studio import graph, rows, suites, views, waiting
from tapml.browsers.find import find
from tapml.errors import TapmlError

BEFORE = {
    "graph drawn": 3.4,
    "pan and zoom, p95 of a frame": 233.0,
    "pan and zoom, frames a second": 17.8,
    "click to details": 511.0,
    "first load, JavaScript as sent": 198.0,
    "first verdict of a cold validation": 15.7,
    "axe, serious": 8.0,
    "axe, minor": 4.0,
}
"""What issue 17 was filed with."""


@dataclass(frozen=True)
class Figure:
    name: str
    unit: str
    goal: float
    values: tuple[float, ...]
    at_least: bool = False
    """Whether the goal is the least that it may be."""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def met(self) -> bool:
        return self.median >= self.goal if self.at_least else self.median <= self.goal


def times(of: list[graph.Looked]) -> list[Figure]:
    return [
        Figure("graph drawn", "s", 0.5, tuple(one.drawn / 1000 for one in of)),
        Figure("page opened to graph drawn", "s", 1.0, tuple(one.opened / 1000 for one in of)),
        Figure("pan and zoom, p95 of a frame", "ms", 33, tuple(one.frame_p95 for one in of)),
        Figure("pan and zoom, frames a second", "/s", 30, tuple(one.frames_a_second for one in of), at_least=True),
        Figure("click to details", "ms", 50, tuple(one.click for one in of)),
        Figure("first load, JavaScript as sent", "kB", 150, tuple(one.script_bytes / 1000 for one in of)),
    ]


def long(of: list[rows.Scrolled]) -> list[Figure]:
    return [
        Figure("10,000 rows drawn", "s", 1.0, tuple(one.drawn / 1000 for one in of)),
        Figure("10,000 rows, p95 of a frame", "ms", 33, tuple(one.frame_p95 for one in of)),
        Figure("10,000 rows, a letter in the filter", "ms", 100, tuple(one.typed for one in of)),
    ]


def violations(found: list[views.Violation]) -> list[Figure]:
    for one in found:
        print(f"axe: {one.view}, {one.theme}: {one.impact}: {one.rule}: {one.help} ({one.where})")
    serious = sum(one.impact in ("serious", "critical") for one in found)
    return [
        Figure("axe, serious", "", 0, (float(serious),)),
        Figure("axe, minor", "", 0, (float(len(found) - serious),)),
    ]


def table(figures: list[Figure]) -> str:
    lines = [f"{'':36}{'issue 17':>10}{'goal':>8}{'median':>10}   least to most"]
    for one in figures:
        before = f"{BEFORE[one.name]:g}" if one.name in BEFORE else ""
        spread = f"{min(one.values):.4g} to {max(one.values):.4g}" if len(one.values) > 1 else ""
        sign = "ok" if one.met else "missed"
        lines.append(f"{one.name:36}{before:>10}{one.goal:>8g}{one.median:>10.4g} {one.unit:3}{spread:20}{sign}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--only", choices=("graph", "rows", "verdict", "axe"))
    parser.add_argument("--deep", type=Path, help="a suite in place of the decoder's")
    options = parser.parse_args()
    little = suites.little()
    measures: dict[str, Callable[[Browser], list[Figure]]] = {
        "graph": lambda browser: times(graph.look(browser, options.deep or suites.deep(), options.rounds)),
        "rows": lambda browser: long(rows.look(browser, options.deep or suites.deep(), options.rounds)),
        "verdict": lambda browser: [
            Figure(
                "first verdict of a cold validation", "s", 3, waiting.first_verdicts(browser, little, options.rounds)
            )
        ],
        "axe": lambda browser: violations(views.violations(browser, little, suites.writer())),
    }
    figures: list[Figure] = []
    failed: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find("chromium").program, args=["--no-sandbox"])
        for name, measure in measures.items():
            if options.only in (None, name):
                try:
                    figures += measure(browser)
                except (PlaywrightError, TapmlError) as error:  # what the others measured is told all the same
                    failed.append(f"{name} was not measured: {error}")
        browser.close()
    print("\n".join([table(figures), *failed]))
    if options.json:
        told = [
            {"name": f.name, "unit": f.unit, "before": BEFORE.get(f.name), "goal": f.goal, "median": f.median}
            | {"values": f.values, "met": f.met}
            for f in figures
        ]
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
