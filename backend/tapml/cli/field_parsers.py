"""`tapml field ...`: its commands and their arguments."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from tapml.cli.arguments import JSON, Commands, count

_GROUP = argparse.ArgumentParser(add_help=False)
_GROUP.add_argument("group", type=Path, metavar="GROUP", help="folder of a group's repositories and versions")
_DATABASE = argparse.ArgumentParser(add_help=False)
_DATABASE.add_argument(
    "--database-url", metavar="URL",
    help="where releases are kept: postgresql://USER:PASSWORD@HOST/DATABASE or sqlite:///FILE (default: "
    "GROUP/field.sqlite3)",
)  # fmt: skip
_REDIS = argparse.ArgumentParser(add_help=False)
_REDIS.add_argument(
    "--redis-url", metavar="URL",
    help="what several server processes of one database share limits and counts by, and tell each other of releases: "
    "redis://:PASSWORD@HOST:PORT/DATABASE, rediss://... or unix:///PATH",
)  # fmt: skip


def add_field(commands: Commands) -> None:
    """`tapml field` with commands of its own."""
    parser = commands.add(
        "field", "field_command:simulate",
        help="tasks around compiled models, released in steps to a fleet of browsers",
        description="Tasks around compiled models, released in steps to a fleet of browsers (docs/field.md).",
    )  # fmt: skip
    own = Commands(parser)
    _tasks(own)
    _releases(own)
    _simulate(own)
    _demo(own)


def _tasks(commands: Commands) -> None:
    key = commands.add(
        "key", "field_tasks:key",
        help="make a key that signs versions",
        description="Make an Ed25519 key that signs versions, and print its public half, by which pages check them.",
    )  # fmt: skip
    key.add_argument("-o", "--output", type=Path, required=True, metavar="KEY.pem", help="private key to write")
    init = commands.add(
        "init", "field_tasks:init", _GROUP,
        help="make the git repository of a scenario",
        description="Make GROUP/SCENARIO.git, an empty bare repository. Push to it: a branch for each task, and a tag "
        "TASK/VERSION on it for each version. A push that rewrites a branch is refused.",
    )  # fmt: skip
    init.add_argument("scenario", metavar="SCENARIO", help="its name: a-z, 0-9 and -")
    publish = commands.add(
        "publish", "field_tasks:publish", _GROUP, JSON,
        help="make a tag a version that never changes, signed",
        description="Make the tag TASK/VERSION of GROUP/SCENARIO.git a version: its files by digest in "
        "GROUP/published, and a signed manifest, whose digest is printed. Files in exclusive/SUBJECT/ are for that "
        "subject only, all others for every device.",
    )  # fmt: skip
    publish.add_argument("task", metavar="SCENARIO/TASK")
    publish.add_argument("version", metavar="VERSION", help="one to four numbers with dots between")
    publish.add_argument("--key", type=Path, required=True, metavar="KEY.pem", help="what `tapml field key` wrote")


def _releases(commands: Commands) -> None:
    release = commands.add(
        "release", "field_releases:release", _GROUP, _DATABASE, _REDIS,
        help="begin to release a version",
        description="Begin to release a version by a plan: to whom, in which steps, and what rolls it back.",
    )  # fmt: skip
    release.add_argument("plan", type=Path, metavar="PLAN.json", help="docs/field.md says what is in it")
    commands.add(
        "releases", "field_releases:releases", _GROUP, JSON, _DATABASE,
        help="list releases: their steps, and what devices reported",
        description="List releases: how far each is, and what devices reported in its step.",
    )  # fmt: skip
    rollback = commands.add(
        "rollback", "field_releases:rollback", _GROUP, _DATABASE, _REDIS,
        help="take a release back",
        description="Take a release back: no device is given it any more, and whoever holds it is told to leave it.",
    )  # fmt: skip
    rollback.add_argument("task", metavar="SCENARIO/TASK")
    rollback.add_argument("version", metavar="VERSION")
    rollback.add_argument("--reason", required=True, metavar="TEXT", help="why, for those who ask later")
    serve = commands.add(
        "serve", "field_releases:serve", _DATABASE, _REDIS,
        help="answer devices, give them versions, watch releases",
        description="Answer the profiles of devices, give them the files of versions, take their reports and watch "
        "releases every second. One process and a SQLite file, unless a database is named.",
    )  # fmt: skip
    serve.add_argument(
        "group", type=Path, metavar="GROUP", nargs="?", default=Path(),
        help="folder of a group's repositories and versions (default: the current one)",
    )  # fmt: skip
    serve.add_argument(
        "--grants",
        metavar="PUBLIC_KEY",
        help="what `tapml field key` printed for the key whose grants open exclusive files (without it: nobody's do)",
    )
    serve.add_argument(
        "--allow-origin", action="append", default=[], metavar="ORIGIN",
        help="let pages of ORIGIN, such as https://example.org, ask; repeat for several",
    )  # fmt: skip
    serve.add_argument(
        "--suite", action="append", default=[], type=Path, metavar="SUITE",
        help="what a task's model was built from: by it, calls that devices captured are judged; repeat for several",
    )  # fmt: skip
    serve.add_argument("--pages", type=Path, metavar="FOLDER", help="serve these web pages, too, at /pages/")
    serve.add_argument(
        "--simulate", metavar="PAGE",
        help="run simulation steps: open PAGE, an address or a path such as /pages/, in headless browsers of this "
        "machine (a step names them: docs/field.md)",
    )  # fmt: skip
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    serve.add_argument("--port", type=int, default=8818, help="port to listen on (default 8818; 0: any free one)")
    serve.add_argument(
        "--tunnel-port", type=int, metavar="PORT",
        help="port of the tunnel that takes what tasks send (default: the one after --port; 0: any free one)",
    )  # fmt: skip
    serve.add_argument(
        "--address-rate", type=float, default=100, metavar="N",
        help="requests a second of one address, and 20 times as many at once (default 100)",
    )  # fmt: skip
    serve.add_argument(
        "--device-rate", type=float, default=5, metavar="N",
        help="requests with a profile a second of one device, and 20 times as many at once (default 5)",
    )  # fmt: skip
    serve.add_argument(
        "--records-url", metavar="URL",
        help="keep what comes through the tunnel in this database, not in that of releases (docs/scaling.md)",
    )  # fmt: skip
    serve.add_argument(
        "--watched-share", type=float, default=1, metavar="S",
        help="keep reports and what devices tell of themselves of this share of all devices, drawn by their names; "
        "devices that a step names always count (default 1: all; millions of devices need less: docs/scaling.md)",
    )  # fmt: skip
    serve.add_argument(
        "--behind-proxies", type=int, default=0, metavar="N",
        help="N proxies stand before the service: who asks is whom the outermost of them saw (X-Forwarded-For)",
    )  # fmt: skip


def _demo(commands: Commands) -> None:
    parser = commands.add(
        "demo", "field_demo:demo", JSON,
        help="release a model to 40 headless browsers, of which some compute it wrongly",
        description="Release a model to headless browsers of this machine. A second version has a kernel that is wrong "
        "on some of them: what their GPUs gave is sampled and computed again, the release is rolled back, and a link "
        "reproduces what was wrong. Takes five minutes on two busy cores, nine at most, and 7 GB of memory. "
        "Exit code 0 where all of that happened. With --json it exits then; else it goes on serving the console.",
    )  # fmt: skip
    parser.add_argument("--device", default="chromium", help="browser to start (default chromium)")
    parser.add_argument("--browsers", type=_browsers, default=40, metavar="N", help="how many users (default 40)")
    parser.add_argument("--port", type=int, default=8818, help="port to listen on, where it is free (default 8818)")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("field-demo"), metavar="FOLDER",
        help="where all of it is kept (default field-demo); an earlier demo's is replaced",
    )  # fmt: skip


def _browsers(text: str) -> int:
    value = int(text)
    if not 40 <= value <= 200:
        raise argparse.ArgumentTypeError(f"{text}: give 40 to 200 browsers")
    return value


def _simulate(commands: Commands) -> None:
    parser = commands.add(
        "simulate", "field_command:simulate", JSON,
        help="simulate a release over a fleet of millions of devices",
        description="Simulate a release over a fleet, by the code that decides about real devices: who is admitted "
        "in which step, when a step is passed, and what rolls back. Without arguments the fleet is the seed's (Walle, "
        "OSDI 2022, Figure 13): 22 million devices of which 6 million are on line when it begins. Exit code 1 where "
        "the release is rolled back.",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.svg|FILE.html", help="draw coverage over time")
    parser.add_argument(
        "--plan", type=Path, metavar="FILE.json",
        help="what is released, to whom and in which steps (default: 20 beta devices, gray steps of 0.1 to 35 %%, all)",
    )  # fmt: skip
    parser.add_argument("--devices", type=count, default=22_000_000, metavar="N", help="the fleet (default 22000000)")
    parser.add_argument(
        "--at-start", type=count, metavar="N", help="of these on line at the start (default: 6 of 22); the others come"
    )
    parser.add_argument(
        "--minutes", type=_minutes, default=19.0, metavar="M", help="until all are on line (default 19)"
    )
    parser.add_argument("--until", type=_minutes, default=25.0, metavar="M", help="the simulation's end (default 25)")
    parser.add_argument(
        "--failure-rate", type=_rate, default=0.001, metavar="R", help="share of devices that fail (default 0.001)"
    )
    parser.add_argument(
        "--slow-rate", type=_rate, default=0.01, metavar="R", help="share of devices that are slow (default 0.01)"
    )
    parser.add_argument(
        "--broken", metavar="FIELD=VALUE", help="all devices of which this is told fail, such as gpu_vendor=intel"
    )
    parser.add_argument("--seed", type=count, default=0, metavar="N", help="of what is drawn at random (default 0)")


def _rate(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a share, from 0 to below 1")
    return value


def _minutes(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and 0 < value <= 1440):
        raise argparse.ArgumentTypeError(f"{text}: give minutes, more than 0 and at most 1440")
    return value
