"""The Python API on real devices (TapML paper, Figure 5): one program for the CPU, browsers, node and Deno."""

from __future__ import annotations

import gc
import math
from pathlib import Path

import numpy as np
import psutil
import pytest
import tvm
from tvm import relax
from tvm.relax.frontend import nn

import tapml as tml
from conftest import off_by_one, rewrite
from process_watch import command_line, processes_named
from tapml.api.devices import running_server
from tapml.protocol.methods import CallCommand

ROWS, WIDTH = 16, 64
DEVICES = ["chromium", "firefox", "node-dawn", "deno"]
reference = tml.cuda if tvm.cuda().exist else tml.cpu  # the paper has CUDA


class Block(nn.Module):
    """One-head attention and a gelu MLP, each with its residual; both are functions of their own too."""

    def __init__(self) -> None:
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def attention(self, x: nn.Tensor) -> nn.Tensor:
        scores = nn.op.matmul(self.query(x), nn.op.permute_dims(self.key(x), [1, 0])) * WIDTH**-0.5
        return x + nn.op.matmul(nn.op.softmax(scores, axis=-1), self.value(x))

    def mlp(self, x: nn.Tensor) -> nn.Tensor:
        return x + self.down(nn.op.gelu(self.up(x)))

    def transformer_block(self, x: nn.Tensor) -> nn.Tensor:
        return self.mlp(self.attention(x))


def transformer() -> tvm.IRModule:
    """Functions "transformer_block", "attention" and "mlp", each of x and all five weights."""
    x = {"x": nn.spec.Tensor([ROWS, WIDTH], "float32")}
    return Block().export_tvm(spec=dict.fromkeys(("transformer_block", "attention", "mlp"), x))[0]


def in_numpy(x: np.ndarray, *weights: np.ndarray) -> dict[str, np.ndarray]:
    """What the functions give, in float64."""
    query, key, value, up, down = (weight.astype(np.float64).T for weight in weights)

    def attention(x: np.ndarray) -> np.ndarray:
        exponentials = np.exp((x @ query) @ (x @ key).T * WIDTH**-0.5)
        return x + exponentials / exponentials.sum(-1, keepdims=True) @ (x @ value)

    def mlp(x: np.ndarray) -> np.ndarray:
        hidden = x @ up
        return x + (hidden * (1 + np.vectorize(math.erf)(hidden / np.sqrt(2))) / 2) @ down

    return {"attention": attention(x), "mlp": mlp(x), "transformer_block": mlp(attention(x))}


def elementwise(rows: int = 256, **operators: object) -> tvm.IRModule:
    """A module with a function name(x, y) for each operator."""
    builder = relax.BlockBuilder()
    for name, operator in operators.items():
        x, y = (relax.Var(n, relax.TensorType((rows,), "float32")) for n in "xy")
        with builder.function(name, [x, y]):
            with builder.dataflow():
                out = builder.emit_output(operator(x, y))  # type: ignore[operator]
            builder.emit_func_output(out)
    return builder.finalize()


def arrays() -> list[np.ndarray]:
    random = np.random.default_rng(5)
    shapes = [(ROWS, WIDTH), *[(WIDTH, WIDTH)] * 3, (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)]
    return [(random.standard_normal(shape) / 8).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("name", ["cpu", *DEVICES])
def test_figure_5(name: str) -> None:
    mod = transformer()
    device = reference() if name == "cpu" else tml.webgpu(name)

    lib = tml.compile(mod, device)
    remote = tml.upload(lib)
    inputs = [tml.tensor(array, device) for array in arrays()]

    for function, expected in in_numpy(*arrays()).items():
        f = remote.get_function(function)
        y = tml.allocate(f.outputs[0].shape, f.outputs[0].dtype, device)
        f(*inputs, y)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_library_knows_the_device_it_was_compiled_for() -> None:
    module = elementwise(add=relax.op.add)
    device = tml.webgpu("node-dawn")
    for target, where in ((device, device), ("cpu", tml.cpu()), (None, tml.cpu())):
        add = tml.compile(module, target).get_function("add")
        x, y = tml.tensor(np.ones(256, np.float32), where), tml.allocate((256,), "float32", where)
        add(x, x, y)
        assert y.numpy()[0] == 2
    library = tml.compile(module, "webgpu")
    with pytest.raises(tml.InputError, match=r"compiled for webgpu, not for one device: say which"):
        tml.upload(library)
    assert tml.upload(library, device).device is device
    with pytest.raises(tml.InputError, match="compiled for webgpu, not cpu"):
        tml.upload(library, tml.cpu())


@pytest.mark.slow
def test_a_model_file_is_a_module() -> None:
    device = tml.webgpu("node-dawn")
    module = tml.load("minilm", texts=["one sentence"])
    assert module.output[0].dtype == "float32"
    outputs = []
    for target in (tml.cpu(), device):
        library = tml.upload(tml.compile(module, target), target)
        ids = [np.ones(found.shape, found.dtype) for found in module.input]
        given = [tml.tensor(array, target) for array in [*ids, *module.parameters.values()]]
        out = tml.allocate(module.output[0].shape, "float32", target)
        library["main"](*given, out)
        outputs.append(out.numpy())
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", DEVICES)
def test_outputs_may_be_inputs_views_and_copies(name: str) -> None:
    device = tml.webgpu(name)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((6,), "float32"))
    with builder.function("f", [x]):
        with builder.dataflow():
            doubled = builder.emit(relax.op.add(x, x))
            out = builder.emit_output(relax.Tuple([relax.op.reshape(doubled, (2, 3)), x, doubled]))
        builder.emit_func_output(out)
    f = tml.upload(tml.compile(builder.finalize(), device), device)["f"]
    values = np.arange(6, dtype=np.float32)
    given = tml.tensor(values, device)
    view, copy = (tml.allocate(kind.shape, "float32", device) for kind in f.outputs[:2])
    f(given, view, copy, given)
    np.testing.assert_array_equal(view.numpy(), 2 * values.reshape(2, 3))
    np.testing.assert_array_equal(copy.numpy(), values)
    np.testing.assert_array_equal(given.numpy(), 2 * values)


def test_several_functions_and_a_batch() -> None:
    device = tml.webgpu("node-dawn")
    library = tml.upload(
        tml.compile(elementwise(add=relax.op.add, multiply=relax.op.multiply), device, variants=("64", "256")), device
    )
    x, y = (tml.tensor(np.full(256, value, np.float32), device) for value in (3, 4))
    total, product = (tml.allocate((256,), "float32", device) for _ in range(2))
    with tml.batch(device):
        library["add"](x, y, total)
        library["multiply"](x, total, product)
    np.testing.assert_array_equal(product.numpy(), np.full(256, 21, np.float32))


def test_tensors_come_back_as_they_went(tmp_path: Path) -> None:
    device = tml.webgpu("chromium")
    for array in (
        np.arange(7, dtype=np.int32), np.ones((3, 5), np.float16), np.arange(9, dtype=np.uint8), np.float32(3.5),
        np.zeros((0, 4), np.float32),
    ):  # fmt: skip
        np.testing.assert_array_equal(tml.tensor(array, device).numpy(), array)
    assert np.isnan(tml.allocate((5,), "float32", device).numpy()).all()
    # Large enough to stream, and not whole words.
    large = np.memmap(tmp_path / "weights", np.uint8, "w+", shape=(20_000_003,))
    large[:] = np.arange(20_000_003) % 251
    np.testing.assert_array_equal(tml.tensor(large, device).numpy(), large)


def test_dropped_tensors_and_libraries_are_freed() -> None:
    device = tml.webgpu("node-dawn")
    device.synchronize()
    before = device.memory["buffers"]  # type: ignore[attr-defined]
    kept = [tml.allocate((1000,), "float32", device) for _ in range(50)]
    assert device.memory["buffers"] == before + 50  # type: ignore[attr-defined]
    del kept
    gc.collect()
    assert device.memory["buffers"] == before  # type: ignore[attr-defined]
    with tml.allocate((1000,), "float32", device) as freed:
        pass
    with pytest.raises(tml.InputError, match="was freed"):
        freed.numpy()


@pytest.mark.slow
def test_ten_thousand_calls_leave_memory_flat() -> None:
    device = tml.webgpu("chromium")
    add = tml.upload(tml.compile(elementwise(add=relax.op.add), device), device)["add"]
    x = tml.tensor(np.ones(256, np.float32), device)

    def calls(count: int) -> None:
        for _ in range(count):
            y = tml.allocate((256,), "float32", device)
            add(x, x, y)
        assert y.numpy()[0] == 2

    def resident() -> tuple[int, int]:
        """Python's memory, and that of the process that runs the page."""
        gc.collect()
        children = psutil.Process().children(recursive=True)
        renderers = [c.memory_info().rss for c in children if "--type=renderer" in command_line(c)]
        return psutil.Process().memory_info().rss, max(renderers)

    calls(10_000)  # what calls in the background need at most is there from now on
    device.synchronize()
    memory, sizes = device.memory, [resident()]  # type: ignore[attr-defined]
    # A leak of 1 kB a call is 10 MB in every round; what a collector of garbage or
    # the allocator takes for itself, beside the threads of other tests, is not in each.
    for _ in range(4):
        calls(10_000)
        device.synchronize()
        after = device.memory  # type: ignore[attr-defined]
        assert after["buffers"] == memory["buffers"]
        assert after["bytes"] == memory["bytes"]
        assert after["idle_bytes"] < memory["idle_bytes"] + 50_000_000
        sizes.append(resident())
    python, renderer = np.diff(np.array(sizes), axis=0).min(axis=0)
    assert python < 8_000_000, sizes
    assert renderer < 60_000_000, sizes


def test_a_weight_set_is_never_held_twice(tmp_path: Path) -> None:
    """Python hashes and streams the array that is there; the same bytes are uploaded once."""
    device = tml.webgpu("node-dawn")
    array = np.memmap(tmp_path / "weights", np.float32, "w+", shape=(64 << 20,))
    array[::1024] = np.arange(len(array) // 1024)
    process = psutil.Process()
    before = process.memory_full_info().uss
    first = tml.tensor(array, device)
    second = tml.tensor(array, device)
    assert process.memory_full_info().uss - before < 100_000_000
    assert first.nbytes == 256 << 20
    used = device.memory["bytes"]  # type: ignore[attr-defined]
    del second
    gc.collect()
    assert device.memory["bytes"] == used  # type: ignore[attr-defined]  # both were one buffer


def read_and_write(add: tml.Function, x: tml.Tensor) -> None:
    """A call that WebGPU refuses: one buffer is read and written by one dispatch. Functions themselves avoid it."""
    library = add._kernels.name("add")  # type: ignore[attr-defined]
    command = CallCommand(library=library, kernel="add", arguments=[x.handle] * 3)
    add.device.session.do([command])  # type: ignore[attr-defined]


def test_an_error_comes_with_its_cause_and_its_place() -> None:
    device = tml.webgpu("chromium")
    add = tml.upload(tml.compile(elementwise(add=relax.op.add), device), device)["add"]
    x = tml.tensor(np.ones(256, np.float32), device)
    read_and_write(add, x)
    with pytest.raises(tml.DeviceError) as caught:
        device.synchronize()
    error = caught.value
    assert error.kind == "validation"
    assert error.kernel == "add"
    assert error.arguments == ["float32[256]"] * 3
    assert "writable usage" in str(error.gpu_message)
    assert "Chromium" in str(error)
    assert "arguments: float32[256]" in str(error)
    assert any("test_api.py" in note for note in error.__notes__)
    # The session goes on.
    y = tml.allocate((256,), "float32", device)
    add(x, x, y)
    assert y.numpy()[0] == 2


def test_blocking_calls_raise_where_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    device = tml.webgpu("node-dawn")
    add = tml.upload(tml.compile(elementwise(add=relax.op.add), device), device)["add"]
    x = tml.tensor(np.ones(256, np.float32), device)
    monkeypatch.setenv("TAPML_BLOCKING", "1")
    with pytest.raises(tml.DeviceError, match="kernel add"):
        read_and_write(add, x)


def test_after_a_loss_a_new_device_is_given() -> None:
    device = tml.webgpu("node-dawn")
    x = tml.tensor(np.ones(3, np.float32), device)
    # Playwright has a process of that name, too, and other servers have devices.
    ours = [
        child
        for child in processes_named("node")
        if child.environ().get("TAPML_RUNNER_URL", "").startswith(running_server().url)
    ]
    assert ours
    for child in ours:
        child.kill()
    with pytest.raises(tml.DeviceLost, match="ended unexpectedly"):
        x.numpy()
    with pytest.raises(tml.DeviceLost, match=r"tml\.webgpu"):
        x.numpy()
    again = tml.webgpu("node-dawn")
    assert tml.tensor(np.ones(3, np.float32), again).numpy().sum() == 3


def test_wrong_arguments_are_explained() -> None:
    library = tml.upload(tml.compile(transformer()))
    function = library.get_function("transformer_block")
    inputs = [tml.tensor(array) for array in arrays()]
    with pytest.raises(tml.InputError, match=r"takes 7 arguments \(inputs: 6, outputs: 1\), 6 were given"):
        function(*inputs)
    with pytest.raises(tml.InputError, match=r"argument 6 .* is float32\[3\], not float32\[16, 64\]"):
        function(*inputs, tml.allocate((3,), "float32"))
    with pytest.raises(tml.InputError, match="no function 'main'; it has transformer_block, attention, mlp"):
        library.get_function("main")
    with pytest.raises(tml.InputError, match="float64 cannot be on every device: convert it first"):
        tml.tensor(np.zeros(3))
    with pytest.raises(tml.InputError, match="no device 'netscape'"):
        tml.webgpu("netscape")


@pytest.mark.skipif(tvm.cuda().exist, reason="there is CUDA here")
def test_no_cuda_is_one_clear_error() -> None:
    with pytest.raises(tml.ToolchainError, match="there is no CUDA device on this machine"):
        tml.cuda()


def test_a_suite_is_validated(suite: Path) -> None:
    device = tml.webgpu("node-dawn")
    found = tml.validate(suite, device, kernels=["layer_norm"])
    assert found["summary"]["pass"] == found["summary"]["total"] == 12
    rewrite(suite, "layer_norm", off_by_one)
    test = found["tests"][3]["id"]
    wrong = tml.validate(tml.Suite(suite), device, tests=[test], save=True)
    assert [(result["id"], result["verdict"]) for result in wrong["tests"]] == [(test, "fail")]
    assert tml.Suite(suite).results("validation") == [wrong]
    with pytest.raises(tml.InputError, match="has no kernel 'softmax_2'"):
        tml.validate(suite, device, kernels=["softmax_2"])
    with pytest.raises(tml.InputError, match=r"tapml.cpu\(\) does not run WGSL kernels"):
        tml.validate(suite, tml.cpu())


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4", "uint2"])
@pytest.mark.parametrize("target", ["webgpu", "cpu"])
def test_a_dtype_that_no_device_has_is_refused_when_it_is_compiled(dtype: str, target: str) -> None:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((8,), dtype))
    with builder.function("f", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.add(x, x))
        builder.emit_func_output(out)
    with pytest.raises(tml.InputError, match=f"f: the tensor x is {dtype}, which no function on {target} has: convert"):
        tml.compile(builder.finalize(), target)
