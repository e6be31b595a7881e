"""300 of the 20,000 fuzzed documents of `make bench-hostile`, in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.hostile import pool
from benchmarks.hostile.good import make
from benchmarks.hostile.pool import Sums, run


@pytest.mark.slow
def test_no_fuzzed_document_breaks_anything(tmp_path: Path) -> None:
    good, kept = tmp_path / "good", tmp_path / "kept"
    good.mkdir()
    make(good, real=False)
    sums = run(good, tmp_path / "work", kept, 300, 1_000_000, None, 1)
    total = Sums()
    for each in sums.values():
        total.add(each)
    broken = {name: each.causes for name, each in sums.items() if each.broken}
    assert broken == {}, f"what broke is kept in {kept}"
    # Both happen: else the documents are too bad, or too good, to say anything.
    assert total.documents == 300
    assert total.refused > 100
    assert total.documents - total.refused > 20


def found(**changes: Any) -> dict[str, Any]:
    """What a worker says of a case that broke nothing."""
    nothing: dict[str, list[str]] = {"tracebacks": [], "500s": [], "escapes": []}
    return {"format": "x", "seed": 0, "refused": False, "MB": 0.0, "seconds": 0.0, "waited": 0.0, **nothing, **changes}


@pytest.mark.parametrize(
    ("first", "second", "hangs"),
    [
        ({"seconds": 1.0, "waited": 11.0}, {"seconds": 1.0, "waited": 2.0}, False),
        ({"seconds": 0.1, "waited": 20.0, "hang": "no end"}, {"seconds": 1.0, "waited": 2.0}, False),
        ({"seconds": 0.1, "waited": 20.0, "hang": "no end"}, {"seconds": 0.1, "waited": 20.0, "hang": "no end"}, True),
        ({"seconds": 0.1, "waited": 11.0}, {"seconds": 0.1, "waited": 11.0}, True),
        ({"seconds": 11.0, "waited": 12.0}, None, True),
        ({"seconds": 0.1, "waited": 1.0, "hang": "the process died (-11)"}, None, True),
    ],
)
def test_who_only_waited_for_others_is_not_accused(
    first: dict[str, Any], second: dict[str, Any] | None, hangs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [found(**answer) for answer in (first, second) if answer]
    kept = tmp_path / "kept" / "x-0"

    def drive(good: Path, root: Path, place: Path, next_case: Any, note: Any) -> None:
        while case := next_case():
            assert case[1] == 0
            assert not kept.exists(), "of the first run nothing is kept"
            kept.mkdir(parents=True)
            note({**answers.pop(0), "format": case[0], "kept": str(kept)})

    monkeypatch.setattr(pool, "_drive", drive)
    (sums,) = run(tmp_path, tmp_path / "work", tmp_path / "kept", 1, 0, ["tests.json"], 1).values()
    assert (sums.documents, sums.hangs) == (1, int(hangs))
    assert answers == []


def test_what_breaks_is_noticed() -> None:
    """The watch itself: what each of its parts is there to see."""
    sums = Sums()
    sums.note(found())
    assert not sums.broken
    for name, value in (("tracebacks", ["ValueError: x"]), ("500s", ["GET /: 500"]), ("escapes", ["open reads /etc"]),
                        ("MB", 513.0), ("hang", "no end after 20 s"), ("seconds", 11.0)):  # fmt: skip
        sums = Sums()
        sums.note(found(**{name: value}))
        assert sums.broken, name
