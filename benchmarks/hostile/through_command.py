"""A few of the documents through the real command, in a process of its own."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.hostile import mutate
from benchmarks.hostile.pool import Sums

_SECONDS = 60.0
# What a terminal obeys; where there is none, tapml has no colours of its own.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def through_command(good: Path, work: Path, kept: Path, count: int, first: int) -> Sums:
    """`count` documents: exit codes are 0, 1 or 2, nothing but sentences is printed."""
    sums = Sums()
    facts = json.loads((good / "facts.json").read_text())
    (work / "outside").mkdir(parents=True)
    (work / "outside" / "secret.txt").write_text(mutate.SECRET)
    for number in range(first, first + count):
        choose = random.Random(f"command {number}")
        suite = work / "good.suite"
        shutil.rmtree(suite, ignore_errors=True)
        shutil.copytree(good / "good.suite", suite)
        path = choose.choice(sorted(path for path in suite.rglob("*.json") if path.is_file()))
        path.write_bytes(mutate.mutate_json(json.loads(path.read_bytes()), choose, work / "outside"))
        commands = (
            ["show", str(suite)],
            ["show", str(suite), "--json", "-"],
            ["history", str(suite)],
            ["share", str(suite)],
            ["export", str(suite), facts["test"], "--html", str(work / "x.html"), "--force"],
            ["import", str(good / "exports" / "one.html"), "--into", str(suite)],
            ["export", str(suite), facts["test"], "--markdown", "-"],
        )
        sums.note(_run(choose.choice(commands), number, path.relative_to(suite), kept))
    return sums


def _run(arguments: list[str], number: int, what: Path, kept: Path) -> dict[str, Any]:
    used = _seconds_of_children()
    found: dict[str, Any] = {
        "format": "real command",
        "seed": number,
        "refused": False,
        "tracebacks": [],
        "500s": [],
        "escapes": [],
        "MB": 0.0,
        "seconds": 0.0,
    }
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "backend")}
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "tapml", *arguments],
            capture_output=True,
            timeout=_SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        found["hang"] = f"no end after {_SECONDS:.0f} s: {arguments}"
        return found
    # Starting Python and what it loads is not the document's.
    found["seconds"] = max(0.0, _seconds_of_children() - used - 3.0)
    text = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    found["refused"] = ended.returncode == 2
    if "Traceback" in text or ended.returncode not in (0, 1, 2):
        found["tracebacks"].append(f"{arguments} after {what}: exit code {ended.returncode}\n{text[-3000:]}")
    if mutate.SECRET in text:
        found["escapes"].append("the secret's text came out")
    if obeyed := _OBEYED.search(text):
        found["escapes"].append(f"{obeyed[0]!r} was printed by {arguments[0]}")
    if found["tracebacks"] or found["escapes"]:
        place = kept / f"command-{number}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "found.txt").write_text("\n".join([str(arguments), str(what), text]))
        found["kept"] = str(place)
    return found


def _seconds_of_children() -> float:
    """Processor time of the processes that have ended: how busy the machine is changes nothing about it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
