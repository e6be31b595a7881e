"""A suite that was kept although its reference is not to be believed: every command and every document says so."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from computing_device import ComputingDevice

import tapml as tml
from helpers import small_model
from tapml.api.devices import WebGpuDevice
from tapml.carving.carve import carve
from tapml.cli import main
from tapml.errors import InputError
from tapml.importing import ImportedModel, Step
from tapml.reports.annotations import summary_markdown
from tapml.server.local import create_app
from tapml.server.security import Security
from tapml.server.state import State
from tapml.sharing import load_repro
from tapml.suite import Suite

Run = Callable[..., tuple[int, str]]

WHY = "the reference run disagrees with numpy float64"


def wrong_model() -> ImportedModel:
    """Its oracle gives something else."""
    model = small_model()
    step = model.steps[0]
    assert step.expected is not None
    model.steps[0] = Step(step.description, step.inputs, False, [np.roll(step.expected[0], 1)])
    return model


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What nobody may change."""
    path = tmp_path_factory.mktemp("doubtful") / "doubtful.suite"
    carve(wrong_model(), path, name="doubtful", keep_disagreeing=True)
    return path


@pytest.fixture
def doubtful(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """With a device in this process, of which the kernels named softmax are wrong."""
    shutil.copytree(kept, tmp_path / "doubtful.suite")
    suite = Suite(tmp_path / "doubtful.suite")
    faults = {name: lambda inputs, right, before: right + 1 for name in suite.kernels if name == "softmax"}
    computing = ComputingDevice(suite, faults)
    state = SimpleNamespace(
        blobs=computing.blobs, processes={}, runner_url="", device=lambda name, *rest: computing.device
    )

    @contextlib.contextmanager
    def served(*_: Any) -> Iterator[Any]:
        yield SimpleNamespace(state=state)

    monkeypatch.setattr("tapml.cli.runs.served", served)
    monkeypatch.setattr("tapml.cli.test_command.served", served)
    monkeypatch.setattr("tapml.cli.commands.keep_serving", lambda *_: None)
    monkeypatch.setenv("TAPML_DATABASE_URL", f"sqlite:///{tmp_path / 'history.sqlite'}")
    monkeypatch.chdir(tmp_path)
    return suite


def id_of(suite: Suite) -> str:
    return next(test.id for test in suite.tests if test.kernel == "softmax")


COMMANDS: dict[str, tuple[int, list[str]]] = {
    "show": (0, ["show", "SUITE", "--json", "JSON"]),
    "validate": (1, ["validate", "SUITE", "--json", "JSON"]),
    "locate": (1, ["locate", "SUITE", "--no-model", "--json", "JSON"]),
    "reduce": (0, ["reduce", "SUITE", "TEST", "--json", "JSON"]),
    "test": (1, ["test", "SUITE", "--json", "JSON"]),
    "history": (0, ["history", "SUITE", "--json", "JSON"]),
    "history of a test": (0, ["history", "SUITE", "--test", "TEST", "--json", "JSON"]),
    "share": (0, ["share", "SUITE", "TEST", "--json", "JSON"]),
    "list of shares": (0, ["share", "SUITE", "--json", "JSON"]),
    "export": (0, ["export", "SUITE", "TEST", "--html", "x.html"]),
    "serve": (0, ["serve", "SUITE", "--port", "0"]),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_so(doubtful: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    expected, arguments = COMMANDS[name]
    written = tmp_path / "document.json"
    words = {"SUITE": str(doubtful.path), "TEST": id_of(doubtful), "JSON": str(written)}
    assert main([words.get(argument, argument) for argument in arguments]) == expected
    out, err = capsys.readouterr()
    assert f"DO NOT TRUST {doubtful.path}: {WHY}" in out + err
    if "JSON" in arguments:
        document = json.loads(written.read_text())
        told = document["suites"][0] if name == "test" else document
        assert told["doubts"] == doubtful.doubts
        assert WHY in told["doubts"][0]


def test_carving_says_so_and_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tapml.importing.import_model", lambda *_, **__: wrong_model())
    (tmp_path / "x.onnx").touch()
    arguments = ["carve", str(tmp_path / "x.onnx"), "-o", str(tmp_path / "x.suite"), "--json", str(tmp_path / "x.json")]
    assert main(arguments) == 2
    assert WHY in capsys.readouterr().err
    assert WHY in json.loads((tmp_path / "x.json").read_text())["error"]
    assert not (tmp_path / "x.suite").exists()
    assert main([*arguments, "--keep-disagreeing"]) == 1
    assert f"DO NOT TRUST {tmp_path / 'x.suite'}: {WHY}" in capsys.readouterr().out
    assert json.loads((tmp_path / "x.json").read_text())["doubts"] == Suite(tmp_path / "x.suite").doubts


def test_a_compiled_model_says_so(doubtful: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, written = tmp_path / "x.tapml", tmp_path / "document.json"
    arguments = ["build", str(doubtful.path), "-o", str(path), "--json", str(written)]
    assert main(arguments) == 2
    assert f"DO NOT TRUST {doubtful.path}: {WHY}" in capsys.readouterr().err
    assert not path.exists()
    assert WHY in json.loads(written.read_text())["error"]
    assert main([*arguments, "--keep-disagreeing"]) == 1
    assert f"DO NOT TRUST {path}: {WHY}" in "".join(capsys.readouterr())
    assert json.loads(written.read_text())["provenance"]["doubts"] == doubtful.doubts
    for command in (["show", str(path)], ["run", str(path), "--random-inputs", "-o", str(tmp_path / "y.npz")]):
        assert main(command) == 0
        assert f"DO NOT TRUST {path}: {WHY}" in "".join(capsys.readouterr())


def test_a_comparison_says_so(doubtful: Suite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [tmp_path / "before.json", tmp_path / "after.json"]
    for run in runs:
        assert main(["validate", str(doubtful.path), "--json", str(run)]) == 1
    written = tmp_path / "document.json"
    for what, said in ((["SUITE"], doubtful.path), (["SUITE", "--list"], doubtful.path), (["FILES"], runs[1])):
        capsys.readouterr()
        words = {"SUITE": [str(doubtful.path)], "FILES": list(map(str, runs))}
        given = [word for argument in what for word in words.get(argument, [argument])]
        assert main(["compare", *given, "--json", str(written)]) == 0, "both runs are wrong alike"
        assert f"DO NOT TRUST {said}: {WHY}" in "".join(capsys.readouterr())
        assert json.loads(written.read_text())["doubts"] == doubtful.doubts


def test_no_command_is_left_out() -> None:
    """`carve`, `import`, `build`, `run` and `compare` are here, `offload` in e2e/test_external.py; `generate` warns as
    `run` does, of decoders alone; `tune` only times kernels; the others take no suite."""
    from tapml.cli.parser import command_parser

    (commands,) = (action.choices for action in command_parser()._actions if action.metavar == "COMMAND")
    assert commands is not None
    here = {arguments[0] for _, arguments in COMMANDS.values()} | {
        "carve",
        "import",
        "build",
        "run",
        "offload",
        "compare",
    }
    assert set(commands) - here == {"demo", "device", "devices", "field", "generate", "setup", "tune", "zoo"}


def test_the_reports_of_a_run_say_so(
    doubtful: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    arguments = ["--json", "run.json", "--junit", "run.xml", "--html", "run.html", "--annotations"]
    assert main(["test", str(doubtful.path), *arguments]) == 1
    assert f"::warning title=the reference is in doubt::DO NOT TRUST doubtful: {WHY}" in capsys.readouterr().out
    assert f'<property name="do not trust" value="{WHY}' in Path("run.xml").read_text()
    document = json.loads(Path("run.json").read_text())
    assert "DO NOT TRUST doubtful" in Path("summary.md").read_text()
    document["suites"][0]["doubts"] = []
    assert "DO NOT TRUST" not in summary_markdown(document)


@pytest.mark.parametrize("form", ["html", "safetensors", "wgsl", "python", "markdown"])
def test_an_exported_test_says_so_and_keeps_it(
    doubtful: Suite, carved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    (wgsl,) = (doubtful.path / "kernels" / file.name for file in doubtful.kernel_files("softmax"))
    wgsl.write_text(wgsl.read_text() + "// by hand\n")  # or it would be the sound suite's own test
    path = {"wgsl": "folder", "python": "x.py", "markdown": "x.md"}.get(form, f"x.{form}")
    assert main(["export", str(doubtful.path), id_of(doubtful), f"--{form}", path]) == 0
    if form == "markdown":
        assert f"DO NOT TRUST doubtful: {WHY}" in Path(path).read_text()
        return
    assert load_repro(path).document.suite.doubts == doubtful.doubts
    capsys.readouterr()
    assert main(["import", path, "-o", "again.suite"]) == 0
    assert f"DO NOT TRUST {path}: {WHY}" in capsys.readouterr().err
    assert Suite(Path("again.suite")).doubts == doubtful.doubts
    # Beside tests that nothing is wrong with.
    sound = tmp_path / "sound.suite"
    shutil.copytree(carved, sound)
    assert main(["import", path, "--into", str(sound)]) == 0
    joined = Suite(sound)
    (imported,) = joined.imported.tests
    assert joined.doubts == [f"test {imported.id}, which was imported: {doubtful.doubts[0]}"]
    assert joined.doubts_of(imported) == doubtful.doubts
    assert joined.doubts_of(joined.tests[0]) == []


def test_a_server_says_so_in_its_list_on_its_page_and_behind_links(doubtful: Suite) -> None:
    state = State(Security("127.0.0.1"), url="http://127.0.0.1:1")
    try:
        state.suites.add(doubtful.path)
        client = create_app(state).test_client()
        assert [entry["doubts"] for entry in client.get("/api/suites").json] == [doubtful.doubts]
        assert client.get("/api/suites/doubtful").json["doubts"] == doubtful.doubts
        made = client.post(
            f"/api/suites/doubtful/tests/{id_of(doubtful)}/shares", json={"days": 1}, headers={"X-Tapml": "1"}
        ).json
        assert client.get(f"{made['path']}/test").json["repro"]["suite"]["doubts"] == doubtful.doubts
        assert "DO NOT TRUST doubtful" in client.get(f"{made['path']}/issue.md").text
    finally:
        state.close()


def test_the_api_warns(doubtful: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapml.api.modules.import_model", lambda *_, **__: wrong_model())
    with pytest.raises(InputError, match=WHY):
        tml.load("x.onnx")
    with pytest.warns(UserWarning, match=f"DO NOT TRUST x.onnx: {WHY}"):
        assert tml.load("x.onnx", keep_disagreeing=True).main == "main"
    device = ComputingDevice(doubtful)
    session: Any = SimpleNamespace(device=device.device, blobs=device.blobs, alive=True, run=lambda *_: None)
    with pytest.warns(UserWarning, match=f"DO NOT TRUST .*{WHY}"):
        document = tml.validate(doubtful, WebGpuDevice("fake", session))
    assert document["doubts"] == doubtful.doubts


def test_a_suite_of_a_former_tapml_whose_oracle_disagreed_says_so(doubtful: Suite) -> None:
    manifest = json.loads((doubtful.path / "suite.json").read_text())
    del manifest["doubts"]
    (doubtful.path / "suite.json").write_text(json.dumps(manifest))
    assert Suite(doubtful.path).doubts == [WHY]
