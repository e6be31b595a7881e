"""Models and devices for tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tapml.compilers.tvm.compile import compile_variant
from tapml.compilers.tvm.variants import combine, parse_specs
from tapml.devices import Device, DeviceHub
from tapml.devices.device import PAGE_CLOSED
from tapml.importing import ImportedModel, Step
from tapml.kernels.bundle import CompiledKernel
from tapml.lowering.operator import Operator
from tapml.protocol.base import PROTOCOL_VERSION, Message
from tapml.protocol.session import Welcome

ROWS, WIDTH, HIDDEN = 6, 16, 32


def small_module(rows: object = ROWS) -> tvm.IRModule:
    """main(x, w1, b1, w2) = softmax(gelu(x @ w1 + b1) @ w2), with a reshape that becomes a view."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((rows, WIDTH), "float32"))
    w1 = relax.Var("w1", relax.TensorType((WIDTH, HIDDEN), "float32"))
    b1 = relax.Var("b1", relax.TensorType((HIDDEN,), "float32"))
    w2 = relax.Var("w2", relax.TensorType((HIDDEN, WIDTH), "float32"))
    with builder.function("main", [x, w1, b1, w2]):
        with builder.dataflow():
            hidden = builder.emit(relax.op.nn.gelu(relax.op.add(relax.op.matmul(x, w1), b1)))
            logits = builder.emit(relax.op.matmul(hidden, w2))
            again = builder.emit(relax.op.matmul(relax.op.nn.softmax(logits, axis=-1), w1))
            gathered = builder.emit(relax.op.matmul(relax.op.nn.gelu(relax.op.add(again, b1)), w2))
            out = builder.emit_output(relax.op.nn.softmax(gathered, axis=-1))
        builder.emit_func_output(out)
    return builder.finalize()


def compiled_anew(operator: Operator, variants: Sequence[str] = ("256",)) -> CompiledKernel:
    """What TVM makes of it now, not from the cache."""
    return combine([(spec, compile_variant(operator, spec)) for spec in parse_specs(variants)])


def small_weights() -> list[tuple[str, np.ndarray]]:
    random = np.random.default_rng(3)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    return [
        ("layer.weight", normal(WIDTH, HIDDEN)),
        ("layer.bias", normal(HIDDEN)),
        ("head.weight", normal(HIDDEN, WIDTH)),
    ]


def small_oracle(x: np.ndarray) -> np.ndarray:
    """The small model in numpy float64."""
    w1, b1, w2 = (array.astype(np.float64) for _, array in small_weights())

    def gelu(a: np.ndarray) -> np.ndarray:
        return 0.5 * a * (1 + np.vectorize(math.erf)(a / np.sqrt(2)))

    def softmax(a: np.ndarray) -> np.ndarray:
        e = np.exp(a - a.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    first = softmax(gelu(x.astype(np.float64) @ w1 + b1) @ w2)
    return softmax(gelu(first @ w1 + b1) @ w2).astype(np.float32)


def small_model(steps: int = 1, synthetic: bool = False) -> ImportedModel:
    """The small model with real-looking inputs and a numpy oracle."""
    random = np.random.default_rng(11)
    made = []
    for number in range(steps):
        x = random.standard_normal((ROWS, WIDTH)).astype(np.float32)
        made.append(Step(f"step {number}", {"x": x}, synthetic, [small_oracle(x)]))
    return ImportedModel(
        module=small_module(),
        input_names=["x"],
        parameters=small_weights(),
        steps=made,
        provenance={"kind": "test", "source": "tests/helpers.py", "sha256": "0" * 64, "title": "small", "notes": []},
        outputs=["probabilities"],
        oracle="numpy float64",
    )


Answer = Callable[[dict[str, Any], "FakeRunner"], None]


class FakeRunner:
    """The other end of a session, in this process: answers each call through `answer(message, runner)`."""

    def __init__(self, hub: DeviceHub, answer: Answer, name: str = "Fake 1", **changes: Any) -> None:
        self.calls: list[dict[str, Any]] = []
        self._answer = answer
        self._hub = hub
        self._connections = 0
        self._generation = 1
        self._numbers: dict[str, int] = {}
        self.name = name
        self.welcome = self.connect(**changes)
        device = hub.get(self.welcome.device)
        assert device is not None
        self.device: Device = device

    def connect(self, **changes: Any) -> Welcome:
        """Join on a new connection; with `resume` in `changes` as the one that was there before."""
        self._connections += 1
        self.connection = f"connection-{id(self)}-{self._connections}"
        answer = self._hub.hello(hello(self.name, **changes), self._receive, self.connection)
        assert isinstance(answer, Welcome), answer
        return answer

    def come_back(self, *calls: str) -> Welcome:
        """Reconnect; `calls` are those it still has messages of."""
        resume = {"device": self.welcome.device, "session": self.welcome.session, "calls": list(calls)}
        return self.connect(resume=resume)

    def new_gpu(self) -> None:
        """The GPU device is lost and replaced: the runner says hello again on the same connection."""
        self._generation += 1
        resume = {"device": self.welcome.device, "session": self.welcome.session, "calls": []}
        again = hello(self.name, resume=resume, generation=self._generation)
        assert isinstance(self._hub.hello(again, self._receive, self.connection), Welcome)

    def _receive(self, event: str, message: Message) -> None:
        if event == "cancel":
            return
        assert event == "call"
        call = message.model_dump()
        self.calls.append(call)
        self._answer(call, self)

    def progress(self, message: dict[str, Any], progress: dict[str, Any]) -> None:
        self.device.progress({"call": message["call"], "number": self._number(message), "progress": progress})

    def verdict(self, message: dict[str, Any], test: dict[str, Any], **changes: Any) -> None:
        """Report a test as passed, or as `changes` say."""
        self.progress(message, {**verdict(test), **changes})

    def finish(self, message: dict[str, Any], **result: Any) -> None:
        found = {**RESULTS[message["method"]], **result}
        self.device.reply({"call": message["call"], "number": self._number(message), "ok": True, "result": found})

    def fail(self, call: dict[str, Any], **error: Any) -> None:
        self.device.reply({"call": call["call"], "number": self._number(call), "ok": False, "error": error})

    def cut(self) -> None:
        """The network breaks."""
        self._hub.disconnected(self.connection)

    def vanish(self, why: str = PAGE_CLOSED) -> None:
        """The tab is closed, or gone for another reason."""
        self._hub.left(lambda device: device is self.device, why)

    def _number(self, message: dict[str, Any]) -> int:
        number = self._numbers.get(message["call"], 0)
        self._numbers[message["call"]] = number + 1
        return number


RESULTS: dict[str, dict[str, Any]] = {
    "validate": {"seconds": dict.fromkeys(("fetch", "compile", "upload", "run", "compare", "total"), 0.0)},
    "execute": {
        "downloads": [], "variants": {}, "gpu_seconds": None, "memory": {"buffers": 0, "bytes": 0, "idle_bytes": 0},
        "seconds": dict.fromkeys(("fetch", "compile", "run", "total"), 0.0),
    },
    "run_model": {
        "downloads": [],
        "seconds": {"fetch": 0.0, "instantiate": 0.0, "compile": 0.0, "upload": 0.0, "runs": [0.1]},
    },
    "ping": {},
}  # fmt: skip


def all_pass(message: dict[str, Any], runner: FakeRunner) -> None:
    if message["method"] != "validate":  # it has nothing to run anything on
        runner.fail(message, kind="internal", message="it runs nothing")
        return
    for test in message["params"]["tests"]:
        runner.verdict(message, test)
    runner.finish(message, seconds={**RESULTS["validate"]["seconds"], "run": 0.5})


def verdict(test: dict[str, Any]) -> dict[str, Any]:
    """A TestVerdict: passed."""
    total = int(np.prod(test["outputs"][0]["shape"]))
    comparison = {
        "total": total, "mismatched": 0, "unbounded": 0, "tied": 0, "nan": 0, "inf": 0, "max_abs_error": 1e-7,
        "max_rel_error": 1e-6, "max_ulp": 2, "ulp_histogram": [total, 0, 0, 0], "first": None, "worst": None,
        "disturbed": 0,
    }  # fmt: skip
    return {
        "kind": "verdict", "id": test["id"], "kernel": test["kernel"], "variant": "256", "verdict": "pass",
        "outputs": [comparison], "message": "", "error": None,
        "seconds": {"fetch": 0, "compile": 0, "run": 0.001, "compare": 0, "gpu": None},
    }  # fmt: skip


def hello(name: str = "Fake 1", **changes: Any) -> dict[str, Any]:
    return {
        "protocol": PROTOCOL_VERSION, "runtime": "tests", "resume": None, "generation": 1, "secret": None, "name": name,
        "user_agent": "tests",
        "adapter": {"vendor": "none", "architecture": "", "device": "", "description": "fake"},
        "features": [], "limits": {"maxBufferSize": 1024}, "unavailable": None, **changes,
    }  # fmt: skip
