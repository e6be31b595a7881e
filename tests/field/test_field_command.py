"""`tapml field` as a person types it."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from field_tasks import FILES, TASK, Group

from tapml.cli import main

SMALL = ["field", "simulate", "--devices", "22000", "--until", "20"]


def test_a_release_that_works_reaches_everybody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn, document = tmp_path / "coverage.svg", tmp_path / "coverage.json"
    plan = {
        "task": "shop/highlight", "version": "2", "manifest": "0" * 64,
        "steps": [{"kind": "gray", "share": 0.3, "seconds": 60}, {"kind": "full"}],
    }  # fmt: skip
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert main([*SMALL, "--plan", str(tmp_path / "plan.json"), "-o", str(drawn), "--json", str(document)]) == 0
    assert "22,000 of 22,000 devices" in capsys.readouterr().out
    found = json.loads(document.read_text())
    assert [step["step"] for step in found["steps"]] == ["gray 30%", "full"]
    assert found["on_line"][0] == 6000
    assert found["covered"][-1] == 22_000
    assert len(found["covered"]) == 20 * 60 + 1
    lines = ET.parse(drawn).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3


def test_a_release_that_fails_is_rolled_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = tmp_path / "coverage.html"
    assert main([*SMALL, "--broken", "gpu_vendor=arm", "-o", str(drawn)]) == 1
    assert "Rolled back in the step beta" in capsys.readouterr().out
    assert "rolled back" in drawn.read_text()


def test_a_release_that_few_had_is_drawn_to_their_number(tmp_path: Path) -> None:
    drawn, document, plan = tmp_path / "coverage.svg", tmp_path / "coverage.json", tmp_path / "plan.json"
    steps = [
        {"kind": "beta", "devices": ["beta-device-0001"]},
        {"kind": "gray", "share": 0.05},
        {"kind": "gray", "share": 0.06},
    ]
    plan.write_text(json.dumps({"task": TASK, "version": "1", "manifest": "0" * 64, "steps": steps}))
    arguments = ["--plan", str(plan), "--failure-rate", "0.05", "-o", str(drawn), "--json", str(document)]
    assert main([*SMALL, *arguments, "--broken", "gpu_vendor=intel"]) == 1
    found, root = json.loads(document.read_text()), ET.parse(drawn).getroot()
    space = "{http://www.w3.org/2000/svg}"
    begun = [one["step"] for one in found["steps"]]
    names = [one for one in root.iter(f"{space}text") if "rotate" in one.get("transform", "")]
    assert [one.text for one in names] == [*begun, "rolled back"]
    places = [float(one.get("transform", "").removeprefix("translate(").split()[0]) for one in names]
    assert all(after - before >= 20 for before, after in itertools.pairwise(places))
    (covered,) = (one for one in root.iter(f"{space}polyline") if one.get("class") == "line covered")
    heights = [float(point.split(",")[1]) for point in covered.get("points", "").split()]
    assert max(heights) - min(heights) > 150  # of 348


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "coverage.png"], "ends in .svg or .html"),
        (["--devices", "3"], "--devices 3: give 20 to"),
        (["--at-start", "5"], "--at-start 5: give 20"),
        (["--broken", "arm"], "write it as FIELD=VALUE"),
        (["--broken", "speed=fast"], "speed is a number"),
        (
            ["--plan", "missing.json"],
            "missing.json cannot be read (No such file or directory): give",
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMALL, *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_a_version_is_published_from_a_push(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group, work, key = tmp_path / "group", tmp_path / "work", tmp_path / "key.pem"
    assert main(["field", "key", "-o", str(key)]) == 0
    assert len(capsys.readouterr().out.strip()) == 43
    assert main(["field", "init", str(group), "shop"]) == 0
    work.mkdir()
    (work / "main.py").write_text("print(1)")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for line in (
        ["init", "-q", "-b", "highlight"], ["add", "."], [*who, "commit", "-qm", "first"], ["tag", "highlight/1.0"],
        ["push", "-q", str(group / "shop.git"), "highlight", "highlight/1.0"],
    ):  # fmt: skip
        subprocess.run(["git", "-C", str(work), *line], check=True)
    capsys.readouterr()
    publish = ["field", "publish", str(group), "shop/highlight", "1.0", "--key", str(key)]
    assert main([*publish, "--json", "-"]) == 0
    digest = json.loads(capsys.readouterr().out)["manifest"]
    assert (group / "published" / "manifests" / f"{digest}.json").is_file()
    assert main([*publish[:4], "2.0", *publish[5:]]) == 2
    assert "has no tag highlight/2.0" in capsys.readouterr().err


def test_a_release_from_plan_to_rollback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Group(tmp_path)
    made.add("1.0", FILES)
    group, plan = str(made.path), tmp_path / "plan.json"
    document = {"task": TASK, "version": "1.0", "steps": [{"kind": "gray", "share": 0.1}, {"kind": "full"}]}
    plan.write_text(json.dumps(document))
    assert main(["field", "release", group, str(plan)]) == 2
    assert f"{TASK} 1.0 is not published" in capsys.readouterr().err
    assert main(["field", "releases", group]) == 0
    assert capsys.readouterr().out.startswith("nothing was released")
    digest = made.publish("1.0")
    plan.write_text(json.dumps({**document, "manifest": "0" * 64}))
    assert main(["field", "release", group, str(plan)]) == 2
    assert f"but with {digest}" in capsys.readouterr().err
    plan.write_text(json.dumps(document))
    assert main(["field", "release", group, str(plan)]) == 0
    assert "step gray 10%" in capsys.readouterr().out
    assert main(["field", "rollback", group, TASK[:-1], "1.0", "--reason", "it is slow"]) == 2
    assert f"is not being released, did you mean {TASK}?" in capsys.readouterr().err
    assert main(["field", "rollback", group, TASK, "1.0", "--reason", "it is slow"]) == 0
    assert main(["field", "releases", group, "--json", str(tmp_path / "releases.json")]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"rolled-back gray 10% .* \d\d-\d\d \d\d:\d\d\n", shown)
    assert "it is slow" in shown
    (found,) = json.loads((tmp_path / "releases.json").read_text())["releases"]
    assert [event["status"] for event in found["events"]] == ["running", "rolled-back"]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"steps": [{"kind": "beta", "devices": ["mine"]}]}, "devices[0]: a device's name is 16 to 64 letters"),
        ({"task": "Shop"}, "task: a task is SCENARIO/TASK"),
        ({"version": "v1"}, "version: a version is one to four numbers"),
        ({"manifest": "abc"}, "manifest: a SHA-256 digest is 64"),
        ({"policy": {"groups": [{"gpu": {"one_of": ["intel"]}}]}}, "conditions are on app, browser"),
        ({"policy": {"groups": [{"app": {"at_least": "v1"}}]}}, "a version is one to four numbers"),
    ],
)
def test_what_is_wrong_in_a_plan_is_told_in_words(
    changed: dict[str, object], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"task": TASK, "version": "1", "steps": [{"kind": "full"}], **changed}))
    assert main(["field", "release", str(tmp_path), str(plan)]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert "pattern" not in told


def test_what_cannot_be_served_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, sentence in (
        (["missing"], "is no folder"),
        ([str(tmp_path), "--grants", "abc"], "no public key"),
        ([str(tmp_path), "--allow-origin", "shop.example/"], "is no origin"),
        ([str(tmp_path), "--database-url", "mysql://x"], "SQLite"),
    ):
        assert main(["field", "serve", *arguments]) == 2
        assert sentence in capsys.readouterr().err


def test_the_plan_to_copy_from_the_page_is_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "field.md").read_text()
    (tmp_path / "plan.json").write_text(text.split("## A plan\n")[1].split("```json\n")[1].split("```")[0])
    arguments = ["--plan", str(tmp_path / "plan.json"), "--json", str(tmp_path / "found.json")]
    assert main([*SMALL, *arguments]) in (0, 1)
    assert json.loads((tmp_path / "found.json").read_text())["steps"][0] == {"step": "beta", "second": 0}
