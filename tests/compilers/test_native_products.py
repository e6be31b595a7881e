"""Matrix products and convolutions of `compilers/native`: on devices, within the bounds that a carve derives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import tvm
from tvm import relax

from tapml.carving.carve import carve
from tapml.compilers.base import Compiler
from tapml.compilers.choose import CHOICES
from tapml.compilers.native.skinny import INVOCATIONS, Split, split_of
from tapml.compilers.native.tiles import TILES, Tile, tile_of
from tapml.expressions import Symbol
from tapml.importing.model import ImportedModel, Step
from tapml.jobs.job import JobSpecification, run_job
from tapml.locating.barriers import unordered
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext

op = relax.op
Case: TypeAlias = tuple[Callable[..., Any], Sequence[Any]]


def matmul(_: Any, x: Any, w: Any) -> Any:
    return op.matmul(x, w)


def turned(builder: Any, x: Any, *axes: Any) -> Any:
    return builder.emit(op.permute_dims(x, *axes))


def times_turned(builder: Any, x: Any, w: Any) -> Any:
    return op.matmul(x, turned(builder, w))


def turned_left(builder: Any, x: Any, w: Any) -> Any:
    return op.matmul(turned(builder, x), w)


def dense(builder: Any, x: Any, w: Any, bias: Any, residual: Any) -> Any:
    sums = builder.emit(op.add(builder.emit(op.matmul(x, w)), bias))
    return op.add(builder.emit(op.nn.gelu(sums)), residual)


def scores(builder: Any, query: Any, key: Any, mask: Any) -> Any:
    sums = builder.emit(op.matmul(query, turned(builder, key, [0, 1, 3, 2])))
    return op.add(builder.emit(op.multiply(sums, relax.const(0.25, query.ty.dtype))), mask)


def conv(**attributes: Any) -> Callable[..., Any]:
    def made(builder: Any, x: Any, w: Any) -> Any:
        kind = {3: op.nn.conv1d, 4: op.nn.conv2d, 5: op.nn.conv3d}[len(x.ty.shape)]
        return kind(x, w, **attributes)

    return made


def conv_of_a_block(builder: Any, x: Any, w: Any, bias: Any, residual: Any) -> Any:
    sums = builder.emit(op.add(builder.emit(op.nn.conv2d(x, w, padding=1)), bias))
    return op.nn.relu(builder.emit(op.add(sums, residual)))


PRODUCTS: Mapping[str, Case] = {
    "of primes": (matmul, [(37, 53), (53, 41)]),
    "one row": (matmul, [(1, 64), (64, 70)]),
    "one row, weights by columns": (times_turned, [(1, 64), (70, 64)]),
    "one row, of fours": (matmul, [(1, 64), (64, 72)]),
    "three rows, of fours": (matmul, [(3, 61), (61, 72)]),
    "batches of one row, of fours": (matmul, [(5, 1, 130), (5, 130, 268)]),
    "five rows, by fours": (matmul, [(5, 64), (64, 72)]),
    "three rows": (matmul, [(3, 61), (61, 70)]),
    "one column": (matmul, [(40, 64), (64, 1)]),
    "one term": (matmul, [(20, 1), (1, 30)]),
    "with itself": (lambda builder, x: op.matmul(x, turned(builder, x)), [(19, 21)]),
    "both across": (turned_left, [(33, 40), (33, 72)]),
    "both across, two batches": (
        lambda b, x, w: op.matmul(turned(b, x, [0, 2, 1]), w),
        [(2, 30, 40), (2, 30, 36)],
    ),
    "both turned": (lambda b, x, w: op.matmul(turned(b, x), turned(b, w)), [(40, 33), (30, 40)]),
    "dense": (dense, [(20, 64), (64, 70), (70,), (20, 70)]),
    "batches": (matmul, [(2, 3, 20, 15), (2, 3, 15, 18)]),
    "a batch with one factor": (matmul, [(4, 20, 16), (16, 18)]),
    "scores": (scores, [(1, 4, 9, 32), (1, 4, 11, 32), (1, 1, 1, 11)]),
    "one query": (scores, [(1, 4, 1, 32), (1, 4, 50, 32), (1, 1, 1, 50)]),
    "heads behind tokens": (
        lambda b, x, w: op.einsum(b.emit(relax.Tuple([x, w])), "bshd,bthd->bhst"),
        [(2, 5, 3, 8), (2, 7, 3, 8)],
    ),
    "scaled before": (lambda b, x, s, w: op.matmul(b.emit(op.multiply(x, s)), w), [(40, 32), (32,), (32, 30)]),
}

CONVOLUTIONS: Mapping[str, Case] = {
    "of a block": (conv_of_a_block, [(1, 16, 14, 14), (12, 16, 3, 3), (1, 12, 1, 1), (1, 12, 14, 14)]),
    "in groups": (
        conv(padding=[2, 1, 0, 1], groups=2, strides=[2, 1], dilation=[1, 2]),
        [(2, 8, 9, 11), (6, 4, 3, 2)],
    ),
    "depthwise": (conv(padding=1, groups=8), [(1, 8, 9, 9), (8, 1, 3, 3)]),
    "depthwise, two for each": (conv(padding=1, groups=8), [(2, 8, 9, 9), (16, 1, 3, 3)]),
    "of one dimension": (conv(padding=2, strides=2), [(2, 8, 33), (20, 8, 5)]),
    "of three": (conv(padding=1), [(1, 3, 5, 6, 7), (16, 3, 3, 3, 3)]),
    "channels last": (
        conv(padding=1, data_layout="NHWC", kernel_layout="HWIO"),
        [(1, 9, 9, 8), (3, 3, 8, 16)],
    ),
    "1 x 1": (conv(), [(1, 32, 14, 14), (24, 32, 1, 1)]),
    "few channels": (conv(padding=1), [(1, 16, 14, 14), (3, 16, 3, 3)]),
    "transposed": (
        lambda _, x, w: op.nn.conv2d_transpose(x, w, padding=1, strides=2),
        [(1, 8, 9, 9), (8, 12, 3, 3)],
    ),
}


def carved(
    cases: Mapping[str, Case],
    folder: Path,
    dtype: str = "float32",
    n: int | None = None,
    compilers: Sequence[Compiler] = CHOICES["native"],
) -> Suite:
    """A suite of them all; where `n` is given, the size "n" among their shapes is a symbol, and n at the carve."""
    builder, random = relax.BlockBuilder(), np.random.default_rng(1)
    symbol = tvm.tirx.Var("n", "int64")
    inputs, arrays, calls = [], {}, []
    for name, (function, shapes) in cases.items():
        given = []
        for place, shape in enumerate(shapes):
            key = f"{name}, {place}"
            given.append(relax.Var(key, relax.TensorType([symbol if d == "n" else d for d in shape], dtype)))
            arrays[key] = random.normal(size=[n if d == "n" else d for d in shape]).astype(dtype)
        inputs += given
        calls.append((function, given))
    with builder.function("main", inputs):
        with builder.dataflow():
            results = [builder.emit(builder.normalize(function(builder, *given))) for function, given in calls]
            result = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(result)
    model = ImportedModel(
        module=builder.finalize(),
        input_names=list(arrays),
        parameters=[],
        steps=[Step("all", arrays, False, None)],
        provenance={"kind": "test", "source": "test", "sha256": "0" * 64, "notes": []},
        outputs=list(cases),
        symbols=[] if n is None else [Symbol(name="n", minimum=1, maximum=100)],
    )
    return carve(model, folder / "products.suite", name="products", compilers=compilers)


def texts_of(suite: Suite) -> list[str]:
    return [file.text for name in suite.kernels for file in suite.kernel_files(name)]


def failing(suite: Suite, device: str) -> dict[str, Any]:
    """Kernels whose test did not pass."""
    with Server() as server:
        context = JobContext(suite, [server.state.device(device)], server.state.blobs)
        # Texts with subgroup matrices in software take long to compile, with other tests beside them.
        asked = JobSpecification(kind="validation", devices=[device], save=False, record=False, hang_seconds=180.0)
        document = run_job(asked, context)
    assert document["tests"]
    return {test["kernel"]: test.get("message") for test in document["tests"] if test["verdict"] != "pass"}


def wrong(suite: Suite, device: str) -> dict[str, Any]:
    """Kernels whose test did not pass, and those that no native kernel computes or whose text lacks a barrier."""
    others = {name: "not native" for name in suite.kernels if suite.bundle(name)["compiler"]["name"] != "native"}
    racing = {
        name: str(pair)
        for name in suite.kernels
        for file in suite.kernel_files(name)
        if (pair := unordered(file.text)) is not None
    }
    return failing(suite, device) | others | racing


def test_products_and_convolutions_on_a_device(tmp_path: Path) -> None:
    products = (
        "of primes",
        "both across",
        "three rows, of fours",
        "three rows",
        "dense",
        "one query",
        "heads behind tokens",
    )
    convolutions = ("of a block", "in groups", "depthwise", "1 x 1")
    some = {name: PRODUCTS[name] for name in products} | {name: CONVOLUTIONS[name] for name in convolutions}
    assert wrong(carved(some, tmp_path), "node-dawn") == {}


def test_a_kernel_serves_any_number_of_tokens(tmp_path: Path) -> None:
    cases: dict[str, Case] = {
        "dense": (dense, [("n", 64), (64, 70), (70,), ("n", 70)]),
        "scores": (scores, [(1, 4, "n", 32), (1, 4, "n", 32), (1, 1, 1, "n")]),
        "of values": (matmul, [(4, "n", "n"), (4, "n", 24)]),
    }
    suite = carved(cases, tmp_path, n=37)
    assert wrong(suite, "node-dawn") == {}
    launches = [suite.bundle(name)["variants"][0]["launches"][0] for name in suite.kernels]
    assert all([uniform["name"] for uniform in launch["uniforms"]] == ["n"] for launch in launches)


@pytest.mark.parametrize("splits", [2, 3, 16])
def test_workgroups_share_out_the_inner_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, splits: int) -> None:
    """Of 16 some have nothing to do."""
    tile = Tile(2, 2, 8, 8, splits)
    monkeypatch.setattr("tapml.compilers.native.matmul.tile_of", lambda *sizes: tile)
    cases = {name: PRODUCTS[name] for name in ("of primes", "dense", "batches", "both across")}
    suite = carved({**cases, "conv": CONVOLUTIONS["of a block"]}, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    launches = [len(suite.bundle(name)["variants"][0]["launches"]) for name in suite.kernels]
    assert launches.count(2) == len(cases) + 1


def test_any_number_of_tokens_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapml.compilers.native.matmul.tile_of", lambda *sizes: Tile(4, 4, 8, 8, 3))
    cases: dict[str, Case] = {
        "dense": (dense, [("n", 64), (64, 70), (70,), ("n", 70)]),
        "of values": (matmul, [(4, "n", "n"), (4, "n", 24)]),
    }
    assert wrong(carved(cases, tmp_path, n=37), "node-dawn") == {}


def test_the_inner_axis_is_shared_out_where_a_device_would_be_idle() -> None:
    assert tile_of(512, 4096, 1, 4096).splits == 1
    assert tile_of(16, 384, 1, 384).splits == 1
    assert tile_of(32, 4096, 1, 4096).splits > 2
    assert tile_of(320, 4096, 1, 2880).splits > 2
    assert tile_of(16, 384, 1, 1536).splits > 8


def test_the_image_of_a_large_convolution_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapml.compilers.native.matmul.tile_of", lambda *sizes: Tile(4, 4, 8, 8, 2))
    monkeypatch.setattr("tapml.compilers.native.matmul.is_large", lambda *sizes: True)
    cases: dict[str, Case] = {
        "in rows of fours": (conv(padding=1), [(2, 9, 7, 12), (20, 9, 3, 3)]),
        "with strides": (conv(padding=1, strides=[2, 1], dilation=[1, 2]), [(1, 10, 9, 14), (12, 10, 3, 3)]),
    }
    suite = carved(cases, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    assert {len(suite.bundle(name)["variants"][0]["launches"]) for name in suite.kernels} == {3}


FEW_ROWS = ("one row", "one row, weights by columns", "one row, of fours", "batches of one row, of fours", "three rows")
ODD: Mapping[str, Case] = {
    "one row, of odd length": (matmul, [(1, 67), (67, 75)]),
    "one row, odd columns": (times_turned, [(1, 67), (75, 67)]),
    "two rows of eights": (matmul, [(2, 64), (64, 72)]),
    "one column": (matmul, [(40, 64), (64, 1)]),
    "of one step": (times_turned, [(1, 5), (70, 5)]),
}


def test_columns_of_whole_turns_are_read_by_eights(tmp_path: Path) -> None:
    cases: dict[str, Case] = {
        "one turn": (times_turned, [(1, 4096), (5, 4096)]),
        "two turns": (times_turned, [(1, 8192), (3, 8192)]),
        "two rows": (times_turned, [(2, 4096), (5, 4096)]),
        "less": (times_turned, [(1, 4088), (5, 4088)]),
    }
    suite = carved(cases, tmp_path, "float16")
    assert wrong(suite, "deno") == {}
    texts = [file.text for name in suite.kernels for file in suite.kernel_files(name)]
    assert sum("fn right8(" in text and "256 invocations share" in text for text in texts) == 2


def test_lanes_of_columns() -> None:
    assert split_of(4096, 4096, 1, along=True, eights=True) == Split(1, 256, 2, eights=True)
    assert split_of(4096, 4096, 1, along=True) == split_of(4096, 4080, 1, along=True, eights=True) == Split(4, 64, 4)
    assert split_of(64, 128, 1, along=True, eights=True) == split_of(64, 128, 1, along=True)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("lanes", "vectors"), [(64, 1), (8, 2), (256, 2)])
def test_few_rows_by_eights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lanes: int, vectors: int, ahead: bool
) -> None:
    split = Split(INVOCATIONS // lanes, lanes, vectors, ahead=ahead, eights=True)
    for name in ("split_of", "split_of_one"):
        monkeypatch.setattr(f"tapml.compilers.native.matmul.{name}", lambda *given: split)
    suite = carved({**{name: PRODUCTS[name] for name in FEW_ROWS}, **ODD}, tmp_path, "float16")
    assert wrong(suite, "deno") == {}
    texts = [file.text for name in suite.kernels for file in suite.kernel_files(name)]
    assert sum("fn right8(" in text for text in texts) >= len(ODD)


@pytest.mark.slow
@pytest.mark.parametrize(("device", "dtype"), [("node-dawn", "float32"), ("deno", "float32"), ("deno", "float16")])
def test_every_product_on_every_device(device: str, dtype: str, tmp_path: Path) -> None:
    assert wrong(carved({**PRODUCTS, **CONVOLUTIONS}, tmp_path, dtype), device) == {}


@pytest.mark.slow
def test_every_tile_at_its_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiles: dict[tuple[int, int], Tile] = {}
    cases: dict[str, Case] = {}
    for number, tile in enumerate(TILES):
        for more in (-1, 0, 1):
            size = rows, columns = tile.height + more, tile.width * (number + 1) + more
            tiles[size] = tile
            cases[f"{size} along"] = times_turned, [(rows, 32 + more), (columns, 32 + more)]
            cases[f"{size} across"] = matmul, [(2, rows, 16 - more), (2, 16 - more, columns)]
            cases[f"{size} both across"] = turned_left, [(40 + more, rows), (40 + more, columns)]
    monkeypatch.setattr("tapml.compilers.native.matmul.tile_of", lambda rows, columns, *_: tiles[rows, columns])
    suite = carved(cases, tmp_path)
    assert wrong(suite, "deno") == {}
    sizes = {suite.bundle(name)["variants"][0]["entry_points"][0]["workgroup_size"][0] for name in suite.kernels}
    assert sizes == {tile.invocations for tile in TILES}
