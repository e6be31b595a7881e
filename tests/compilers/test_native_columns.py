"""Reductions of `compilers/native` over an axis that neighbours do not lie along."""

from __future__ import annotations

from pathlib import Path

from tvm import relax

from compilers.test_native_products import Case, carved, wrong

op = relax.op

COLUMNS: dict[str, Case] = {
    "sums": (lambda _, x: op.sum(x, 0), [(512, 300)]),
    "greatest of primes": (lambda _, x: op.max(x, 0), [(131, 17)]),
    "one column": (lambda _, x: op.sum(x, 0), [(129, 1)]),
    "in the middle": (lambda _, x: op.mean(x, 1), [(3, 65, 33)]),
    "softmax": (lambda _, x: op.nn.softmax(x, 0), [(257, 40)]),
    "short": (lambda _, x: op.sum(x, 0), [(16, 50)]),
}


def test_columns_on_a_device(tmp_path: Path) -> None:
    suite = carved(COLUMNS, tmp_path)
    assert wrong(suite, "node-dawn") == {}
