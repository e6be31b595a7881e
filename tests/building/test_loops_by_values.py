"""ONNX loops of which values, or sizes that differ, say how many turns they take: as far as they were carved, here and
on a device, for inputs that they were not carved with; further they are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import tapml as tml
from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.compiled.files import CompiledFiles
from tapml.devices.compiled import run_compiled
from tapml.errors import InputError
from tapml.importing import import_model
from tapml.importing.onnx_run import OnnxRuntime
from tapml.platforms.compiled import run_on_cpu
from tapml.protocol.methods import CaptureOptions
from tapml.server import Server
from tapml.sharing.captured import CapturedVerdict
from tapml.suite import Suite

HEAD = '<ir_version: 10, opset_import: ["": 17]>\n'
MEND = "give inputs that need fewer, or carve the model with a larger --loop-limit"

Arrays = Mapping[str, np.ndarray]

COUNTED = """agraph (float[3] x, int64 many) => (float[3] y, int64 turns, float[N, 3] rows) {
    one = Constant<value = int64 {1}>()
    none = Constant<value = int64 {0}>()
    limit = Constant<value = float {90}>()
    y, turns, rows = Loop(many, , x, none) <
        body = turn (int64 i, bool going, float[3] b, int64 n) => (bool goes, float[3] a, int64 m, float[3] row) {
            a = Add(b, b)
            m = Add(n, one)
            sum = ReduceSum<keepdims = 0>(a)
            goes = Less(sum, limit)
            row = Tanh(b)
        }
    >
}"""

WHILE = """agraph (float[3] x, float limit) => (float[3] y, int64 turns) {
    one = Constant<value = int64 {1}>()
    none = Constant<value = int64 {0}>()
    all = ReduceSum<keepdims = 0>(x)
    begin = Less(all, limit)
    y, turns = Loop(MOST, begin, x, none) <
        body = turn (int64 i, bool going, float[3] before, int64 n) => (bool goes, float[3] after, int64 m) {
            after = Add(before, before)
            m = Add(n, one)
            sum = ReduceSum<keepdims = 0>(after)
            goes = Less(sum, limit)
        }
    >
}"""

# How many turns is computed; in each another branch is taken by values.
COMPUTED = """agraph (float[3] x) => (float[3] y) {
    sum = ReduceSum<keepdims = 0>(x)
    many = Cast<to = 7>(sum)
    zero = Constant<value = float {0}>()
    y = Loop(many, , x) <
        body = turn (int64 i, bool going, float[3] before) => (bool going, float[3] after) {
            least = ReduceMin<keepdims = 0>(before)
            low = Less(least, zero)
            after = If(low) <
                then_branch = more () => (float[3] a) { a = Neg(before) },
                else_branch = less () => (float[3] b) { h = Sin(before)  b = Sub(h, x) }
            >
        }
    >
}"""

# The inner loop takes one turn more in each turn of the outer one.
NESTED = """agraph (float[2] x, int64 many, int64 first) => (float[2] y, int64 all) {
    one = Constant<value = int64 {1}>()
    none = Constant<value = int64 {0}>()
    y, last, all = Loop(many, , x, first, none) <
        body = turn (int64 i, bool going, float[2] before, int64 inner, int64 n)
                => (bool going, float[2] after, int64 next, int64 m) {
            after, m = Loop(inner, , before, n) <
                body = small (int64 j, bool on, float[2] b, int64 k) => (bool on, float[2] a, int64 l) {
                    s = Sin(b)
                    a = Add(s, x)
                    l = Add(k, one)
                }
            >
            next = Add(inner, one)
        }
    >
}"""

FORWARD = """agraph (float[2] start, float[n, 2] x) => (float[2] last, float[n, 2] rows) {
    last, rows = Scan(start, x) <num_scan_inputs = 1,
        body = turn (float[2] before, float[2] row) => (float[2] after, float[2] out) {
            joined = Mul(before, row)
            after = Tanh(joined)
            out = Sub(after, row)
        }
    >
}"""

BACKWARD = """agraph (float[2] start, float[n, 2] x, float[2, n] z)
        => (float[2] last, float[2, n] rows, float[n, 2] more) {
    last, rows, more = Scan(start, x, z) <num_scan_inputs = 2,
        scan_input_axes = [0, 1], scan_input_directions = [0, 1],
        scan_output_axes = [1, 0], scan_output_directions = [1, 0],
        body = turn (float[2] before, float[2] row, float[2] other) => (float[2] after, float[2] out, float[2] second) {
            joined = Mul(before, row)
            after = Sub(other, joined)
            out = Tanh(after)
            second = Sin(row)
        }
    >
}"""

# Turns by a size, of which it gives rows.
SIZED = """agraph (float[n, 2] x) => (float[2] y, float[n, 2] rows) {
    size = Shape<start = 0, end = 1>(x)
    shape = Constant<value_ints = [0]>()
    axes = Constant<value = int64[1] {0}>()
    many = Squeeze(size, axes)
    begin = Constant<value = float[2] {0.5, 1}>()
    y, rows = Loop(many, , begin) <
        body = turn (int64 i, bool going, float[2] before) => (bool going, float[2] after, float[2] row) {
            at = Gather<axis = 0>(x, i)
            after = Mul(before, at)
            row = Cos(after)
        }
    >
}"""


class Carved:
    """A model that was carved with some inputs."""

    def __init__(self, text: str, folder: Path, given: Sequence[Arrays], **options: Any) -> None:
        self.path = folder / "m.onnx"
        self.files = [folder / f"{number}.npz" for number in range(len(given))]
        onnx.save(parser.parse_model(HEAD + text), self.path)
        for file, arrays in zip(self.files, given, strict=True):
            np.savez(file, **arrays)
        imported = import_model(str(self.path), input_files=self.files, **options)
        self.suite: Suite = carve(imported, folder / "m.suite", name="m")
        self.built = CompiledFiles(build(self.suite, folder / "m.tapml").path)

    @property
    def notes(self) -> list[str]:
        return list(self.built.model.provenance.model.notes)

    def expected(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """By ONNX Runtime; counted outputs filled up with zeros."""
        ports = {port.name: port.tensor for port in self.built.model.functions["main"].outputs}
        names = [name for name in ports if not name.endswith(".count")]
        found = dict(zip(names, OnnxRuntime(self.path).run(names, arrays), strict=True))
        for name in ports.keys() - names:
            rows = found[name.removesuffix(".count")]
            count, whole = len(rows), self.built.model.functions["main"].tensors[ports[name.removesuffix(".count")]]
            # Of no turn ONNX Runtime gives rows of no shape.
            filled = np.zeros([int(axis) for axis in whole.shape], rows.dtype)
            if count:
                filled[:count] = rows
            found |= {name: np.array([count]), name.removesuffix(".count"): filled}
        return found


Run = Callable[[Carved, Arrays], Mapping[str, np.ndarray]]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture(scope="module")
def runs(server: Server) -> list[Run]:
    """On this machine, and on a device."""

    def on_device(carved: Carved, arrays: Arrays) -> Mapping[str, np.ndarray]:
        device = server.state.device("node-dawn")
        return run_compiled(device, server.state.blobs, carved.built, [arrays]).outputs[0]

    return [lambda carved, arrays: run_on_cpu(carved.built, [arrays]).outputs[0], on_device]


def agree(carved: Carved, runs: Sequence[Run], *calls: Arrays) -> None:
    for run in runs:
        for arrays in calls:
            found, expected = run(carved, arrays), carved.expected(arrays)
            assert found.keys() == expected.keys()
            for name, array in found.items():
                np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-5, err_msg=f"{name} of {arrays}")


def refused(carved: Carved, runs: Sequence[Run], arrays: Arrays, most: int, node: str = "y") -> None:
    said = f"m: Loop (ai.onnx opset 17, node '{node}') needs more than the {most} turns that the model was carved with"
    for run in runs:
        with pytest.raises(InputError) as caught:
            run(carved, arrays)
        assert str(caught.value) == f"{said}: {MEND}"


def x(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def int64(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def test_a_count_that_differs_among_the_inputs_is_a_value(runs: Sequence[Run], tmp_path: Path) -> None:
    few = x(1, 0.5, 0)
    carved = Carved(COUNTED, tmp_path, [{"x": few, "many": int64(many)} for many in (3, 0)])
    (note,) = (note for note in carved.notes if note.startswith("Loop"))
    assert note == (
        "Loop (ai.onnx opset 17, node 'y') takes at most 6 turns, and the given inputs take 3: a call that needs more "
        "is refused; --loop-limit N makes room for N"
    )
    # None, fewer than none, as many as there is room for, and more that the condition ends before.
    agree(carved, runs, *({"x": few, "many": int64(many)} for many in (0, -3, 1, 2, 6)))
    agree(carved, runs, {"x": 20 * few, "many": int64(1000)}, {"x": 200 * few, "many": int64(2**31 - 1)})
    agree(carved, runs, {"x": few / 100, "many": int64(6)})
    refused(carved, runs, {"x": few / 100, "many": int64(7)}, 6)


@pytest.mark.parametrize("most", ["", "most"])
def test_a_loop_without_a_count_ends_by_its_condition(most: str, runs: Sequence[Run], tmp_path: Path) -> None:
    """Without any, and with the largest number, as exporters of a `while` write it."""
    text = WHILE.replace("MOST", most).replace(
        "    one =", "    most = Constant<value = int64 {9223372036854775807}>()\n    one ="
    )
    carved = Carved(text, tmp_path, [{"x": x(1, 0, 0), "limit": np.array(5, np.float32)}])
    agree(carved, runs, *({"x": x(1, 0, 0), "limit": np.array(limit, np.float32)} for limit in (0, 1, 1.5, 4, 63)))
    refused(carved, runs, {"x": x(1, 0, 0), "limit": np.array(65, np.float32)}, 6)
    refused(carved, runs, {"x": x(-1, 0, 0), "limit": np.array(0, np.float32)}, 6)


def test_how_many_turns_may_be_computed(runs: Sequence[Run], tmp_path: Path) -> None:
    carved = Carved(COMPUTED, tmp_path, [{"x": x(1, 0.5, 0.75)}])
    agree(carved, runs, *({"x": x(*given)} for given in [(1, 1, 1), (0, 0, 0), (-1, 2, -3), (3, 0.5, 0.7)]))
    refused(carved, runs, {"x": x(1, 2, 2)}, 4)


def test_a_loop_in_a_loop_has_a_limit_of_its_own(runs: Sequence[Run], tmp_path: Path) -> None:
    given = [{"x": x(1, 2), "many": int64(many), "first": int64(first)} for many, first in ((2, 1), (1, 0))]
    carved = Carved(NESTED, tmp_path, given)

    def arrays(many: int, first: int) -> dict[str, np.ndarray]:
        return {"x": x(0.5, -1), "many": int64(many), "first": int64(first)}

    agree(carved, runs, *(arrays(*found) for found in [(4, 1), (0, 9), (1, 4), (3, -2)]))
    refused(carved, runs, arrays(5, -7), 4)
    refused(carved, runs, arrays(2, 4), 4, "after")


def test_a_limit_makes_a_given_count_an_input(runs: Sequence[Run], tmp_path: Path) -> None:
    few = x(1, 0.5, 0) / 1000
    carved = Carved(COUNTED, tmp_path, [{"x": few, "many": int64(2)}], loop_limit=9)
    assert [port.name for port in carved.built.model.functions["main"].inputs] == ["x", "many"]
    agree(carved, runs, *({"x": few, "many": int64(many)} for many in (0, 8, 9)))
    refused(carved, runs, {"x": few, "many": int64(10)}, 9)


def test_given_inputs_that_need_more_than_the_limit_are_refused(tmp_path: Path) -> None:
    said = rf"0\.npz: Loop .* needs more than the 2 turns that the model was carved with: {MEND}"
    with pytest.raises(InputError, match=said):
        Carved(COUNTED, tmp_path, [{"x": x(1, 0.5, 0), "many": int64(3)}], loop_limit=2)


@pytest.mark.parametrize("text", [FORWARD, BACKWARD])
def test_a_scan_along_a_size_that_differs(text: str, runs: Sequence[Run], tmp_path: Path) -> None:
    random = np.random.default_rng(3)

    def arrays(size: int) -> dict[str, np.ndarray]:
        found = {"start": x(1, -0.5), "x": random.standard_normal((size, 2), np.float32)}
        return {**found, "z": random.standard_normal((2, size), np.float32)} if text is BACKWARD else found

    carved = Carved(text, tmp_path, [arrays(3), arrays(5)])
    (symbol,) = carved.built.model.symbols
    assert (symbol.name, symbol.minimum, symbol.maximum) == ("n", 1, 10)
    agree(carved, runs, *map(arrays, (1, 2, 7, 10)))
    for run in runs:
        with pytest.raises(InputError, match="n is 11, and must be from 1 to 10"):
            run(carved, arrays(11))


def test_a_loop_over_a_size_that_differs(runs: Sequence[Run], tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    given = [{"x": random.standard_normal((size, 2), np.float32)} for size in (2, 4)]
    carved = Carved(SIZED, tmp_path, given)
    agree(carved, runs, *({"x": random.standard_normal((size, 2), np.float32)} for size in (1, 3, 8)))


def test_a_function_of_the_library_is_refused_as_well(tmp_path: Path) -> None:
    carved = Carved(COUNTED, tmp_path, [{"x": x(1, 0.5, 0) / 100, "many": int64(2)}], loop_limit=3)
    module = tml.load(carved.path, input_files=carved.files, loop_limit=3)
    reference = tml.cpu()
    main = tml.upload(tml.compile(module, target=reference))["main"]
    weights = [tml.tensor(array, reference) for array in module.parameters.values()]

    def called(many: int) -> np.ndarray:
        inputs = [tml.tensor(x(1, 2, 3) / 100, reference), tml.tensor(np.array(many, np.int32), reference)]
        outputs = [tml.allocate(found.shape, found.dtype, reference) for found in module.output]
        main(*inputs, *weights, *outputs)
        return outputs[0].numpy()

    np.testing.assert_allclose(called(3), x(8, 16, 24) / 100)
    with pytest.raises(InputError, match=rf"main: Loop .* needs more than the 3 turns .*: {MEND}"):
        called(4)


def test_what_grows_from_turn_to_turn_is_refused(tmp_path: Path) -> None:
    text = """agraph (float[3] x, int64 many) => (float[N] y) {
        y = Loop(many, , x) <body = turn (int64 i, bool going, float[K] before) => (bool going, float[L] after) {
            after = Concat<axis = 0>(before, x)
        }>
    }"""
    with pytest.raises(
        InputError, match=r"Loop \(ai\.onnx opset 17, node 'y'\) is ended by values, and what it carries has another"
    ):
        Carved(text, tmp_path, [{"x": x(1, 2, 3), "many": int64(many)} for many in (1, 2)])


def test_a_state_and_rows_have_sizes_that_differ(runs: Sequence[Run], tmp_path: Path) -> None:
    """Where values end the loop, and in a branch by values."""
    text = """agraph (float[n, 3] x, float limit) => (float[n, 3] y, int64 turns, float[N, n, 3] rows) {
        one = Constant<value = int64 {1}>()
        none = Constant<value = int64 {0}>()
        most = Constant<value = int64 {6}>()
        all = ReduceSum<keepdims = 0>(x)
        begin = Less(all, limit)
        y, turns, rows = Loop(most, begin, x, none) <
            body = turn (int64 i, bool going, float[n, 3] before, int64 k)
                    => (bool goes, float[n, 3] after, int64 m, float[n, 3] row) {
                sum = ReduceSum<keepdims = 0>(before)
                low = Less(sum, one_more)
                after = If(low) <
                    then_branch = more () => (float[n, 3] a) { a = Add(before, before) },
                    else_branch = less () => (float[n, 3] b) { h = Abs(x)  b = Add(before, h) }
                >
                row = Tanh(before)
                m = Add(k, one)
                made = ReduceSum<keepdims = 0>(after)
                goes = Less(made, limit)
            }
        >
    }""".replace("begin = Less", "one_more = Constant<value = float {1}>()\n        begin = Less")
    given = [{"x": np.full([n, 3], 0.1, np.float32), "limit": np.array(3, np.float32)} for n in (2, 5)]
    carved = Carved(text, tmp_path, given)
    for n, limit in ((3, 3), (3, 0), (7, 40)):
        arrays = {"x": np.full([n, 3], 0.2, np.float32), "limit": np.array(limit, np.float32)}
        y, turns, rows = OnnxRuntime(carved.path).run(["y", "turns", "rows"], arrays)
        for run in runs:
            found = run(carved, arrays)
            np.testing.assert_allclose(found["y"], y, rtol=1e-5)
            assert int(found["turns"]) == int(found["rows.count"].item()) == int(turns)
            assert found["rows"].shape == (6, n, 3)
            if turns:
                np.testing.assert_allclose(found["rows"][: int(turns)], rows, rtol=1e-5)
            assert not found["rows"][int(turns) :].any()


def test_a_state_that_grows_where_values_end_the_loop_is_refused(tmp_path: Path) -> None:
    text = """agraph (float[n, 3] x, int64 many) => (float[k, 3] y) {
        y = Loop(many, , x) <body = turn (int64 i, bool going, float[a, 3] before) => (bool going, float[b, 3] after) {
            after = Concat<axis = 0>(before, x)
        }>
    }"""
    given = [{"x": np.ones([n, 3], np.float32), "many": int64(n - 1)} for n in (2, 3)]
    with pytest.raises(InputError, match="has another shape or type after a turn than before"):
        Carved(text, tmp_path, given)


def test_loops_that_do_not_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the loop of y takes more than 1024 turns\): say .* with --loop-limit N"):
        Carved(WHILE.replace("MOST", ""), tmp_path, [{"x": x(0, 0, 0), "limit": np.array(5, np.float32)}])


def test_a_state_that_changes_its_type_is_refused(tmp_path: Path) -> None:
    text = """agraph (float[3] x, int64 many) => (float[3] y) {
        y = Loop(many, , x) <body = turn (int64 i, bool going, float[3] before) => (bool going, double[3] after) {
            after = Cast<to = 11>(before)
        }>
    }"""
    with pytest.raises(InputError, match="has another shape or type after a turn than before"):
        Carved(text, tmp_path, [{"x": x(1, 2, 3), "many": int64(many)} for many in (1, 2)])


def test_a_capture_has_the_turns_and_branches_that_were_taken(server: Server, tmp_path: Path) -> None:
    """And the suite that the model was built from judges them, each as the turn that it was of."""
    carved = Carved(COMPUTED, tmp_path, [{"x": x(1, 0.5, 0.75)}, {"x": x(1, 1, -0.5)}])
    device = server.state.device("node-dawn")

    def captured(*given: float) -> list[CapturedVerdict]:
        found = run_compiled(device, server.state.blobs, carved.built, [{"x": x(*given)}], capture=CaptureOptions())
        (tmp_path / "page.capture").write_bytes(found.capture or b"")
        return tml.import_capture(tmp_path / "page.capture", carved.suite.path)

    none, one, four = captured(0, 0, 0.5), captured(1, -2, 2), captured(1, 1, 2)
    for verdicts in (none, one, four):
        assert {found.verdict for found in verdicts} == {"pass"}, [found.message for found in verdicts]
    nodes = [{found.call.node for found in verdicts} for verdicts in (none, one, four)]
    assert nodes[0] < nodes[1], "no turn, and one"
    assert len(nodes[2]) > 3 * len(nodes[1] - nodes[0])

    def turns(verdicts: Sequence[CapturedVerdict], kernel: str) -> int:
        return sum(kernel in found.call.kernel for found in verdicts)

    # Each other turn of the last is of the other branch, as what a branch gives says.
    assert [turns(verdicts, "sin") for verdicts in (none, one, four)] == [0, 0, 2]
