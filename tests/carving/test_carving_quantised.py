"""Quantised models, carved: kernels read packed weights, on devices as on this machine, and nothing is expanded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quantised_models import INNER, WIDTH, WORDS, language_model, tokens
from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.compilers.choose import CHOICES
from tapml.importing import import_model
from tapml.importing.quantise import MODES
from tapml.locating import Locate
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

QUANTISED = {"table": (WORDS, WIDTH), "up": (INNER, WIDTH), "down": (WIDTH, INNER)}
Q4F32 = pytest.param("q4f32", "native", marks=pytest.mark.slow)
CASES = [
    ("q4f16", "native"),
    ("q8", "tvm"),
    Q4F32,
    pytest.param("q4f16", "tvm", marks=pytest.mark.slow),
    pytest.param("q8", "native", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def carved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Suite]:
    known: dict[tuple[str, str], Suite] = {}

    def made(mode: str, compiler: str) -> Suite:
        if (mode, compiler) not in known:
            folder = tmp_path_factory.mktemp(f"{mode}-{compiler}")
            model = import_model(
                str(language_model(folder / "lm.onnx")), input_files=tokens(folder, 9, 1), quantise=mode
            )
            known[mode, compiler] = carve(model, folder / "lm.suite", name="lm", compilers=CHOICES[compiler])
        return known[mode, compiler]

    return made


@pytest.mark.parametrize(("mode", "compiler"), CASES)
def test_all_kernels_pass_on_a_device(carved: Callable[[str, str], Suite], mode: str, compiler: str) -> None:
    suite = carved(mode, compiler)
    assert suite.manifest["oracle"]["agrees"]
    with Server() as server:
        device = server.state.device("node-dawn")
        run = OperatorRun(JobContext(suite, [device], server.state.blobs)).run()
    assert {test["verdict"] for test in run["tests"]} == {"pass"}
    assert len(run["tests"]) == len(suite.tests)


@pytest.mark.parametrize(("mode", "compiler"), CASES)
def test_no_weight_is_expanded(carved: Callable[[str, str], Suite], mode: str, compiler: str) -> None:
    """Not in a buffer of a kernel, not in the workgroup's memory as a whole, and not between kernels."""
    suite = carved(mode, compiler)
    quantised = [name for name in suite.graph.kernels if name.startswith(("q4_", "q8_", "fused_q4_", "fused_q8_"))]
    assert len(quantised) == 4
    for name in quantised:
        document = suite.kernel(name).document
        assert document["compiler"]["name"] == compiler
        assert all(not variant["temporaries"] for variant in document["variants"])
        dtypes = [argument["dtype"] for argument in document["arguments"]]
        assert dtypes.count("uint32") == 1
    floats = {value.type.shape for value in suite.graph.values.values() if value.type.dtype == "float32"}
    assert not floats & {*QUANTISED.values(), *(shape[::-1] for shape in QUANTISED.values())}


@pytest.mark.parametrize("mode", ["q4f16", "q8"])
def test_a_page_loads_the_packed_weights(carved: Callable[[str, str], Suite], tmp_path: Path, mode: str) -> None:
    suite = carved(mode, "native")
    built = build(suite, tmp_path / "lm.tapml").model
    packed = sum(MODES[mode](name).nbytes(*shape) for name, shape in QUANTISED.items())
    others = 4 * (WIDTH + 2 * 8 * WIDTH + WIDTH * WIDTH)
    total = sum(built.weights.buffers)
    assert packed + others <= total < packed + others + 16 * 300  # each begins at a multiple
    scales = {value.name: value.type.encoding for value in suite.graph.values.values() if "scales" in value.name}
    assert set(scales.values()) == {"float16" if mode == "q4f16" else None}
    assert any("quantised" in note for note in built.provenance.model.notes)


def test_what_it_costs_is_kept_apart_from_what_is_right(carved: Callable[[str, str], Suite]) -> None:
    manifest = carved("q4f16", "tvm").manifest
    assert manifest["model"]["quantised"]["mode"] == "q4f16"
    assert manifest["model"]["quantised"]["cost"]["outputs"]["logits"]["max_abs_difference"] > 1e-3
    assert manifest["oracle"]["max_abs_error"] < 1e-5


@pytest.mark.parametrize("compiler", ["tvm", pytest.param("native", marks=pytest.mark.slow)])
def test_a_wrong_dequantisation_is_found(carved: Callable[[str, str], Suite], compiler: str) -> None:
    """The integer that stands for 0, one off."""
    suite = carved("q4f16", compiler)
    name = "fused_q4_matmul_gelu"
    (file,) = suite.kernel(name).files
    wrong = file.text.replace("7.000000e+00f", "8.000000e+00f").replace("- 7.0f", "- 8.0f")
    assert wrong != file.text
    broken = Suite(suite.path, trial={f"kernels/{file.name}": wrong.encode()})
    with Server() as server:
        context = JobContext(broken, [server.state.device("node-dawn")], server.state.blobs)
        found = Locate(context).run()
    assert [suspect["kernel"] for suspect in found["kernels"]] == [name]
