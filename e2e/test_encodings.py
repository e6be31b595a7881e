"""Kernels whose tensors lie in textures and in slices, in browsers: each in every encoding that it accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilers.encoded_kernels import EncodedCompiler
from compilers.test_native_encodings import OTHERS, PLACES, Dumped, carved, textures
from compilers.test_native_products import CONVOLUTIONS
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun
from workers import made_once


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Products, convolutions, row operators and pools, element by element, each with a variant for every encoding."""
    cases = {name: CONVOLUTIONS[name] for name in ("1 x 1", "depthwise")}
    names = ("element by element, five channels", "softmax of fours", "greatest of a window")
    cases |= {name: OTHERS[name] for name in names}

    def make(folder: Path) -> None:
        folder.mkdir()
        carved(cases, folder, compilers=[EncodedCompiler()])

    return made_once(tmp_path_factory, "encoded", make) / "products.suite"


@pytest.mark.parametrize("device", ["chromium", pytest.param("firefox", marks=pytest.mark.slow)])
def test_kernels_are_right_in_every_encoding(suite: Path, shared_server: Server, device: str) -> None:
    """All variants that a device could run are, not only the one that it would take (docs/choosing.md)."""
    assert textures(Suite(suite)) > 40
    context = JobContext(Suite(suite), [shared_server.state.device(device)], shared_server.state.blobs)
    found = OperatorRun(context).run()["tests"]
    assert len(found) == 5
    assert {test["kernel"]: test.get("message") for test in found if test["verdict"] != "pass"} == {}


@pytest.mark.parametrize("device", ["chromium", "firefox"])
def test_elements_lie_where_the_figures_have_them(shared_server: Server, tmp_path: Path, device: str) -> None:
    kinds = ("texture-2d", "textures-2d", "texture-3d", "four-textures-2d")
    suite = carved({kind: PLACES[kind] for kind in kinds}, tmp_path, compilers=[Dumped(kinds)])
    context = JobContext(suite, [shared_server.state.device(device)], shared_server.state.blobs)
    found = OperatorRun(context).run()["tests"]
    assert [test["verdict"] for test in found] == ["pass"] * len(kinds), found
