"""The raster kernel of `compilers/native`: what it moves, on devices, and that a wrong one is found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relax

from compilers.test_native_kernels import operators
from compilers.test_native_products import Case, carved, turned, wrong
from tapml.compilers.native.compile import generated
from tapml.expressions import Symbol
from tapml.suite import Suite

op = relax.op


def windows(builder: Any, x: Any) -> Any:
    """Swin's: rolled, cut into windows of 2 x 2."""
    rolled = builder.emit(op.concat([cut(builder, x, 1, 8), cut(builder, x, 0, 1)], 1))
    return op.permute_dims(builder.emit(op.reshape(rolled, (1, 4, 2, 3, 2, 8))), [0, 1, 3, 2, 4, 5])


def cut(builder: Any, x: Any, begin: int, end: int, step: int = 1) -> Any:
    return builder.emit(op.strided_slice(x, [1], [begin], [end], [step]))


def shuffled(builder: Any, x: Any) -> Any:
    """Depth to space, of 3 x 3."""
    apart = builder.emit(op.permute_dims(builder.emit(op.reshape(x, (2, 3, 3, 3, 4, 5))), [0, 3, 4, 1, 5, 2]))
    return op.reshape(apart, (2, 3, 12, 15))


def parts(builder: Any, x: Any) -> Any:
    """Of which each is one output of one kernel."""
    return relax.TupleGetItem(builder.emit(op.split(x, [3, 8], 1)), 1)


MOVES: dict[str, Case] = {
    "concatenation of odd rows": (lambda b, x, y: op.concat([x, y, x], 1), [(3, 5, 3), (3, 4, 3)]),
    "concatenation of fours": (lambda b, x, y: op.concat([x, y], 1), [(7, 8), (7, 24)]),
    "concatenation of fours, one of which is turned": (
        lambda b, x, y: op.concat([turned(b, x), y], 1),
        [(8, 7), (7, 24)],
    ),
    "padding by a number": (lambda b, x: op.nn.pad(x, [1, 2, 0, 3], pad_value=-2.5), [(5, 6)]),
    "padding by fours": (lambda b, x: op.nn.pad(x, [1, 0, 4, 4]), [(5, 8)]),
    "mirrored": (lambda b, x: op.nn.pad(x, [0, 0, 2, 3], pad_mode="reflect"), [(3, 9)]),
    "flipped": (lambda b, x: op.flip(x, 1), [(4, 8)]),
    "every other, backwards": (lambda b, x: op.strided_slice(x, [1], [7], [0], [-2]), [(5, 8)]),
    "tiles": (lambda b, x: op.tile(x, (2, 3)), [(3, 4)]),
    "repeated": (lambda b, x: op.repeat(x, 3, 1), [(3, 4)]),
    "windows, rolled": (windows, [(1, 8, 6, 8)]),
    "pixels, shuffled": (shuffled, [(2, 27, 4, 5)]),
    "one of three parts": (parts, [(2, 12)]),
}


def rasters(suite: Suite) -> list[str]:
    """Kernels whose text is of regions."""
    texts = {name: [file.text for file in suite.kernel_files(name)] for name in suite.kernels}
    return [name for name, (text, *_) in texts.items() if re.search(r"// .*: (one region|\d+ regions), ", text)]


def test_moves_on_a_device(tmp_path: Path) -> None:
    suite = carved(MOVES, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    assert set(rasters(suite)) == set(suite.kernels)
    launches = [suite.bundle(name)["variants"][0]["launches"] for name in suite.kernels]
    assert [len(found) for found in launches] == [1] * len(MOVES)


def test_moves_of_integers_on_a_device(tmp_path: Path) -> None:
    suite = carved(
        MOVES | {"padding by a number": (lambda b, x: op.nn.pad(x, [1, 2], pad_value=7), [(5,)])}, tmp_path, "int32"
    )
    assert wrong(suite, "node-dawn") == {}


@pytest.mark.slow
def test_moves_of_halves(tmp_path: Path) -> None:
    assert wrong(carved(MOVES, tmp_path, "float16"), "deno") == {}


def test_regions_of_symbols_on_a_device(tmp_path: Path) -> None:
    cases: dict[str, Case] = {
        "rows behind rows": (lambda b, x, y: op.concat([x, y], 1), [(3, "n", 8), (3, 5, 8)]),
        "odd rows behind rows": (lambda b, x, y: op.concat([x, y], 1), [(3, 7), (3, "n")]),
        "heads": (lambda b, x: turned(b, x, [0, 2, 1, 3]), [(1, "n", 3, 4)]),
        "the second half first": (
            lambda b, x: op.concat([turned(b, cut(b, x, 4, 8)), turned(b, cut(b, x, 0, 4))], 0),
            [("n", 8)],
        ),
    }
    suite = carved(cases, tmp_path, n=9)
    assert wrong(suite, "node-dawn") == {}
    assert set(rasters(suite)) == set(suite.kernels)


def test_rows_of_fours_are_copied_by_words() -> None:
    n = tvm.tirx.Var("n", "int64")
    symbols = (Symbol(name="n", minimum=0, maximum=64),)
    (made,) = operators(lambda b, x, y: op.concat([x, y], 1), (3, n, 8), (3, 4, 8), symbols=symbols)
    (launch,) = generated(made) or []
    assert "T_concat[i * 8 + size.n * 2 + i * size.n * 2 + j] = x1[i * 8 + j];" in launch.text
    assert launch.grid == (["ceildiv", ["add", 24, ["mul", 6, "n"]], 256], 1, 1)
    (made,) = operators(lambda b, x, y: op.concat([x, y], 1), (3, 4), (3, 5))
    (launch,) = generated(made) or []
    assert "T_concat[i * 9 + j + 4] = x1[i * 5 + j];" in launch.text


MUTANTS = [
    (r"(?s)(.*)if \(at < (\d+)\)", lambda found: f"{found[1]}if (at < {int(found[2]) - 1})"),
    (r"let nth = at - (\d+);", lambda found: f"let nth = at - {int(found[1]) + 1};"),
    (r"% (\d+);", lambda found: f"% {int(found[1]) + 1};"),
    (r"(\w+\[[^\]]*) \+ (\d+)\] =", lambda found: f"{found[1]} + {int(found[2]) - 1}] ="),
    (r"= (\w+)\[(\w) \* (\d+)", lambda found: f"= {found[1]}[{found[2]} * {int(found[3]) + 1}"),
    (r"= -2\.5f;", lambda found: "= -2.25f;"),
]
"""Changes of a text: one invocation less, another first one, longer rows, another offset, another stride, another
constant."""


@pytest.mark.slow
def test_mutants_of_the_raster_kernel_are_found(tmp_path: Path) -> None:
    cases = {name: MOVES[name] for name in ("concatenation of odd rows", "padding by a number", "windows, rolled")}
    found = 0
    for number, (pattern, change) in enumerate(MUTANTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        suite = carved(cases, folder)
        changed = set()
        for name in suite.kernels:
            (file,) = suite.kernel_files(name)
            text = re.sub(pattern, change, file.text, count=1)
            if text != file.text:
                (suite.path / "kernels" / file.name).write_text(text)
                changed.add(name)
        suite = Suite(suite.path)
        failed = set(wrong(suite, "node-dawn"))
        assert changed
        assert failed == changed, pattern
        found += len(changed)
    assert found > len(MUTANTS)
