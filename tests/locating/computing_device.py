"""A device in this process that runs a suite's kernels on the CPU, some of them wrongly on purpose."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from helpers import FakeRunner, verdict
from tapml.compare.elements import bound_of, errors, excesses, outside
from tapml.devices import Blobs, DeviceHub
from tapml.folder import FileInside
from tapml.locating.evidence import jsonable
from tapml.lowering.model import read_model
from tapml.platforms.reference import Reference, to_numpy
from tapml.program import TensorType
from tapml.server.state import State
from tapml.suite import Suite

Arrays = list[np.ndarray]
Fault = Callable[[Arrays, np.ndarray, np.ndarray], np.ndarray]
"""fault(inputs, right, before) -> what the kernel leaves in its output, which held `before`."""


class ComputingDevice:
    """`faults`: by kernel; `state`: of the server that it is a device of. `calls`: how often each kernel ran in
    "execute".
    """

    def __init__(self, suite: Suite, faults: Mapping[str, Fault] | None = None, state: State | None = None) -> None:
        self.suite = suite
        self.faults = dict(faults or {})
        self.blobs = state.blobs if state else Blobs()
        self.calls: list[str] = []
        self.failing: dict[str, str] = {}
        """Kernel -> what the device says instead of running it."""
        self._tensors: dict[str, np.ndarray] = {}
        self._reference = Reference(read_model(suite))
        self._runner = FakeRunner(state.hub if state else DeviceHub(), self._answer)
        self.device = self._runner.device

    @property
    def methods(self) -> list[str]:
        """Of all calls to the device."""
        return [call["method"] for call in self._runner.calls]

    @property
    def hang_seconds(self) -> set[float]:
        """What the calls that ran kernels were given."""
        ran = [call for call in self._runner.calls if '"kernel":' in json.dumps(call["params"])]
        return {call["hang_seconds"] for call in ran}

    def _answer(self, message: dict[str, Any], runner: FakeRunner) -> None:
        threading.Thread(target=self._reply, args=(message, runner), daemon=True).start()

    def _reply(self, message: dict[str, Any], runner: FakeRunner) -> None:
        if message["method"] == "validate":
            for test in message["params"]["tests"]:
                self._validate(message, test, runner)
            runner.finish(message)
            return
        downloads = []
        for command in message["params"]["commands"]:
            if command["op"] == "call" and command["kernel"] in self.failing:
                runner.fail(message, kind="validation", message=self.failing[command["kernel"]])
                return
            downloads += self._execute(command)
        call = runner.device.running_call(message["call"])
        assert call is not None
        call.downloads = b"".join(downloads)
        runner.finish(message, downloads=[len(data) for data in downloads])

    def _execute(self, command: dict[str, Any]) -> list[bytes]:
        match command["op"]:
            case "upload":
                self._tensors[command["tensor"]] = self._blob(command).copy()
            case "allocate":
                size = TensorType(tuple(command["shape"]), command["dtype"]).nbytes
                filled = np.full(size, 0xFF, np.uint8)
                self._tensors[command["tensor"]] = filled.view(command["dtype"]).reshape(command["shape"])
            case "view":
                self._tensors[command["tensor"]] = self._tensors[command["of"]].reshape(command["shape"])
            case "call":
                self.calls.append(command["kernel"])
                *inputs, output = (self._tensors[name] for name in command["arguments"])
                output[...] = self._run(command["kernel"], list(inputs), output.copy())
            case "download":
                return [self._tensors[command["tensor"]].tobytes()]
            case "free_prefix":
                self._tensors = {n: a for n, a in self._tensors.items() if not n.startswith(command["prefix"])}
        return []

    def _blob(self, ref: Mapping[str, Any]) -> np.ndarray:
        found = self.blobs.find(ref["digest"])
        assert found is not None, "the bytes are not served"
        if not isinstance(found, FileInside):
            return np.frombuffer(bytes(found), ref["dtype"]).reshape(ref["shape"])
        with found.open() as file:
            return np.frombuffer(file.read(), ref["dtype"]).reshape(ref["shape"])

    def _run(self, kernel: str, inputs: Arrays, before: np.ndarray) -> np.ndarray:
        types = [TensorType(before.shape, str(before.dtype))]
        tensors = [self._reference.tensor(array) for array in inputs]
        right = to_numpy(self._reference.call(kernel, tensors, types)[0], types[0].dtype).copy()
        fault = self.faults.get(kernel)
        return right if fault is None else fault(inputs, right, before)

    def _validate(self, message: dict[str, Any], test: dict[str, Any], runner: FakeRunner) -> None:
        if said := self.failing.get(test["kernel"]):
            error = {"kind": "validation", "message": said}
            report = {**verdict(test), "verdict": "error", "message": said, "error": error, "outputs": []}
            runner.progress(message, report)
            return
        carved = self.suite.test(test["id"])
        expected = self._blob(test["outputs"][0])
        before = np.full(expected.nbytes, 0xFF, np.uint8).view(expected.dtype).reshape(expected.shape)
        got = self._run(test["kernel"], [self._blob(ref) for ref in test["inputs"]], before)
        error = errors(got, expected)
        bound = bound_of(carved.tolerances[0], expected, self.suite.tensors.get)
        wrong, unbounded = outside(error, bound), int(np.isposinf(bound).sum())
        finite = error[np.isfinite(error)]
        count = int(wrong.sum())
        comparison = {
            "total": expected.size, "mismatched": count, "unbounded": unbounded, "tied": 0, "nan": 0, "inf": 0,
            "max_abs_error": float(finite.max(initial=0.0)), "max_rel_error": 0.0, "max_ulp": 0.0,
            "ulp_histogram": [], "first": None, "worst": _worst(got, expected, bound),
        }  # fmt: skip
        failed = {"verdict": "fail", "message": f"{count} of {expected.size} elements differ"} if count else {}
        if unbounded and not count:
            failed = {"verdict": "unbounded", "message": f"{unbounded} of {expected.size} elements are unbounded"}
        runner.progress(message, {**verdict(test), "outputs": [comparison], **failed})


def _worst(got: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> dict[str, Any] | None:
    """Of the bounded elements that differ the one that uses most of its bound, as a runner has it."""
    excess = excesses(errors(got, expected), bound)
    place = np.unravel_index(int(np.argmax(excess)), excess.shape)
    if not excess[place]:
        return None
    numbers = {"expected": expected[place], "got": got[place], "bound": bound[place]}
    return {"index": [int(i) for i in place], **{name: jsonable(number) for name, number in numbers.items()}}
