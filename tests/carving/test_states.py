"""A model with states: each step of its carve begins with what the former left, on every platform."""

from __future__ import annotations

import io
import itertools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from everywhere import check_everywhere
from tapml.carving.carve import carve
from tapml.devices.messages import KernelMessages
from tapml.errors import InputError
from tapml.importing import import_model
from tapml.lowering.model import read_models
from tapml.program import Node, NodeKind, ValueKind
from tapml.program.program import Function, Program, State, SymbolicType, SymbolicValue
from tapml.reports.terminal import show_suite
from tapml.server import Server
from tapml.suite import Suite
from tapml.suite.program_document import read_program
from tapml.validation.context import JobContext
from tapml.validation.hybrid import HybridRunner, ModelStep
from tapml.validation.offload import Offload

STEPS = 3
LENGTH, HEADS, WIDTH = 8, 2, 4


def decoder() -> Any:
    """A layer of attention over all tokens so far, with a cache of keys and values and the number of tokens."""
    import torch

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = torch.nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)
            self.register_buffer("keys", torch.zeros(1, HEADS, LENGTH, WIDTH), persistent=False)
            self.register_buffer("values", torch.zeros(1, HEADS, LENGTH, WIDTH))
            self.register_buffer("count", torch.full((1,), 2, dtype=torch.int64))

        def forward(self, x: Any) -> Any:
            query, key, value = self.project(x).reshape(1, 1, 3 * HEADS, WIDTH).transpose(1, 2).chunk(3, 1)
            self.keys.index_copy_(2, self.count, key)
            self.values[:, :, self.count] = value
            seen = (torch.arange(LENGTH) <= self.count).reshape(1, 1, 1, LENGTH)
            self.count.add_(1)
            return torch.nn.functional.scaled_dot_product_attention(query, self.keys, self.values, seen)

    torch.manual_seed(0)
    return Decoder().eval()


@pytest.fixture(scope="module")
def carved(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    import torch

    folder = tmp_path_factory.mktemp("states")
    torch.export.save(torch.export.export(decoder(), (torch.zeros(1, HEADS * WIDTH),)), folder / "decoder.pt2")
    random = np.random.default_rng(0)
    files = [folder / f"{number}.npz" for number in range(STEPS)]
    for file in files:
        np.savez(file, x=random.standard_normal((1, HEADS * WIDTH)).astype(np.float32))
    model = import_model(str(folder / "decoder.pt2"), input_files=files)
    return carve(model, folder / "decoder.suite", name="decoder")


@pytest.mark.torch
def test_the_steps_of_a_carve_are_calls_in_order(carved: Suite) -> None:
    """Held against PyTorch, run in sequence, outputs and states of every step."""
    assert carved.manifest["oracle"]["agrees"], carved.manifest["oracle"]
    assert [(state.name, state.initial is None) for state in carved.program.states] == [
        ("keys", True),
        ("values", True),
        ("count", False),
    ]
    steps = carved.manifest["steps"]
    place = list(carved.program.main.states).index("count")
    counts = [carved.tensors.get(refs[place])[0] for refs in map(outputs, steps)]
    assert counts == [3, 4, 5]
    for before, after in itertools.pairwise(steps):
        assert before["outputs"][place] == after["inputs"]["count"]


def outputs(step: Any) -> list[Any]:
    from tapml.suite import TensorRef

    return [TensorRef.from_json(ref) for ref in step["outputs"]]


@pytest.mark.torch
def test_states_are_shown(carved: Suite) -> None:
    console = Console(record=True, width=200, file=io.StringIO())
    show_suite(console, carved)
    assert "keys float32[1, 2, 8, 4]" in console.export_text()


@pytest.mark.torch
def test_it_moves_to_a_device_step_by_step_and_whole(carved: Suite) -> None:
    with Server([carved.path]) as server:
        found = Offload(JobContext(carved, [server.state.device("node-dawn")], server.state.blobs)).run()
        check_everywhere(carved, server)
    assert [(step["kernel"], step["message"]) for step in found["steps"] if not step["kept"]] == []
    assert found["final"]["verdict"] == "pass", found["final"]


@pytest.mark.torch
def test_what_is_wrong_with_a_state_alone_is_seen(carved: Suite, tmp_path: Path) -> None:
    """A count that stays as it is: no output of the first step has anything of it."""
    shutil.copytree(carved.path, tmp_path / "x.suite")
    nodes = {value: node.kernel for node in carved.graph.nodes for value in node.outputs}
    kernel = nodes[carved.program.main.states["count"][1]]
    file = tmp_path / "x.suite" / "kernels" / f"{kernel}.wgsl"
    text = file.read_text()
    assert "+ 1i)" in text
    file.write_text(text.replace("+ 1i)", "+ 0i)"))
    suite = Suite(tmp_path / "x.suite")
    with Server([suite.path]) as server:
        found = Offload(JobContext(suite, [server.state.device("node-dawn")], server.state.blobs)).run()
    assert [step["kernel"] for step in found["steps"] if not step["kept"]] == [kernel]
    assert found["final"]["verdict"] == "fail"


@pytest.mark.torch
def test_a_run_begins_with_what_the_device_left(carved: Suite) -> None:
    """And not with what the reference had left when it was carved."""
    begun: list[dict[str, np.ndarray]] = []

    def run(step: ModelStep) -> Sequence[np.ndarray]:
        begun.append({value: tensor.numpy() for value, (_, tensor) in step.inputs.items()})
        return [array + 1 for array in step.expected]

    states = carved.program.main.states
    with Server([carved.path]) as server:
        device, blobs = server.state.device("node-dawn"), server.state.blobs
        with (
            KernelMessages(carved, blobs) as kernels,
            HybridRunner(JobContext(carved, [device], blobs, hang_seconds=5), read_models(carved), kernels) as runner,
        ):
            runner.in_order(run)
            places = {before: carved.model_graph.outputs.index(after) for before, after in states.values()}
            for step, inputs in zip(runner.steps, begun[1:], strict=False):
                for value, place in places.items():
                    np.testing.assert_array_equal(inputs[value], step.expected[place] + 1)


@pytest.mark.torch
def test_a_written_input_is_an_output_too(tmp_path: Path) -> None:
    import torch

    class Adds(torch.nn.Module):
        def forward(self, x: Any, total: Any) -> Any:
            total.add_(x)
            return total * 2

    torch.export.save(torch.export.export(Adds(), (torch.zeros(3), torch.zeros(3))), tmp_path / "adds.pt2")
    np.savez(tmp_path / "in.npz", x=np.float32([1, 2, 3]), total=np.float32([4, 4, 4]))
    model = import_model(str(tmp_path / "adds.pt2"), input_files=[tmp_path / "in.npz"])
    assert model.outputs == ["total", "mul"]
    suite = carve(model, tmp_path / "adds.suite", name="adds")
    assert suite.manifest["oracle"]["agrees"]
    assert [suite.tensors.get(ref).tolist() for ref in outputs(suite.manifest["steps"][0])] == [[5, 6, 7], [10, 12, 14]]


@pytest.mark.torch
def test_a_state_and_an_input_of_one_name_are_refused(tmp_path: Path) -> None:
    import torch

    class Adds(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("x", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            return self.x.add_(x) * 2

    torch.export.save(torch.export.export(Adds(), (torch.zeros(3),)), tmp_path / "adds.pt2")
    np.savez(tmp_path / "in.npz", x=np.float32([1, 2, 3]))
    with pytest.raises(InputError, match="x is an input and a buffer that the model writes: rename one of them"):
        import_model(str(tmp_path / "adds.pt2"), input_files=[tmp_path / "in.npz"])


def program(**changed: Any) -> dict[str, Any]:
    """Of one state that is doubled."""
    values = {
        name: SymbolicValue(name, name, SymbolicType((4,), "float32"), kind)
        for name, kind in (("a", ValueKind.INPUT), ("b", ValueKind.INTERMEDIATE))
    }
    node = Node("n", NodeKind.KERNEL, "double", ("a",), ("b",))
    function = Function(values, [node], ("a",), ("b",), states={"cache": ("a", "b")})
    document = Program((), {"main": function}, (State("cache", SymbolicType((4,), "float32"), None),)).to_json()
    return document | changed


def test_states_are_read_as_they_were_written() -> None:
    found = read_program("program.json", program())
    assert found.to_json() == program()
    assert (graph := found.at({})).begun(graph.left(["left"])) == {"a": "left"}


STATE = {"name": "cache", "dtype": "float32", "shape": [4], "initial": None}


@pytest.mark.parametrize(
    ("states", "main", "words"),
    [
        ([STATE, STATE], None, "a state stands twice among cache, cache"),
        ([], None, "main: there is no state cache"),
        ([{**STATE, "shape": [5]}], None, r"main: state cache is float32\[5\], and its value a is float32\[4\]"),
        ([{**STATE, "initial": "../x"}], None, r"states\[0\].initial: .*"),
        ([{**STATE, "shape": [-4]}], None, r"states\[0\].shape\[0\]: .*a size is at least 0"),
        ([{**STATE, "dtype": "float1"}], None, r"states\[0\].dtype: .*"),
        ([STATE], ["cache", "b", "b"], r"main: state cache is not an input \(b\) and an output \(b\) of it"),
        ([STATE], ["cache", "a", "z"], r"main: state cache is not an input \(a\) and an output \(z\) of it"),
        ([{**STATE, "shape": ["n"]}], None, r"there is no symbol n here|main: state cache is float32\[n\]"),
    ],
)
def test_states_that_do_not_fit_are_refused(states: Any, main: Any, words: str) -> None:
    document = program(states=states)
    if main:
        document["functions"]["main"]["states"] = [dict(zip(("state", "before", "after"), main, strict=True))]
    with pytest.raises(InputError, match=rf"^program\.json: {words}"):
        read_program("program.json", document)


def test_a_state_that_stands_twice_in_a_function_is_refused() -> None:
    document = program()
    document["functions"]["main"]["states"] *= 2
    with pytest.raises(InputError, match="a state stands twice in a function"):
        read_program("program.json", document)


@pytest.mark.torch
def test_steps_that_do_not_follow_each_other_are_refused(carved: Suite, tmp_path: Path) -> None:
    shutil.copytree(carved.path, tmp_path / "x.suite")
    path = tmp_path / "x.suite" / "suite.json"
    for first, words in ((0, r"steps\[0\]\.inputs: state count is not the initial one"), (1, r"what steps\[0\] left")):
        manifest = json.loads((carved.path / "suite.json").read_text())
        manifest["steps"][first]["inputs"]["count"] = manifest["steps"][2]["inputs"]["count"]
        path.write_text(json.dumps(manifest))
        with pytest.raises(InputError, match=words):
            Suite(tmp_path / "x.suite")
