"""`tapml build`: a suite's model as a compiled model, whole, verified, and the same bytes each time."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro_helpers import keep_result
from tapml.building.build import Built, build
from tapml.building.moves import with_moves
from tapml.building.weights import SHARD_BYTES, laid_out
from tapml.compiled.files import CompiledFiles
from tapml.compiled.instructions import Dispatch
from tapml.compiled.stored import Stored, widened
from tapml.errors import InputError
from tapml.files import sha256
from tapml.program import Node, NodeKind, ValueKind
from tapml.program.graph import shown_by
from tapml.program.program import Function, SymbolicType, SymbolicValue
from tapml.results.validation import ValidationDocument
from tapml.sharing import of_suite
from tapml.sharing.imports import add_to_suite
from tapml.suite import Suite


@pytest.fixture(scope="module")
def built(carved: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(Suite(carved), tmp_path_factory.mktemp("built") / "small.tapml")


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


TOGETHER = "fused_matmul_add_gelu+matmul1"
"""What the second product reads is so small that each of its workgroups computes it."""


def test_a_folder_holds_what_a_page_loads(built: Built, carved: Path) -> None:
    model = built.model
    assert CompiledFiles(built.path).model == model
    main = model.functions["main"]
    assert [port.name for port in main.inputs] == ["x"]
    assert [port.name for port in main.outputs] == ["probabilities"]
    assert [kernel.kernel for kernel in model.kernels] == [*Suite(carved).kernels, TOGETHER]
    assert len(model.wgsl) == len(set(model.wgsl)) == 4
    dispatches = [found for found in main.code if isinstance(found, Dispatch)]
    nodes = [node.id for node in Suite(carved).graph.kernel_nodes]
    assert [part.node for found in dispatches for part in found.each] == nodes
    assert model.memory["main"].lower_bound <= model.memory["main"].planned == sum(main.arena)
    assert {attachment.name for attachment in model.attachments} == {
        f"operators/{kernel}.json" for kernel in Suite(carved).kernels
    }
    assert built.bytes == sum(map(len, files_of(built.path).values()))


def test_weights_are_the_suites(built: Built, carved: Path) -> None:
    suite = Suite(carved)
    buffers = CompiledFiles(built.path).weights()
    tensors = {t.name: t for t in built.model.functions["main"].tensors if t.at[0] == "weights"}
    for value, ref in suite.parameters.items():
        found = tensors[suite.graph.values[value].name]
        _, buffer, offset = found.at
        data = buffers[buffer][offset : offset + ref.type.nbytes].tobytes()
        np.testing.assert_array_equal(ref.type.decoded(data), suite.tensors.get(ref))


def test_the_same_suite_gives_the_same_bytes(built: Built, carved: Path, tmp_path: Path) -> None:
    build(Suite(carved), tmp_path / "again.tapml")
    assert files_of(tmp_path / "again.tapml") == files_of(built.path)


def test_one_file_holds_the_same(built: Built, carved: Path, tmp_path: Path) -> None:
    single = build(Suite(carved), tmp_path / "one.tapml", single=True)
    assert single.path.is_file()
    found = CompiledFiles(single.path)
    assert found.model == built.model
    assert [b.tobytes() for b in found.weights()] == [b.tobytes() for b in CompiledFiles(built.path).weights()]
    # Either takes the place of the other, where that is asked for.
    build(Suite(carved), single.path, overwrite=True)
    assert files_of(single.path) == files_of(built.path)
    build(Suite(carved), single.path, single=True, overwrite=True)
    assert CompiledFiles(single.path).model == built.model
    assert [path.name for path in tmp_path.iterdir()] == ["one.tapml"]


def test_it_says_which_kernels_passed_where(suite: Suite, tmp_path: Path) -> None:
    suite.save_result(validation(suite))
    found = build(suite, tmp_path / "x.tapml").model.validation
    assert [(known.device.name, known.kernels) for known in found] == [
        ("Chromium 156", {"fused_matmul_add_gelu": "pass", "matmul1": "fail", "softmax": "pass", TOGETHER: "fail"})
    ]


def test_a_kernel_that_was_edited_since_is_not_validated(suite: Suite, tmp_path: Path) -> None:
    suite.save_result(validation(suite))
    file = suite.path / "kernels" / "softmax.wgsl"
    file.write_text(file.read_text() + "\n// another kernel now\n")
    model = build(suite, tmp_path / "x.tapml").model
    assert "softmax" not in model.validation[0].kernels
    assert model.provenance.edited == ["softmax"]


def test_a_kernel_of_which_not_all_tests_ran_is_not_validated(suite: Suite, tmp_path: Path) -> None:
    document = validation(suite)
    document["tests"] = [test for test in document["tests"] if test["id"] != "n002.s0"]
    suite.save_result(document)
    found = build(suite, tmp_path / "x.tapml").model.validation[0].kernels
    assert set(found) == {"fused_matmul_add_gelu", "matmul1", TOGETHER}


def test_what_an_imported_test_reports_is_no_validation(suite: Suite, tmp_path: Path) -> None:
    for test in suite.tests:
        keep_result(suite, test.id, "pass", device="Elsewhere 1")
        repro = of_suite(suite, test.id)
        add_to_suite(repro, suite)
    results = {found["devices"][0]["name"]: found for found in suite.results("validation")}
    assert len(results["Elsewhere 1 (reported)"]["tests"]) == len(suite.tests)
    assert build(suite, tmp_path / "x.tapml").model.validation == []


def validation(suite: Suite) -> ValidationDocument:
    """Of all tests: those of matmul1 fail."""
    from tapml.building.kernels import kernel_documents
    from tapml.devices.messages import kernel_digest, kernel_message

    digests = {
        name: kernel_digest(kernel_message(document, [file.digest for file in suite.kernel_files(name)]))
        for name, document in kernel_documents(suite).items()
    }
    adapter = {"vendor": "acme", "architecture": "", "device": "", "description": ""}
    tests: Any = [
        {
            "id": test.id, "node": test.node, "kernel": test.kernel, "step": test.step, "device": "chromium-156",
            "verdict": "fail" if test.kernel == "matmul1" else "pass",
        }
        for test in suite.tests
    ]  # fmt: skip
    return {
        "format": "tapml.validation/1", "suite": suite.id, "suite_name": suite.name, "synthetic": False, "doubts": [],
        "created": "2026-01-01T00:00:00+00:00", "interrupted": False, "edited_kernels": [], "run": "r",
        "devices": [{"id": "chromium-156", "name": "Chromium 156", "runtime": "browser", "user_agent": "",
                     "adapter": adapter, "features": [], "limits": {}}],
        "kernel_digests": digests, "tests": tests,
        "summary": {"pass": 4, "fail": 2, "error": 0, "unsupported": 0, "unbounded": 0, "total": 6,
                    "failing_kernels": ["matmul1"], "seconds": 1.0, "devices": {}},
    }  # type: ignore[typeddict-item]  # fmt: skip


# ------------------------------------------------ what is refused


def edit(path: Path, change: Callable[[Any], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_kernel_without_wgsl_is_refused(suite: Suite, tmp_path: Path) -> None:
    edit(suite.path / "kernels" / "softmax.json", lambda found: found.update(variants=[], unsupported="no f64 in WGSL"))
    with pytest.raises(InputError, match=r"no WGSL for softmax \(no f64 in WGSL\): write the kernel by hand"):
        build(Suite(suite.path), tmp_path / "x.tapml")
    assert not (tmp_path / "x.tapml").exists()


def test_a_suite_in_doubt_is_refused_unless_it_is_asked_for(suite: Suite, tmp_path: Path) -> None:
    edit(suite.path / "suite.json", lambda found: found.update(doubts=["the reference run disagrees with numpy"]))
    with pytest.raises(InputError, match=r"DO NOT TRUST .*disagrees with numpy.*--keep-disagreeing"):
        build(Suite(suite.path), tmp_path / "x.tapml")
    kept = build(Suite(suite.path), tmp_path / "x.tapml", keep_disagreeing=True)
    assert kept.model.provenance.doubts == ["the reference run disagrees with numpy"]


def test_nothing_but_a_compiled_model_is_replaced(carved: Path, tmp_path: Path) -> None:
    (tmp_path / "x.tapml").write_text("notes")
    with pytest.raises(InputError, match="is no compiled model: choose another name"):
        build(Suite(carved), tmp_path / "x.tapml", overwrite=True)
    assert (tmp_path / "x.tapml").read_text() == "notes"
    build(Suite(carved), tmp_path / "y.tapml")
    with pytest.raises(InputError, match=r"exists: .*--force"):
        build(Suite(carved), tmp_path / "y.tapml")


def test_a_damaged_weight_is_named_and_nothing_is_left(suite: Suite, tmp_path: Path) -> None:
    ref = next(iter(suite.parameters.values()))
    suite.tensors.path(ref.digest).write_bytes(b"\0" * ref.type.nbytes)
    with pytest.raises(InputError, match=f"tensor {ref.digest} is corrupted"):
        build(Suite(suite.path), tmp_path / "x.tapml")
    assert [path.name for path in tmp_path.iterdir()] == ["small.suite"]


def test_a_range_that_the_suite_has_not_is_named(carved: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no size 'n' that may differ: there is none"):
        build(Suite(carved), tmp_path / "x.tapml", ranges={"n": (1, 2)})


# ------------------------------------------------ weights


def test_equal_weights_lie_in_one_place_and_none_runs_over() -> None:
    given = [("a", 100), ("b", 256), ("a", 100), ("c", 3000), ("d", 5), ("e", 0)]
    found = laid_out(given, most=1024)
    assert found.places == {"a": (0, 0), "b": (0, 256), "c": (1, 0), "d": (2, 0), "e": (2, 256)}
    assert found.buffers == (512, 3000, 260)


def test_shards_are_a_buffer_without_gaps() -> None:
    contents = {"a": bytes(range(100)), "b": b"\x01" * (SHARD_BYTES + 12), "c": b"xyz"}
    found = laid_out((name, len(data)) for name, data in contents.items())

    def read(name: str) -> Iterator[bytes]:
        data = contents[name]
        yield from (data[:7], data[7:])

    shards = list(found.shards(read))
    assert [(shard.offset, shard.bytes) for shard, _ in shards] == [
        (0, SHARD_BYTES),
        (SHARD_BYTES, found.buffers[0] - SHARD_BYTES),
    ]
    whole = b"".join(data for _, data in shards)
    assert all(sha256(data) == shard.sha256 for shard, data in shards)
    assert all(whole[found.places[n].offset :][: len(d)] == d for n, d in contents.items())


def test_weights_that_16_bits_hold_come_first_in_shards_of_half_the_bytes() -> None:
    halves = {"a": np.arange(3, dtype=np.float32), "c": np.full(SHARD_BYTES // 4, 0.5, np.float32)}
    others = {"b": np.float32([0.1, 0.2]), "d": np.float32([2.0**100])}
    contents = {name: array.tobytes() for name, array in {**halves, **others}.items()}
    stored: dict[str, Stored] = {"a": "float16", "c": "float16", "d": "bfloat16"}
    found = laid_out([(name, len(contents[name])) for name in "abcd"], stored=stored)
    buffers = [np.zeros(count, np.uint8) for count in found.buffers]
    kinds = []
    for shard, content in found.shards(lambda name: iter([contents[name]])):
        assert len(content) == shard.bytes
        data = np.frombuffer(content, np.uint8)
        data = data if shard.stored is None else widened(data, shard.stored)
        buffers[shard.buffer][shard.offset : shard.offset + len(data)] = data
        kinds.append(shard.stored)
    assert kinds == ["float16", "float16", "bfloat16", None]
    for name, content in contents.items():
        buffer, offset = found.places[name]
        assert bytes(buffers[buffer][offset : offset + len(content)]) == content


# ------------------------------------------------ outputs and states that are copied


def function(nodes: list[tuple[str, str]], outputs: list[str], states: dict[str, tuple[str, str]]) -> Function:
    """Inputs a, b, c; each node is a call of `f` from one value to another."""
    kinds = {**dict.fromkeys("abc", ValueKind.INPUT), **{after: ValueKind.INTERMEDIATE for _, after in nodes}}
    values = {name: SymbolicValue(name, name, SymbolicType((4,), "float32"), kind) for name, kind in kinds.items()}
    calls = [Node(f"n{i}", NodeKind.KERNEL, "f", (read,), (written,)) for i, (read, written) in enumerate(nodes)]
    return Function(values, calls, ("a", "b", "c"), tuple(outputs), states=states)


def run(given: Function, arguments: dict[str, int]) -> tuple[list[int], dict[str, int]]:
    """Of what was moved: outputs and states; `f` adds 1. A state is what its buffer holds at that moment."""
    moves = with_moves(given)
    befores = {state: before for state, (before, _) in given.states.items()}
    held = dict(arguments)
    for node in moves.function.nodes:
        (source,), (target,) = node.inputs, node.outputs
        written = befores[moves.states[target]] if target in moves.states else target
        held[written] = held[source] + (node.kernel != moves.copy)
    return [held[value] for value in moves.outputs], {state: held[before] for state, before in befores.items()}


@pytest.mark.parametrize(
    ("nodes", "outputs", "states", "expected"),
    [
        ([("a", "x"), ("x", "y")], ["y"], {}, ([3], {})),
        ([("a", "x")], ["x", "x", "a"], {}, ([2, 2, 1], {})),
        # A state that is read after its next value is known, and given out as it was.
        ([("b", "x"), ("b", "y")], ["x", "y", "b"], {"s": ("b", "x")}, ([11, 10], {"s": 11})),
        # Two that change places, and one that stays.
        ([("a", "x")], ["x", "b", "a", "c"], {"s": ("a", "b"), "t": ("b", "a"), "u": ("c", "c")},
         ([2], {"s": 10, "t": 1, "u": 100})),
        # An output that is a state too.
        ([("b", "x"), ("x", "y")], ["y", "x", "x"], {"s": ("b", "x")}, ([12, 11], {"s": 11})),
    ],
)  # fmt: skip
def test_what_is_given_out_and_kept_is_what_the_function_says(
    nodes: list[tuple[str, str]],
    outputs: list[str],
    states: dict[str, tuple[str, str]],
    expected: tuple[list[int], dict[str, int]],
) -> None:
    assert run(function(nodes, outputs, states), {"a": 1, "b": 10, "c": 100}) == expected


def appending(seed: int) -> Function:
    """Two states and an input; calls of `f`, of `put`, which overwrites its first input, and views, of anything there
    is. What becomes a state is most often what `put` made of it."""
    made = random.Random(seed)
    values = dict.fromkeys(("a", "s", "t"), ValueKind.INPUT)
    nodes: list[Node] = []
    last = {"s": "s", "t": "t"}
    for number in range(made.randrange(1, 9)):
        result, state = f"v{number}", made.choice("st")
        recent = [*values][-made.choice([2, 9]) :]
        given = (last[state] if made.random() < 0.6 else made.choice(recent), made.choice(recent))
        kind = made.choice(["put", "put", "f", "view"])
        values[result] = ValueKind.INTERMEDIATE
        if kind == "view":
            nodes.append(Node(f"n{number}", NodeKind.VIEW, "reshape", given[:1], (result,)))
        else:
            nodes.append(Node(f"n{number}", NodeKind.KERNEL, kind, given, (result,)))
        if kind != "f" and given[0] == last[state]:
            last[state] = result
    outputs = [made.choice([*values]) for _ in range(made.randrange(3))]
    if made.random() < 0.2:
        last["s"] = made.choice([*values])
    typed = {name: SymbolicValue(name, name, SymbolicType((4,), "float32"), kind) for name, kind in values.items()}
    states = {"S": ("s", last["s"]), "T": ("t", last["t"])}
    return Function(typed, nodes, ("a", "s", "t"), (*outputs, last["s"], last["t"]), states=states)


def test_overwriting_in_place_changes_nothing_of_what_is_computed() -> None:
    """The calls as they are, held against where their values lie: each buffer has what was written to it last."""
    in_place = copied = 0
    for seed in range(3000):
        given = appending(seed)
        known: dict[str, object] = {"a": "a", "s": "s", "t": "t"}
        for node in given.nodes:
            inputs = tuple(known[value] for value in node.inputs)
            known[node.outputs[0]] = inputs[0] if node.kind is NodeKind.VIEW else (node.kernel, *inputs)
        moves = with_moves(given, {"put": {2: 0}})
        shown = shown_by(moves.function)
        befores = {state: before for state, (before, _) in given.states.items()}
        held: dict[str, object] = {"a": "a", "s": "s", "t": "t"}
        for node in moves.function.nodes:
            if node.kind is NodeKind.VIEW:
                continue
            inputs = tuple(held[shown[value]] for value in node.inputs)
            (target,) = node.outputs
            place = befores[moves.states[target]] if target in moves.states else shown[target]
            assert place != "a", f"an input is written, seed {seed}"
            in_place += node.kernel == "put" and target == node.inputs[0]
            copied += node.kernel == "put" and target != node.inputs[0]
            held[place] = inputs[0] if node.kernel == moves.copy else (node.kernel, *inputs)
        given_out = [known[given.outputs[place]] for place in moves.places]
        assert [held[shown[value]] for value in moves.outputs] == given_out, f"seed {seed}"
        after = {state: known[value] for state, (_, value) in given.states.items()}
        assert {state: held[before] for state, before in befores.items()} == after, f"seed {seed}"
    assert min(in_place, copied) > 1000


def test_a_parameter_that_nothing_reads_is_left_out() -> None:
    from tapml.building.functions import used_parameters

    found = function([("a", "x")], ["x"], {})
    weight = SymbolicValue("w", "w", SymbolicType((4,), "float32"), ValueKind.PARAMETER)
    assert used_parameters(replace(found, values={**found.values, "w": weight})) == []
    given_out = replace(found, values={**found.values, "w": weight}, outputs=("x", "w"))
    assert used_parameters(given_out) == ["w"]
