"""Operators held against the oracle's own values: what a whole model's allowance hides."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional
from tvm import relax

from tapml.api.library import compile
from tapml.carving.carve import carve
from tapml.carving.explained import Explained
from tapml.carving.judge import checked
from tapml.carving.paired import paired, seen, strangers
from tapml.carving.prepare import lowered_with_documents, prepared
from tapml.carving.runs import Run
from tapml.errors import InputError
from tapml.importing import ImportedModel, import_model
from tapml.importing.model import Intermediate
from tapml.importing.onnx_run import OnnxRuntime
from tapml.importing.torch_detail import exactly
from tapml.operators.program import Axis, Block, Buffer, Expression, Loop, OperatorProgram, Store


def transformer(folder: Path, **changed: float) -> ImportedModel:
    """GELU written out, behind a norm and in front of one; `changed` are constants that are others."""
    random = np.random.default_rng(0)
    constants = {"cube": 0.044715, "root": math.sqrt(2 / math.pi), "half": 0.5, "one": 1.0, "gain": 0.7} | changed
    weights = {"w": random.standard_normal((32, 64)) / 6, "v": random.standard_normal((64, 32)) / 8}
    tensors = {name: np.float32(value) for name, value in (constants | weights).items() if name != "epsilon"}
    tensors |= {"scale": np.ones(32, np.float32), "bias": np.zeros(32, np.float32)}
    norm = {"epsilon": changed.get("epsilon", 1e-5)}
    nodes = [
        ("LayerNormalization", "x scale bias", "normal", norm),
        ("MatMul", "normal w", "wide", {}),
        ("Mul", "wide wide", "square", {}),
        ("Mul", "square wide", "third", {}),
        ("Mul", "third cube", "small", {}),
        ("Add", "small wide", "sum", {}),
        ("Mul", "sum root", "inner", {}),
        ("Tanh", "inner", "bent", {}),
        ("Add", "bent one", "above", {}),
        ("Mul", "wide half", "halved", {}),
        ("Mul", "halved above", "gelu", {}),
        ("MatMul", "gelu v", "deep", {}),
        ("Mul", "deep gain", "scaled", {}),
        ("Softmax", "wide", "shares", {}),
        ("LayerNormalization", "scaled scale bias", "y", {"epsilon": 1e-12}),
    ]
    graph = helper.make_graph(
        [
            helper.make_node(kind, inputs.split(), [name], name, **attributes)
            for kind, inputs, name, attributes in nodes
        ],
        "transformer",
        [helper.make_tensor_value_info("x", 1, [16, 32])],
        [onnx.ValueInfoProto(name="y"), onnx.ValueInfoProto(name="shares")],
        [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in tensors.items()],
    )
    file = folder / f"transformer{len(list(folder.iterdir()))}.onnx"  # the oracle reads it again
    opset = helper.make_opsetid("", 20)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), file)
    np.savez(folder / "x.npz", x=random.standard_normal((16, 32)).astype(np.float32))
    return import_model(str(file), input_files=[folder / "x.npz"])


def mistaken(wrong: ImportedModel, right: ImportedModel) -> ImportedModel:
    """As an importer would give it that makes `wrong` of what `right` is of."""
    assert right.intermediates
    values = [*right.intermediates(False)]
    steps = [dataclasses.replace(w, expected=r.expected) for w, r in zip(wrong.steps, right.steps, strict=True)]
    return dataclasses.replace(
        wrong, steps=steps, intermediates=lambda _: values, second=None, in_detail=None, again=None
    )


def test_a_right_model_is_in_no_doubt_and_the_suite_says_what_was_held(tmp_path: Path) -> None:
    suite = carve(transformer(tmp_path), tmp_path / "t.suite", name="t")
    assert suite.doubts == []
    held = suite.manifest["oracle"]["operators"]
    assert held["held"] == held["of"] == len(suite.tests)


@pytest.mark.parametrize("changed", [{"cube": 0.0447}, {"root": 0.798}, {"epsilon": 1e-6}, {"half": 0.50005}])
def test_a_constant_that_is_wrong_in_its_fourth_digit_is_found(changed: dict[str, float], tmp_path: Path) -> None:
    right = transformer(tmp_path)
    first, *_ = checked(mistaken(transformer(tmp_path, **changed), right), keep_disagreeing=True)
    assert "given onnxruntime" in first
    assert "x what rounding explains" in first


def test_what_a_norm_makes_right_again_is_found_in_front_of_it(tmp_path: Path) -> None:
    """No output of the model shows the wrong gain."""
    right, wrong = transformer(tmp_path), transformer(tmp_path, gain=0.707)
    np.testing.assert_allclose(*((model.steps[0].expected or [])[0] for model in (right, wrong)), atol=1e-5)
    (doubt,) = checked(mistaken(wrong, right), keep_disagreeing=True)
    assert "'scaled', which Mul" in doubt


class Small(nn.Module):
    """Writes in place between its operators."""

    def __init__(self, epsilon: float = 1e-5, approximate: str = "tanh", slope: float = 0.01) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.deep = nn.Linear(16, 48), nn.Linear(48, 16)
        self.epsilon, self.approximate, self.slope = epsilon, approximate, slope

    def forward(self, x: Tensor) -> Tensor:
        y = functional.layer_norm(x, (16,), eps=self.epsilon)
        y = self.wide(y)
        y.add_(0.25)
        y = functional.gelu(y, approximate=self.approximate)
        y = functional.layer_norm(x + self.deep(y), (16,))
        return functional.leaky_relu(y, self.slope)


def exported(folder: Path, model: nn.Module, *shape: int) -> ImportedModel:
    x = torch.randn(shape or (8, 16), generator=torch.Generator().manual_seed(1))
    file = folder / f"small{len(list(folder.iterdir()))}.pt2"
    torch.export.save(torch.export.export(model.eval(), (x,)), file)
    np.savez(folder / "x.npz", x=x.numpy())
    return import_model(str(file), input_files=[folder / "x.npz"])


@pytest.mark.parametrize("changed", [{"epsilon": 1e-6}, {"approximate": "none"}, {"slope": 0.0101}])
def test_a_wrong_operator_of_a_torch_program_is_found(changed: dict[str, float | str], tmp_path: Path) -> None:
    right = exported(tmp_path, Small())
    assert checked(right) == []
    doubts = checked(mistaken(exported(tmp_path, Small(**changed)), right), keep_disagreeing=True)  # type: ignore[arg-type]
    assert "torch" in doubts[0]


class Masked(nn.Module):
    """Adds two masks of the lowest number, which the importer limits to half of it."""

    def forward(self, x: Tensor) -> Tensor:
        low = torch.full((), torch.finfo(torch.float32).min)
        later = torch.ones(8, 8, dtype=torch.bool).triu(1)
        scores = torch.where(later, low, x @ x.T) + torch.where(x[:, 0] > 3, 0.0, low)
        return torch.softmax(scores + x[:, :8], dim=-1)


def test_how_large_the_numbers_of_a_mask_are_is_no_fault(tmp_path: Path) -> None:
    model = exported(tmp_path, Masked())
    assert "limited to half of the lowest number" in " ".join(model.provenance["notes"])
    assert checked(model) == []


class Half(nn.Module):
    """In float16: attention, whose values are float32 until the layer behind it rounds them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16) for _ in range(4))
        self.half()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x.half()).view(1, 8, 2, 8).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(8, 16)).float()


def test_an_oracle_that_rounds_earlier_is_no_fault(tmp_path: Path) -> None:
    assert checked(exported(tmp_path, Half())) == []


class Bags(nn.Module):
    """How many rows are in each bag, of which each mean is made, and whether any are, each maximum."""

    def forward(self, x: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(12) % 8
        return tuple(functional.embedding_bag(places, x, starts, mode=mode) for mode in ("mean", "max"))  # type: ignore[return-value]


def test_an_integer_that_the_model_in_detail_has_within_an_operator_is_no_fault(tmp_path: Path) -> None:
    given = {"x": torch.randn(8, 16, generator=torch.Generator().manual_seed(1)), "starts": torch.tensor([0, 3, 3, 7])}
    torch.export.save(torch.export.export(Bags(), tuple(given.values())), tmp_path / "bags.pt2")
    np.savez(tmp_path / "given.npz", **{name: tensor.numpy() for name, tensor in given.items()})
    assert checked(import_model(str(tmp_path / "bags.pt2"), input_files=[tmp_path / "given.npz"])) == []


def one_by_one(folder: Path, nodes: list[onnx.NodeProto], x: np.ndarray, *outputs: str) -> ImportedModel:
    value = helper.make_tensor_value_info("x", 1, list(x.shape))
    graph = helper.make_graph(nodes, "g", [value], [onnx.ValueInfoProto(name=name) for name in outputs])
    opset = helper.make_opsetid("", 20)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), folder / "g.onnx")
    np.savez(folder / "x.npz", x=x)
    return import_model(str(folder / "g.onnx"), input_files=[folder / "x.npz"])


def test_small_terms_that_vanish_behind_a_large_one_are_no_fault(tmp_path: Path) -> None:
    """The reference sums one after the other: 1, and then 8,191 that are each less than half of its last place."""
    x = np.full((2, 8192), -17.5, np.float32)
    x[:, 0] = 0
    model = one_by_one(tmp_path, [helper.make_node("Softmax", ["x"], ["y"])], x, "y")
    assert checked(model) == []


def test_a_model_that_is_run_a_few_nodes_at_a_time_gives_the_same_values(tmp_path: Path) -> None:
    names = ["x", *(f"v{number}" for number in range(40))]
    nodes = [
        helper.make_node("Add" if number % 3 else "Mul", [names[number], names[number // 2]], [names[number + 1]])
        for number in range(40)
    ]
    x = np.random.default_rng(0).standard_normal(8).astype(np.float32) / 4
    model = one_by_one(tmp_path, nodes, x, "v39")
    assert model.intermediates
    values = [array for _, _, array in model.intermediates(False)]
    computed = [x]
    for number in range(40):
        one, two = computed[number], computed[number // 2]
        computed.append(one + two if number % 3 else one * two)
    np.testing.assert_array_equal(values, computed[1:])


def test_with_large_weights_apart_onnx_runtime_gives_the_same_values(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights = [random.standard_normal(shape).astype(np.float32) / 20 for shape in ((400, 700), (700, 400))]
    names = ["x", *(f"v{number}" for number in range(20))]
    nodes = [
        helper.make_node("MatMul", [names[number], f"w{number % 2}"], [names[number + 1]], f"n{number}")
        for number in range(20)
    ]
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("x", 1, [2, 400])],
        [onnx.ValueInfoProto(name=name) for name in names[1:]],
        [numpy_helper.from_array(weight, f"w{number}") for number, weight in enumerate(weights)],
    )
    path, x = tmp_path / "products.onnx", random.standard_normal((2, 400)).astype(np.float32)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    np.savez(tmp_path / "x.npz", x=x)
    model = import_model(str(path), input_files=[tmp_path / "x.npz"])
    assert model.intermediates
    found = [array for _, _, array in model.intermediates(False)]
    for one, two in zip(found, OnnxRuntime(path).run(names[1:], {"x": x}), strict=True):
        np.testing.assert_array_equal(one, two)


def test_an_oracle_that_writes_over_what_it_gave_is_asked_once(tmp_path: Path) -> None:
    right = transformer(tmp_path)
    assert right.intermediates
    values = [*right.intermediates(False)]
    buffer = np.empty(max(array.size for _, _, array in values), np.float32)
    times = 0

    def in_one_buffer(_: bool) -> Iterator[Intermediate]:
        nonlocal times
        times += 1
        for number, said, array in values:
            buffer[: array.size] = array.reshape(-1)
            yield number, said, buffer[: array.size].reshape(array.shape)

    found = dataclasses.replace(right, intermediates=in_one_buffer)
    suite = carve(found, tmp_path / "x.suite", name="x")
    held = suite.manifest["oracle"]["operators"]
    assert held["held"] == held["of"] == len(suite.model_graph.kernel_nodes)
    assert times == 1


def test_a_value_that_could_be_either_has_no_partner(tmp_path: Path) -> None:
    model = transformer(tmp_path)
    opened = prepared(model, *lowered_with_documents(model))
    (run,) = opened.reference.record(opened.graphs)
    value = run.graph.nodes[0].outputs[0]
    own = run.arrays[value]

    def partner(**oracle: np.ndarray) -> str | None:
        pairs = paired(
            run, [one for said, array in oracle.items() if (one := seen(said, array))], [], lambda _: True
        ).all
        return pairs[value].said if value in pairs else None

    assert partner(itself=own, another=own + 1) == "itself"
    assert partner(one=own * np.float32(1 + 1e-6), other=own * np.float32(1 - 1e-6)) is None
    assert partner(far=own * 2) is None


def test_who_chooses_between_near_equals_gives_what_nothing_else_does(tmp_path: Path) -> None:
    """A detector's classes: which is the most likely may hang on the last place of two scores."""
    model = transformer(tmp_path)
    opened = prepared(model, *lowered_with_documents(model))
    (right,) = opened.reference.record(opened.graphs)
    first, second = (
        right.graph.kernel_nodes[0],
        next(node for node in right.graph.kernel_nodes if right.graph.kernel_nodes[0].outputs[0] in node.inputs),
    )
    (given, *_), (chosen,), (behind, *_) = first.inputs, first.outputs, second.outputs

    def told(jumps: bool, **moved: np.ndarray) -> set[str]:
        run = dataclasses.replace(right, arrays={**right.arrays, **moved})
        return {node.id for node, _ in strangers(run, right, lambda node: jumps and node is first)}

    other = {chosen: right.arrays[chosen] + 3, behind: right.arrays[behind] + 5}
    near = {given: right.arrays[given] * np.float32(1 + 2e-7)}
    assert told(jumps=False) == set()
    assert told(jumps=False, **other, **near) == told(jumps=True, **other) == {first.id, second.id}
    assert told(jumps=True, **other, **near) == set()
    whole = {value: right.arrays[value].astype(np.int32) for value in right.graph.outputs}
    assert told(jumps=False, **other, **whole) == set(), "no float is made of it, and those alone are known in detail"


ROWS = """<ir_version: 10, opset_import: ["": 17]>
agraph (float[3] x) => (float[3] last, float[N, 3] rows) {
    limit = Constant<value = float {20}>()
    most = Constant<value = int64 {4}>()
    sum = ReduceSum<keepdims = 0>(x)
    large = Greater(sum, limit)
    last, rows = Loop(most, large, x) <
        body = turn (int64 i, bool going, float[3] before) => (bool goes, float[3] after, float[3] row) {
            after = Add(before, x)
            row = Mul(after, after)
            total = ReduceSum<keepdims = 0>(row)
            goes = Less(total, limit)
        }
    >
}"""


def test_outputs_that_a_model_in_detail_lacks_are_no_strangers(tmp_path: Path) -> None:
    """How many rows there are is known from values alone, so that the model in detail does not make them at all."""
    onnx.save(onnx.parser.parse_model(ROWS), tmp_path / "rows.onnx")
    np.savez(tmp_path / "x.npz", x=np.array([1, 2, 3], np.float32))
    model = import_model(str(tmp_path / "rows.onnx"), input_files=[tmp_path / "x.npz"])
    assert model.in_detail is not None
    detailed = model.in_detail()

    def recorded(model: ImportedModel, *, fusing: bool = True) -> Run:
        opened = prepared(model, *lowered_with_documents(model, fusing=fusing))
        (run,) = opened.reference.record(opened.graphs)
        return run

    assert strangers(recorded(model), recorded(detailed, fusing=False), lambda _: False) == []


def test_a_module_that_does_not_write_all_it_gives_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((8,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.relu(x))
        builder.emit_func_output(out)
    module = builder.finalize()
    assert compile(module).functions.keys() == {"main"}
    i, n = (Expression("variable", "int64", (), name) for name in "in")
    store = Store("y", (n,), Expression("load", "float32", (n,), "x"))
    block = Block("b", (Loop("i", "int64", 6),), (Axis("n", "int64", 6, False, i),), (), (store,))
    half = OperatorProgram("relu", None, (Buffer("x", "float32", (8,)), Buffer("y", "float32", (8,))), (), (block,))
    monkeypatch.setattr("tapml.lowering.operator.program_of", lambda *_: half)
    with pytest.raises(InputError, match=r"main: operator relu \(node n000\) gives another .*it does not write all"):
        compile(module)


def test_what_rounding_explains_of_a_number_is_that_of_an_array_of_one() -> None:
    number, array = (Explained(np.full(shape, 3, np.float32), 4, 1.0, jumps=False) for shape in ((), (1,)))
    for moved in (1e-7, 2e-7):
        assert number.times(np.array(moved)) == array.times(np.array([moved])) > 0
        number.add(np.array(moved))
        array.add(np.array([moved]))


def coarse(model: ImportedModel, said: str) -> Callable[[bool], Iterator[Intermediate]]:
    """The values of a model's oracles, of which the first is off by more than rounding in one of them."""
    assert model.intermediates

    def values(second: bool) -> Iterator[Intermediate]:
        assert model.intermediates
        for number, name, array in model.intermediates(second):
            off = said in name and not second
            yield number, name, array * np.float32(1 + 1e-4) if off else array

    assert any(said in name for _, name, _ in model.intermediates(False))
    return values


def test_what_pytorch_computes_coarsely_is_no_fault_of_an_import(tmp_path: Path) -> None:
    """Its convolutions of many channels are off by more than what is simulated. Here it is a norm, on any processor."""
    right = exported(tmp_path, Small())
    assert checked(dataclasses.replace(right, intermediates=coarse(right, "'layer_norm'"))) == []
    alone = dataclasses.replace(right, intermediates=coarse(right, "'layer_norm'"), second=None, in_detail=None)
    doubts = checked(alone, keep_disagreeing=True)
    assert "'layer_norm'" in doubts[0]


def test_a_wrong_operator_is_found_by_both_oracles_of_a_torch_program(tmp_path: Path) -> None:
    right, wrong = exported(tmp_path, Small()), exported(tmp_path, Small(epsilon=1e-6))
    steps = [dataclasses.replace(w, expected=r.expected) for w, r in zip(wrong.steps, right.steps, strict=True)]
    of_both = dataclasses.replace(
        wrong, steps=steps, intermediates=right.intermediates, second=right.second, in_detail=None, again=None
    )
    doubts = checked(of_both, keep_disagreeing=True)
    assert "layer_norm" in doubts[0]


class Branches(nn.Module):
    """What all branches read is more than a kernel may bind."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(4))
        for norm in self.norms:
            nn.init.normal_(norm.running_mean, std=0.3)
            nn.init.normal_(norm.weight, 1.0, 0.3)
            nn.init.normal_(norm.bias, std=0.3)

    def forward(self, x: Tensor) -> Tensor:
        one, two, three, four = self.norms
        y = functional.relu(one(self.first(x)) + two(self.second(x)) + three(x))
        return four(y) + y


def test_kernels_that_end_within_an_operator_of_the_oracle_are_in_no_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there would be too many buffers, a convolution and its bias may be two kernels."""
    monkeypatch.setattr("tapml.lowering.fuse.MOST_BUFFERS", 6)
    x = torch.randn(1, 4, 6, 6, generator=torch.Generator().manual_seed(1))
    torch.export.save(torch.export.export(Branches().eval(), (x,)), tmp_path / "branches.pt2")
    np.savez(tmp_path / "x.npz", x=x.numpy())
    model = import_model(str(tmp_path / "branches.pt2"), input_files=[tmp_path / "x.npz"])
    suite = carve(model, tmp_path / "branches.suite", name="branches")
    assert suite.doubts == []
    assert "conv2d" in suite.kernels, "none ends before its bias is added"


def test_pytorch_computes_exactly(tmp_path: Path) -> None:
    random = torch.Generator().manual_seed(0)
    x, w = torch.randn(1, 48, 9, 9, generator=random), torch.randn(16, 48, 3, 3, generator=random)
    with torch.no_grad():
        wanted = functional.conv2d(x.double(), w.double()).float()
        with exactly():
            assert torch.equal(functional.conv2d(x, w), wanted)
            y = x.clone()
            assert torch.equal(y.relu_(), y)  # written in place
            assert (y >= 0).all()
            assert functional.softmax(x.half(), 1, dtype=torch.float32).dtype == torch.float32
            assert (x.half() * 3).dtype == torch.float16
            assert x.argmax(1).dtype == torch.int64
        assert not torch.equal(functional.conv2d(x, w), wanted)


class Window(nn.Module):
    """Reads around a grid of whole places, the outermost of which lie outside, as optical flow begins."""

    def __init__(self, off: float = 0.0) -> None:
        super().__init__()
        self.off = off

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(12).to(torch.float32) - 2
        grid = torch.stack(torch.meshgrid(places, places, indexing="xy"), -1)[None]
        image = torch.cat([x, x])[None, None]
        return functional.grid_sample(image, grid * 2 / 15 - 1 + self.off, align_corners=True)


def test_what_is_computed_at_import_rounds_as_well(tmp_path: Path) -> None:
    """The weights are 0 and 1: PyTorch's are 1e-6 away, for it is given -1/3 as a number of float32."""
    right, wrong = exported(tmp_path, Window()), exported(tmp_path, Window(1e-6))
    assert checked(right) == []
    assert "x what rounding explains" in checked(mistaken(wrong, right), keep_disagreeing=True)[0]


def test_what_is_computed_again_goes_over_no_step(tmp_path: Path) -> None:
    model = exported(tmp_path, Window())
    assert model.otherwise
    computed = {name: array for name, array in model.parameters if name in model.otherwise.names}
    assert {float(number) for array in computed.values() for number in array.flat} == {0, 1}
    for others in model.otherwise.found():
        for name, array in others.items():
            away = np.abs(array - computed[name]).max()
            assert 0 < away < 2e-5


class Warp(nn.Module):
    """Reads each place of an image where it is."""

    def __init__(self, off: float = 0.0) -> None:
        super().__init__()
        self.off = off

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(16).to(torch.float32)
        grid = torch.stack(torch.meshgrid(places, places, indexing="xy"), -1)[None]
        return functional.grid_sample(x, grid * 2 / 15 - 1 + self.off, align_corners=True).softmax(-1)


def test_of_values_that_arithmetic_leaves_alike_the_last_is_held(tmp_path: Path) -> None:
    """What is read is to the last bit what weights of 0 and 1 make of it. PyTorch has the latter alone, off by what its
    weights are rounded by: more than a copy may be."""
    right, wrong = (exported(tmp_path, Warp(off), 1, 3, 16, 16) for off in (0.0, 1e-6))
    assert checked(right) == []
    doubt, *_ = checked(mistaken(wrong, right), keep_disagreeing=True)
    assert "x what rounding explains" in doubt
