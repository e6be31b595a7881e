"""Products of float32 with weights that lie as float16: by subgroup matrices, and on devices that have none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from compilers.test_native_products import texts_of, wrong
from tapml.carving.carve import carve
from tapml.compilers.choose import CHOICES
from tapml.compilers.native.blocks import Blocks
from tapml.compilers.native.matrices import FEATURES
from tapml.importing.model import ImportedModel, Step
from tapml.suite import Suite

HALF = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
FINITE = HALF[np.isfinite(HALF)]


@dataclass(frozen=True)
class Stored:
    """`[*rows, inner]` by a weight, `[columns, inner]` where it is `turned`, that float16 holds; `spread`: of how many
    powers of two, up and down, rows and elements are apart. `every`: weights are any numbers of float16; `rough`: they
    are none."""

    rows: tuple[int, ...]
    columns: int
    inner: int
    turned: bool = True
    spread: float = 0.0
    every: bool = False
    rough: bool = False
    biased: bool = False


def carved(cases: Mapping[str, Stored], folder: Path, compiler: str = "native") -> Suite:
    builder, random = relax.BlockBuilder(), np.random.default_rng(3)
    given: dict[relax.Var, np.ndarray] = {}
    weights: dict[relax.Var, np.ndarray] = {}
    calls = []
    for name, case in cases.items():

        def of(kind: str, array: np.ndarray, name: str = name) -> relax.Var:
            found = array.astype(np.float32)
            variable = relax.Var(f"{name.replace(' ', '_')}_{kind}", relax.TensorType(found.shape, "float32"))
            (given if kind == "x" else weights)[variable] = found
            return variable

        shape = (case.columns, case.inner) if case.turned else (case.inner, case.columns)
        weight = random.choice(FINITE, shape) if case.every else random.normal(size=shape)
        weight = weight if case.rough else weight.astype(np.float16)
        x = random.normal(size=(*case.rows, case.inner))
        x *= np.exp2(random.uniform(-case.spread, case.spread, x.shape))
        x *= np.exp2(random.uniform(-case.spread, case.spread, (*x.shape[:-1], 1)))
        bias = [of("bias", random.normal(size=case.columns))] if case.biased else []
        calls.append((case, of("x", x), of("weight", weight), bias))
    with builder.function("main", [*given, *weights]):
        with builder.dataflow():
            results = []
            for case, x, weight, bias in calls:
                right = relax.op.permute_dims(weight) if case.turned else weight
                result = relax.op.matmul(x, right)
                result = relax.op.nn.gelu(relax.op.add(result, bias[0])) if bias else result
                results.append(builder.emit(builder.normalize(result)))
            result = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(result)
    arrays = {variable.name: array for variable, array in given.items()}
    model = ImportedModel(
        module=builder.finalize(),
        input_names=list(arrays),
        parameters=[(variable.name, array) for variable, array in weights.items()],
        steps=[Step("all", arrays, False, None)],
        provenance={"kind": "test", "source": "test", "sha256": "0" * 64, "notes": []},
        outputs=list(cases),
        oracle_missing="by hand",
    )
    return carve(model, folder / "stored.suite", name="stored", overwrite=True, compilers=CHOICES[compiler])


SMALL = Blocks(16, 32, 2, 2, 32)

CASES = {
    "by rows": Stored((33,), 65, 100),
    "by columns": Stored((31,), 64, 64, turned=False, biased=True),
    "odd by rows": Stored((2, 17), 67, 45, biased=True),
    "odd by columns": Stored((32,), 63, 77, turned=False),
    "far apart": Stored((20,), 40, 96, spread=6),
    "every number": Stored((19,), 40, 96, every=True),
    "every number by columns": Stored((20,), 41, 97, turned=False, every=True, spread=6),
}


@pytest.fixture
def pieces(software: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small products of small weights, too, by subgroup matrices alone. Names of kernels."""
    monkeypatch.setattr("tapml.compilers.native.matmul.LEAST_OF_PIECES", 0)
    monkeypatch.setattr("tapml.carving.halves.LEAST_BYTES", 0)
    monkeypatch.setattr("tapml.compilers.native.matmul.blocks_of", lambda *sizes: SMALL)
    return software


def test_products_by_subgroup_matrices(tmp_path: Path, pieces: list[str]) -> None:
    suite = carved(CASES, tmp_path)
    assert wrong(suite, "deno") == {}
    assert len(pieces) == len(CASES)


def test_devices_without_them_read_float16_as_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variant of subgroup matrices stands before one that every device has, and needs float16; both are told that
    the weight lies as float16. Where there is no product of that size, there is none."""
    monkeypatch.setattr("tapml.compilers.native.matmul.LEAST_OF_PIECES", 40 * 300 * 128)
    cases = {"large": Stored((40,), 300, 128), "few rows": Stored((2,), 300, 128), "small": Stored((20,), 300, 128)}
    for compiler in ("native", "auto"):
        folder = tmp_path / compiler
        folder.mkdir()
        suite = carved(cases, folder, compiler)
        variants = {}
        for name in suite.kernels:
            document = suite.bundle(name)
            assert [argument.get("encoding") for argument in document["arguments"]] == [None, "float16", None]
            rows = document["arguments"][0]["shape"][0]
            variants[rows] = [variant["requires"]["features"] for variant in document["variants"]]
        (matrices, *others) = variants[40]
        assert set(FEATURES) <= set(matrices)
        assert others
        assert not any([*others, *variants[2], *variants[20]])
        if compiler == "native":
            assert wrong(suite, "node-dawn") == {}


def test_one_row_is_shared_out_for_them(tmp_path: Path) -> None:
    """What is read waits in registers, of which numbers that become float32 leave too few: fewer vectors at a time."""
    suite = carved({"one row": Stored((1,), 512, 2048, turned=False)}, tmp_path)
    assert wrong(suite, "node-dawn") == {}
    (text,) = texts_of(suite)
    assert vectors(text) == 16
    by_auto = carved({"one row": Stored((1,), 512, 2048, turned=False)}, tmp_path, "auto")
    assert text in texts_of(by_auto)
    rough = carved({"one row": Stored((1,), 512, 2048, turned=False, rough=True)}, tmp_path)
    assert [vectors(text) for text in texts_of(rough)] == [32]


def vectors(text: str) -> int:
    """Of the weight, that are read before the first is multiplied."""
    return len(re.findall(r"let b\d_\d = right4\(", text))
