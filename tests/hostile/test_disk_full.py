"""A disk that takes no more, at every place that writes: no verdict is lost, nothing is half written."""

from __future__ import annotations

import io
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from full_disk import full_disk, on_full_disk

from helpers import FakeRunner, all_pass, small_model
from repro_helpers import keep_result
from tapml import cache
from tapml.carving.carve import carve
from tapml.cli import main
from tapml.devices import Blobs, DeviceHub
from tapml.errors import InputError, ToolchainError
from tapml.history import Recorder
from tapml.jobs import JobSpecification
from tapml.server.local import create_app
from tapml.server.security import Security
from tapml.server.state import State
from tapml.sharing import Repro, export, links, of_suite
from tapml.sharing.imports import add_to_suite, new_suite
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.journal import Journal, left_behind
from tapml.validation.operatorwise import OperatorRun

CHANGE = {"X-Tapml": "1"}


@pytest.fixture
def test_id(suite: Suite) -> str:
    found = next(test.id for test in suite.tests if "softmax" in test.kernel)
    keep_result(suite, found)
    return found


@pytest.fixture
def repro(suite: Suite, test_id: str) -> Repro:
    return of_suite(suite, test_id)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --------------------------------------------------------------- validation


def validated(suite: Suite, most: int = 0) -> tuple[dict[str, Any], list[str]]:
    """The document, and what was said, of a run on a full disk."""
    said: list[str] = []

    def emit(event: dict[str, Any]) -> None:
        if event["type"] == "message":
            said.append(event["text"])

    device = FakeRunner(DeviceHub(), all_pass).device
    with full_disk(most):
        run = OperatorRun(
            JobContext(suite, [device], Blobs(), emit=emit), save=True, history=Recorder(None, "validate")
        )
        return run.run(), said


@pytest.mark.parametrize("most", [0, 900, 5000])
def test_a_validation_has_all_verdicts(suite: Suite, most: int) -> None:
    before = files(suite.path)
    document, said = validated(suite, most)
    assert document["summary"]["pass"] == len(suite.tests)
    kept, history = said
    assert "the results cannot be kept in" in kept
    assert "File too large" in kept
    assert "this run is not in the history" in history
    after = {name: data for name, data in files(suite.path).items() if "history.sqlite3" not in name}
    assert after == before, "nothing is half written"


def test_a_validation_goes_on_where_results_is_no_folder(suite: Suite) -> None:
    (suite.path / "results").write_text("in the way")
    document, said = validated(suite, 1 << 30)
    assert document["summary"]["pass"] == len(suite.tests)
    assert any("the results cannot be kept in" in text for text in said)


def test_a_journal_that_is_cut_off_by_a_full_disk_is_none(suite: Suite) -> None:
    header = {"format": "tapml.validation/1"}
    with full_disk(300), Journal(suite, "Fake 1", header) as journal:
        for number in range(50):
            journal.write({"id": f"n{number:03d}.s0", "verdict": "pass"})
    problems: list[str] = []
    assert not list(left_behind(suite, problems))
    assert not problems
    assert not list((suite.path / "results" / "running").iterdir())


@pytest.mark.slow
def test_the_command_shows_the_verdicts_and_says_what_is_missing(suite: Suite, tmp_path: Path) -> None:
    ended = on_full_disk(
        "validate", suite.path, "--device", "node-dawn", "--json", tmp_path / "x.json", folder=tmp_path
    )
    assert "Traceback" not in ended.err
    assert f"{len(suite.tests)} tests: {len(suite.tests)} pass" in ended.out
    assert "the results cannot be kept in" in ended.err
    assert f"cannot write {tmp_path / 'x.json'}: File too large" in ended.err
    assert ended.code == 2, "all pass, but a file that was asked for is missing"
    assert not (tmp_path / "x.json").exists()


def test_every_report_of_a_test_run_is_tried(suite: Suite, tmp_path: Path) -> None:
    reports = {f"--{form}": tmp_path / f"x.{form}" for form in ("json", "junit", "html")}
    asked = [part for option, path in reports.items() for part in (option, path)]
    baseline = tmp_path / "baseline.json"
    asked += ["--baseline", baseline, "--update-baseline"]
    ended = on_full_disk("test", suite.path, "--device", "node-dawn", *asked, folder=tmp_path)
    assert "Traceback" not in ended.err
    assert "pass" in ended.out
    for path in (*reports.values(), baseline):
        assert f"{path}: File too large" in ended.err
        assert not path.exists()
    assert ended.code == 2


# ------------------------------------------------------------------ streams


def test_standard_output_on_a_full_disk_is_no_success(suite: Suite, tmp_path: Path) -> None:
    with (tmp_path / "output").open("w") as full:
        ended = on_full_disk("show", suite.path, folder=tmp_path, stdout=full)
    assert ended.code == 2
    assert ended.err.startswith("tapml: cannot write standard output: File too large; ")
    assert ended.err.count("\n") == 1


def test_a_log_on_a_full_disk_takes_no_verdicts_away(suite: Suite, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as full:
        ended = on_full_disk("validate", suite.path, "--device", "node-dawn", folder=tmp_path, stderr=full)
    assert ended.code == 0
    assert "pass" in ended.out


def test_a_reader_that_left_changes_no_exit_code(suite: Suite, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    for arguments in (("show", suite.path), ("show", suite.path, "--json", "-")):
        ended = on_full_disk(*arguments, folder=tmp_path, stdout=write)
        assert (ended.code, ended.err) == (0, "")
    os.close(write)


# ------------------------------------------------------------------ writing


def test_a_carve_says_how_far_it_came_and_leaves_nothing(tmp_path: Path) -> None:
    with full_disk(1000), pytest.raises(InputError) as caught:
        carve(small_model(), tmp_path / "x.suite", name="x")
    said = str(caught.value)
    assert said.startswith(f"cannot write {tmp_path / 'x.suite'}: File too large; ")
    assert "choose another place with -o" in said
    assert re.search(r"\([\d.]+ k?B(?: of about [\d.]+ k?B)? were written, and are removed\)$", said)
    assert list(tmp_path.iterdir()) == []


def test_a_carve_on_a_full_disk_leaves_the_suite_that_was_there(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(suite.path)
    with full_disk(1000), pytest.raises(InputError, match="File too large"):
        carve(small_model(), suite.path, name="x", overwrite=True)
    assert files(suite.path) == before
    # The last step of all: the new folder cannot take the old one's place.
    replace = Path.replace

    def fails(path: Path, target: Path) -> Path:
        if target == suite.path and path.name.startswith(".small") and path.name != "suite":
            raise OSError(28, "No space left on device")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(InputError, match="No space left"):
        carve(small_model(), suite.path, name="x", overwrite=True)
    assert files(suite.path) == before
    assert [path.name for path in suite.path.parent.iterdir()] == ["small.suite"]


def test_a_carve_estimates_what_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tapml.suite import SuiteWriter

    told: list[int | None] = []
    finish = SuiteWriter.finish

    def noted(writer: SuiteWriter, *arguments: Any) -> Suite:
        told.append(writer.expected_bytes)
        return finish(writer, *arguments)

    monkeypatch.setattr(SuiteWriter, "finish", noted)
    suite = carve(small_model(), tmp_path / "x.suite", name="x")
    (expected,) = told
    assert expected is not None
    tensors = sum(path.stat().st_size for path in (suite.path / "tensors").rglob("*.bin"))
    assert tensors / 2 < expected < 2 * tensors


def test_a_cache_that_cannot_be_written_does_not_stop_a_carve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TAPML_CACHE", str(tmp_path / "file" / "cache"))
    suite = carve(small_model(), tmp_path / "x.suite", name="x")
    assert all(suite.kernel_files(kernel) for kernel in suite.kernels)


def test_what_a_full_cache_has_no_room_for_is_made_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPML_CACHE", str(tmp_path))
    made: list[Path] = []

    def make(folder: Path) -> str:
        made.append(folder)
        (folder / "wasm").write_bytes(b"x" * 10)
        return folder.name

    assert cache.cached(make) == tmp_path.name
    (tmp_path / "wasm").unlink()
    with full_disk(5), pytest.raises(ToolchainError, match=r"neither the cache .* nor a temporary folder"):
        cache.cached(make)
    monkeypatch.setenv("TAPML_CACHE", str(tmp_path / "wasm" / "cache"))
    (tmp_path / "wasm").write_text("no folder")
    assert cache.cached(make).startswith("tapml-cache-")

    def broken(folder: Path) -> str:
        raise ToolchainError("the compiler's own words")

    monkeypatch.setenv("TAPML_CACHE", str(tmp_path))
    with pytest.raises(ToolchainError, match="own words"):
        cache.cached(broken)


@pytest.mark.parametrize("form", ["html", "safetensors", "python", "wgsl", "markdown"])
def test_an_export_is_whole_or_not_at_all(repro: Repro, form: str, tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    with full_disk(200), pytest.raises(InputError, match=r"cannot write .*File too large; "):
        export(repro, form, place / ("x.py" if form == "python" else "x"))
    assert list(place.iterdir()) == []


def test_an_import_is_whole_or_not_at_all(suite: Suite, repro: Repro, tmp_path: Path) -> None:
    repro.read(repro.digests[0])
    before = files(suite.path)
    with full_disk(200), pytest.raises(InputError, match=r"cannot write .*File too large"):
        new_suite(repro, tmp_path / "new.suite")
    assert not (tmp_path / "new.suite").exists()
    shutil.copytree(suite.path, tmp_path / "other.suite")
    (tmp_path / "other.suite" / "tests.json").write_text('{"tests": []}')
    shutil.rmtree(tmp_path / "other.suite" / "tensors")
    other = Suite(tmp_path / "other.suite")
    unchanged = files(other.path)
    with full_disk(200), pytest.raises(InputError, match=r"cannot write .*File too large"):
        add_to_suite(repro, other)
    assert files(other.path) == unchanged
    assert files(suite.path) == before


def test_a_link_that_cannot_be_kept_is_none(suite: Suite, repro: Repro) -> None:
    with full_disk(200), pytest.raises(InputError, match=r"cannot write .*a link needs a suite to lie in"):
        links.create(suite.path, repro)
    assert not files(suite.path / "shares")
    (suite.path / "shares").rmdir()
    (suite.path / "shares").write_text("in the way")
    with pytest.raises(InputError, match="cannot write"):
        links.create(suite.path, repro)


def test_an_expired_link_that_cannot_be_removed_is_dead(
    suite: Suite, repro: Repro, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_id, _ = links.create(suite.path, repro, 1e-9)

    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    assert links.find([suite.path], share_id) is None
    assert links.shares(suite.path) == []


def test_json_beside_what_is_shown(suite: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("no folder")
    assert main(["show", str(suite.path), "--json", str(tmp_path / "file" / "x.json")]) == 2
    said = capsys.readouterr()
    assert "small" in said.out
    assert said.err.startswith(f"tapml: cannot write {tmp_path / 'file' / 'x.json'}: ")


# ------------------------------------------------------------------- server


def test_the_server_says_so_and_goes_on(
    suite: Suite, repro: Repro, test_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAPML_DATA", str(tmp_path / "data"))
    export(repro, "safetensors", tmp_path / "x.safetensors")
    body = (tmp_path / "x.safetensors").read_bytes()
    state = State(Security("127.0.0.1"), url="http://127.0.0.1:1")
    state.suites.add(suite.path)
    client = create_app(state).test_client()
    client.environ_base["HTTP_HOST"] = "127.0.0.1"
    share = f"/api/suites/small/tests/{test_id}/shares"
    with full_disk(200):
        answers = [
            client.post("/api/imports?name=x.safetensors", data=io.BytesIO(body), headers=CHANGE),
            client.post(share, json={"device": None, "days": 1}, headers=CHANGE),
            client.get(f"/api/suites/small/tests/{test_id}/export?form=html"),
        ]
    assert [answer.status_code for answer in answers] == [507, 400, 400]
    for answer in answers:
        assert "cannot write" in answer.json["error"]
        assert "File too large" in answer.json["error"]
    assert client.post("/api/imports?name=x.safetensors", data=io.BytesIO(body), headers=CHANGE).status_code == 200
    state.close()


def test_a_job_whose_results_cannot_be_kept_is_done(suite: Suite) -> None:
    (suite.path / "results").write_text("in the way")
    state = State(Security("127.0.0.1"), url="http://127.0.0.1:1")
    device = FakeRunner(state.hub, all_pass).device
    job = state.jobs.start(JobSpecification(kind="validation", devices=["x"]), "small", suite, lambda _: device)
    assert job.done.wait(180)
    assert (job.state, job.error) == ("done", None)
    assert job.document is not None
    assert job.document["summary"]["pass"] == len(suite.tests)
    assert any("cannot be kept in" in event.get("text", "") for event in job.events)
    state.close()


def test_arrays_are_still_what_they_were(repro: Repro) -> None:
    """What reads goes on where nothing can be written."""
    with full_disk():
        assert all(isinstance(array, np.ndarray) for array in repro.arrays.values())
