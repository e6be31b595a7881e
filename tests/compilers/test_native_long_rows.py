"""Reductions of few long rows by `compilers/native`: workgroups share out each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tvm import relax

from compilers.test_native_products import Case, carved, wrong
from tapml.suite import Suite

op = relax.op

LONG: dict[str, Case] = {
    "sum": (lambda _, x: op.sum(x), [(2**17,)]),
    "of primes": (lambda _, x: op.max(x, -1), [(2, 131101)]),
    "mean of images": (lambda _, x: op.mean(x, [1, 2, 3]), [(2, 3, 211, 210)]),
    "variance": (lambda _, x: op.variance(x, [-1]), [(3, 2**17)]),
    "softmax": (lambda _, x: op.nn.softmax(x, -1), [(1, 2**17 + 4)]),
    "group norm": (
        lambda _, x, gamma, beta: op.nn.group_norm(x, gamma, beta, 1, 1, [2, 3]),
        [(1, 8, 128, 129), (8,), (8,)],
    ),
    "columns": (lambda _, x: op.sum(x, 0), [(2**17 + 3, 3)]),
    "where the greatest is": (
        lambda builder, x: op.astype(builder.emit(op.argmax(x, -1)), x.ty.dtype),
        [(1, 2**17 + 1)],
    ),
    "in the middle": (lambda _, x: op.min(x, 1), [(2, 2**17, 2)]),
}
OTHERS: dict[str, Case] = {
    "many rows": (lambda _, x: op.sum(x, 1), [(33, 4096)]),
    "short": (lambda _, x: op.sum(x), [(2**17 - 1,)]),
}


def dispatches(suite: Suite) -> list[int]:
    return sorted(len(suite.bundle(name)["variants"][0]["launches"]) for name in suite.kernels)


def test_workgroups_share_out_long_rows(tmp_path: Path) -> None:
    suite = carved(LONG, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    # Moments that do not wait for each other are one dispatch; what is written of a long row is one of its own.
    assert dispatches(suite) == [2, 2, 2, 2, 2, 3, 4, 4, 5]


def test_other_rows_have_one_dispatch(tmp_path: Path) -> None:
    assert dispatches(carved(OTHERS, tmp_path)) == [1, 1]


@pytest.mark.slow
def test_long_rows_in_float16(tmp_path: Path) -> None:
    """Parts are float32. What is more than a float16, as the sum of all exponentials may be, has no bound."""
    few = {name: case for name, case in LONG.items() if name not in ("softmax", "where the greatest is")}
    suite = carved(few, tmp_path, "float16")
    assert wrong(suite, "deno") == {}
    assert min(dispatches(suite)) == 2
