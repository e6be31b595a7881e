"""tapml's own kernels: right on devices whatever is drawn, and readable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmarks.native_kernels.cases import KINDS, drawn
from tvm import relax

from tapml.carving.carve import carve
from tapml.compilers.choose import CHOICES
from tapml.compilers.native.compile import NATIVE, generated
from tapml.expressions import Symbol
from tapml.importing.ranked import ranked
from tapml.jobs.job import JobSpecification, run_job
from tapml.lowering.lower import lower
from tapml.lowering.operator import Operator
from tapml.server import Server
from tapml.suite import Suite
from tapml.validation.context import JobContext

LACKING = "needs the feature shader-f16, which this device lacks"


def verdicts(suite: Suite, device: str) -> dict[str, Any]:
    """What did not pass, by kernel."""
    with Server() as server:
        context = JobContext(suite, [server.state.device(device)], server.state.blobs, hang_seconds=30)
        document = run_job(JobSpecification(kind="validation", devices=[device], save=False, record=False), context)
    return {
        test["kernel"]: (test["verdict"], test.get("message"))
        for test in document["tests"]
        if test["verdict"] != "pass" and not (test.get("message") or "").endswith(LACKING)
    }


def carved(path: Path, seed: int, count: int) -> Suite:
    suite = carve(drawn(seed, count).model, path / "drawn.suite", name="drawn", compilers=CHOICES["native"])
    assert Counter(suite.bundle(name)["compiler"]["name"] for name in suite.kernels).keys() == {"native"}
    return suite


def test_drawn_operators_are_right(tmp_path: Path) -> None:
    assert verdicts(carved(tmp_path, 0, len(KINDS)), "node-dawn") == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_many_drawn_operators_are_right(tmp_path: Path, seed: int) -> None:
    suite = carved(tmp_path, seed, 10 * len(KINDS))
    assert {device: verdicts(suite, device) for device in ("node-dawn", "deno")} == {"node-dawn": {}, "deno": {}}


def operators(
    function: Callable[..., Any], *shapes: tuple[Any, ...], symbols: tuple[Symbol, ...] = ()
) -> list[Operator]:
    builder = relax.BlockBuilder()
    parameters = [relax.Var(f"x{n}", relax.TensorType(shape, "float32")) for n, shape in enumerate(shapes)]
    with builder.function("main", parameters):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(function(builder, *parameters)))
        builder.emit_func_output(out)
    return list(lower(builder.finalize(), len(shapes), symbols).operators)


def body(operator: Operator) -> str:
    """The one text of its kernel, from the entry point on."""
    (launch,) = generated(operator) or []
    return launch.text[launch.text.index("@compute") :]


def heads(builder: Any, x: Any) -> Any:
    split = builder.emit(relax.op.reshape(x, (7, 12, 32)))
    return relax.op.permute_dims(split, [1, 0, 2])


def test_what_a_reshape_divides_and_multiplies_cancels() -> None:
    (made,) = operators(heads, (7, 384))
    text = body(made)
    # A row of a head is eight fours: of 12 heads, and a row has 96.
    assert "[i * 56 + j * 8 + k] = x0[j * 96 + i * 8 + k];" in text
    assert "floor" not in text


def test_what_is_the_same_along_a_row_is_computed_once_and_elements_stay_in_registers() -> None:
    def norm(_: Any, x: Any, weight: Any, bias: Any) -> Any:
        return relax.op.nn.layer_norm(x, weight, bias, axes=[-1])

    (made,) = operators(norm, (5, 4096), (4096,), (4096,))
    text = body(made)
    assert text.count("inverseSqrt(") == 1
    assert text.count("x0[") == 1
    before, _, after = text.rpartition("for (")
    assert "inverseSqrt(" in before
    assert "inverseSqrt(" not in after


def test_matrix_products_are_no_rows() -> None:
    (made,) = operators(lambda _, x, y: relax.op.matmul(x, y), (64, 64), (64, 64))
    assert all("rows" not in launch.text.splitlines()[0] for launch in generated(made) or [])


def test_a_kernel_asks_for_no_more_invocations_than_it_may() -> None:
    found = operators(lambda _, x: relax.op.nn.softmax(x), (4, 4096))
    for spec, most in (("32", 32), ("1024", 256)):
        (variant,) = NATIVE.compile(found, (spec,))[found[0].name].document["variants"]
        assert variant["name"] == spec
        assert variant["requires"]["limits"]["maxComputeInvocationsPerWorkgroup"] == most


def test_where_nothing_is_the_greatest_is_what_the_program_has() -> None:
    """-1 where all are infinite, and the first of equal ones."""

    def place(builder: Any, x: Any) -> Any:
        return relax.op.astype(builder.emit(relax.op.argmax(x, axis=-1)), "float32")

    (made,) = operators(place, (3, 30))
    text = body(made)
    assert "min_2 = min(min_2, select(30i, lane, x0_2 == maximum));" in text
    assert "= f32(select(minimum, -1i, minimum == 30i));" in text


def test_reductions_over_different_rows_are_dispatches_with_temporaries() -> None:
    def largest(builder: Any, x: Any) -> Any:
        called = partial(ranked, axis=1, count=3, largest=True, kind="values")
        return builder.call_te(called, x, primfunc_name_hint="topk")

    (made,) = operators(largest, (5, 40))
    kernel = NATIVE.compile([made], ("256",))[made.name]
    (variant,) = kernel.document["variants"]
    assert variant["temporaries"] == [5 * 40 * 4]
    assert [launch["operands"][-1] for launch in variant["launches"]] == [{"temporary": 0}, {"argument": 1}]
    assert [entry["file"] for entry in variant["entry_points"]] == [file.name for file in kernel.files]
