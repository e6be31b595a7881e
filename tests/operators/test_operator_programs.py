"""Operators' programs as data: what TVM lowers comes back from its file as it was."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from running_programs import lowered_of, run
from tvm import relax, te, tirx, topi
from tvm.relax import op

from helpers import small_module
from operators import te_model
from tapml.errors import InputError
from tapml.lowering.emit import prim_func
from tapml.lowering.lower import Model, lower, read_lowered
from tapml.lowering.model import read_model, relax_module
from tapml.lowering.write import program_of
from tapml.operators.document import to_json_text
from tapml.operators.guard import guarded
from tapml.operators.numerics import numerics
from tapml.operators.read import from_json
from tapml.platforms.reference import Reference
from tapml.suite import Suite


def lowered(function: Callable[..., Any], *types: tuple[tuple[int, ...], str]) -> Model:
    builder = relax.BlockBuilder()
    variables = [relax.Var(f"p{number}", relax.TensorType(*found)) for number, found in enumerate(types)]
    with builder.function("main", variables):
        with builder.dataflow():
            result = builder.emit_output(function(builder, *variables))
        builder.emit_func_output(result)
    return lower(builder.finalize(), len(types)).as_it_is


def again(name: str, function: Any) -> Any:
    """A PrimFunc from its file."""
    return prim_func(from_json(json.loads(to_json_text(program_of(name, function))), name, "x.json"))


def same(one: Any, other: Any) -> bool:
    """But for the dtypes of extents of 1 in regions, which TVM finds anew."""
    return tvm_ffi.structural_equal(one, other) or one.script(show_meta=True) == other.script(show_meta=True)


def computed(dtype: str, function: Callable[[Any], Any]) -> Any:
    """The PrimFunc y[i] = function(x[i])."""
    shape = (tirx.IntImm("int64", 4),)
    x = te.placeholder(shape, dtype, "x")
    return te.create_prim_func([x, te.compute(shape, lambda i: function(x[i]), name="y")])


MATRIX = ((6, 8), "float32")
IMAGE = ((1, 3, 9, 9), "float32")
CASES: dict[str, tuple[Any, ...]] = {
    "softmax": (lambda _, x: op.nn.softmax(x), MATRIX),
    "layer norm": (lambda _, x, g, b: op.nn.layer_norm(x, g, b, [-1]), MATRIX, ((8,), "float32"), ((8,), "float32")),
    "gelu": (lambda _, x: op.nn.gelu(x), ((6, 8), "float16")),
    "convolution": (lambda _, x, w: op.nn.conv2d(x, w, padding=1, strides=2), IMAGE, ((4, 3, 3, 3), "float32")),
    "transposed": (lambda _, x, w: op.nn.conv2d_transpose(x, w, strides=2), IMAGE, ((3, 2, 3, 3), "float32")),
    "max pool": (lambda _, x: op.nn.max_pool2d(x, (3, 3), padding=1), IMAGE),
    "average pool": (lambda _, x: op.nn.avg_pool2d(x, (2, 2), ceil_mode=True), IMAGE),
    "resize": (lambda _, x: op.image.resize2d(x, (5, 7), method="linear"), IMAGE),
    "gather": (lambda _, x, i: op.take(x, i, axis=0), MATRIX, ((3,), "int32")),
    "concatenation": (lambda _, x, y: op.concat([x, y], 1), MATRIX, MATRIX),
    "padding": (lambda _, x: op.nn.pad(x, (1, 2, 0, 1)), MATRIX),
    "slice": (lambda _, x: op.strided_slice(x, [1], [7], [0], [-2]), MATRIX),
    "split": (lambda _, x: op.split(x, 2, 1), MATRIX),
    "where": (lambda _, x, y: op.where(op.greater(x, y), x, y), MATRIX, MATRIX),
    "isnan": (lambda _, x: op.astype(op.isnan(x), "int32"), MATRIX),
    "bits": (lambda _, x, y: op.bitwise_xor(op.left_shift(x, y), x), ((4,), "uint32"), ((4,), "uint32")),
    "integers": (lambda _, x, y: op.floor_divide(op.mod(x, y), y), ((4,), "int32"), ((4,), "int32")),
    "argmax": (lambda b, x: b.emit_te(lambda a: topi.argmax(a, axis=1), x), MATRIX),
    "power": (lambda _, x, y: op.power(x, y), MATRIX, MATRIX),
    "no elements": (lambda _, x, y: op.concat([x, y], 1), MATRIX, ((6, 0), "float32")),
}


@pytest.mark.parametrize("case", CASES)
def test_what_tvm_lowers_is_the_same_from_its_file(case: str) -> None:
    found = lowered(*CASES[case])
    assert found.programs
    for name, function in found.programs.items():
        assert same(function, again(name, function))
        guarded(program_of(name, function))


def test_another_program_is_not_taken_for_the_same() -> None:
    """What the test above relies on."""
    one, two = (lowered(lambda _, x, p=p: op.nn.pad(x, (p, 2, 0, 1)), MATRIX) for p in (1, 2))
    (a,), (b,) = one.programs.values(), two.programs.values()
    assert not same(a, b)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, math.inf, -math.inf, math.nan])
def test_constants_keep_every_digit(value: float) -> None:
    function = computed("float64", lambda x: tirx.Max(x, tirx.FloatImm("float64", value)))
    text = to_json_text(program_of("x", function))
    constant = from_json(json.loads(text), "x", "x.json").blocks[0].body[0].value.operands[1].value
    assert np.float64(constant).tobytes() == np.float64(value).tobytes()


def test_a_suite_gives_back_its_model(suite: Suite) -> None:
    original = lower(small_module(), 1).as_it_is
    model = read_model(suite)
    assert model.graph.kernels == original.graph.kernels
    for name, function in original.programs.items():
        assert tvm_ffi.structural_equal(prim_func(model.programs[name]), function)
    rebuilt = read_lowered(relax_module(model), 1).model.at({})
    assert [(n.id, n.kind, n.kernel, n.inputs, n.outputs) for n in rebuilt.nodes] == [
        (n.id, n.kind, n.kernel, n.inputs, n.outputs) for n in original.graph.nodes
    ]
    assert [value.type for value in rebuilt.values.values()] == [v.type for v in original.graph.values.values()]


def test_several_outputs_and_views_are_rebuilt(tmp_path: Any) -> None:
    from tapml.carving.carve import carve

    def halves(x: Any) -> Any:
        upper = te.compute((3, 8), lambda i, j: x[i, j] * 2.0, name="upper")
        return [upper, te.compute((3, 8), lambda i, j: x[i + 3, j] * 2.0, name="lower")]

    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    suite = carve(te_model("halves", halves, {"x": x}), tmp_path / "x.suite", name="x")
    model = read_model(suite)
    reference = Reference(model)
    values = reference.values(dict(zip(suite.model_graph.inputs, [x, x[:4]], strict=True)))
    values = reference.run(model.graph, values)
    got = [values[value].numpy() for value in suite.model_graph.outputs]
    np.testing.assert_array_equal(np.concatenate(got[:2]), 2 * x)
    rebuilt = read_lowered(relax_module(model), 2).model.main
    assert [n.outputs for n in rebuilt.nodes] == [n.outputs for n in model.graph.nodes]


def test_what_a_program_cannot_hold_is_refused_with_the_operator() -> None:
    call = computed("float32", lambda x: tirx.call_extern("float32", "system", x))
    with pytest.raises(
        InputError, match=r"operator shell cannot be carved: its program has a call of tirx.call_extern"
    ):
        program_of("shell", call)
    threads = tvm.s_tir.Schedule(computed("float32", lambda x: x + 1.0))
    threads.bind(threads.get_loops(threads.get_sblock("y"))[0], "threadIdx.x")
    with pytest.raises(InputError, match="a special loop"):
        program_of("threads", threads.mod["main"])


def test_integers_wrap_around_as_they_did(random: np.random.Generator) -> None:
    """Arithmetic that may overflow is spelled out, and means the same."""
    ends = [0, 1, -1, 2**31 - 1, -(2**31), 2**30, 123456789, -987654321]
    x, y = (np.array(random.choice(ends, 256), np.int64).astype(np.int32) for _ in range(2))
    operations: dict[str, Callable[[Any, Any], Any]] = {"add": op.add, "sub": op.subtract, "mul": op.multiply}
    with np.errstate(over="ignore"):
        for dtype in ("int32", "uint32"):
            a, b = x.view(dtype), y.view(dtype)
            for name, make in operations.items():
                found = lowered(lambda _, p, q, make=make: make(p, q), ((256,), dtype), ((256,), dtype))
                ((kernel, function),) = found.programs.items()
                document = json.loads(to_json_text(program_of(kernel, function)))
                program = from_json(document, kernel, "x.json")
                result = run(Reference(lowered_of([program])), program, [a, b, np.zeros(256, dtype)])[-1].array
                expected = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name](a, b)
                np.testing.assert_array_equal(result, expected)


def test_a_logarithm_alone_is_no_mere_move() -> None:
    function = computed("float32", tirx.log2)
    assert numerics(program_of("log2", function)).builtins == ("log2",)


def test_temporaries_of_other_shapes_are_filled_side_by_side() -> None:
    """Read before they are written, so that each is filled first."""
    pick = [["i", "int64", 4]], [["v", "int64", 4, "spatial", "i"]]
    buffers = [{"name": name, "dtype": "float32", "shape": [size]} for name, size in (("s", 4), ("t", 9), ("y", 4))]
    total = ["add", ["load", "s", "v"], ["load", "t", ["add", "v", 5]]]
    block = {"name": "b", "loops": pick[0], "axes": pick[1], "body": [["store", "y", ["v"], total]]}
    document = {"format": "tapml.operator/2", "operator": "x", "parameters": buffers[2:], "temporaries": buffers[:2]}
    program = from_json({**document, "blocks": [block]}, "x", "x.json")
    (y,) = run(Reference(lowered_of([program])), program, [np.full(4, 7, np.float32)])
    assert y.array.tolist() == [0, 0, 0, 0]
    assert y.intact
