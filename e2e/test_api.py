"""The Python API on the CPU and in both browsers (TapML paper, Figure 5)."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

import tapml as tml
from tapml.errors import InputError

ROWS, WIDTH = 16, 64


def transformer_block() -> tvm.IRModule:
    """transformer_block(x, wq, wk, wv, w1, w2): one-head attention and a gelu MLP, each with its residual."""
    builder = relax.BlockBuilder()

    def var(name: str, *shape: int) -> relax.Var:
        return relax.Var(name, relax.TensorType(shape, "float32"))

    x, wq, wk, wv = var("x", ROWS, WIDTH), *(var(n, WIDTH, WIDTH) for n in ("wq", "wk", "wv"))
    w1, w2 = var("w1", WIDTH, 4 * WIDTH), var("w2", 4 * WIDTH, WIDTH)
    op = relax.op
    with builder.function("transformer_block", [x, wq, wk, wv, w1, w2]):
        with builder.dataflow():
            scores = builder.emit(op.matmul(op.matmul(x, wq), op.permute_dims(op.matmul(x, wk))))
            weights = builder.emit(op.nn.softmax(op.multiply(scores, relax.const(WIDTH**-0.5, "float32"))))
            mixed = builder.emit(op.add(x, op.matmul(weights, op.matmul(x, wv))))
            out = builder.emit_output(op.add(mixed, op.matmul(op.nn.gelu(op.matmul(mixed, w1)), w2)))
        builder.emit_func_output(out)
    return builder.finalize()


def arrays() -> list[np.ndarray]:
    random = np.random.default_rng(5)
    shapes = [(ROWS, WIDTH), *[(WIDTH, WIDTH)] * 3, (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
    return [(random.standard_normal(shape) / 8).astype(np.float32) for shape in shapes]


def run(device: tml.api.Device) -> np.ndarray:  # type: ignore[name-defined]
    library = tml.upload(tml.compile(transformer_block(), device), device)
    inputs = [tml.tensor(array, device) for array in arrays()]
    y = tml.allocate((ROWS, WIDTH), "float32", device)
    library.get_function("transformer_block")(*inputs, y)
    return y.numpy()


@pytest.mark.parametrize("browser", ["chromium", "firefox"])
def test_a_transformer_block_gives_the_same_on_both_platforms(browser: str) -> None:
    np.testing.assert_allclose(run(tml.webgpu(browser)), run(tml.cpu()), rtol=1e-4, atol=1e-5)


def test_tensors_come_back_as_they_went() -> None:
    device = tml.webgpu("chromium")
    for array in (np.arange(7, dtype=np.int32), np.ones((3, 5), np.float16), np.arange(9, dtype=np.uint8)):
        np.testing.assert_array_equal(tml.tensor(array, device).numpy(), array)
    assert np.isnan(tml.allocate((5,), "float32", device).numpy()).all()


def test_wrong_arguments_are_explained() -> None:
    library = tml.upload(tml.compile(transformer_block()), tml.cpu())
    function = library.get_function("transformer_block")
    inputs = [tml.tensor(array) for array in arrays()]
    with pytest.raises(InputError, match="takes 6 inputs and 1 outputs, 6 arguments"):
        function(*inputs)
    with pytest.raises(InputError, match=r"argument 6 .* is float32\[3\], not float32\[16, 64\]"):
        function(*inputs, tml.allocate((3,), "float32"))
    with pytest.raises(InputError, match="no function 'main'; it has transformer_block"):
        library.get_function("main")
    with pytest.raises(InputError, match="convert it to float32"):
        tml.tensor(np.zeros(3))
