"""tapml export, import and share: what they write, and what they refuse before they write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repro_helpers import keep_result
from tapml.cli import main
from tapml.sharing import links, load_repro
from tapml.suite import Suite


@pytest.fixture
def test_id(suite: Suite) -> str:
    found = next(test.id for test in suite.tests if "softmax" in test.kernel)
    keep_result(suite, found)
    return found


def tapml(*arguments: str | Path) -> int:
    return main([str(argument) for argument in arguments])


def test_every_form_at_once_under_one_name(suite: Suite, test_id: str, tmp_path: Path) -> None:
    """The script's data is the very file that --safetensors asks for."""
    place = tmp_path / "out"
    place.mkdir()
    forms = {"--html": "r.html", "--python": "r.py", "--wgsl": "wgsl", "--safetensors": "r.safetensors"}
    arguments = [part for option, name in forms.items() for part in (option, place / name)]
    assert tapml("export", suite.path, test_id, *arguments, "--markdown", place / "r.md") == 0
    assert {path.name for path in place.iterdir()} == {*forms.values(), "r.md"}
    for name in forms.values():
        assert load_repro(place / name).document.test.id == test_id


def test_nothing_is_written_where_one_name_is_wrong(
    suite: Suite, test_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "out"
    place.mkdir()
    (place / "taken.md").write_text("mine")
    for wrong, said in (
        (("--markdown", place / "taken.md"), "exists"),
        (("--python", place / "script"), "ends with .py"),
        (("--wgsl", place / "missing" / "x"), "no folder"),
        (("--safetensors", place / "x.html"), "two forms"),
    ):
        assert tapml("export", suite.path, test_id, "--html", place / "x.html", *wrong) == 2
        assert said in capsys.readouterr().err
        assert [path.name for path in place.iterdir()] == ["taken.md"]
    assert (place / "taken.md").read_text() == "mine"


def test_without_a_form_it_is_an_html_file_named_after_the_test(
    suite: Suite, test_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tapml("export", suite.path, test_id) == 0
    assert load_repro(tmp_path / f"softmax-{test_id}.html").document.report is not None


def test_an_import_says_where_it_went(
    suite: Suite, test_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "theirs.safetensors"
    assert tapml("export", suite.path, test_id, "--safetensors", file) == 0
    assert tapml("import", file, "-o", tmp_path / "theirs.suite") == 0
    assert "tapml validate" in capsys.readouterr().out
    assert len(Suite(tmp_path / "theirs.suite").tests) == 1
    assert tapml("import", file, "-o", tmp_path / "theirs.suite") == 2
    assert tapml("import", file, "--into", suite.path) == 0
    assert f"is there already as {test_id}" in capsys.readouterr().out


def test_a_link_is_made_listed_and_ended_by_itself(
    suite: Suite, test_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tapml("share", suite.path, test_id, "--server", "https://tests.example/") == 0
    made = capsys.readouterr()
    link = made.out.strip()
    assert link.startswith("https://tests.example/s/")
    assert "only this machine" not in made.err
    assert tapml("share", suite.path, "--json", "-") == 0
    (listed,) = json.loads(capsys.readouterr().out)["shares"]
    assert listed["name"][:12] in made.err, "how to end it is said when it is made"
    assert tapml("share", suite.path, "--revoke", "abc") == 2
    assert tapml("share", suite.path, "--revoke", "f" * 12) == 2
    assert tapml("share", suite.path, "--revoke", link) == 0
    assert links.shares(suite.path) == []


def test_a_link_to_this_machine_says_so(suite: Suite, test_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tapml("share", suite.path, test_id, "--forever") == 0
    assert "only this machine reaches that address" in capsys.readouterr().err
    assert tapml("share", suite.path, test_id, "--forever", "--days", "3") == 2
    assert len(links.shares(suite.path)) == 1


def test_an_imported_test_cannot_be_offloaded(
    suite: Suite, test_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "theirs.safetensors"
    tapml("export", suite.path, test_id, "--safetensors", file)
    tapml("import", file, "-o", tmp_path / "theirs.suite")
    assert tapml("offload", tmp_path / "theirs.suite", "--device", "node-dawn") == 2
    assert "no model" in capsys.readouterr().err
