"""Programs that a stranger wrote: refused, or run without a byte outside of their tensors."""

from __future__ import annotations

import copy
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running_programs import lowered_of, run

from tapml.errors import InputError
from tapml.lowering.emit import prim_func
from tapml.operators.guard import guarded
from tapml.operators.program import OperatorProgram
from tapml.operators.read import DEEPEST, from_json
from tapml.platforms.reference import Reference
from tapml.program import TensorType

SIZE = 16
PLACE = ["load", "places", "v"]


def document(body: list[Any], **changes: Any) -> dict[str, Any]:
    """y[v] = ... over 16 elements, of x (float32) and places (int64)."""
    parameters = [
        {"name": name, "dtype": dtype, "shape": [SIZE]}
        for name, dtype in (("x", "float32"), ("places", "int32"), ("y", "float32"))
    ]
    block = {"name": "b", "loops": [["i", "int64", SIZE]], "axes": [["v", "int64", SIZE, "spatial", "i"]], "body": body}
    found = {"format": "tapml.operator/1", "operator": "x", "parameters": parameters, "blocks": [block]}
    return {**found, **changes}


def store(value: Any, index: Any = "v") -> list[Any]:
    return ["store", "y", [index], value]


def read(found: Any) -> OperatorProgram:
    return from_json(json.loads(json.dumps(found)), "x", "x.json")


def nested(depth: int) -> Any:
    value: Any = ["float32", 1.0]
    for _ in range(depth):
        value = ["add", value, ["float32", 1.0]]
    return value


def changed(change: Callable[[dict[str, Any]], Any], **more: Any) -> dict[str, Any]:
    """A right program with something changed in place."""
    found = document([store(["load", "x", "v"])], **more)
    change(found)
    return copy.deepcopy(found)


def block(**fields: Any) -> dict[str, Any]:
    return changed(lambda found: found["blocks"][0].update(fields))


REFUSED: dict[str, tuple[Any, str]] = {
    "no object": ([], "it is not a program"),
    "another format": ({"format": "tapml.kernel/2"}, "it is not a program"),
    "another operator": (document([], operator="matmul"), "operator 'matmul'"),
    "a function of the C library": (
        document([store(["call", "system", ["load", "x", "v"]])]),
        "'system' is no function",
    ),
    "an extern call": (document([store(["call", "call_extern", ["float32", 1.0]])]), "'call_extern' is no function"),
    "a packed call": (document([store(["call", "tvm_call_packed", "v"])]), "'tvm_call_packed' is no function"),
    "inline assembly": (document([store(["call", "call_llvm_pure_intrin", "v"])]), "is no function"),
    "an address": (document([store(["address_of", ["load", "x", "v"]])]), "'address_of' is no operation"),
    "no operation": (document([store(["__import__", "v"])]), "'__import__' is no operation"),
    "text": (document([store("T.func_attr({'x': os.system('id')})")]), "the variable .* is not known"),
    "an unknown statement": (document([["evaluate", "x", [], "v"]]), "the statement 'evaluate'"),
    "a pragma": (block(annotations={"pragma_import_c": "int f;"}), "the annotation 'pragma_import_c'"),
    "an annotation of another kind": (block(annotations={"axis": "0"}), "the annotation 'axis'"),
    "no list": (document("store"), "'body' is no list"),  # type: ignore[arg-type]
    "a block that is text": (document([], blocks=["T.evaluate(0)"]), "it is no object"),
    "nothing to do": (document([]), "it does nothing"),
    "an unknown buffer": (document([store(["load", "z", "v"])]), "'z' is no buffer"),
    "a buffer that is a number": (document([["store", 2, ["v"], ["float32", 0.0]]]), "'2' is no buffer"),
    "one dimension too many": (document([store(["load", "x", "v", "v"])]), "has 1 dimensions and is used with 2"),
    "a float index": (document([store(["load", "x", ["float32", 1.0]])]), "an index of float32"),
    "another dtype stored": (document([store(PLACE)]), "stores int32 into 'y'"),
    "mixed dtypes": (document([store(["add", ["load", "x", "v"], PLACE])]), "add of float32, int32"),
    "a condition of numbers": (
        document([store(["select", "v", ["float32", 1.0], ["float32", 1.0]])]),
        "select of int64",
    ),
    "a loop's variable inside": (document([store(["load", "x", "i"])]), "the variable 'i' is not known"),
    "nested too deeply": (document([store(nested(DEEPEST + 2))]), "nested deeper than"),
    "too long a name": (block(name="b" * 300), "the name"),
    "a name with a new line": (block(name="b\nimport os"), "the name"),
    "a number of 31 digits": (document([store(["load", "x", 10**30])]), "is no int64 constant"),
    "a bool for a size": (changed(lambda f: f["parameters"][0].update(shape=[True])), "the shape"),
    "a negative size": (changed(lambda f: f["parameters"][0].update(shape=[-16])), "the shape"),
    "too large a size": (changed(lambda f: f["parameters"][0].update(shape=[2**30, 2**30])), "the shape"),
    "an unknown dtype": (changed(lambda f: f["parameters"][0].update(dtype="handle")), "'handle' is no dtype"),
    "two buffers of one name": (changed(lambda f: f["parameters"][0].update(name="y")), "two buffers"),
    "too much memory": (
        document([store(["load", "x", "v"])], temporaries=[{"name": "t", "dtype": "float32", "shape": [2**30]}]),
        "its temporaries take 4294967296 bytes",
    ),
    "no end in sight": (block(loops=[["i", "int64", SIZE], ["j", "int64", 2**39]]), "turns, more than"),
    "a variable twice": (block(loops=[["i", "int64", SIZE], ["i", "int64", 2]]), "'i' is there twice"),
    "an axis of another dtype": (block(axes=[["v", "int32", SIZE, "spatial", "i"]]), "the axis 'v'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_program_is_refused(case: str) -> None:
    found, words = REFUSED[case]
    with pytest.raises(InputError, match=words) as error:
        read(found)
    assert "x.json" in str(error.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"axes": [["v", "int64", 8, "spatial", "i"]]}, "'v' of 8 takes values from 0 to 15"),
        ({"axes": [["v", "int64", SIZE, "spatial", ["mul", "i", 2]]]}, "'v' of 16 takes values from 0 to 30"),
        ({"axes": [["v", "int64", SIZE, "spatial", ["sub", "i", 1]]]}, "'v' of 16 takes values from -1 to 14"),
        ({"axes": [["v", "int64", SIZE, "spatial", ["cast", "int64", ["load", "places", "i"]]]]}, "takes values from"),
        ({"body": [store(["load", "x", ["mul", "v", 2**61]])]}, "mul of int64 may overflow"),
    ],
)
def test_what_cannot_be_shown_to_stay_inside_is_not_run(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        guarded(read(block(**fields)))


def far(*places: int) -> np.ndarray:
    """Places as a tensor, the last one again and again."""
    return np.array([*places, *[places[-1]] * (SIZE - len(places))], np.int32)


def called(body: list[Any], places: np.ndarray, *, guard: bool = True, **changes: Any) -> tuple[np.ndarray, bool]:
    """y, and whether all around the tensors is as it was; y holds -1 at first."""
    program = read(document(body, **changes))
    model = lowered_of([program])
    unguarded = dataclasses.replace(model, programs={program.name: prim_func(program)})
    reference = Reference(model if guard else unguarded)
    x, y = np.arange(SIZE, dtype=np.float32), np.full(SIZE, -1, np.float32)
    tensors = run(reference, program, [x, places, y])
    return tensors[-1].array, all(found.intact for found in tensors)


def test_without_guards_a_program_writes_outside() -> None:
    """What all the tests below are worth."""
    assert not called([store(["float32", 7.0], ["add", "v", 3])], far(0), guard=False)[1]
    assert not called([store(["float32", 7.0], PLACE)], far(20), guard=False)[1]


# Some of them a compiler would take for an index in range, if it is told nothing of overflow and conversions.
TRICKS: dict[str, Any] = {
    "beyond": ["add", "v", 3],
    "before": ["sub", "v", 1000],
    "from a tensor": PLACE,
    "a product": ["mul", PLACE, ["int32", 3]],
    "a sum that overflows": ["add", ["max", PLACE, ["int32", 0]], ["int32", 2147483647]],
    "a difference of unsigned": ["cast", "int64", ["sub", ["cast", "uint32", PLACE], ["uint32", 5]]],
    "a quotient by nothing": ["floordiv", PLACE, ["sub", PLACE, PLACE]],
    "the least by minus one": ["div", ["min", PLACE, ["int32", -2147483648]], ["min", PLACE, ["int32", -1]]],
    "a shift": ["shift_left", ["max", PLACE, ["int32", 1]], ["max", PLACE, ["int32", 30]]],
    "a shift too far": ["shift_left", ["int32", 1], ["add", PLACE, ["int32", 70]]],
    "a remainder": ["mod", PLACE, ["int32", 100]],
    "what is no number": ["cast", "int64", ["div", ["load", "x", 0], ["load", "x", 0]]],
    "infinity": ["cast", "int32", ["div", ["float32", 1.0], ["load", "x", 0]]],
    "a narrower number": ["cast", "int64", ["cast", "int8", PLACE]],
    "the other sign": ["cast", "int32", ["max", ["cast", "uint32", PLACE], ["uint32", 16]]],
    "a condition on something else": [
        "if_then_else",
        ["lt", PLACE, ["int32", 16]],
        ["add", PLACE, ["int32", 1]],
        PLACE,
    ],
    "a condition that both sides see": ["select", ["lt", PLACE, ["int32", 16]], PLACE, ["int32", 99]],
}


@pytest.mark.parametrize("trick", TRICKS)
def test_no_index_leaves_its_tensor(trick: str) -> None:
    index = TRICKS[trick]
    for places in (far(-(2**31), 2**31 - 1, 17, -1, 0), far(2**31 - 1), far(-(2**31)), far(0)):
        written, inside = called([store(["float32", 7.0], index)], places)
        assert inside
        assert set(np.unique(written)) <= {-1.0, 7.0}
        loaded, inside = called([store(["load", "x", index])], places)
        assert inside
        assert np.isin(loaded, np.arange(SIZE)).all(), "it read something else than x"


def test_an_index_that_went_through_memory_is_checked() -> None:
    fields = {"loops": [["i", "int64", SIZE]], "axes": [["v", "int64", SIZE, "spatial", "i"]]}
    first = {"name": "a", **fields, "body": [["store", "t", ["v"], ["add", PLACE, ["int32", 2147483647]]]]}
    second = {"name": "b", **fields, "body": [store(["float32", 7.0], ["load", "t", "v"])]}
    temporaries = [{"name": "t", "dtype": "int32", "shape": [SIZE]}]
    for blocks in ([first, second], [second], [second, first]):  # also what was never written
        assert called([], far(5, -(2**31), 2**31 - 1), blocks=blocks, temporaries=temporaries)[1]


def test_a_bool_that_is_neither_is_true() -> None:
    parameters = [{"name": "x", "dtype": "bool", "shape": [4]}, {"name": "y", "dtype": "int32", "shape": [4]}]
    axes = {"loops": [["i", "int64", 4]], "axes": [["v", "int64", 4, "spatial", "i"]]}
    blocks = [{"name": "b", **axes, "body": [["store", "y", ["v"], ["cast", "int32", ["load", "x", "v"]]]]}]
    program = read(document([], parameters=parameters, blocks=blocks))
    reference = Reference(lowered_of([program]))
    odd = reference.tensor(np.array([0, 1, 2, 255], np.uint8).view(np.bool_))
    (result,) = reference.call("x", [odd], [TensorType((4,), "int32")])
    assert result.numpy().tolist() == [0, 1, 1, 1]


def test_an_operator_is_given_tensors_of_its_types_only() -> None:
    program = read(document([store(["load", "x", "v"])]))
    reference = Reference(lowered_of([program]))
    tensors = [reference.tensor(np.zeros(size, dtype)) for size, dtype in ((8, "float32"), (SIZE, "int32"))]
    with pytest.raises(InputError, match=r"operator x takes float32\[16\], .* was given float32\[8\]"):
        reference.call("x", tensors, [TensorType((SIZE,), "float32")])


def test_an_operator_called_like_a_c_function_is_no_such_symbol() -> None:
    program = dataclasses.replace(read(document([store(["load", "x", "v"])])), name="memcpy")
    x = np.arange(SIZE, dtype=np.float32)
    tensors = run(Reference(lowered_of([program])), program, [x, far(0), np.zeros(SIZE, np.float32)])
    np.testing.assert_array_equal(tensors[-1].array, x)


@pytest.mark.slow
def test_changed_programs_never_reach_outside() -> None:
    """In a process of its own, where a crash would be seen."""
    script = Path(__file__).parent / "mutated_programs.py"
    command = [sys.executable, str(script), "0", "400"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout)
    assert counts["ran"] >= 120, counts
    assert counts["refused"] >= 40, counts
