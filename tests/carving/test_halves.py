"""Weights that float16 holds exactly lie as that in memory, and kernels read them so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from everywhere import check_everywhere
from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.compilers.halves import halved
from tapml.importing.model import ImportedModel, Step
from tapml.kernels.bundle import CompiledKernel, WgslFile, bindings
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.offload import Offload
from tapml.validation.operatorwise import OperatorRun

WIDTH = 128
BITS = np.arange(1 << 16, dtype=np.uint16)
TABLE = BITS[BITS & 0x7FFF < 0x7C00].view(np.float16).astype(np.float32).reshape(-1, WIDTH)
"""Every finite number of float16, the smallest ones and both zeros among them."""
RANDOM = np.random.default_rng(5)
ROUGH = RANDOM.standard_normal((WIDTH, WIDTH), np.float32)
EXACT = ROUGH.astype(np.float16).astype(np.float32)
WIDE = RANDOM.standard_normal((WIDTH, 2 * WIDTH)).astype(np.float16).astype(np.float32)


def model() -> ImportedModel:
    """Rows of a table; a product with weights whose kernel has others, too, and one whose kernel has none but them."""
    op, tensor = relax.op, relax.TensorType
    builder = relax.BlockBuilder()
    ids, x = relax.Var("ids", tensor((len(TABLE),), "int32")), relax.Var("x", tensor((3, WIDTH), "float32"))
    weights = [("table", TABLE), ("exact", EXACT), ("rough", ROUGH), ("wide", WIDE)]
    table, exact, rough, wide = (relax.Var(name, tensor(array.shape, "float32")) for name, array in weights)
    with builder.function("main", [ids, x, table, exact, rough, wide]):
        with builder.dataflow():
            rows = builder.emit(op.take(table, ids, axis=0))
            first = builder.emit(op.matmul(x, exact))
            second = builder.emit(op.matmul(first, rough))
            product = builder.emit(op.matmul(second, wide))
            out = builder.emit_output(relax.Tuple([rows, product]))
        builder.emit_func_output(out)
    given = {"ids": np.arange(len(TABLE), dtype=np.int32), "x": RANDOM.standard_normal((3, WIDTH), np.float32)}
    return ImportedModel(
        module=builder.finalize(),
        input_names=["ids", "x"],
        parameters=weights,
        steps=[Step("all rows", given, False, None)],
        provenance={"kind": "test", "source": "x", "sha256": "0" * 64},
        outputs=["rows", "product"],
        oracle_missing="by hand",
    )


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return carve(model(), tmp_path_factory.mktemp("halves") / "halves.suite", name="halves")


def test_they_are_stored_and_read_so_where_every_kernel_can(suite: Suite, tmp_path: Path) -> None:
    stored = {value.name: value.type.encoding for value in suite.graph.values.values()}
    assert {name: stored[name] for name in ("table", "exact", "rough", "wide")} == {
        "table": "float16",
        "exact": None,  # its kernel multiplies by `rough`, too
        "rough": None,
        "wide": "float16",
    }
    assert not suite.edited_kernels
    built = build(suite, tmp_path / "halves.tapml").model
    halves = 2 * (TABLE.size + WIDE.size)
    assert sum(built.weights.buffers) == halves + 4 * (EXACT.size + ROUGH.size)
    with Server() as server:
        device = server.state.device("node-dawn")
        run = OperatorRun(JobContext(suite, [device], server.state.blobs)).run()
        assert {test["verdict"] for test in run["tests"]} == {"pass"}
        # To the bit: a row of a table is moved, and nothing else.
        (moved,) = (test for test in run["tests"] if test["kernel"].startswith("take"))
        assert (moved["max_abs_error"], moved["total"]) == (0, TABLE.size)
        # TVM's virtual machine has kernels and weights of its own.
        assert Offload(JobContext(suite, [device], server.state.blobs)).run()["final"]["verdict"] == "pass"
        check_everywhere(suite, server)


def kernel(text: str) -> CompiledKernel:
    """Of one input and one output."""
    entry_point = {"name": "main", "file": "k.wgsl", "bindings": bindings(text)}
    launch = {"entry_point": "main", "operands": [{"argument": 0}, {"argument": 1}]}
    document = {
        "unsupported": None,
        "arguments": [{"name": "w"}, {"name": "y"}],
        "variants": [{"entry_points": [entry_point], "launches": [launch]}],
    }
    return CompiledKernel(document, [WgslFile("k.wgsl", text)])


def text(of: str, body: str) -> str:
    return (
        f"@group(0) @binding(0) var<storage, read> w : {of};\n"
        "@group(0) @binding(1) var<storage, read_write> y : array<f32>;\n"
        f"@compute @workgroup_size(1) fn main() {{ {body} }}\n"
    )


@pytest.mark.parametrize(
    ("of", "body", "read"),
    [
        ("array<f32>", "y[0] = w[1] * w[i32(w[2])];", "y[0] = w_read(u32(1)) * w_read(u32(i32(w_read(u32(2)))));"),
        ("array<f32>", "if (w[a[0]] == 1.0) { y[3 & 1] = w[0]; }", "if (w_read(u32(a[0])) == 1.0) { y[3 & 1] = w_read"),
        ("array<vec4<f32>>", "y[0] = w[i].x;", "y[0] = w_read(u32(i)).x;"),
    ],
)
def test_each_element_that_is_read_is_unpacked(of: str, body: str, read: str) -> None:
    found = halved(kernel(text(of, body)), {0})
    assert found is not None
    assert read in found.files[0].text
    assert found.document["arguments"] == [{"name": "w", "encoding": "float16"}, {"name": "y"}]
    (entry_point,) = found.document["variants"][0]["entry_points"]
    assert entry_point["bindings"][0]["type"] == of.replace("<f32>", "<u32>").replace("vec4<u32>", "vec2<u32>")


@pytest.mark.parametrize(
    ("of", "body"),
    [
        ("array<f32>", "y[0] = f32(arrayLength(&w));"),
        ("array<f32>", "let p = &w[0]; y[0] = *p;"),
        ("array<f32>", "w[0] += 1.0;"),
        ("array<f32>", "let half_of = w[0];"),
        ("array<u32>", "y[0] = f32(w[0]);"),
    ],
)
def test_what_is_not_read_element_by_element_is_left_as_it_is(of: str, body: str) -> None:
    assert halved(kernel(text(of, body)), {0}) is None
