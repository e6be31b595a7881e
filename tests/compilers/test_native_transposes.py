"""Transposes of `compilers/native` in registers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from compilers.test_native_products import Case, carved, turned, wrong

op = relax.op


def padded(builder: Any, x: Any) -> Any:
    return builder.emit(op.permute_dims(builder.emit(op.nn.pad(x, [1, 0, 2, 3])), [1, 0]))


LARGE: dict[str, Case] = {
    "of no whole blocks": (lambda b, x: turned(b, x), [(260, 268)]),
    "images, channels last, and GELU": (lambda b, x: op.nn.gelu(turned(b, x, [0, 2, 3, 1])), [(2, 72, 20, 24)]),
    "heads of keys": (lambda b, x: turned(b, x, [1, 2, 0]), [(68, 9, 128)]),
    "added to itself": (lambda b, x: op.add(turned(b, x), turned(b, x)), [(256, 256)]),
    "by rows and columns": (lambda b, x: op.multiply(turned(b, x), relax.const(2.0, x.ty.dtype)), [(2052, 36)]),
}
OTHERS: dict[str, Case] = {
    "of primes": (lambda b, x: turned(b, x), [(257, 263)]),
    "small": (lambda b, x: turned(b, x), [(64, 64)]),
    "heads": (lambda b, x: turned(b, x, [1, 0, 2]), [(512, 8, 32)]),
    "of two": (lambda b, x, y: op.add(turned(b, x), y), [(256, 257), (257, 256)]),
    "padded": (padded, [(258, 260)]),
}


def test_transposes_on_a_device(tmp_path: Path) -> None:
    suite = carved({**LARGE, **OTHERS}, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    texts = [file.text for name in suite.kernels for file in suite.kernel_files(name)]
    assert sum("four by four elements an invocation" in text for text in texts) == len(LARGE)


@pytest.mark.slow
def test_transposes_of_halves(tmp_path: Path) -> None:
    assert wrong(carved({**LARGE, **OTHERS}, tmp_path, "float16"), "deno") == {}
