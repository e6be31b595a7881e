"""Texts from strangers, fit for a terminal, a log and a page.

A name or a message may hold escape sequences that move the cursor, forge lines or turn the reading order around. What
does so is shown as an escape (`\\x1b`, `\\u202e`), so that nothing is lost and nothing is obeyed; letters of any script
and emoji stay.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

# C0 and C1 with DEL, line and paragraph separators, what turns or isolates the reading order, annotations, surrogates.
_HIDDEN = r"\x7f-\x9f\u061c\u2028\u2029\u202a-\u202e\u2066-\u206f\ufff9-\ufffb\ud800-\udfff"
_UNSAFE = re.compile(rf"[\x00-\x08\x0b-\x1f{_HIDDEN}]")
_UNSAFE_IN_JSON = re.compile(f"[{_HIDDEN}]")
_SPACE = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029 ]+")


def visible(text: str) -> str:
    """With escapes for what a terminal obeys; line breaks and tabs stay. A text without such is given back as it is."""
    if not _UNSAFE.search(text):
        return text
    return _UNSAFE.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str, most: int = 500) -> str:
    """The same on one line, cut to `most` characters."""
    line = visible(_SPACE.sub(" ", text[: 4 * most])).strip()
    return line if len(line) <= most else line[: most - 3] + "..."


def shortened(name: str, most: int) -> str:
    """Without its middle where it has more than `most` characters, as pages have it: kernels that are made of the same
    begin alike, and end with what tells them apart."""
    tail = most // 3
    return name if len(name) <= most else f"{name[: most - tail - 1]}…{name[-tail:]}"


def indented(text: str, by: str = "    ") -> str:
    """The same with every line but the first behind `by`, so that none can pass for a line of ours."""
    return f"\n{by}".join(visible(line) for line in text.splitlines())


def listed(items: Sequence[object], most: int) -> str:
    """The first of them, and how many more there are."""
    shown = ", ".join(map(str, items[:most]))
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


def counted(count: int, noun: str, many: str = "") -> str:
    """As in "1 test" and "2 tests"; `many` where that is no s behind it."""
    return f"{count} {noun if count == 1 else many or f'{noun}s'}"


def exact(value: float | str | None) -> str:
    """Six digits of a number as JSON has it; what is none as it is."""
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)


def duration(seconds: float) -> str:
    """Roughly: "9 s", "3 min", "2 h 10 min"."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def size(count: float) -> str:
    """Bytes for people (powers of 1000)."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("unreachable")


def exact_size(count: int) -> str:
    """A limit, for people who compare it with a number of bytes."""
    return f"{count} bytes ({size(count)})"


def json_escaped(text: str) -> str:
    """JSON that means the same and is ASCII where a terminal would obey it; JSON escapes the rest itself."""
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The first of the known names that begins so, or else the most like it; None where none is near."""
    # A stranger's may be of any length, and to compare takes its square.
    short = [name for name in known if len(name) <= 100]
    begun = [name for name in short if given and name.startswith(given)]
    return next(iter(begun or difflib.get_close_matches(given[:100], short, 1)), None)


def meant(given: str, known: Iterable[str]) -> str:
    """ ", did you mean X?" for the nearest of the known names; empty where none is near."""
    near = nearest(given, known)
    return f", did you mean {near}?" if near is not None else ""
