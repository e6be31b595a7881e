"""Kernels that have variants for classes of devices are one dispatch, which each device chooses as it does theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joined import carved_of, dispatches

from everywhere import carved_inputs, check_everywhere, check_outputs
from tapml.compiled.files import CompiledFiles
from tapml.compilers.choose import CHOICES
from tapml.devices.compiled import run_compiled
from tapml.server import Server
from tapml.suite import Suite

BODY = """s = Mul(x, x) m = ReduceMean <keepdims = 1> (s, axes) e = Add(m, tiny) r = Sqrt(e) n = Div(x, r)
    q = MatMul(n, wq) k = MatMul(n, wk) v = MatMul(n, wv) a = MatMul(q, wo) p = Add(a, x)
    g = MatMul(p, wg) i = Sigmoid(g) h = Mul(g, i) u = MatMul(p, wu) t = Mul(u, h) d = MatMul(t, wd) y = Add(d, p)"""
WEIGHTS = {"wq": (256, 256), "wk": (256, 64), "wv": (256, 64), "wo": (256, 256), "wg": (256, 768), "wu": (256, 768),
           "wd": (768, 256)}  # fmt: skip
"""A token's block of a Llama without attention: a norm and what reads it, a product, a gated product and another."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


def block(folder: Path, compiler: str) -> Suite:
    given = ", ".join(f"float[{rows}, {columns}] {name}" for name, (rows, columns) in WEIGHTS.items())
    main = f"""main (float[1, 256] x, {given}) => (float[1, 256] y, float[1, 64] k, float[1, 64] v)
    <int64[1] axes = {{1}}, float tiny = {{0.00001}}> {{ {BODY} }}"""
    return carved_of(main, {"x": (1, 256), **WEIGHTS}, folder, CHOICES[compiler])


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return block(tmp_path_factory.mktemp("block"), "auto")


def test_they_are_as_few_dispatches_as_kernels_without_variants(suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "tvm").mkdir()
    _, plain = dispatches(block(tmp_path / "tvm", "tvm"), tmp_path)
    files, found = dispatches(suite, tmp_path / "tvm")
    assert len(found) <= len(plain)
    kernels = [files.model.kernels[one.kernel] for one in found if one.parts]
    assert any(len(kernel.variants) > 1 for kernel in kernels)
    for kernel in kernels:
        told = [set(variant.expected or ()) for variant in kernel.variants]
        assert all(names == told[0] for names in told)
        assert len({variant.name for variant in kernel.variants}) == len(kernel.variants)


def test_they_give_what_they_give_alone(suite: Suite, server: Server) -> None:
    check_everywhere(suite, server)


def test_each_variant_gives_what_they_give_alone(suite: Suite, server: Server, tmp_path: Path) -> None:
    """Also those that this device would not choose: each kernel is left one of its variants."""
    dispatches(suite, tmp_path)
    path = tmp_path / "made.tapml" / "model.json"
    document = json.loads(path.read_text())
    most = max(len(kernel["variants"]) for kernel in document["kernels"])
    assert most > 1
    for turn in range(most):
        edited = json.loads(json.dumps(document))
        chosen = [_only(kernel, turn) for kernel in edited["kernels"]]
        path.write_text(json.dumps(edited))
        run = run_compiled(
            server.state.device("node-dawn"), server.state.blobs, CompiledFiles(path.parent), carved_inputs(suite)
        )
        check_outputs(suite, run)
        assert {turn} <= set(chosen)


def _only(kernel: dict[str, Any], turn: int) -> int:
    """Leave it the variant of that number, or as many from the first one on, and say which it is."""
    number = turn % len(kernel["variants"])
    kernel["variants"] = [kernel["variants"][number]]
    return number
