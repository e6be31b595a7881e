"""A memory plan in the terminal, and drawn: bytes over time, as a page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from rich.console import Console

from tapml.building.picture import Held, Picture
from tapml.reports.console import Table
from tapml.text import counted, size

_STYLE = (Path(__file__).parent / "memory.css").read_text()

_WIDTH, _LEFT, _TALL, _LOW, _GAP = 1120, 96, 460, 90, 14
"""Of the picture: its width, the room for names of arenas, the height of all arenas, of the curve, and between."""

_LEAST_TALL, _TALL_EACH = 60, 24
"""The height of all arenas, where few tensors lie in them."""

_LEAST_ARENA = 28.0
_MOST_TICKS = 12
_DISTANCES = tuple(factor * 10**power for power in range(8) for factor in (1, 2, 5))
"""Of the axis."""

_DIGIT = 6
"""How wide one is, at most."""

_TONES = 6


def show_memory(console: Console, pictures: Sequence[Picture]) -> None:
    """`tapml show --memory`: what each function's tensors take, would take, and cannot do without."""
    numbers = ("naive", "planned", "lower bound", "arenas")
    table = Table("function", "sizes", *numbers, "strategy", right=numbers)
    for found in pictures:
        arenas = ", ".join(size(count) for count in found.arenas) or "none"
        table.add_row(
            found.function, found.sizes or "fixed", size(found.naive), size(found.bytes), size(found.lower_bound),
            arenas, found.strategy,
        )  # fmt: skip
    console.print(table)


def drawn(title: str, pictures: Sequence[Picture]) -> str:
    """An HTML page without a script: each arena with what lies in it, from left to right as the function runs, and
    below what is needed at each step. The name of a tensor shows where the pointer is."""
    sections = "\n".join(_section(found) for found in pictures)
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Memory of {escape(title)}</title>\n<style>\n{_STYLE}</style>\n"
        f"<main>\n<h1>Memory of {escape(title)}</h1>\n{sections}\n</main>\n</html>\n"
    )


def _section(picture: Picture) -> str:
    more = picture.bytes / max(1, picture.lower_bound) - 1
    beyond = f"the plan takes {more:.1%} more" if more else "the plan takes no more"
    facts = [
        ("naive", size(picture.naive), "if no tensor shared bytes"),
        (
            "planned",
            size(picture.bytes),
            f"{picture.strategy}, {len(picture.arenas)} arena{'s' * (len(picture.arenas) != 1)}",
        ),
        ("lower bound", size(picture.lower_bound), f"the largest live set; {beyond}"),
    ]
    cards = "".join(f"<div><dt>{name}</dt><dd>{value}</dd><p>{text}</p></div>" for name, value, text in facts)
    at = f", {escape(picture.sizes)}" if picture.sizes else ""
    what = f"{counted(len(picture.held), 'tensor')} in {counted(len(picture.steps), 'step')}{at}"
    return (
        f'<section>\n<h2>{escape(picture.function)}</h2>\n<p class="muted">{what}</p>\n<dl>{cards}</dl>\n'
        f"{_picture(picture)}\n</section>"
    )


def _picture(picture: Picture) -> str:
    steps, total = max(1, len(picture.steps)), max(1, picture.bytes)
    step = (_WIDTH - _LEFT) / steps
    parts, top = [], 0.0
    # A few tensors do not fill a screen.
    whole = min(_TALL, _LEAST_TALL + _TALL_EACH * len(picture.held))
    for number, count in enumerate(picture.arenas):
        # However small an arena is, there is room for its name and its size.
        tall = max(_LEAST_ARENA, whole * count / total)
        parts.append(f'<rect class="arena" x="{_LEFT}" y="{top:.1f}" width="{_WIDTH - _LEFT}" height="{tall:.1f}"/>')
        parts.append(f'<text x="0" y="{top + 11:.1f}">arena {number}</text>')
        parts.append(f'<text class="muted" x="0" y="{top + 25:.1f}">{size(count)}</text>')
        ordered = sorted((one for one in picture.held if one.place.arena == number), key=lambda one: one.first)
        for index, one in enumerate(ordered):
            parts.append(_rectangle(one, index, _LEFT + one.first * step, top, step, tall / max(1, count)))
        top += tall + _GAP
    parts += _curve(picture, top, step)
    parts += _axis(picture, top + _LOW + 26, step)
    svg = f'<svg viewBox="0 0 {_WIDTH} {top + _LOW + 56:.0f}" role="img">{"".join(parts)}</svg>'
    hint = "Scroll the drawing sideways: it is wider than this screen."
    return f'<p class="narrow muted">{hint}</p>\n<div class="wide">{svg}</div>'


def _axis(picture: Picture, y: float, step: float) -> list[str]:
    """The numbers of steps, from 0: some ten of them, in round distances."""
    count = len(picture.steps)
    apart = next(each for each in _DISTANCES if count <= _MOST_TICKS * each)
    parts = [f'<path class="axis" d="M{_LEFT},{y:.1f}H{_WIDTH}"/>', f'<text x="0" y="{y + 16:.1f}">step</text>']
    for place in range(0, count, apart):
        x = _LEFT + (place + 0.5) * step
        parts.append(f'<path class="axis" d="M{x:.1f},{y:.1f}v4"/>')
        # The last one would lose its right half at the edge.
        anchor, at = ("end", float(_WIDTH)) if x + _DIGIT * len(str(place)) / 2 > _WIDTH else ("middle", x)
        parts.append(f'<text class="muted" text-anchor="{anchor}" x="{at:.1f}" y="{y + 16:.1f}">{place}</text>')
    return parts


def _rectangle(one: Held, index: int, x: float, top: float, step: float, scale: float) -> str:
    width, tall = (one.last - one.first + 1) * step, one.place.bytes * scale
    where = f"arena {one.place.arena}, from byte {one.place.offset}, steps {one.first} to {one.last}"
    name = f"{one.name}\n{size(one.place.bytes)} by {one.made_by}\n{where}"
    kind = "temporary" if one.temporary else f"tone{index % _TONES}"
    y = top + one.place.offset * scale
    gap = min(0.6, width / 8)
    shape = f'x="{x:.2f}" y="{y:.2f}" width="{width - gap:.2f}" height="{max(0.5, tall - min(0.6, tall / 8)):.2f}"'
    return f'<rect class="{kind}" {shape}><title>{escape(name)}</title></rect>'


def _curve(picture: Picture, top: float, step: float) -> list[str]:
    """What is needed at each step, and above it the line of what is planned."""
    live, most = picture.live, max(picture.bytes, picture.lower_bound, 1)
    foot = top + 8 + _LOW

    def height(count: int) -> float:
        return foot - (_LOW - 8) * count / most

    points = "".join(
        f"L{_LEFT + place * step:.2f},{height(count):.1f}H{_LEFT + (place + 1) * step:.2f}"
        for place, count in enumerate(live)
    )
    planned, bound = height(picture.bytes), height(picture.lower_bound)
    parts = [
        f'<path class="live" d="M{_LEFT},{foot:.1f}{points}V{foot:.1f}Z"/>',
        f'<path class="planned" d="M{_LEFT},{planned:.1f}H{_WIDTH}"/>',
        f'<text x="0" y="{foot - _LOW + 11:.1f}">live bytes</text>',
        f'<text class="muted" x="0" y="{foot - _LOW + 25:.1f}">dashed: planned</text>',
    ]
    if picture.lower_bound:
        place = live.index(max(live))
        x = _LEFT + (place + 0.5) * step
        anchor = "end" if x > _WIDTH * 0.8 else "start" if x < _WIDTH * 0.2 else "middle"
        parts.append(f'<circle cx="{x:.1f}" cy="{bound:.1f}" r="3"/>')
        parts.append(
            f'<text class="muted" text-anchor="{anchor}" x="{x:.1f}" y="{foot + 14:.1f}">most at '
            f"step {place} ({escape(picture.steps[place])}): {size(live[place])}</text>"
        )
    return parts
