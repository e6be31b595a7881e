"""300 of the 20,000 fuzzed documents of `make bench-hostile`, in two processes of their own."""

from __future__ import annotations

from pathlib import Path

from benchmarks.hostile.good import make
from benchmarks.hostile.pool import Sums, run


def test_no_fuzzed_document_breaks_anything(tmp_path: Path) -> None:
    good, kept = tmp_path / "good", tmp_path / "kept"
    good.mkdir()
    make(good, real=False)
    sums = run(good, tmp_path / "work", kept, 300, 1_000_000, None, 2)
    total = Sums()
    for found in sums.values():
        total.add(found)
    broken = {name: found.causes for name, found in sums.items() if found.broken}
    assert broken == {}, f"what broke is kept in {kept}"
    # Both happen: else the documents are too bad, or too good, to say anything.
    assert total.documents == 300
    assert total.refused > 100
    assert total.documents - total.refused > 20


def test_what_breaks_is_noticed(tmp_path: Path) -> None:
    """The watch itself: what each of its parts is there to see."""
    sums = Sums()
    nothing: dict[str, list[str]] = {"tracebacks": [], "500s": [], "escapes": []}
    case = {"format": "x", "seed": 0, "refused": False, "MB": 0.0, "seconds": 0.0, **nothing}
    sums.note(case)
    assert not sums.broken
    for name, value in (("tracebacks", ["ValueError: x"]), ("500s", ["GET /: 500"]), ("escapes", ["open reads /etc"]),
                        ("MB", 513.0), ("hang", "no end after 20 s"), ("seconds", 11.0)):  # fmt: skip
        sums = Sums()
        sums.note({**case, name: value})
        assert sums.broken, name
