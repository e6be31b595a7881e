"""Work in two processes: what one of them does not do, and how both end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest

_PROGRAM = """
import os, sys, time
from tapml.compilers.tvm import processes

# What else has threads (a coverage tool, a debugger) is not what is tested here.
processes._can_fork = lambda: True
first = os.getpid()

def task(number):
    if sys.argv[1] == "dies" and number == 3:
        os._exit(1)
    if sys.argv[1] == "hangs" and number == 3:
        print(os.getpid(), flush=True)
        time.sleep(600)
    if sys.argv[1] == "fails" and number == 2:
        raise ValueError("of the first process")
    return os.getpid() == first

processes._SILENT = 600 if len(sys.argv) > 2 else 0.5
tasks = [(str(number), lambda number=number: task(number)) for number in range(6)]
print(sorted(processes.in_two_processes(tasks)), flush=True)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no copies of processes elsewhere")


def _started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _printed(numbers: str) -> str:
    return str([(number, int(number) % 2 == 0) for number in numbers])


@pytest.mark.parametrize(("what", "numbers"), [("works", "012345"), ("dies", "01245"), ("hangs", "01245")])
def test_what_the_second_process_does_not_do_is_left(what: str, numbers: str) -> None:
    out, _ = _started(what).communicate(timeout=60)
    # What came after the task of the second process that ends it is not done either.
    assert out.splitlines()[-1] == _printed(numbers.replace("5", "") if what != "works" else numbers)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_both_end_together(how: signal.Signals) -> None:
    first = _started("hangs", "waiting")
    assert first.stdout is not None
    second = psutil.Process(int(first.stdout.readline()))
    first.send_signal(how)
    first.communicate(timeout=60)
    deadline = time.monotonic() + 20
    while second.is_running() and second.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_error_of_the_first_process_ends_the_second() -> None:
    _, said = _started("fails").communicate(timeout=60)
    assert "ValueError: of the first process" in said
