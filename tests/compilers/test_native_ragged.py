"""Products of few rows whose larger factor lies in lines that begin anywhere: as vectors, with what is around these;
and in lines of whole vectors, of several rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from compilers.test_native_products import Case, carved, dense, matmul, texts_of, times_turned, turned, wrong
from compilers.test_native_stored import Stored
from compilers.test_native_stored import carved as carved_as_stored
from tapml.compilers.native.ragged import LineSplit
from tapml.suite import Suite

op = relax.op
OF_LINES = "Columns begin anywhere in vectors of"


def cut(begin: int, end: int) -> Callable[..., Any]:
    """By columns of a weight that are cut out of longer ones."""

    def made(builder: Any, x: Any, w: Any) -> Any:
        part = builder.emit(op.strided_slice(w, [1], [begin], [end]))
        return op.matmul(x, turned(builder, part))

    return made


def gated(builder: Any, x: Any, gate: Any, w: Any, bias: Any) -> Any:
    left = builder.emit(op.multiply(builder.emit(op.nn.silu(gate)), x))
    sums = builder.emit(op.matmul(left, turned(builder, w)))
    return op.nn.gelu(builder.emit(op.add(sums, bias)))


RAGGED: dict[str, Case] = {
    "one row": (times_turned, [(1, 301), (37, 301)]),
    "long": (times_turned, [(1, 2049), (9, 2049)]),
    "every second begins alike": (times_turned, [(1, 202), (21, 202)]),
    "three rows": (times_turned, [(3, 133), (50, 133)]),
    "eight rows": (times_turned, [(8, 97), (41, 97)]),
    "few columns of many rows": (matmul, [(40, 65), (65, 2)]),
    "batches": (lambda b, x, w: op.matmul(x, turned(b, w, [0, 2, 1])), [(5, 2, 67), (5, 31, 67)]),
    "gated": (gated, [(2, 131), (2, 131), (23, 131), (23,)]),
}
CUT: dict[str, Case] = {
    "cut out, odd": (cut(3, 131), [(1, 128), (33, 131)]),
    "cut out of whole vectors": (cut(1, 101), [(1, 100), (34, 132)]),
}
WHOLE: dict[str, Case] = {
    "three rows": (times_turned, [(3, 64), (50, 64)]),
    "four rows, long": (times_turned, [(4, 2064), (9, 2064)]),
    "five rows": (times_turned, [(5, 320), (37, 320)]),
    "eight rows": (times_turned, [(8, 136), (41, 136)]),
    "eight columns of many rows": (matmul, [(40, 72), (72, 8)]),
    "two rows": (times_turned, [(2, 200), (33, 200)]),
    "batches": (lambda b, x, w: op.matmul(x, turned(b, w, [0, 2, 1])), [(5, 3, 72), (5, 31, 72)]),
    "gated": (gated, [(6, 136), (6, 136), (23, 136), (23,)]),
}
WHOLE_LINES = "let vectors = "


def ragged(suite: Suite) -> int:
    """Kernels that read lines which begin anywhere."""
    return sum(OF_LINES in text for text in texts_of(suite))


def whole(suite: Suite) -> int:
    """Kernels that read lines of whole vectors."""
    return sum(WHOLE_LINES in text and OF_LINES not in text for text in texts_of(suite))


@pytest.mark.parametrize(("device", "dtype"), [("node-dawn", "float32"), ("deno", "float16")])
def test_lines_that_begin_anywhere(tmp_path: Path, device: str, dtype: str) -> None:
    suite = carved({**RAGGED, **CUT}, tmp_path, dtype)
    assert wrong(suite, device) == {}
    assert ragged(suite) >= len(RAGGED)


@pytest.mark.parametrize(("device", "dtype"), [("node-dawn", "float32"), ("deno", "float16")])
def test_whole_lines_of_several_rows(tmp_path: Path, device: str, dtype: str) -> None:
    suite = carved(WHOLE, tmp_path, dtype)
    assert wrong(suite, device) == {}
    assert whole(suite) >= len(WHOLE) - 1, "a move before one may be a kernel of its own"


def test_lines_of_any_number(tmp_path: Path) -> None:
    cases: dict[str, Case] = {
        "columns": (times_turned, [(1, 67), ("n", 67)]),
        "batches": (lambda b, x, w: op.matmul(x, turned(b, w, [0, 2, 1])), [("n", 1, 65), ("n", 9, 65)]),
    }
    suite = carved(cases, tmp_path, n=13)
    assert wrong(suite, "node-dawn") == {}
    assert ragged(suite) == len(cases)


def test_lines_that_lie_as_float16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapml.carving.halves.LEAST_BYTES", 0)
    suite = carved_as_stored(
        {
            "odd": Stored((1,), 37, 301),
            "every number": Stored((2,), 21, 131, every=True),
            "whole": Stored((4,), 37, 304),
        },
        tmp_path,
    )
    assert wrong(suite, "node-dawn") == {}
    lines = [text for text in texts_of(suite) if "half_of" in text and "let vectors = " in text]
    assert sum(OF_LINES in text for text in lines) == 2
    assert len(lines) == 3


def test_a_row_of_whole_vectors_is_no_line(tmp_path: Path) -> None:
    cases: dict[str, Case] = {
        "fours": (times_turned, [(1, 300), (37, 300)]),
        "across": (matmul, [(1, 301), (301, 37)]),
    }
    suite = carved(cases, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    assert ragged(suite) == 0


@pytest.mark.slow
@pytest.mark.parametrize("split", [LineSplit(8, 1, 1), LineSplit(16, 4, 2), LineSplit(128, 1, 4), LineSplit(256, 2, 1)])
@pytest.mark.parametrize(("device", "dtype"), [("deno", "float32"), ("deno", "float16")])
def test_every_way_to_share_lines_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: LineSplit, device: str, dtype: str
) -> None:
    for kind in ("", "whole_"):
        monkeypatch.setattr(f"tapml.compilers.native.ragged.{kind}line_split_of", lambda *sizes: split)
    few = {name: case for name, case in RAGGED.items() if split.columns == 1 or name != "eight rows"}
    some = {f"{name}, whole": case for name, case in WHOLE.items() if split.columns == 1 or name != "eight rows"}
    more: dict[str, Case] = {"dense": (dense, [(1, 64), (64, 70), (70,), (1, 70)])}
    suite = carved({**few, **some, **CUT, **more}, tmp_path, dtype)
    assert wrong(suite, device) == {}
    assert ragged(suite) >= 5, "moves before a product may be kernels of their own, by what these take"
    assert whole(suite) >= len(some) - 1


MUTANTS = [
    (r"let head = min\(\((\d+) -", lambda found: f"let head = min(({int(found[1]) + 1} -"),
    (r"\(begin_0 \+ head\)", lambda found: "(begin_0)"),
    (r"m \+= (\d+)", lambda found: f"m += {2 * int(found[1])}"),
    (r"lane < head", lambda found: "lane + 1 < head"),
    (r"tail \+ lane < (\d+)", lambda found: f"tail + lane < {int(found[1]) - 1}"),
    (r"(let first = .*) \* (\d+)", lambda found: f"{found[1]} * {int(found[2]) + 1}"),
    (r"column \* (\d+)", lambda found: f"column * {int(found[1]) + 1}"),
    (r"let k_0 = head \+", lambda found: "let k_0 ="),
]
"""Changes of a text: another end of what is before the first vector, vectors that begin before it, some that are left
out, an element less at either end, other columns, another length of lines, another place of what is multiplied."""
MUTANTS_OF_WHOLE = [
    (r"let vectors = (\d+)", lambda found: f"let vectors = {int(found[1]) - 4}"),
    (r"let column_1 = .*;", lambda found: "let column_1 = column_0;"),
    (r"let k_0 = m \* (\d+)", lambda found: f"let k_0 = m * {int(found[1]) - 1}"),
    (r"sum_1_0 = accumulated\(sum_1_0", lambda found: "sum_1_0 = accumulated(sum_0_0"),
]
"""A vector less, a column twice, another place of what is multiplied, a row's sum of another row's."""


@pytest.mark.slow
def test_mutants_of_lines_are_found(tmp_path: Path) -> None:
    wide: dict[str, Case] = {"six rows": (times_turned, [(6, 64), (2048, 64)])}
    ragged_ones = {name: RAGGED[name] for name in ("one row", "three rows", "eight rows")}
    mutants = [(ragged_ones, *one) for one in MUTANTS] + [(wide, *one) for one in MUTANTS_OF_WHOLE]
    for number, (cases, pattern, change) in enumerate(mutants):
        folder = tmp_path / str(number)
        folder.mkdir()
        suite = carved(cases, folder)
        for name in suite.kernels:
            (file,) = suite.kernel_files(name)
            text = re.sub(pattern, change, file.text)
            assert text != file.text, pattern
            (suite.path / "kernels" / file.name).write_text(text)
        suite = Suite(suite.path)
        assert set(wrong(suite, "node-dawn")) == set(suite.kernels), pattern
