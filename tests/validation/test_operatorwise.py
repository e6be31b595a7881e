"""Validation's bookkeeping against a device that answers as the test says."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bounded import bounded_suite
from helpers import Answer, FakeRunner, all_pass, small_model, verdict
from tapml.building.validated import validations
from tapml.carving.carve import carve
from tapml.devices import Blobs, Device, DeviceHub
from tapml.devices.messages import KernelMessages, validations_now
from tapml.errors import InputError
from tapml.history import Recorder, open_history
from tapml.reports.terminal import summary_line
from tapml.results.earlier import as_now
from tapml.results.validation import ValidationDocument, ValidationHeader
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.events import Cancel
from tapml.validation.journal import Journal
from tapml.validation.operatorwise import OperatorRun, passed, recover, require_devices, save_validation
from tapml.validation.remaining import Remaining
from tapml.validation.results import header, result_without_run


def test_all_tests_of_all_devices_are_in_the_document(suite: Suite) -> None:
    hub = DeviceHub()
    devices = [FakeRunner(hub, all_pass, name).device for name in ("One 1", "Two 2")]
    events: list[dict[str, Any]] = []
    document = OperatorRun(JobContext(suite, devices, Blobs(), emit=events.append)).run()
    assert document["summary"]["pass"] == 2 * len(suite.tests)
    assert passed(document)
    assert document["summary"]["devices"][devices[0].id]["run"] == 0.5
    assert sum(event["type"] == "verdict" for event in events) == 2 * len(suite.tests)


def test_a_vanished_device_is_an_error_for_the_rest_only(suite: Suite) -> None:
    def one_then_gone(message: dict[str, Any], runner: FakeRunner) -> None:
        runner.verdict(message, message["params"]["tests"][0])
        runner.vanish("its browser ended")

    hub = DeviceHub()
    gone, stays = FakeRunner(hub, one_then_gone, "Gone 1"), FakeRunner(hub, all_pass, "Stays 1")
    document = OperatorRun(JobContext(suite, [gone.device, stays.device], Blobs())).run()
    by_device: dict[str, list[dict[str, Any]]] = {}
    for test in document["tests"]:
        by_device.setdefault(test["device"], []).append(test)
    assert all(test["verdict"] == "pass" for test in by_device[stays.device.id])
    first, *rest = by_device[gone.device.id]
    assert first["verdict"] == "pass"
    assert rest
    assert all(test["verdict"] == "error" and "device lost" in test["message"] for test in rest)
    assert not passed(document)


def test_a_closed_page_leaves_tests_not_run_and_accuses_no_kernel(suite: Suite) -> None:
    def one_then_closed(message: dict[str, Any], runner: FakeRunner) -> None:
        runner.verdict(message, message["params"]["tests"][0])
        runner.vanish()

    hub = DeviceHub()
    first, second = (FakeRunner(hub, all_pass, "One 1") for _ in range(2))
    recorder = Recorder(None, "validate")

    def validated(*devices: Device) -> ValidationDocument:
        context = JobContext(suite, devices, Blobs(), emit=events.append)
        return OperatorRun(context, save=True, history=recorder).run()

    events: list[dict[str, Any]] = []
    validated(first.device)
    closing = FakeRunner(hub, one_then_closed, "One 1")
    document = validated(first.device, second.device, closing.device)
    left = [test.id for test in suite.tests[1:]]
    assert document["interrupted"]
    assert document["not_run"] == {first.device.id: [], second.device.id: [], closing.device.id: left}
    assert document["summary"]["pass"] == document["summary"]["total"] == 2 * len(suite.tests) + 1
    told = [event["text"] for event in events if event["type"] == "message"]
    assert told == [f"One 1 (3): its page was closed; {len(left)} tests did not run"]
    assert all(
        trend["state"] == "passing" and not trend["flaky_runs"] for trend in open_history(suite).trends()["trends"]
    )
    # Called again after it is gone, nothing runs, and nothing that ran is forgotten.
    assert validated(closing.device)["tests"] == []
    kept = [(found["devices"][0]["id"], len(found["tests"])) for found in suite.results("validation")]
    assert kept == [("one-1", len(suite.tests)), ("one-1-2", len(suite.tests)), ("one-1-3", 1)]


def test_two_tabs_of_one_browser_keep_results_of_their_own(suite: Suite) -> None:
    def wrong(message: dict[str, Any], runner: FakeRunner) -> None:
        for test in message["params"]["tests"]:
            runner.verdict(message, test, mismatched=1)
        runner.finish(message)

    hub = DeviceHub()
    tabs = [FakeRunner(hub, answer, "Chromium 156").device for answer in (all_pass, wrong)]
    OperatorRun(JobContext(suite, tabs, Blobs()), save=True, history=Recorder(None, "validate")).run()
    names = sorted(path.name for path in (suite.path / "results").glob("validation.*"))
    assert names == ["validation.Chromium-156-2.json", "validation.Chromium-156.json"]
    of_first, of_second = suite.results("validation")
    assert of_first["summary"]["pass"] == len(suite.tests)
    assert of_second["summary"]["pass"] == 0
    one, two = open_history(suite).sides()
    assert (one["device"], two["device"]) == ("Chromium 156", "Chromium 156 (2)")
    outcomes = [
        {found["verdict"] for _, found in open_history(suite).outcomes(side)[1].values()} for side in (one, two)
    ]
    assert outcomes[0] == {"pass"}
    assert "pass" not in outcomes[1]


def test_of_files_of_one_device_the_newest_counts(suite: Suite) -> None:
    """Earlier versions kept all tabs of a browser in one file."""
    hub = DeviceHub()
    tabs = [FakeRunner(hub, all_pass, "Chromium 156").device for _ in range(2)]
    OperatorRun(JobContext(suite, tabs[1:], Blobs()), save=True).run()
    (path,) = (suite.path / "results").glob("validation.*")
    former = json.loads(path.read_text())
    path.with_name("validation.Chromium-156.json").write_text(json.dumps({**former, "created": "2025-01-01T00:00:00"}))
    (found,) = suite.results("validation")
    assert found["created"] == former["created"]


def test_a_pass_that_compared_too_little_is_no_pass(suite: Suite) -> None:
    def lie(message: dict[str, Any], runner: FakeRunner) -> None:
        for test in message["params"]["tests"]:
            runner.verdict(message, test, outputs=[])
        runner.finish(message)

    document = OperatorRun(JobContext(suite, [FakeRunner(DeviceHub(), lie).device], Blobs())).run()
    assert document["summary"]["error"] == len(suite.tests)


def reporting(**changes: Any) -> Answer:
    """Every test's verdict and its output's counts."""
    told = {key: changes.pop(key) for key in ("verdict", "message") if key in changes}

    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        for test in message["params"]["tests"]:
            right = verdict(test)
            runner.progress(message, {**right, **told, "outputs": [{**right["outputs"][0], **changes}]})
        runner.finish(message)

    return answer


def test_unbounded_is_a_verdict_of_its_own_and_no_pass(suite: Suite) -> None:
    element = {"index": [0, 1], "expected": 1.0, "got": 2.0, "bound": "Infinity"}
    answer = reporting(verdict="unbounded", unbounded=3, tied=2, first=element, message="3 of 96 elements")
    document = OperatorRun(JobContext(suite, [FakeRunner(DeviceHub(), answer).device], Blobs())).run()
    test = document["tests"][0]
    assert (test["verdict"], test["unbounded"], test["tied"], test["mismatched"]) == ("unbounded", 3, 2, 0)
    assert test["first"] == {"output": 0, **element}
    assert test["max_abs_error"] is not None
    assert document["summary"]["unbounded"] == document["summary"]["total"] == len(suite.tests)
    assert set(document["summary"]["failing_kernels"]) == set(suite.kernels)
    assert not passed(document)


@pytest.mark.parametrize(
    ("claimed", "counts"),
    [
        ("pass", {"unbounded": 1}),
        ("pass", {"mismatched": 1}),
        ("unbounded", {"unbounded": 1, "mismatched": 1}),
        ("unbounded", {"unbounded": 1, "total": 1}),
        ("unbounded", {}),
    ],
)
def test_a_verdict_that_its_own_numbers_deny_is_an_error(suite: Suite, claimed: str, counts: dict[str, int]) -> None:
    device = FakeRunner(DeviceHub(), reporting(verdict=claimed, **counts)).device
    document = OperatorRun(JobContext(suite, [device], Blobs())).run()
    assert document["summary"]["error"] == len(suite.tests)
    assert f"the device says {claimed} with {counts.get('mismatched', 0)} mismatches" in document["tests"][0]["message"]


def test_bounds_and_ties_go_out_with_the_test_and_are_served(tmp_path: Path) -> None:
    suite, cases = bounded_suite(tmp_path / "bounded.suite")
    blobs = Blobs()
    sent: dict[str, dict[str, Any]] = {}

    def look(message: dict[str, Any], runner: FakeRunner) -> None:
        for test in message["params"]["tests"]:
            (sent[test["id"]],) = test["tolerances"]
            for ref in filter(None, (test["tolerances"][0]["bound"], test["tolerances"][0]["ties"])):
                assert blobs.find(ref["digest"]) is not None
        all_pass(message, runner)

    OperatorRun(JobContext(suite, [FakeRunner(DeviceHub(), look).device], blobs)).run()
    assert sent[cases["open"]]["bound"]["shape"] == [4, 8]
    assert sent[cases["open"]]["ties"] is None
    assert sent[cases["ties"]]["ties"]["dtype"] == "int32"


def test_a_damaged_bound_is_named_before_anything_runs(tmp_path: Path) -> None:
    suite, cases = bounded_suite(tmp_path / "bounded.suite")
    bound = suite.test(cases["narrow"]).tolerances[0].bound
    assert bound is not None
    path = suite.tensors.path(bound.digest)
    path.chmod(0o644)
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(InputError, match=bound.digest[:16]):
        OperatorRun(JobContext(Suite(suite.path), [FakeRunner(DeviceHub(), all_pass).device], Blobs()))


def test_a_test_without_verdict_is_an_error(suite: Suite) -> None:
    document = OperatorRun(
        JobContext(suite, [FakeRunner(DeviceHub(), lambda message, runner: runner.finish(message)).device], Blobs())
    ).run()
    assert {test["verdict"] for test in document["tests"]} == {"error"}
    assert "no verdict" in document["tests"][0]["message"]


def test_a_reported_error_names_the_cause(suite: Suite) -> None:
    def refuse(message: dict[str, Any], runner: FakeRunner) -> None:
        runner.fail(message, kind="fetch", message="blob 123 cannot be fetched")

    document = OperatorRun(JobContext(suite, [FakeRunner(DeviceHub(), refuse).device], Blobs())).run()
    assert document["tests"][0]["message"] == "blob 123 cannot be fetched"


def test_only_the_chosen_kernels_run_and_others_keep_their_results(suite: Suite) -> None:
    hub = DeviceHub()
    runner = FakeRunner(hub, all_pass)
    save_validation(suite, OperatorRun(JobContext(suite, [runner.device], Blobs())).run())
    name = suite.kernels[0]
    document = OperatorRun(JobContext(suite, [runner.device], Blobs()), kernels=[name]).run()
    assert {test["kernel"] for test in document["tests"]} == {name}
    save_validation(suite, document)
    (saved,) = suite.results("validation")
    assert {test["id"] for test in saved["tests"]} == {test.id for test in suite.tests}
    assert saved["summary"]["pass"] == saved["summary"]["total"] == len(suite.tests)
    assert [*saved["kernel_digests"]] == suite.kernels
    with pytest.raises(InputError, match="no kernel 'nothing'"):
        OperatorRun(JobContext(suite, [runner.device], Blobs()), kernels=["nothing"])


def test_what_another_text_of_a_kernel_gave_is_no_result_of_it(suite: Suite) -> None:
    runner = FakeRunner(DeviceHub(), all_pass)
    document = OperatorRun(JobContext(suite, [runner.device], Blobs())).run()
    save_validation(suite, document)
    tests = [test["kernel"] for test in document["tests"]]
    name = max(tests, key=tests.count)
    first, *others = (test for test in document["tests"] if test["kernel"] == name)
    assert others
    edited = {**document["kernel_digests"], name: "0" * 64}
    save_validation(suite, {**document, "interrupted": True, "tests": [first], "kernel_digests": edited})
    (saved,) = suite.results("validation")
    assert [test["id"] for test in saved["tests"] if test["kernel"] == name] == [first["id"]]
    assert len(saved["tests"]) == len(suite.tests) - len(others)


def test_an_edit_that_is_undone_has_the_verdicts_of_before(suite: Suite) -> None:
    runner = FakeRunner(DeviceHub(), all_pass)
    name = suite.kernels[0]
    of_it = [test.id for test in suite.tests if test.kernel == name]
    documents = {kernel: suite.bundle(kernel) for kernel in suite.kernels}
    save_validation(suite, OperatorRun(JobContext(suite, [runner.device], Blobs())).run())
    file = suite.kernel_files(name)[0]
    path = suite.path / "kernels" / file.name
    generated = path.read_bytes()
    path.write_bytes(generated + b"// wrong\n")

    def fail(message: dict[str, Any], runner: FakeRunner) -> None:
        for test in message["params"]["tests"]:
            runner.progress(message, {**verdict(test), "verdict": "fail", "message": "wrong"})
        runner.finish(message)

    edited = FakeRunner(DeviceHub(), fail, runner.device.hello.name)
    suite = Suite(suite.path)
    save_validation(suite, OperatorRun(JobContext(suite, [edited.device], Blobs()), kernels=[name]).run())
    (found,) = validations(suite, documents)
    assert found["kernels"].pop(name) == "fail"
    assert set(found["kernels"].values()) == {"pass"}
    path.write_bytes(generated)
    (found,) = validations(Suite(suite.path), documents)
    assert found["kernels"].pop(name) == "pass"
    (told,) = validations_now(suite, suite.results("validation"))
    assert not told["edited_kernels"]
    assert told["summary"]["pass"] == len(suite.tests) == len(told["tests"])
    # The edit once more: what it gave is there, too, and one test of the kernel as it was does not forget the others.
    assert [test["verdict"] for test in as_now(told, suite.results("validation")[0]["kernel_digests"])["tests"]].count(
        "fail"
    ) == len(of_it)
    save_validation(suite, OperatorRun(JobContext(suite, [runner.device], Blobs()), tests=of_it[:1]).run())
    (saved,) = suite.results("validation")
    assert len(saved["tests"]) == len(suite.tests) == saved["summary"]["pass"]


def test_a_cancelled_run_keeps_what_it_has(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapml.validation.operatorwise._TESTS_A_CALL", 2)
    cancel = Cancel()

    def stop_after_first_call(message: dict[str, Any], runner: FakeRunner) -> None:
        all_pass(message, runner)
        cancel.set()

    device = FakeRunner(DeviceHub(), stop_after_first_call).device
    document = OperatorRun(JobContext(suite, [device], Blobs(), cancel=cancel), save=True).run()
    assert document["interrupted"]
    assert document["summary"]["total"] == document["summary"]["pass"] == 2
    left = [test.id for test in suite.tests[2:]]
    assert left
    assert document["not_run"] == {device.id: left}
    assert summary_line(document).endswith(f"; interrupted: {len(left)} tests did not run, and what ran is kept")
    (saved,) = suite.results("validation")
    assert saved["not_run"] == {device.id: left}
    assert [test["id"] for test in saved["tests"]] == [test.id for test in suite.tests[:2]]


def test_progress_counts_the_kernels_of_all_calls_and_tells_what_is_left(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapml.validation.operatorwise._TESTS_A_CALL", 2)

    def compile_then_pass(message: dict[str, Any], runner: FakeRunner) -> None:
        kernels = message["params"]["kernels"]
        for number, kernel in enumerate(kernels):
            told = {"kernel": kernel["kernel"], "done": number + 1, "total": len(kernels), "seconds": 0.1}
            runner.progress(message, {"kind": "compile", **told})
        all_pass(message, runner)

    events: list[dict[str, Any]] = []
    device = FakeRunner(DeviceHub(), compile_then_pass).device
    OperatorRun(JobContext(suite, [device], Blobs(), emit=events.append)).run()
    compiled = [event for event in events if event["type"] == "compile"]
    # Kernels of which tests are in several calls are compiled once more there, and count once.
    assert {event["total"] for event in compiled} == {len(suite.kernels)}
    assert compiled[-1]["done"] == len(suite.kernels)
    verdicts = [event for event in events if event["type"] == "verdict"]
    assert all(event["left"] >= 0 for event in verdicts)
    assert verdicts[-1]["left"] == 0


def test_what_is_left_is_told_by_what_compilations_and_tests_took() -> None:
    now = 0.0
    remaining = Remaining(kernels=4, tests=10, clock=lambda: now)
    for kernel in ("a", "b"):
        now += 3
        remaining.compiled(kernel)
    assert remaining.seconds is None
    for _ in range(5):
        now += 1
        remaining.tested()
    assert remaining.seconds == 2 * 3 + 5 * 1
    now += 5
    assert remaining.compiled("b") == 2  # once more, on a new device
    assert remaining.seconds == 2 * 5.5 + 5 * 1


def test_edited_text_is_what_is_sent(suite: Suite) -> None:
    name = suite.kernels[0]
    path = suite.path / "kernels" / f"{name}.wgsl"
    path.write_text(path.read_text() + "// mine\n")
    blobs = Blobs()
    seen: dict[str, bytes] = {}

    def look(message: dict[str, Any], runner: FakeRunner) -> None:
        for kernel in message["params"]["kernels"]:
            found = blobs.find(kernel["variants"][-1]["entry_points"][0]["code"])
            assert isinstance(found, bytes)
            seen[kernel["kernel"]] = found
        all_pass(message, runner)

    document = OperatorRun(JobContext(suite, [FakeRunner(DeviceHub(), look).device], blobs)).run()
    assert seen[name].endswith(b"// mine\n")
    assert document["edited_kernels"] == [name]
    assert {test["kernel"] for test in document["tests"] if test["edited"]} == {name}


def test_each_variant_goes_out_with_its_own_text(tmp_path: Path) -> None:
    fat = carve(small_model(), tmp_path / "fat.suite", name="fat", variants=("256+subgroups", "256"))
    blobs = Blobs()
    texts: dict[tuple[str, str], bytes] = {}

    def look(message: dict[str, Any], runner: FakeRunner) -> None:
        for kernel in message["params"]["kernels"]:
            for variant in kernel["variants"]:
                for entry_point in variant["entry_points"]:
                    texts[kernel["kernel"], entry_point["file"]] = bytes(blobs.find(entry_point["code"]) or b"")
        all_pass(message, runner)

    document = OperatorRun(JobContext(fat, [FakeRunner(DeviceHub(), look).device], blobs)).run()
    assert document["summary"]["pass"] == len(fat.tests)
    assert any("+subgroups" in file for _, file in texts)
    for (_, file), text in texts.items():
        assert (fat.path / "kernels" / file).read_bytes() == text


def test_a_defect_in_the_middle_of_a_run_is_raised(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(KernelMessages, "test", broken)
    with pytest.raises(RuntimeError, match="a defect"):
        OperatorRun(JobContext(suite, [FakeRunner(DeviceHub(), all_pass).device], Blobs())).run()


def test_a_device_without_webgpu_is_refused() -> None:
    device = FakeRunner(DeviceHub(), all_pass, "Old 1", unavailable="WebGPU is off: switch it on").device
    with pytest.raises(InputError, match="Old 1 cannot run kernels: WebGPU is off"):
        require_devices([device])


def lose(runner: FakeRunner, message: dict[str, Any], kernel: str | None, test: str | None) -> None:
    runner.fail(
        message,
        kind="device-lost",
        message=f"kernel {kernel} did not end",
        kernel=kernel,
        test=test,
        lost_reason="hung",
    )


def test_after_a_hang_the_other_kernels_go_on(suite: Suite) -> None:
    culprit = suite.tests[1]

    def hang_once(message: dict[str, Any], runner: FakeRunner) -> None:
        for test in message["params"]["tests"]:
            if test["kernel"] == culprit.kernel:
                lose(runner, message, culprit.kernel, culprit.id)
                return
            runner.verdict(message, test)
        runner.finish(message)

    document = OperatorRun(JobContext(suite, [FakeRunner(DeviceHub(), hang_once).device], Blobs())).run()
    for test in document["tests"]:
        assert test["verdict"] == ("error" if test["kernel"] == culprit.kernel else "pass")
    found = next(test for test in document["tests"] if test["id"] == culprit.id)
    assert found["message"] == f"kernel {culprit.kernel} did not end"
    others = [t for t in document["tests"] if t["kernel"] == culprit.kernel and t["id"] != culprit.id]
    assert all("not run: kernel" in test["message"] for test in others)


def test_a_device_that_is_lost_again_and_again_is_given_up(suite: Suite) -> None:
    runner = FakeRunner(DeviceHub(), lambda message, r: lose(r, message, None, None))
    document = OperatorRun(JobContext(suite, [runner.device], Blobs())).run()
    assert [len(call["params"]["kernels"]) for call in runner.calls] == [len(suite.kernels), 1]
    assert {test["verdict"] for test in document["tests"]} == {"error"}


def test_large_kernels_travel_in_calls_of_their_own(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapml.validation.operatorwise._KERNEL_BYTES_A_CALL", 1)
    runner = FakeRunner(DeviceHub(), all_pass)
    document = OperatorRun(JobContext(suite, [runner.device], Blobs())).run()
    assert all(len(call["params"]["kernels"]) == 1 for call in runner.calls)
    assert document["summary"]["pass"] == len(suite.tests)


def test_kernels_of_which_one_is_to_blame_are_compiled_one_by_one(suite: Suite) -> None:
    hostile = suite.kernels[1:3]

    def compile_for_ever(message: dict[str, Any], runner: FakeRunner) -> None:
        kernels = [kernel["kernel"] for kernel in message["params"]["kernels"]]
        if guilty := [kernel for kernel in kernels if kernel in hostile]:
            lose(runner, message, guilty[0] if len(kernels) == 1 else None, None)
        else:
            all_pass(message, runner)

    runner = FakeRunner(DeviceHub(), compile_for_ever)
    document = OperatorRun(JobContext(suite, [runner.device], Blobs())).run()
    for test in document["tests"]:
        assert test["verdict"] == ("error" if test["kernel"] in hostile else "pass"), test
        assert test["message"] == (f"kernel {test['kernel']} did not end" if test["kernel"] in hostile else "")
    assert len(runner.calls) == 1 + len(suite.kernels)


def test_a_killed_process_loses_no_verdict(suite: Suite) -> None:
    """The journal it leaves becomes a result when the suite is next used."""

    class Killed(BaseException):
        pass

    first = suite.tests[0]
    begin: ValidationHeader = {
        "format": "tapml.validation/1",
        **header(suite, [FakeRunner(DeviceHub(), all_pass).device], interrupted=True, edited=[], digests={}),
        "run": "a run",
    }
    with contextlib.suppress(Killed), Journal(suite, "Fake 1", begin) as journal:
        journal.write(result_without_run(first, "fake-1", "error", "as it was reported"))
        raise Killed
    (left,) = (suite.path / "results" / "running").iterdir()
    with left.open("a") as file:
        file.write('{"id": "cut of')
    # Another process wrote it, and is no more.
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    left.rename(left.with_name(f"Fake-1.{gone.stdout.strip()}.0.jsonl"))
    recover(suite)
    (saved,) = suite.results("validation")
    assert saved["interrupted"]
    assert [(test["id"], test["message"]) for test in saved["tests"]] == [(first.id, "as it was reported")]
    assert list((suite.path / "results" / "running").iterdir()) == []


def test_saved_results_leave_no_journal(suite: Suite) -> None:
    OperatorRun(JobContext(suite, [FakeRunner(DeviceHub(), all_pass).device], Blobs()), save=True).run()
    assert list((suite.path / "results" / "running").iterdir()) == []
    (saved,) = suite.results("validation")
    assert saved["summary"]["pass"] == len(suite.tests)
