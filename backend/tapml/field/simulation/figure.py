"""The coverage of a release over time, drawn as the seed's Figure 13 (Walle, OSDI 2022): an SVG, or a page with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from tapml.field.releases import step_name
from tapml.field.simulation.run import Begun, Simulated

_WIDTH, _HEIGHT = 960, 496
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 24, 100, 48
_MOST_POINTS = 480
_LEAST_GAP = 20.0  # names of 13 px, which lean
_NAME_ROOM = 70
_STYLE = """\
svg { color-scheme: light dark; background: light-dark(#ffffff, #181c23); font: 13px system-ui, sans-serif; }
text { fill: light-dark(#1b2027, #e4e8ee); }
.grid { stroke: light-dark(#dde1e7, #2b313c); }
.step { stroke: light-dark(#5b6675, #98a3b3); stroke-dasharray: 3 3; }
.back { stroke: light-dark(#c0232d, #ff8087); }
.line { fill: none; stroke-width: 2; }
.online { stroke: light-dark(#5b6675, #98a3b3); stroke-dasharray: 7 4; }
.start { stroke: light-dark(#a15c00, #e8a95b); }
.covered { stroke: light-dark(#3554d1, #8ea6ff); stroke-width: 3; }
"""
_SERIES = (("online", "on line"), ("start", "covered, of those on line at the start"), ("covered", "covered"))


def svg(found: Simulated) -> str:
    """Devices over minutes, with the moments at which steps began. Makes no use of scripts, fonts or other files."""
    seconds = _shown_seconds(found)
    most_on_line, most_covered = int(found.on_line.max()), int(found.covered.max())
    # Beside millions on line, the thousands that had a release which was rolled back early would be a flat line.
    beside = 10 * most_covered >= most_on_line
    top = _round_up(max(most_on_line if beside else most_covered, 4))
    drawn = {"start": found.covered_of_start, "covered": found.covered}
    if beside:
        drawn = {"online": found.on_line, **drawn}

    def x(second: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * second / max(seconds, 1)

    def y(count: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * count / top

    def line(name: str, values: NDArray[np.int64]) -> str:
        every = max(1, seconds // _MOST_POINTS)
        shown = sorted({*range(0, seconds + 1, every), seconds})
        points = " ".join(f"{x(second):.1f},{y(int(values[second])):.1f}" for second in shown)
        return f'<polyline class="line {name}" points="{points}"/>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" role="img">',
        f"<title>{escape(summary(found))}</title>",
        f"<style>{_STYLE}</style>",
    ]
    for quarter in range(5):
        count = top * quarter / 4
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(count):.1f}" y2="{y(count):.1f}"/>'
        )
        parts.append(f'<text x="{_LEFT - 8}" y="{y(count) + 4:.1f}" text-anchor="end">{_short(count)}</text>')
    unit, name = (1, "seconds") if seconds < 180 else (60, "minutes")
    for tick in _ticks(seconds // unit):
        parts.append(f'<text x="{x(unit * tick):.1f}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{tick}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">{name}</text>')
    parts += _marks(found, x)
    parts += [line(name, values) for name, values in drawn.items()]
    at = _LEFT
    for name, text in _SERIES:
        if name not in drawn:
            continue
        parts.append(f'<line class="line {name}" x1="{at}" x2="{at + 28}" y1="20" y2="20"/>')
        parts.append(f'<text x="{at + 34}" y="24">{text}</text>')
        at += 70 + 7 * len(text)
    if not beside:
        parts.append(f'<text x="{at}" y="24">{most_on_line:,} on line, far above this scale</text>')
    return "\n".join([*parts, "</svg>", ""])


def page(found: Simulated) -> str:
    """The figure with what a reader cannot take from it: numbers by the minute."""
    rows = "".join(
        f"<tr><td>{minute}<td>{found.on_line[60 * minute]:,}<td>{found.covered[60 * minute]:,}"
        f"<td>{found.covered_of_start[60 * minute]:,}"
        for minute in range((len(found.covered) - 1) // 60 + 1)
    )
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>Coverage of a release</title>\n'
        "<style>:root { color-scheme: light dark } body { font: 15px/1.5 system-ui, sans-serif; max-width: 960px; "
        "margin: 24px auto; padding: 0 16px } svg { max-width: 100%; height: auto } td, th { text-align: right; "
        "padding: 2px 14px; font-variant-numeric: tabular-nums }</style>\n"
        f"<h1>Coverage of a release</h1>\n<p>{escape(summary(found))}</p>\n{svg(found)}"
        f"<table><tr><th>minute<th>on line<th>covered<th>of those on line at the start{rows}</table>\n</html>\n"
    )


def summary(found: Simulated) -> str:
    """A sentence."""
    devices, minutes, last = int(found.on_line[-1]), (len(found.covered) - 1) / 60, int(found.covered[-1])
    if found.release.status == "rolled-back":
        step = step_name(found.release.plan.steps[found.release.step])
        return (
            f"Rolled back in the step {step} after {found.release.since / 60_000:.1f} min: {found.release.reason}; "
            f"{int(found.covered.max()):,} of {devices:,} devices had it at most, {last:,} at the end."
        )
    return f"{last:,} of {devices:,} devices on line hold the version after {minutes:g} minutes."


def _marks(found: Simulated, x: Callable[[float], float]) -> list[str]:
    """A line where a step began, with its name."""
    names = [(one, step_name(found.release.plan.steps[one.step]), "step") for one in found.begun]
    if found.release.status == "rolled-back":
        names.append((Begun(found.release.step, found.release.since // 1000), "rolled back", "step back"))
    places = [x(one.second) for one, _, _ in names]
    parts = []
    for (_, name, kind), place, label in zip(names, places, _apart(places), strict=True):
        parts.append(
            f'<path class="{kind}" fill="none" d="M{label:.1f} {_TOP - 12} {place:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>'
        )
        parts.append(f'<text transform="translate({label + 3:.1f} {_TOP - 14}) rotate(-40)">{escape(name)}</text>')
    return parts


def _apart(places: Sequence[float]) -> list[float]:
    """Where names stand: as near to their places, which ascend, as leaves each legible and within the figure."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + _LEAST_GAP) if found else place)
    most = float(_WIDTH - _NAME_ROOM)
    for index in reversed(range(len(found))):
        found[index] = min(found[index], most)
        most = found[index] - _LEAST_GAP
    return found


def _shown_seconds(found: Simulated) -> int:
    """All, but of a release that was rolled back only until nobody had it any more, and a little."""
    seconds = len(found.covered) - 1
    if found.release.status != "rolled-back" or found.covered[-1]:
        return seconds
    held = np.flatnonzero(found.covered)
    over = max(int(held[-1]) if len(held) else 0, found.release.since // 1000)
    return min(seconds, max(10, over * 5 // 4))


def _round_up(count: int) -> int:
    """To a number of which a quarter is round, too."""
    unit = int(10 ** max(len(str(count)) - 2, 0))
    return next(tens * unit for tens in (10, 12, 16, 20, 24, 32, 40, 60, 80, 100) if tens * unit >= count)


def _ticks(last: int) -> Sequence[int]:
    every = next(step for step in (1, 2, 5, 10, 20, 60, max(last, 1)) if last / step <= 25)
    return range(0, last + 1, every)


def _short(count: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:g}{unit}"
    return f"{count:g}"
