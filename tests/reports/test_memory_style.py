"""The page that draws a memory plan has no build step: what it shares with all pages is held against them here."""

from __future__ import annotations

import re
from pathlib import Path

import tapml

ROOT = Path(__file__).parents[2]
_TOKEN = re.compile(r"^\s*(--[\w-]+|color-scheme):\s*(.+?);", re.MULTILINE)


def test_its_colours_are_those_of_all_pages() -> None:
    shared = dict(_TOKEN.findall((ROOT / "runner_js/kit/kit.css").read_text()))
    own = dict(_TOKEN.findall((Path(tapml.__file__).parent / "reports/memory.css").read_text()))
    assert len(own) == 9
    assert own == {name: shared.get(name) for name in own}
