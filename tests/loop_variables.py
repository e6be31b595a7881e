"""Variables of loops that say no value.

WGSL makes them zero anew in each turn. Dawn (on SwiftShader) and wgpu (on lavapipe) do so once in a call:

    for (var i = 0u; i < 8u; i++) { var x: f32; x += 1.0; y[i] = x; }    // gives 1 2 3 4 5 6 7 8 in place of eight ones

whatever the type; `var x = f32();` gives ones. So no kernel of ours may count on it.
"""

from __future__ import annotations

import re

_LOOP = re.compile(r"(for|while|loop)\b")
_MOST_LINES = 100
_UNSAID = re.compile(r"var\s+(\w+)\s*:\s*[^=;]+;")


def unsaid(wgsl: str) -> list[str]:
    """Those whose first use may read them. TVM's of a choice are none: both sides of the `if` behind it set it."""
    found: list[str] = []
    loops: list[int] = []
    depth = 0
    lines = [line.strip() for line in wgsl.splitlines()]
    for number, line in enumerate(lines):
        if _LOOP.match(line):
            loops.append(depth)
        elif (variable := _UNSAID.match(line)) and loops and not _is_choice(variable[1], lines[number + 1 :]):
            found.append(variable[1])
        depth += line.count("{") - line.count("}")
        while loops and depth <= loops[-1]:
            loops.pop()
    return found


def _is_choice(name: str, behind: list[str]) -> bool:
    """Whether each side of an `if` ends with setting it."""
    side = rf"(let .*\n)*{name} = .*;\n"
    form = rf"if \(.*\{{\n{side}\}} else \{{\n{side}\}}"
    return re.match(form, "\n".join(behind[:_MOST_LINES])) is not None
