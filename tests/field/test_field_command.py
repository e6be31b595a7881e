"""`tapml field` as a person types it."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from field_profiles import IDS
from field_tasks import FILES, TASK, Group

from tapml.cli import field_releases, main
from tapml.field.storage.store import Reported, Store
from tapml.field.tasks.publish import published_path
from tapml.field.tasks.published import Published

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
    (work / "task.json").write_bytes(FILES["task.json"])
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
    for line in (["rm", "-q", "task.json"], [*who, "commit", "-qm", "second"], ["tag", "highlight/2.0"]):
        subprocess.run(["git", "-C", str(work), *line], check=True)
    push = ["push", "-q", str(group / "shop.git"), "highlight", "highlight/2.0"]
    subprocess.run(["git", "-C", str(work), *push], check=True)
    assert main([*publish[:4], "2.0", *publish[5:]]) == 2
    assert "has no task.json" in capsys.readouterr().err
    assert main([*publish[:3], "highlight", *publish[4:]]) == 2
    assert "'highlight' is no SCENARIO/TASK: give both" in capsys.readouterr().err
    assert not (group / "published" / "versions" / "shop" / "highlight" / "2.0").exists()


def test_a_release_from_plan_to_rollback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Group(tmp_path)
    Published(published_path(made.path)).add_version(TASK, "0.9", [], {}, made.key)
    made.add("1.0", FILES)
    group, plan = str(made.path), tmp_path / "plan.json"
    document = {"task": TASK, "version": "1.0", "steps": [{"kind": "gray", "share": 0.1}, {"kind": "full"}]}
    plan.write_text(json.dumps(document))
    assert main(["field", "release", group, str(plan)]) == 2
    assert f"{TASK} 1.0 is not published" in capsys.readouterr().err
    mistyped = tmp_path / "mistyped"
    assert main(["field", "release", str(mistyped), str(plan)]) == 2
    assert "mistyped is no folder: make a group" in capsys.readouterr().err
    assert not mistyped.exists()
    plan.write_text(json.dumps({**document, "version": "0.9"}))
    assert main(["field", "release", group, str(plan)]) == 2
    assert f"{TASK} 0.9 has no task.json, and no device can install it" in capsys.readouterr().err
    simulated = {**document, "version": "1.1", "steps": [{"kind": "simulation", "browsers": ["netscape"]}]}
    made.add("1.1", FILES)
    made.publish("1.1")
    plan.write_text(json.dumps(simulated))
    assert main(["field", "release", group, str(plan)]) == 2
    assert "steps[0]: tapml knows no browser 'netscape': give one of chromium" in capsys.readouterr().err
    plan.write_text(json.dumps(document))
    assert main(["field", "releases", group]) == 0
    assert capsys.readouterr().out.startswith("nothing was released")
    digest = made.publish("1.0")
    plan.write_text(json.dumps({**document, "manifest": "0" * 64}))
    assert main(["field", "release", group, str(plan)]) == 2
    assert f"but with {digest}" in capsys.readouterr().err
    plan.write_text(json.dumps(document))
    assert main(["field", "release", group, str(plan)]) == 0
    assert "step gray 10%" in capsys.readouterr().out
    store = Store(made.path / "field.sqlite3")
    (release,) = store.releases()
    store.report_all([Reported(release, IDS[0], failed=False, slow=False, milliseconds=64.0)], 5)
    assert main(["field", "rollback", group, TASK[:-1], "1.0", "--reason", "it is slow"]) == 2
    assert f"is not being released, did you mean {TASK}?" in capsys.readouterr().err
    assert main(["field", "rollback", group, TASK, "1.0", "--reason", "it is slow"]) == 0
    assert main(["field", "releases", group, "--json", str(tmp_path / "releases.json")]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"rolled-back gray 10% .* \d\d-\d\d \d\d:\d\d\n", shown)
    assert "it is slow" in shown
    assert f"{TASK} 1.0: gray 10%: a run took 64 ms, p95 64, on 1 device" in shown
    (found,) = json.loads((tmp_path / "releases.json").read_text())["releases"]
    assert [event["status"] for event in found["events"]] == ["running", "rolled-back"]
    times = {"devices": 1, "p50": 64, "p95": 64}
    assert found["rates"] == [{"step": "gray 10%", "devices": 1, "failed": 0, "slow": 0, "times": times}]

    # Of two releases of a version it is said which one is meant.
    assert main(["field", "release", group, str(plan)]) == 0
    capsys.readouterr()
    assert main(["field", "releases", group]) == 0
    assert re.search(rf"\n{TASK} 1\.0, begun \d\d-\d\d \d\d:\d\d: it is slow\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"steps": [{"kind": "beta", "devices": ["mine"]}]}, "devices[0]: a device's name is 16 to 64 letters"),
        ({"task": "Shop"}, "task: a task is SCENARIO/TASK"),
        ({"version": "v1"}, "version: a version is one to four numbers"),
        ({"steps": [{"kind": "all"}]}, "steps[0]: there is no kind 'all': give one of 'simulation', 'beta'"),
        ({"steps": [{"share": 0.5}]}, "steps[0]: it has no kind"),
        ({"steps": ["full"]}, "steps[0]: it is not an object"),
        ({"polcy": {}}, "plan.json: there is no field polcy (did you mean policy?)"),
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
        ([str(tmp_path), "--port", "0", "--simulate", "netscape"], "/netscape cannot be opened"),
        ([str(tmp_path), "--port", "0", "--simulate", "ftp://shop.example/"], "is no address of a page"),
    ):
        assert main(["field", "serve", *arguments]) == 2
        assert sentence in capsys.readouterr().err


def test_a_folder_where_nothing_is_published_is_served_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Group(tmp_path)
    monkeypatch.setattr(field_releases, "wait_until_stopped", lambda: None)
    hint = f"nothing is published in {made.path}: `tapml field publish` does"
    assert main(["field", "serve", str(made.path), "--port", "0"]) == 0
    assert hint in capsys.readouterr().err
    made.add("1.0", FILES)
    made.publish("1.0")
    assert main(["field", "serve", str(made.path), "--port", "0"]) == 0
    said = capsys.readouterr()
    assert hint not in said.err
    assert "/pages/" not in said.out


def test_where_pages_are_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field_releases, "wait_until_stopped", lambda: None)
    assert main(["field", "serve", str(tmp_path), "--port", "0", "--pages", str(tmp_path)]) == 0
    (address,) = re.findall(r"^the field is served at (\S+) ", out := capsys.readouterr().out, re.MULTILINE)
    assert f"web pages are at {address}/pages/\n" in out


def test_a_simulation_that_nobody_drives_says_what_it_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, plan = Group(tmp_path), tmp_path / "plan.json"
    made.add("1.0", FILES)
    made.publish("1.0")
    steps = [{"kind": "simulation", "browsers": ["chromium", "firefox+no-subgroups"]}]
    plan.write_text(json.dumps({"task": TASK, "version": "1.0", "steps": steps}))
    for command in (["release", str(made.path), str(plan)], ["releases", str(made.path)]):
        assert main(["field", *command]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "its simulation step waits for 2 of 2 browsers, which a `tapml field serve` with `--simulate" in shown


def test_the_first_commands_to_copy_from_the_page_publish_what_devices_can_install(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "field.md").read_text()
    lines = text.split("From one folder:\n")[1].split("```sh\n")[1].split("```")[0]
    who = {f"GIT_{role}_{what}": "a@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", lines],
        cwd=tmp_path,
        env={**os.environ, **who, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    published = Published(published_path(tmp_path / "group"))
    assert (digest := published.digest(TASK, "1.2.0")) == done.stdout.split()[-1]
    assert [file.path for file in published.manifest(digest).shared] == ["main.pyc", "task.json"]


def test_the_plan_to_copy_from_the_page_is_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "field.md").read_text()
    (tmp_path / "plan.json").write_text(text.split("## A plan\n")[1].split("```json\n")[1].split("```")[0])
    arguments = ["--plan", str(tmp_path / "plan.json"), "--json", str(tmp_path / "found.json")]
    assert main([*SMALL, *arguments]) in (0, 1)
    assert json.loads((tmp_path / "found.json").read_text())["steps"][0] == {"step": "beta", "second": 0}
