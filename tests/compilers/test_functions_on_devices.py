"""Every function and operation that a program may have, on every dtype that WGSL has, through to devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx
from tvm.ir import Call

from tapml.carving.carve import carve
from tapml.compilers.choose import CHOICES
from tapml.importing.model import ImportedModel, Step
from tapml.jobs.job import JobSpecification, run_job
from tapml.lowering.emit import _ELSEWHERE, _OPERATIONS
from tapml.operators.program import (
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    FUNCTIONS_OF_ONE,
    FUNCTIONS_OF_TWO,
    PREDICATES,
)
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext

FLOATS = {
    "x": [0.5, 1.5, 2.5, -0.5, -2.5, 0.0, 7.25, -7.25, 3.2, -100.0, 1e5, 0.75, 1.0, -1.0, 80.0, 1e-3],
    "y": [2.0, 2.0, -2.0, 3.0, -0.75, 2.0, 2.125, 2.125, -1.5, 7.0, 3.0, -0.25, 1.0, 0.5, 0.3, 5.0],
}
INTS = {
    "x": [7, -7, 7, -7, 0, 1, 2**31 - 1, -(2**31), 100, -100, 255, -256, 12345, -1, 6, 31],
    "y": [3, 3, -3, -3, 5, 1, 7, 3, 30, 10, 2, 8, -12345, 31, 2, 1],
}
DOMAINS = {
    "acos": (-1, 1),
    "acosh": (1, 50),
    "asin": (-1, 1),
    "atanh": (-0.9, 0.9),
    "log1p": (-0.9, 6e4),
    "pow": (0.5, 9),
}
DOMAINS |= dict.fromkeys(("log", "log10", "log2", "rsqrt", "sqrt"), (0.01, 6e4))
DOMAINS |= dict.fromkeys(("cosh", "exp", "exp10", "exp2", "sinh", "sigmoid", "tanh"), (-9, 9))


def calls() -> dict[str, tuple[str, Callable[[Any, Any], Any]]]:
    """By name: the dtype of the operands, and an element of the result."""
    found: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {}
    for name in (*FUNCTIONS_OF_ONE, *FUNCTIONS_OF_TWO, *PREDICATES):
        found[name] = ("float32", lambda x, y, name=name: _called(name, x, y))
        if name != "nextafter":  # the next float16 is another
            found[f"{name}_float16"] = ("float16", lambda x, y, name=name: _called(name, x, y))
    for dtype in ("float32", "float16", "int32", "uint32", "bool"):
        numbers = ARITHMETIC if "float" not in dtype else [k for k in ARITHMETIC if not k.startswith("floor")]
        kinds = {
            "bool": [*BITWISE[:3], "and", "or"],
            "float32": [*numbers, *COMPARISONS],
            "float16": [*numbers, *COMPARISONS],
        }
        for kind in kinds.get(dtype, [*numbers, *COMPARISONS, *BITWISE]):
            found[f"{kind}_{dtype}"] = (dtype, lambda x, y, kind=kind: _OPERATIONS[kind](x, _operand(kind, y)))
    for dtype in ("int32", "uint32", "bool"):
        found[f"bitwise_not_{dtype}"] = (dtype, lambda x, y: tirx.BitwiseNot(x))
    # A zero has a sign, which says on which side of the cut it is.
    for name, above, beside in (("above", True, False), ("beside", False, True), ("both", True, True)):
        found[f"atan2_of_zeros_{name}"] = (
            "float32",
            lambda x, y, above=above, beside=beside: _called(
                "atan2", _zero(x) if above else x, _zero(y) if beside else y
            ),
        )
    found["unlike_itself"] = ("float32", lambda x, y: tirx.NE(x / y, x / y))
    found["not_bool"] = ("bool", lambda x, y: tirx.Not(x))
    for source, target in (("float32", "int32"), ("float32", "uint32"), ("int32", "float32"), ("int32", "uint32")):
        found[f"reinterpret_{source}_{target}"] = (source, lambda x, y, t=target: tirx.reinterpret(t, x))
    for name, value in (("infinity", np.inf), ("minus_infinity", -np.inf), ("nan", np.nan)):
        found[name] = ("float32", lambda x, y, v=value: tirx.Select(x > 1, tirx.FloatImm("float32", v), y))
    for name, value in (("subnormal", 1e-40), ("nothing", 1e-50)):
        found[name] = ("float32", lambda x, y, v=value: tirx.Select(x > 1e9, tirx.FloatImm("float32", v), y))
    # What is never chosen is read all the same where a shader is made.
    for name, operand in (("log", 0.0), ("sqrt", -1.0), ("exp", 1e4), ("rsqrt", 0.0), ("acosh", 0.0)):
        constant = tirx.FloatImm("float32", operand)
        found[f"{name}_of_what_it_has_not"] = (
            "float32",
            lambda x, y, name=name, constant=constant: tirx.Select(x > 1e9, _called(name, constant, y, whole=True), y),
        )
    return found


def _zero(x: Any) -> Any:
    """0 with the sign of x."""
    return _called("copysign", tirx.FloatImm("float32", 0.0), x)


def _operand(kind: str, y: Any) -> Any:
    return tirx.BitwiseAnd(y, tirx.IntImm(str(y.ty.dtype), 31)) if kind.startswith("shift") else y


def _called(name: str, x: Any, y: Any, whole: bool = False) -> Any:
    if name in DOMAINS and not whole:
        low, high = (tirx.FloatImm(str(x.ty.dtype), float(end)) for end in DOMAINS[name])
        x = tirx.Max(tirx.Min(x, high), low)
    operands = [x, y] if name in FUNCTIONS_OF_TWO else [x]
    dtype = "bool" if name in PREDICATES else str(x.ty.dtype)
    return Call(tvm.ir.Op.get(_ELSEWHERE.get(name, f"tirx.{name}")), operands, ret_ty=dtype)


def model() -> ImportedModel:
    builder, found = relax.BlockBuilder(), calls()
    types = ("float32", "float16", "int32", "uint32")
    inputs = [relax.Var(f"{axis}_{dtype}", relax.TensorType((16,), dtype)) for dtype in types for axis in "xy"]
    given = {str(var.name): var for var in inputs}
    with builder.function("main", inputs):
        with builder.dataflow():
            results = []
            for name, (dtype, element) in found.items():
                stored = "int32" if dtype == "bool" else dtype

                def made(x: Any, y: Any, dtype: str = dtype, element: Any = element) -> Any:
                    def at(i: Any) -> Any:
                        a, b = (x(i) > 0, y(i) > 2) if dtype == "bool" else (x(i), y(i))
                        value = element(a, b)
                        return value.astype("int32") if str(value.ty.dtype) == "bool" else value

                    return te.compute((16,), at, name="made")

                operands = [given[f"{axis}_{stored}"] for axis in "xy"]
                # Opaque to fusion: a kernel of its own for each.
                attributes = {"op_pattern": 8}
                call = builder.call_te(made, *operands, primfunc_name_hint=f"f_{name}", primfunc_attrs=attributes)
                results.append(builder.emit(call))
            result = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(result)
    arrays = {}
    for dtype in types:
        for axis in "xy":
            numbers = np.array(FLOATS[axis] if "float" in dtype else INTS[axis])
            arrays[f"{axis}_{dtype}"] = (np.clip(numbers, -1e4, 1e4) if dtype == "float16" else numbers).astype(dtype)
    return ImportedModel(
        module=builder.finalize(),
        input_names=list(arrays),
        parameters=[],
        steps=[Step("all", arrays, False, None)],
        provenance={"kind": "test", "source": "test", "sha256": "0" * 64, "notes": []},
        outputs=list(found),
    )


@pytest.fixture(scope="module", params=["native", "tvm"])
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Suite:
    path = tmp_path_factory.mktemp("functions") / "functions.suite"
    made = carve(model(), path, name="functions", compilers=CHOICES[request.param])
    assert {made.bundle(name)["compiler"]["name"] for name in made.kernels} == {request.param}
    return made


@pytest.mark.slow
@pytest.mark.parametrize("device", ["node-dawn", "deno"])
def test_every_function_on_every_dtype(device: str, suite: Suite) -> None:
    with Server() as server:
        context = JobContext(suite, [server.state.device(device)], server.state.blobs, hang_seconds=30)
        document = run_job(JobSpecification(kind="validation", devices=[device], save=False, record=False), context)
    assert len(document["tests"]) == len(calls())
    lacking = "needs the feature shader-f16, which this device lacks"
    tests = [t for t in document["tests"] if t["verdict"] != "pass" and t.get("message") != lacking]
    assert {t["verdict"] for t in document["tests"] if t.get("message") == lacking} <= {"unsupported"}
    wrong = {test["kernel"]: (test["verdict"], test.get("message")) for test in tests}
    assert wrong == {}
