"""Validation's bookkeeping against a device that answers as the test says."""

from __future__ import annotations

from typing import Any

import pytest

from helpers import FakeRunner
from tapml.devices import Blobs, DeviceHub
from tapml.errors import InputError
from tapml.suite import Suite
from tapml.validation.events import Cancel
from tapml.validation.operatorwise import OperatorRun, passed, require_devices, save_validation


def all_pass(message: dict[str, Any], runner: FakeRunner) -> None:
    for test in message["params"]["tests"]:
        runner.verdict(message, test)
    runner.finish(message, seconds={"run": 0.5})


def test_all_tests_of_all_devices_are_in_the_document(suite: Suite) -> None:
    hub = DeviceHub()
    devices = [FakeRunner(hub, all_pass, name).device for name in ("One 1", "Two 2")]
    events: list[dict[str, Any]] = []
    document = OperatorRun(suite, devices, Blobs(), emit=events.append).run()
    assert document["summary"]["pass"] == 2 * len(suite.tests)
    assert passed(document)
    assert document["summary"]["devices"][devices[0].id]["run"] == 0.5
    assert sum(event["type"] == "verdict" for event in events) == 2 * len(suite.tests)


def test_a_vanished_device_is_an_error_for_the_rest_only(suite: Suite) -> None:
    def one_then_gone(message: dict[str, Any], runner: FakeRunner) -> None:
        runner.verdict(message, message["params"]["tests"][0])
        runner.vanish()

    hub = DeviceHub()
    gone, stays = FakeRunner(hub, one_then_gone, "Gone 1"), FakeRunner(hub, all_pass, "Stays 1")
    document = OperatorRun(suite, [gone.device, stays.device], Blobs()).run()
    by_device: dict[str, list[dict[str, Any]]] = {}
    for test in document["tests"]:
        by_device.setdefault(test["device"], []).append(test)
    assert all(test["verdict"] == "pass" for test in by_device[stays.device.id])
    first, *rest = by_device[gone.device.id]
    assert first["verdict"] == "pass"
    assert rest
    assert all(test["verdict"] == "error" and "device lost" in test["message"] for test in rest)
    assert not passed(document)


def test_a_pass_that_compared_too_little_is_no_pass(suite: Suite) -> None:
    def lie(message: dict[str, Any], runner: FakeRunner) -> None:
        for test in message["params"]["tests"]:
            runner.verdict(message, test, outputs=[])
        runner.finish(message)

    document = OperatorRun(suite, [FakeRunner(DeviceHub(), lie).device], Blobs()).run()
    assert document["summary"]["error"] == len(suite.tests)


def test_a_test_without_verdict_is_an_error(suite: Suite) -> None:
    document = OperatorRun(
        suite, [FakeRunner(DeviceHub(), lambda message, runner: runner.finish(message)).device], Blobs()
    ).run()
    assert {test["verdict"] for test in document["tests"]} == {"error"}
    assert "no verdict" in document["tests"][0]["message"]


def test_a_reported_error_names_the_cause(suite: Suite) -> None:
    def refuse(message: dict[str, Any], runner: FakeRunner) -> None:
        error = {"kind": "fetch", "message": "blob 123 cannot be fetched"}
        runner.device.reply(message["call"], {"call": message["call"], "ok": False, "error": error})

    document = OperatorRun(suite, [FakeRunner(DeviceHub(), refuse).device], Blobs()).run()
    assert document["tests"][0]["message"] == "blob 123 cannot be fetched"


def test_only_the_chosen_kernels_run_and_others_keep_their_results(suite: Suite) -> None:
    hub = DeviceHub()
    runner = FakeRunner(hub, all_pass)
    save_validation(suite, OperatorRun(suite, [runner.device], Blobs()).run())
    name = suite.kernels[0]
    document = OperatorRun(suite, [runner.device], Blobs(), kernels=[name]).run()
    assert {test["kernel"] for test in document["tests"]} == {name}
    save_validation(suite, document)
    (saved,) = suite.results("validation")
    assert {test["id"] for test in saved["tests"]} == {test.id for test in suite.tests}
    assert saved["summary"]["pass"] == saved["summary"]["total"] == len(suite.tests)
    with pytest.raises(InputError, match="no kernel 'nothing'"):
        OperatorRun(suite, [runner.device], Blobs(), kernels=["nothing"])


def test_a_cancelled_run_keeps_what_it_has(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapml.validation.operatorwise._TESTS_A_CALL", 2)
    cancel = Cancel()

    def stop_after_first_call(message: dict[str, Any], runner: FakeRunner) -> None:
        all_pass(message, runner)
        cancel.set()

    document = OperatorRun(suite, [FakeRunner(DeviceHub(), stop_after_first_call).device], Blobs(), cancel=cancel).run()
    assert document["interrupted"]
    assert document["summary"]["total"] == document["summary"]["pass"] == 2


def test_edited_text_is_what_is_sent(suite: Suite) -> None:
    name = suite.kernels[0]
    path = suite.path / "kernels" / f"{name}.wgsl"
    path.write_text(path.read_text() + "// mine\n")
    blobs = Blobs()
    seen: dict[str, bytes] = {}

    def look(message: dict[str, Any], runner: FakeRunner) -> None:
        for kernel in message["params"]["kernels"]:
            found = blobs.find(kernel["entry_points"][0]["code"])
            assert isinstance(found, bytes)
            seen[kernel["kernel"]] = found
        all_pass(message, runner)

    document = OperatorRun(suite, [FakeRunner(DeviceHub(), look).device], blobs).run()
    assert seen[name].endswith(b"// mine\n")
    assert document["edited_kernels"] == [name]
    assert {test["kernel"] for test in document["tests"] if test["edited"]} == {name}


def test_a_device_without_webgpu_is_refused() -> None:
    from helpers import hello

    hub = DeviceHub()
    device = hub.hello(hello("Old 1", unavailable="WebGPU is off: switch it on"), lambda e, m: None, "c")
    with pytest.raises(InputError, match="Old 1 cannot run kernels: WebGPU is off"):
        require_devices([device])
