"""Carving: every call recorded, faithful, with tolerances that tell wrong from rounded."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

from helpers import small_model, small_oracle
from tapml.carving.carve import carve
from tapml.compare.agreement import agreement
from tapml.errors import InputError, ToolchainError
from tapml.importing import ImportedModel, Step
from tapml.lowering.lower import lower
from tapml.platforms.reference import Reference, to_numpy
from tapml.suite import Suite


def test_every_kernel_call_is_a_test(suite: Suite) -> None:
    assert len(suite.tests) == len(suite.graph.kernel_nodes) > len(suite.kernels)


def test_each_test_replays_on_the_reference(suite: Suite) -> None:
    model = small_model()
    platform = Reference(lower(model.module, 1).as_it_is)
    for test in suite.tests:
        inputs = [platform.tensor(suite.tensors.get(ref)) for ref in test.inputs]
        results = platform.call(test.kernel, inputs, [ref.type for ref in test.outputs])
        for result, ref in zip(results, test.outputs, strict=True):
            np.testing.assert_array_equal(to_numpy(result, ref.dtype), suite.tensors.get(ref))


def test_the_carved_output_is_the_oracles(suite: Suite) -> None:
    oracle = suite.manifest["oracle"]
    assert oracle["agrees"]
    assert oracle["max_abs_error"] < 1e-6


def test_a_wrong_import_is_noticed(tmp_path: Path) -> None:
    model = small_model()
    step = model.steps[0]
    assert step.expected is not None
    wrong = [np.roll(step.expected[0], 1)]
    model.steps[0] = type(step)(step.description, step.inputs, step.synthetic, wrong)
    with pytest.raises(InputError, match=r"disagrees with numpy float64: output probabilities of step 0: element \["):
        carve(model, tmp_path / "wrong.suite", name="wrong")
    assert list(tmp_path.iterdir()) == []
    suite = carve(model, tmp_path / "wrong.suite", name="wrong", keep_disagreeing=True)
    assert not suite.manifest["oracle"]["agrees"]
    assert "disagrees with numpy float64" in Suite(suite.path).doubts[0]


def test_several_inputs_become_several_steps(tmp_path: Path) -> None:
    suite = carve(small_model(steps=3), tmp_path / "steps.suite", name="steps")
    assert len(suite.tests) == 3 * len(suite.graph.kernel_nodes)
    assert {test.step for test in suite.tests} == {0, 1, 2}
    x = suite.manifest["steps"][2]["inputs"]["x"]
    assert x["shape"] == [6, 16]
    assert len({step["outputs"][0]["digest"] for step in suite.manifest["steps"]}) == 3


def test_synthetic_inputs_mark_the_suite(tmp_path: Path) -> None:
    assert carve(small_model(synthetic=True), tmp_path / "s.suite", name="s").synthetic


def test_tolerances_lie_between_rounding_and_any_real_mistake(suite: Suite) -> None:
    for test in suite.tests:
        for ref, bound in zip(test.outputs, test.tolerances, strict=True):
            expected = suite.tensors.get(ref).astype(np.float64)
            largest = np.abs(expected).max()
            assert bound.absolute + bound.relative * largest < 1e-3 * largest, test.kernel
            assert bound.reasons


def test_the_bound_of_a_sum_grows_with_its_length(suite: Suite) -> None:
    lengths = {name: suite.bundle(name)["numerics"]["accumulation_length"] for name in suite.kernels}
    assert sorted(set(lengths.values())) == [16, 32]


def test_f32_evaluated_in_another_order_is_inside_the_bound(suite: Suite) -> None:
    """A matmul summed backwards is what another platform might do."""
    model = small_model()
    checked = 0
    for test in suite.tests:
        if not test.kernel.startswith("matmul") or len(test.inputs) != 2:
            continue
        a, b = (suite.tensors.get(ref) for ref in test.inputs)
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for k in reversed(range(a.shape[1])):
            total += a[:, k : k + 1] * b[k : k + 1]
        expected, bound = suite.tensors.get(test.outputs[0]), test.tolerances[0]
        assert (np.abs(total - expected) <= bound.absolute + bound.relative * np.abs(expected)).all()
        checked += 1
    assert checked
    assert model.oracle


def test_the_models_outputs_may_differ_by_what_their_operators_may(suite: Suite) -> None:
    (node,) = (node.id for node in suite.graph.kernel_nodes if suite.graph.outputs[0] in node.outputs)
    (last,) = (test for test in suite.tests if test.node == node)
    assert suite.manifest["model_tolerance"]["max_abs_error"] >= last.tolerances[0].absolute > 0


def test_every_rounded_output_has_a_bound_for_each_element(suite: Suite) -> None:
    for test in suite.tests:
        for ref, tolerance in zip(test.outputs, test.tolerances, strict=True):
            assert tolerance.bound is not None, test.kernel
            bound = suite.tensors.get(tolerance.bound)
            assert bound.shape == ref.shape
            assert (bound > 0).all()
            assert float(bound.max()) == pytest.approx(tolerance.absolute)


def test_what_cannot_be_derived_is_estimated_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(*_: object) -> None:
        raise ValueError("of shapes")

    monkeypatch.setattr("tapml.bounds.Operator.bounds", defective)
    for test in carve(small_model(), tmp_path / "estimated.suite", name="estimated").tests:
        for tolerance in test.tolerances:
            assert tolerance.bound is None
            assert tolerance.absolute > 0
            assert "no bound can be derived: the derivation has a defect" in tolerance.reasons[0]
            assert "of shapes" in tolerance.reasons[0]


def test_the_cosine_that_is_asked_for_leaves_room_for_what_outputs_may_differ_by(tmp_path: Path) -> None:
    x = np.log(np.array([[100.5], [60.5], [3]])).astype(np.float32)  # two of them may round up or down

    def to_int32(v: Any) -> Any:
        return relax.op.astype(v, "int32")

    model = made_of("rounded", x, lambda emit, v: emit(relax.op.round(emit(relax.op.exp(v)))), to_int32)
    suite = carve(model, tmp_path / "rounded.suite", name="rounded")
    (ref,) = suite.tests[-1].outputs
    (tolerance,) = suite.tests[-1].tolerances
    expected = suite.tensors.get(ref)
    assert tolerance.bound is not None
    bound, asked = suite.tensors.get(tolerance.bound), suite.manifest["model_tolerance"]["cosine"]
    assert bound.ravel().tolist() == pytest.approx([1, 1, 0], abs=1e-3)
    assert 0.99 < asked < 1
    for signs in itertools.product((-1, 1), repeat=bound.size):
        assert agreement([expected + bound * np.reshape(signs, bound.shape)], [expected]).cosine >= asked


def made_of(
    title: str, x: np.ndarray, body: Callable[[Callable[[Any], Any], Any], Any], last: Callable[[Any], Any]
) -> ImportedModel:
    """A model of one input."""
    builder = relax.BlockBuilder()
    variable = relax.Var("x", relax.TensorType(x.shape, "float32"))
    with builder.function("main", [variable]):
        with builder.dataflow():
            result = builder.emit_output(last(body(builder.emit, variable)))
        builder.emit_func_output(result)
    return ImportedModel(
        module=builder.finalize(),
        input_names=["x"],
        parameters=[],
        steps=[Step("ones", {"x": x}, False, None)],
        provenance={"kind": "test", "source": "tests", "sha256": "0" * 64, "title": title, "notes": []},
        outputs=["y"],
        oracle=None,
    )


def roots(x: np.ndarray) -> ImportedModel:
    """sqrt(x @ 1.1 - 1.1): of nothing for x = 1, and of less once the product is off by a bit."""
    weight = relax.const(np.array([[1.1]], np.float32))

    def rest(emit: Callable[[Any], Any], v: Any) -> Any:
        summed = emit(relax.op.sum(emit(relax.op.matmul(v, weight)), axis=1, keepdims=True))
        return emit(relax.op.subtract(summed, weight))

    return made_of("roots", x, rest, relax.op.sqrt)


def test_a_model_without_a_tolerance_at_its_inputs_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="when its operators are off by no more than they may be"):
        carve(roots(np.ones((64, 1), np.float32)), tmp_path / "edge.suite", name="edge")
    assert list(tmp_path.iterdir()) == []


def test_no_cuda_is_one_clear_error() -> None:
    import tvm

    lowered = lower(small_model().module, 1).as_it_is
    if tvm.cuda().exist:
        assert Reference(lowered, platform="cuda").platform == "cuda"
    else:
        with pytest.raises(ToolchainError, match=r"no CUDA device.*--reference cpu"):
            Reference(lowered, platform="cuda")
    with pytest.raises(InputError, match="unknown reference platform"):
        Reference(lowered, platform="tpu")


def test_agreement_sees_what_a_cosine_hides() -> None:
    ones = np.ones(100, np.float32)
    off = ones.copy()
    off[7] = 3
    assert agreement([off], [ones]).max_abs_error == 2
    broken = ones.copy()
    broken[0] = np.nan
    found = agreement([broken], [ones])
    assert np.isnan(found.cosine)
    assert np.isnan(found.max_abs_error)
    assert found.to_json() == {"cosine": None, "max_abs_error": None}
    assert agreement([np.zeros(3)], [np.zeros(3)]).cosine == 1
    masked = np.array([-np.inf, 1, 2])
    assert agreement([masked], [masked + 1e-7]).cosine == pytest.approx(1)
    infinite = np.array([np.inf, 1.0])
    assert agreement([infinite], [infinite]).max_abs_error == 0


def test_the_oracle_of_these_tests_is_a_probability() -> None:
    out = small_oracle(np.zeros((6, 16), np.float32))
    np.testing.assert_allclose(out.sum(-1), 1, rtol=1e-6)
