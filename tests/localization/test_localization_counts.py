"""What counts as found, missed and accused wrongly; what a mutant changes; how far the baseline is off."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.localization import table
from benchmarks.localization.baseline import needed_tolerance
from benchmarks.localization.cases import Bug
from benchmarks.localization.counting import Count
from benchmarks.localization.equivalence import (
    DETECTABLE,
    EQUIVALENT,
    IMPLEMENTATION,
    WITHIN,
    Effect,
    classify,
    effect,
)
from benchmarks.localization.mutate import Mutant
from benchmarks.localization.run import Benchmark, described
from benchmarks.localization.wgsl_text import Span

KERNELS = ["a", "b", "c", "d", "e", "f"]
BUGS = [
    {"kernel": "a", "class": DETECTABLE},
    {"kernel": "b", "class": DETECTABLE},
    {"kernel": "c", "class": EQUIVALENT},
    {"kernel": "d", "class": IMPLEMENTATION},
]


def test_counts() -> None:
    count = Count()
    count.add(KERNELS, BUGS, ["a", "d", "e"], 2.0)
    assert (count.injected, count.reports, count.missed, count.accused, count.innocent) == (4, 3, 1, 1, 2)
    assert count.false_positive_share == pytest.approx(1 / 3)
    assert count.false_negative_share == 0.5
    both = count + count
    assert (both.cases, both.missed, both.accused, both.seconds) == (2, 2, 2, [2.0, 2.0])


def test_suspicious_kernels_count_apart() -> None:
    count = Count()
    hidden = {"kernel": "d", "class": WITHIN}
    count.add(KERNELS, [BUGS[0], BUGS[1], hidden], ["a"], 1.0, ["a", "b", "d", "e"])
    assert (count.missed, count.reports, count.accused) == (1, 1, 0)
    assert (count.suspicious[WITHIN], count.suspicious[DETECTABLE], count.suspected) == (1, 1, 1)


def test_equivalents_are_not_missed() -> None:
    count = Count()
    count.add(KERNELS, BUGS, ["a", "b"], 1.0)
    assert (count.missed, count.false_negative_share, count.false_positive_share) == (0, 0.0, 0.0)


SAME, SMALL, LARGE = Effect(False, 0, 0), Effect(True, 0.5, 1e-7), Effect(True, 3.0, 1e-3)
BROKEN = Effect(True, math.inf, math.inf, "it does not compile")


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ([SAME, SAME], EQUIVALENT),
        ([SAME, SMALL], WITHIN),
        ([SMALL, SMALL], WITHIN),
        ([SAME, LARGE], IMPLEMENTATION),
        ([SMALL, BROKEN], IMPLEMENTATION),
        ([LARGE, LARGE], DETECTABLE),
        ([LARGE, BROKEN], DETECTABLE),
    ],
)
def test_classes(effects: list[Effect], expected: str) -> None:
    assert classify(effects) == expected


@pytest.mark.parametrize(
    ("effects", "accused", "again", "expected"),
    [
        ([LARGE, LARGE], [], SAME, IMPLEMENTATION),  # a race that did not show
        ([LARGE, LARGE], [], LARGE, DETECTABLE),  # there each time, and missed
        ([LARGE, LARGE], [], BROKEN, DETECTABLE),
        ([LARGE, LARGE], ["k"], None, DETECTABLE),
        ([SAME, SAME], [], None, EQUIVALENT),
    ],
)
def test_what_was_missed_runs_again(
    effects: list[Effect], accused: list[str], again: Effect | None, expected: str
) -> None:
    bug = Bug("k", "k.wgsl", Mutant("dropped barrier", 1, "dropped", Span(0, 1), "", "x"))
    runs = [] if again is None else [again]
    found = described(bug, dict(zip("ab", effects, strict=True)), accused, lambda _: runs.pop())
    assert (found["class"], runs) == (expected, [])


def _effect(before: list[float], after: list[float], bound: list[float]) -> Effect:
    return effect([np.float32(before)], [np.float32(after)], [np.float64(bound)])


def test_effects() -> None:
    assert _effect([1, 2], [1, 2], [0, 0]) == Effect(False, 0, 0)
    assert _effect([1, 2], [1, 2.5], [0.25, 0.25]) == Effect(True, 2.0, 0.25)
    assert _effect([1, 2], [1, 2.5], [0, 0]).excess == math.inf
    assert _effect([1, 2], [math.nan, 2], [1, 1]).excess == math.inf
    assert _effect([math.nan, 2], [math.nan, 2.5], [1, 1]).excess == 0.5


def test_unbounded_elements_prove_nothing() -> None:
    found = _effect([1, 2], [math.nan, 2], [math.inf, 1])
    assert (found.differs, found.excess) == (True, 0.0)


def test_baseline_tolerance() -> None:
    assert needed_tolerance(np.float32([1, -3]), np.float32([1, -3])) == 0
    assert needed_tolerance(np.float32([1, -3]), np.float32([1, -5])) == 0.5
    assert needed_tolerance(np.float32([1]), np.float32([math.nan])) == math.inf
    assert needed_tolerance(np.int32([1]), np.int32([2])) == 0.5


def _record(model: str, bugs: list[dict[str, Any]], accused: list[str]) -> dict[str, Any]:
    described = {"file": "k.wgsl", "line": 3, "operator": "sign", "description": "+ became -"}
    effects = {"effects": {"deno": {"excess": 9.0, "change": 0.1, "error": ""}}}
    suspects = [{"kernel": name, "verdict": "fail", "excess": [1.5], "reason": "because"} for name in accused]
    return {
        "case": f"{model}-0", "model": model, "device": "Chromium 1", "kernels": KERNELS, "operators": 70,
        "seconds": 1.5, "verdict": "faulty" if accused else "clean", "accused": accused, "suspects": suspects,
        "suspicious": {"f": 5.0},
        "bugs": [described | effects | bug for bug in bugs],
        "baseline": {"seconds": 3.0, "accused": {"0.001": ["a", "f"], "0.01": []}},
    }  # fmt: skip


def test_table() -> None:
    records = [_record("m", [], []), _record("m", BUGS, ["a", "e"])]
    found = table.text(records)
    lines = [line.split() for line in found.splitlines()]
    assert ["m", "70", "1", "4", "1", "0", "0", "1", "1.5", "1.5", "2", "1", "(50.0%)", "1", "(50.0%)", "1"] in lines
    assert ["m", "0.001", "2", "1", "(50.0%)", "1", "(50.0%)", "3.0"] in lines
    assert ["m", "0.01", "0", "0", "(0.0%)", "2", "(100.0%)", "3.0"] in lines
    assert ["m", "clean", "none", "f", "1.5"] in lines
    assert "false positive: m-0 e: fail, excess [1.5], because" in found
    assert "suspicious wrongly: m-0 f: 5 x what rounding explains" in found
    assert "false negative: m-0 b k.wgsl:3 sign (+ became -)" in found


def test_table_in_a_document(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- chromium -->\nold\n<!-- end of chromium -->\nafter\n")
    table.write(path, "chromium", [_record("m", [], []), _record("m", BUGS, ["a"])])
    text = path.read_text()
    assert text.startswith("before\n<!-- chromium -->\n")
    assert text.endswith("<!-- end of chromium -->\nafter\n")
    assert "old" not in text
    assert "| m | 70 | 1 | 4 |" in text
    with pytest.raises(ValueError, match="has no marks"):
        table.write(path, "firefox", [_record("m", BUGS, ["a"])])


def test_tables_and_records_of_other_compilers_kernels_are_their_own(tmp_path: Path) -> None:
    assert [table.mark("chromium", compiler) for compiler in ("tvm", "native")] == ["chromium", "chromium-native"]
    made = [Benchmark((), "chromium", 0, 1, tmp_path, compiler) for compiler in ("tvm", "native")]
    assert len({path for one in made for path in (one.path, one.report_path)}) == 4
