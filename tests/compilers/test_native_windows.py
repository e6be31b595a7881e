"""Windows over images, rows of few terms and rows that lie across memory: by whom they are gone over, and that it is
right."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tvm import relax

from compilers.test_native_products import Case, carved, conv, texts_of, wrong

nn = relax.op.nn

WINDOWS: dict[str, Case] = {
    "of 5 x 5": (lambda _, x: nn.max_pool2d(x, (5, 5), (1, 1), (2, 2)), [(1, 3, 21, 19)]),
    "of 5 x 5, two apart": (lambda _, x: nn.avg_pool2d(x, (5, 5), (2, 2), (2, 2)), [(1, 3, 21, 19)]),
    "of 7 x 7, beside each other": (lambda _, x: nn.avg_pool2d(x, (7, 7), (7, 7)), [(1, 5, 28, 21)]),
    "of 3 x 3 x 3": (lambda _, x: nn.avg_pool3d(x, (3, 3, 3), (1, 1, 1), (1, 1, 1)), [(1, 2, 5, 9, 11)]),
    "of 25": (lambda _, x: nn.avg_pool1d(x, 25, 1, 12), [(1, 3, 301)]),
    "several": (lambda _, x: nn.max_pool2d(x, (5, 5), (1, 1), (2, 2)), [(1, 2, 64, 64)]),
    "many": (lambda _, x: nn.avg_pool3d(x, (3, 3, 3), (1, 1, 1), (1, 1, 1)), [(1, 9, 16, 16, 17)]),
}

DEPTHWISE: dict[str, Case] = {
    "two apart": (conv(padding=1, strides=2, groups=5), [(1, 5, 15, 18), (5, 1, 3, 3)]),
    "7 x 7, two apart": (conv(padding=3, strides=2, groups=4), [(2, 4, 17, 15), (4, 1, 7, 7)]),
}

ACROSS: dict[str, Case] = {
    "few columns": (lambda _, x: relax.op.sum(x, [0]), [(700, 36)]),
    "few long columns": (lambda _, x: relax.op.max(x, [0, 1]), [(70, 65, 258)]),
    "softmax of few columns": (lambda _, x: nn.softmax(x, 0), [(601, 9)]),
}


def right(cases: Mapping[str, Case], folder: Path) -> list[str]:
    """Their texts."""
    suite = carved(cases, folder)
    assert wrong(suite, "node-dawn") == {}
    return texts_of(suite)


def test_windows_are_not_shared_out_among_invocations_beside_each_other(tmp_path: Path) -> None:
    texts = right(WINDOWS, tmp_path)
    assert len(texts) == len(WINDOWS)
    for text in texts:
        assert "a row an invocation" in text or "32 rows a workgroup" in text
    # Loops over short axes, which compilers unroll; of many rows more in a workgroup.
    assert sorted(len(re.findall(r"for \(var [xyz] = 0", text)) for text in texts)[-3:] == [0, 2, 3]
    assert sum("a row an invocation, 256 rows a workgroup" in text for text in texts) == 1


def test_strided_windows_of_few_terms_are_added_up_by_an_invocation_each(tmp_path: Path) -> None:
    texts = right(DEPTHWISE, tmp_path)
    assert ["Each invocation adds up an element" in text for text in texts] == [True] * len(DEPTHWISE)


def test_few_columns_have_many_invocations_each(tmp_path: Path) -> None:
    texts = right(ACROSS, tmp_path)
    assert [text.splitlines()[0].endswith("64 invocations a row, 4 rows a workgroup.") for text in texts] == [True] * 3


def test_a_few_terms_that_an_image_is_multiplied_by_are_a_kernel_of_their_own(tmp_path: Path) -> None:
    """As an EfficientNet has them: one invocation a row would go over a channel's whole image."""

    def gated(builder: relax.BlockBuilder, x: relax.Expr, w: relax.Expr, image: relax.Expr) -> relax.Expr:
        gate = builder.emit(relax.op.sigmoid(builder.emit(nn.conv2d(x, w))))
        return relax.op.multiply(image, gate)

    texts = right({"gate": (gated, [(1, 8, 1, 1), (20, 8, 1, 1), (1, 20, 33, 9)])}, tmp_path)
    assert len(texts) == 2
    assert not any("a row an invocation" in text for text in texts)
