"""The command in a process of its own, with the most memory that it had."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# What a process had before it became another program counts among its own in ru_maxrss; not so in VmHWM.
_SCRIPT = """
import resource, runpy, sys
try:
    runpy.run_module("tapml", run_name="__main__", alter_sys=True)
finally:
    try:
        lines = open("/proc/self/status").read().splitlines()
        most = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    open(MEASURED, "w").write(str(most))
"""


@dataclass(frozen=True)
class Ended:
    """What came of it: exit code, both outputs together, the most bytes of memory."""

    code: int
    said: str
    most_memory: int


def measured(*arguments: str, folder: Path) -> Ended:
    """Run `tapml ARGUMENTS`; `folder` takes a file meanwhile."""
    note = folder / "measured"
    command = [sys.executable, "-c", _SCRIPT.replace("MEASURED", repr(str(note))), *arguments]
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, check=False
    )
    most = int(note.read_text())
    note.unlink()
    return Ended(ended.returncode, ended.stdout, most)
