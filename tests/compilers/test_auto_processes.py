"""`--compiler auto` in two processes: what both choose is what one chooses, and so is what one of them has left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import dataclasses

from helpers import small_module
from tapml import processes
from tapml.compilers.auto import compile as auto
from tapml.lowering.lower import lower

operators = [*lower(small_module(), 1).operators]

def chosen(least):
    auto._WORTH_A_PROCESS = least
    made = auto.AutoCompiler((), ()).compile(operators, ("256",))
    return [(name, dataclasses.asdict(kernel)) for name, kernel in made.items()]

class Some(processes.Shared):
    def results(self):
        found = list(super().results())
        print(*sorted(name for name, _ in found))
        yield from found[:given]

alone = chosen(len(operators) + 1)
# What else has threads (a coverage tool, a debugger) is not what is tested here.
processes._can_fork = lambda: True
auto.Shared = Some
for given in (len(operators), 1):  # so many are used of what both have done
    assert chosen(1) == alone
assert len(alone) == len(operators)
print(*sorted(name for name, _ in alone))
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no copies of processes elsewhere")


def test_two_processes_choose_what_one_does() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert found.returncode == 0, found.stderr
    *done, all_of_them = found.stdout.splitlines()
    assert done == [all_of_them] * 2
