"""The two halves of the protocol name the same fields."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from helpers import FakeRunner
from tapml.devices import PROTOCOL_VERSION, Blobs, DeviceHub
from tapml.devices.messages import KernelMessages
from tapml.devices.protocol import Hello
from tapml.suite import Suite

MESSAGES = (Path(__file__).parents[2] / "runner_js/src/protocol/messages.ts").read_text()


def fields(interface: str) -> set[str]:
    """Names of a TypeScript interface's required fields."""
    match = re.search(rf"interface {interface}(?: extends (\w+))? {{(.*?)\n}}", MESSAGES, re.DOTALL)
    assert match, interface
    own = set(re.findall(r"^  (\w+):", match[2], re.MULTILINE))
    return own | (fields(match[1]) if match[1] else set())


def test_versions_agree() -> None:
    assert f"PROTOCOL_VERSION = {PROTOCOL_VERSION};" in MESSAGES


def test_hello_has_the_runners_fields() -> None:
    assert {field.name for field in dataclasses.fields(Hello)} == fields("Hello")


def test_kernels_and_tests_have_the_runners_fields(suite: Suite) -> None:
    with KernelMessages(suite, Blobs()) as messages:
        test = suite.tests[0]
        kernel, message = messages.kernel(test.kernel), messages.test(test)
    assert set(kernel) == fields("Kernel")
    assert set(kernel["entry_points"][0]) == fields("EntryPoint")
    assert set(kernel["requires"]) == fields("Requires")
    assert set(message) == fields("Test")
    assert set(message["launches"][0]) == fields("Launch")
    assert set(message["inputs"][0]) == fields("TensorRef")
    assert set(message["tolerances"][0]) == fields("Tolerance")


@pytest.mark.parametrize("interface", ["Comparison", "TestVerdict"])
def test_the_fake_runner_speaks_like_a_real_one(suite: Suite, interface: str) -> None:
    seen: list[dict[str, object]] = []

    def answer(message: dict[str, object], runner: FakeRunner) -> None:
        params = message["params"]
        assert isinstance(params, dict)
        runner.verdict(message, params["tests"][0])
        runner.finish(message)

    with KernelMessages(suite, Blobs()) as messages:
        tests = [messages.test(suite.tests[0])]
    FakeRunner(DeviceHub(), answer).device.call("validate", {"kernels": [], "tests": tests}, on_progress=seen.append)
    (verdict,) = seen
    outputs = verdict["outputs"]
    assert isinstance(outputs, list)
    found = {"TestVerdict": verdict, "Comparison": outputs[0]}[interface]
    assert set(found) - {"kind"} == fields(interface) - {"kind"}
