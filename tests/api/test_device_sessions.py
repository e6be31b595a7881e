"""What stays true when calls fail, devices go and come, and there is much of everything."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from executing_runner import ExecutingRunner
from modules import elementwise

import tapml as tml


@pytest.fixture
def runner() -> ExecutingRunner:
    return ExecutingRunner()


def ones() -> np.ndarray:
    return np.ones(4, np.float32)


def uploaded(runner: ExecutingRunner, *names: str) -> tml.LoadedLibrary:
    return tml.upload(tml.compile(elementwise(*(names or ("add",))), runner.device), runner.device)


def test_what_a_failed_message_would_have_freed_is_freed_nevertheless(runner: ExecutingRunner) -> None:
    add = uploaded(runner)["add"]
    x = tml.tensor(ones(), runner.device)
    runner.device.synchronize()
    before = len(runner.tensors)
    for known in ({"command": None, "done": None}, {}):
        dropped = [tml.allocate((4,), "float32", runner.device) for _ in range(20)]
        runner.device.synchronize()
        runner.fail_next_call = known
        with pytest.raises(tml.DeviceError), tml.batch(runner.device):  # noqa: PT012 (the end of the batch raises)
            add(x, x, dropped[0])
            dropped.clear()
            gc.collect()
        runner.device.synchronize()
        assert len(runner.tensors) == before


def test_a_device_that_is_replaced_in_the_first_call_is_good_for_it(runner: ExecutingRunner) -> None:
    """The runner finds the loss at the next call: whoever gets the device anew must not be told of it again."""
    before = tml.tensor(ones(), runner.device)
    runner.device.synchronize()
    runner.replace_gpu_in_next_call = True
    x = tml.tensor(ones(), runner.new_device())
    assert x.numpy().sum() == 4
    with pytest.raises(tml.DeviceLost, match=r"(?s)replaced.*tml\.webgpu"):
        before.numpy()
    runner.lose_gpu()
    with pytest.raises(tml.DeviceLost, match=r"(?s)replaced.*tml\.webgpu"):
        x.numpy()


def test_a_function_that_fails_midway_leaves_nothing(runner: ExecutingRunner) -> None:
    module = elementwise("chain")
    runner.kernels = dict.fromkeys(_kernels(module), runner.kernels["add"])
    chain = tml.upload(tml.compile(module, runner.device), runner.device)["chain"]
    x, y = tml.tensor(ones(), runner.device), tml.allocate((4,), "float32", runner.device)
    runner.device.synchronize()
    before = len(runner.tensors)
    for _ in range(5):
        runner.fail_next_call = {}
        chain(x, x, y)
        with pytest.raises(tml.DeviceError):
            runner.device.synchronize()
    runner.device.synchronize()
    assert len(runner.tensors) == before


def test_tensors_allocated_behind_a_failed_call_are_there(runner: ExecutingRunner) -> None:
    add = uploaded(runner)["add"]
    x, y = tml.tensor(ones(), runner.device), tml.allocate((4,), "float32", runner.device)
    runner.fail_next_call = {}
    with pytest.raises(tml.DeviceError, match="no"), tml.batch(runner.device):  # noqa: PT012 (its end raises)
        add(x, x, y)
        z = tml.allocate((4,), "float32", runner.device)
    add(x, x, z)
    np.testing.assert_array_equal(z.numpy(), 2 * ones())


def test_a_large_batch_is_cut_into_messages_that_may_travel(runner: ExecutingRunner) -> None:
    add = uploaded(runner)["add"]
    x, y = tml.tensor(ones(), runner.device), tml.tensor(ones(), runner.device)
    runner.device.synchronize()
    before = len(runner.messages)
    with tml.batch(runner.device):
        for _ in range(150_000):
            add(x, x, y)
        np.testing.assert_array_equal(y.numpy(), 2 * ones())
    sent = runner.messages[before:]
    assert sum(command["op"] == "call" for commands in sent for command in commands) == 150_000
    assert 1 < len(sent) < 20


def test_ten_thousand_calls_leave_nothing(runner: ExecutingRunner) -> None:
    add = uploaded(runner)["add"]
    x = tml.tensor(ones(), runner.device)
    runner.device.synchronize()
    before = len(runner.tensors)
    for _ in range(10_000):
        y = tml.allocate((4,), "float32", runner.device)
        add(x, x, y)
    np.testing.assert_array_equal(y.numpy(), 2 * ones())
    del y
    gc.collect()
    runner.device.synchronize()
    assert len(runner.tensors) == before
    assert threading.active_count() < 50


def test_a_closed_device_has_nothing_left_and_says_so(runner: ExecutingRunner) -> None:
    with runner.device as device:
        library = uploaded(runner)
        add = library["add"]
        x = tml.tensor(ones(), device)
        add(x, x, x)
        runner.fail_next_call = {}
        add(x, x, x)
    assert runner.tensors == {}
    assert runner.libraries == {}
    for use in (x.numpy, lambda: add(x, x, x), lambda: tml.tensor(ones(), device), device.synchronize):
        with pytest.raises(tml.InputError, match=r"was closed.*tml\.webgpu"):
            use()
    x.free()
    library.free()


@pytest.mark.parametrize("accident", ["restart", "lose_gpu"])
def test_a_device_that_was_lost_between_calls_says_so(runner: ExecutingRunner, accident: str) -> None:
    add = uploaded(runner)["add"]
    x = tml.tensor(ones(), runner.device)
    getattr(runner, accident)()
    for _ in range(2):
        with pytest.raises(tml.DeviceLost, match=r"(?s)lost.*tml\.webgpu"):
            x.numpy()
    with pytest.raises(tml.DeviceLost):
        add(x, x, x)
    assert not runner.device.session.alive


def test_a_reconnected_device_keeps_its_tensors(runner: ExecutingRunner) -> None:
    x = tml.tensor(ones(), runner.device)
    welcome = runner.runner.welcome
    runner.runner.cut()
    runner.runner.connect(resume={"device": welcome.device, "session": welcome.session, "calls": []})
    np.testing.assert_array_equal(x.numpy(), ones())


def test_a_freed_library_says_so(runner: ExecutingRunner) -> None:
    x = tml.tensor(ones(), runner.device)
    with uploaded(runner) as library:
        add = library["add"]
    for use in (lambda: add(x, x, x), lambda: library["add"]):
        with pytest.raises(tml.InputError, match=r"library.* was freed: upload it again"):
            use()


def test_a_dropped_library_is_unloaded_without_the_garbage_collector(runner: ExecutingRunner) -> None:
    gc.disable()
    try:
        library = uploaded(runner)
        add = library["add"]
        del library
        runner.device.synchronize()
        assert runner.libraries
        del add
        runner.device.synchronize()
        assert not runner.libraries
    finally:
        gc.enable()


def test_what_breaks_while_sending_is_told_and_does_not_end_the_session(
    runner: ExecutingRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = uploaded(runner)["add"]
    x = tml.tensor(ones(), runner.device)
    call = runner.runner.device.call

    def broken(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(runner.runner.device, "call", call)
        raise RuntimeError("the socket is a teapot")

    monkeypatch.setattr(runner.runner.device, "call", broken)
    add(x, x, x)
    with pytest.raises(tml.DeviceError, match="teapot"):
        runner.device.synchronize()
    add(x, x, x)
    np.testing.assert_array_equal(x.numpy(), 2 * ones())


def test_what_is_no_tensor_is_refused_before_it_harms_other_calls(runner: ExecutingRunner) -> None:
    add = uploaded(runner)["add"]
    x = tml.tensor(ones(), runner.device)
    add(x, x, x)
    for shape, dtype in (
        ((-1,), "float32"),
        ((2**40,), "float32"),
        ((1.5,), "float32"),
        ((4,), "float64"),
        (4, "int32"),
    ):
        with pytest.raises(tml.InputError, match=r"cannot be on every device|is no shape"):
            tml.allocate(shape, dtype, runner.device)  # type: ignore[arg-type]
    with pytest.raises(tml.InputError, match=r"argument 1 of add is a numpy.ndarray: .*tml\.tensor"):
        add(x, ones(), x)  # type: ignore[arg-type]
    with pytest.raises(tml.InputError, match=r"takes 3 arguments \(inputs: 2, outputs: 1\), 1 were given"):
        add(x)
    with pytest.raises(tml.InputError, match=r"'model.onnx' is no TVM IRModule.*tml\.load"):
        tml.compile("model.onnx")  # type: ignore[arg-type]
    np.testing.assert_array_equal(x.numpy(), 2 * ones())


def _kernels(module: Any) -> list[str]:
    return next(iter(tml.compile(module).functions.values())).graph.kernels
