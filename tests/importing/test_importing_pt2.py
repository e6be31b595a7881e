"""Exported PyTorch programs with int64 inputs and a dynamic sequence."""

from __future__ import annotations

import builtins
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tvm import relax

import tapml as tml
from tapml.errors import InputError
from tapml.importing import exported_program, import_model
from tapml.importing.torch_fixes import converters
from tapml.importing.torch_program import ProgramImporter
from tapml.importing.torch_widened import NOTE
from tapml.lowering.lower import lower

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tied embedding, masked attention, integer arithmetic, argmax, bool output."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(30, 8)
            self.query = torch.nn.Linear(8, 8)
            self.register_buffer("scale", torch.rand(8))

        def forward(self, ids: Any, mask: Any) -> Any:
            x = self.table(ids) * self.scale
            keep = mask[:, None, :] > 0
            y = torch.nn.functional.scaled_dot_product_attention(self.query(x), x, x, keep)
            logits = y @ self.table.weight.T
            return {"best": logits.argmax(-1), "half": (ids * 3 - 7) // 2, "keep": keep, "y": y}

    torch.manual_seed(0)
    ids = torch.randint(0, 30, (1, 6))
    length = torch.export.Dim("length", min=2, max=64)
    exported = torch.export.export(
        Model().eval(),
        (ids,),
        {"mask": torch.ones(1, 6, dtype=torch.int64)},
        dynamic_shapes={"ids": {1: length}, "mask": {1: length}},
    )
    path = tmp_path_factory.mktemp("pt2") / "model.pt2"
    torch.export.save(exported, path)
    return path


def test_matches_torch(program: Path, tmp_path: Path, matches: Callable[..., None]) -> None:
    ids = np.array([[4, 29, 0, 11, 5, 5, 8, 1, 2]], np.int64)
    np.savez(tmp_path / "in.npz", ids=ids, mask=(ids != 5).astype(np.int64))
    model = import_model(str(program), input_files=[tmp_path / "in.npz"])
    assert model.oracle
    assert model.oracle.startswith("torch ")
    assert model.steps[0].inputs["ids"].shape == (1, 9)
    names = [name for name, _ in model.parameters]
    assert {"table.weight", "query.weight.T", "query.bias", "scale"} <= set(names)
    assert names.count("table.weight") == 1
    matches(model)


def test_random_inputs(program: Path) -> None:
    model = import_model(str(program), random_inputs=True)
    assert model.steps[0].inputs["ids"].shape == (1, 6)
    assert 1 < model.steps[0].inputs["ids"].max() < 30


def test_half_precision_passes_through(tmp_path: Path, matches: Callable[..., None]) -> None:
    import torch

    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    exported = torch.export.export(layers.half().eval(), (torch.rand(3, 8, dtype=torch.float16),))
    torch.export.save(exported, tmp_path / "half.pt2")
    model = import_model(str(tmp_path / "half.pt2"), random_inputs=True)
    assert {array.dtype.name for _, array in model.parameters} == {"float16"}
    matches(model, atol=2e-3)


def test_convolutions_of_half_precision_are_kernels_that_take_their_bias(
    tmp_path: Path, matches: Callable[..., None]
) -> None:
    import torch

    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(4, 8, 3, padding=1),
        torch.nn.ConvTranspose2d(8, 4, 2, stride=2),
        torch.nn.Conv2d(4, 4, 3, groups=2, bias=False),
        torch.nn.Flatten(2),
        torch.nn.Conv1d(4, 6, 3, dilation=2),
        torch.nn.ConvTranspose1d(6, 2, 3),
    )
    exported = torch.export.export(layers.half().eval(), (torch.rand(1, 4, 5, 5).half(),))
    torch.export.save(exported, tmp_path / "half.pt2")
    model = import_model(str(tmp_path / "half.pt2"), random_inputs=True)
    matches(model, atol=2e-3)
    lowered = lower(model.module, 1)
    # Each convolution is one kernel, whose sums are of float32 and rounded once; the rest are views.
    assert [operator.external for operator in lowered.operators] == [None] * 5


def test_a_running_sum_of_bools_counts(tmp_path: Path, matches: Callable[..., None]) -> None:
    import torch

    class Count(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            places = torch.cumsum(torch.arange(x.shape[0]) % 2 == 0, dim=0)
            return x + places, torch.cumsum(x > 0, dim=0).float(), torch.cumsum(x > 1, 0, dtype=torch.float32) / 2

    torch.export.save(torch.export.export(Count(), (torch.zeros(6),)), tmp_path / "count.pt2")
    np.savez(tmp_path / "in.npz", x=np.array([1, -1, 2, 3, -2, 5], np.float32))
    matches(import_model(str(tmp_path / "count.pt2"), input_files=[tmp_path / "in.npz"]))


def test_a_size_that_follows_from_another_is_refused(tmp_path: Path) -> None:
    """PyTorch itself cannot decompose such a program once it was saved, and says nothing of sizes."""
    import torch

    class Pairs(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.reshape(-1, 2).sum(1)

    shapes = {"x": {0: 2 * torch.export.Dim("pairs", min=2, max=64)}}
    torch.export.save(torch.export.export(Pairs(), (torch.zeros(8),), dynamic_shapes=shapes), tmp_path / "pairs.pt2")
    with pytest.raises(
        InputError, match=r"pairs\.pt2: the input x has the size 2\*\w+, which follows from another one"
    ):
        import_model(str(tmp_path / "pairs.pt2"))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_negative_index_counts_from_the_end(dynamic: bool, tmp_path: Path, matches: Callable[..., None]) -> None:
    """TVM's importer reads before the first element."""
    import torch

    class Last(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x[:, -1] + x[:, -2] + x[0, 1]

    shapes = {"x": {1: torch.export.Dim("length", min=2, max=64)}} if dynamic else None
    exported = torch.export.export(Last(), (torch.zeros(2, 3, 4),), dynamic_shapes=shapes)
    torch.export.save(exported, tmp_path / "last.pt2")
    np.savez(tmp_path / "in.npz", x=np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    matches(import_model(str(tmp_path / "last.pt2"), input_files=[tmp_path / "in.npz"]))


def test_wrong_input_names_the_expected(program: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", input=np.ones((1, 4), np.int64))
    with pytest.raises(InputError, match=r"the input 'ids' is missing: it has input, and the model takes ids int64"):
        import_model(str(program), input_files=[tmp_path / "in.npz"])


def test_a_place_that_depends_on_values_says_what_to_write_instead(tmp_path: Path) -> None:
    import torch

    class Cache(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(8, 5))

        def forward(self, x: Any, place: Any) -> Any:
            self.cache[place.sum().item()] = x[0]
            return self.cache @ x.T

    exported = torch.export.export(Cache(), (torch.zeros(4, 5), torch.tensor([1, 0])))
    torch.export.save(exported, tmp_path / "cache.pt2")
    with pytest.raises(InputError, match=r"decompose 'self.cache\[place.sum\(\).item\(\)\] = .*index_copy") as refused:
        import_model(str(tmp_path / "cache.pt2"), random_inputs=True)
    assert "tlparse" not in str(refused.value)


@pytest.mark.filterwarnings("ignore:The tensor attribute")  # of how PyTorch keeps their weights
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(kind: str, bidirectional: bool, tmp_path: Path, matches: Callable[..., None]) -> None:
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = getattr(torch.nn, kind)(
                3, 4, num_layers=2, batch_first=bidirectional, bidirectional=bidirectional
            )

        def forward(self, x: Any) -> Any:
            return self.layers(x)

    torch.manual_seed(0)
    torch.export.save(torch.export.export(Model().eval(), (torch.zeros(3, 3, 3),)), tmp_path / "model.pt2")
    matches(import_model(str(tmp_path / "model.pt2"), random_inputs=True))


def test_bfloat16_is_computed_in_float32(tmp_path: Path, matches: Callable[..., None]) -> None:
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.layer = torch.nn.Embedding(9, 4), torch.nn.Linear(4, 4)

        def forward(self, ids: Any, scale: Any) -> Any:
            x = self.layer(self.table(ids)) * scale
            return x.float().softmax(-1).to(torch.bfloat16) + torch.ones(4, dtype=torch.bfloat16)

    inputs = torch.tensor([[1, 2]]), torch.ones(4, dtype=torch.bfloat16)
    torch.export.save(torch.export.export(Model().bfloat16().eval(), inputs), tmp_path / "narrow.pt2")
    np.savez(tmp_path / "in.npz", ids=inputs[0].numpy(), scale=np.arange(4).astype(ml_dtypes.bfloat16))
    model = import_model(str(tmp_path / "narrow.pt2"), input_files=[tmp_path / "in.npz"])
    assert NOTE in model.provenance["notes"]
    assert {str(array.dtype) for _, array in model.parameters} == {"float32"}
    matches(model)


@pytest.fixture
def counting(tmp_path: Path) -> tuple[Path, list[Path]]:
    """A program whose buffer is written, behind two layers, with the inputs of two calls."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.last = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x: Any) -> Any:
            y = self.last(torch.nn.functional.silu(self.norm(self.first(x))))
            self.seen.add_(y.mean(0))
            return y * 2 + self.seen, y.exp()

    torch.manual_seed(0)
    torch.export.save(torch.export.export(Model().eval(), (torch.randn(5, 8),)), tmp_path / "counting.pt2")
    random = np.random.default_rng(0)
    for name in ("one.npz", "two.npz"):
        np.savez(tmp_path / name, x=random.standard_normal((5, 8)).astype(np.float32))
    return tmp_path / "counting.pt2", [tmp_path / "one.npz", tmp_path / "two.npz"]


def test_what_a_program_keeps_is_checked_call_by_call(counting: tuple[Path, list[Path]]) -> None:
    path, inputs = counting
    model = import_model(str(path), input_files=inputs)
    assert model.again is not None
    for _ in range(2):  # the oracle begins anew each time
        for step, again in zip(model.steps, model.again(), strict=True):
            assert step.expected is not None
            np.testing.assert_array_equal(step.expected[0], again[0])
    assert tml.load(path, input_files=inputs).main == "main"


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        ("sigmoid.default", r"'sigmoid', which sigmoid\.default gives"),
        (
            "native_layer_norm.default",
            r"'getitem', output 0 of native_layer_norm\.default \(node 'native_layer_norm'\)",
        ),
        ("exp.default", r"'exp', which exp\.default gives"),
    ],
)
def test_a_wrong_operator_is_named(
    counting: tuple[Path, list[Path]], monkeypatch: pytest.MonkeyPatch, operator: str, words: str
) -> None:
    """Off by 1e-3, of some values about 1."""

    def wrong(node: Any, importer: ProgramImporter) -> Any:
        found = importer.as_tvm(node)
        emit, off = importer.block_builder.emit, relax.const(1e-3, "float32")
        if not isinstance(found.ty, relax.TupleType):
            return emit(relax.op.add(found, off))
        parts = [emit(relax.TupleGetItem(found, place)) for place in range(len(found.ty.fields))]
        return emit(relax.Tuple([emit(relax.op.add(parts[0], off)), *parts[1:]]))

    monkeypatch.setattr(exported_program, "converters", lambda bounds: {**converters(bounds), operator: wrong})
    with pytest.raises(
        InputError, match=rf"disagrees with torch .*the first value that differs is {words}: element \["
    ):
        tml.load(counting[0], input_files=counting[1])


def test_both_branches_are_computed(tmp_path: Path, matches: Callable[..., None]) -> None:
    import torch

    class Branch(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.cond(x.sum() > 0, lambda x, y: (x + y, y * 2), lambda x, y: (x - y, y.flip(0)), (x, y))

    torch.export.save(torch.export.export(Branch(), (torch.zeros(3), torch.zeros(3))), tmp_path / "branch.pt2")
    for sign in (1, -1):
        np.savez(tmp_path / "in.npz", x=sign * np.ones(3, np.float32), y=np.arange(3, dtype=np.float32))
        matches(import_model(str(tmp_path / "branch.pt2"), input_files=[tmp_path / "in.npz"]))


@pytest.mark.parametrize(
    ("expression", "operator", "reason"),
    [
        ("torch.nonzero(x)", "nonzero.default", "a size depends on values"),
        ("x[x > 0]", "index.Tensor", "a size depends on values"),
        ("x + torch.rand(3)", "rand.default", "it draws random numbers"),
        ("torch.nn.functional.dropout(x, training=True)", "bernoulli", "it draws random numbers"),
    ],
)
def test_what_depends_on_values_or_chance_is_refused(
    expression: str, operator: str, reason: str, tmp_path: Path
) -> None:
    import torch

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return eval(expression, {"torch": torch, "x": x})

    torch.export.save(torch.export.export(Model(), (torch.ones(3),)), tmp_path / "model.pt2")
    with pytest.raises(InputError, match=r"model.pt2: .*the operator .* \(at ") as refused:
        import_model(str(tmp_path / "model.pt2"), random_inputs=True)
    assert refused.value.reason == reason
    assert refused.value.operator
    assert refused.value.operator.startswith((operator, "native_dropout"))


def test_complex_constants_are_pairs_here_and_stay_as_they_are_for_the_oracle(
    tmp_path: Path, matches: Callable[..., None]
) -> None:
    """PyTorch shares constants between a program and what it is decomposed into."""
    import torch

    class Turned(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.turns = torch.polar(torch.ones(3, 1), torch.arange(3.0)[:, None])

        def forward(self, x: Any) -> Any:
            return torch.view_as_real(torch.view_as_complex(x) * self.turns)

    torch.export.save(torch.export.export(Turned(), (torch.zeros(3, 4, 2),)), tmp_path / "turned.pt2")
    model = import_model(str(tmp_path / "turned.pt2"), random_inputs=True)
    assert model.oracle is not None, model.oracle_missing
    matches(model)


def test_a_program_that_writes_its_weights_is_refused(tmp_path: Path) -> None:
    """RWKV's does, exported before its first call (`rescale_every`)."""
    import torch

    class Halved(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))

        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                self.weight.div_(2)
            return x * self.weight

    torch.export.save(torch.export.export(Halved(), (torch.zeros(4),)), tmp_path / "halved.pt2")
    with pytest.raises(InputError, match=r"halved.pt2: the program writes the parameter weight at every call: make it"):
        import_model(str(tmp_path / "halved.pt2"), random_inputs=True)


def test_a_dtype_that_webgpu_lacks_is_named_with_its_operator(tmp_path: Path) -> None:
    import torch

    class Spectrum(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.fft.fft(x * 2)

    torch.export.save(torch.export.export(Spectrum(), (torch.zeros(4),)), tmp_path / "fft.pt2")
    with pytest.raises(
        InputError, match=r"fft.pt2: the operator .* \(at .*\): WebGPU has no complex64: export"
    ) as refused:
        import_model(str(tmp_path / "fft.pt2"), random_inputs=True)
    assert refused.value.refusal() == {
        "operator": refused.value.operator,
        "node": refused.value.node,
        "reason": "WebGPU has no complex64",
    }
    assert refused.value.operator
    assert refused.value.node


def test_a_view_after_attention_is_decomposed(tmp_path: Path, matches: Callable[..., None]) -> None:
    """PyTorch's own decomposition leaves other strides behind attention than those that the view was traced with."""
    import torch

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
            return y.transpose(1, 2).reshape(1, 3, 8).view(-1, 8) @ torch.eye(8)

    torch.export.save(torch.export.export(Model(), (torch.zeros(1, 2, 3, 4),)), tmp_path / "model.pt2")
    matches(import_model(str(tmp_path / "model.pt2"), random_inputs=True))


def test_a_program_that_pytorch_cannot_load_says_so(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "later.pt2"
    with zipfile.ZipFile(program) as archive, zipfile.ZipFile(path, "w") as changed:
        for member in archive.infolist():
            data = archive.read(member)
            changed.writestr(member, data.replace(b'"graph_module"', b'"graph_modules"'))
    with pytest.raises(
        InputError, match=r"later.pt2 was written by torch.export.save, but PyTorch .* cannot load it \("
    ):
        import_model(str(path), random_inputs=True)


def test_broken_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.pt2").write_bytes(b"not a zip file")
    with pytest.raises(InputError, match=r"is not a program that torch\.export\.save wrote"):
        import_model(str(tmp_path / "broken.pt2"), random_inputs=True)
    assert capfd.readouterr().err == ""


def test_without_torch(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def hidden(name: str, *rest: Any, **named: Any) -> Any:
        if name == "torch":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", hidden)
    with pytest.raises(InputError, match=r"needs PyTorch: pip install 'tapml\[torch\]'"):
        import_model(str(program), random_inputs=True)
