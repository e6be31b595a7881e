"""Work in two processes: what one of them does not do, and how both end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest

_PROGRAM = """
import os, signal, sys, time
from tapml import processes

# Whoever started the tests in the background may have left it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What else has threads (a coverage tool, a debugger) is not what is tested here.
processes._can_fork = lambda: True
first = os.getpid()
reading, writing = os.pipe()
what = sys.argv[1]

def task(number):
    if os.getpid() == first:
        if not begun:
            begun.append(os.read(reading, 1))  # the other process has one
        if what == "fails":
            raise ValueError("of the first process")
        return True
    os.write(writing, b".")
    if what == "dies":
        os._exit(1)
    if what == "hangs":
        print(os.getpid(), flush=True)
        time.sleep(600)
    if what == "fails there":
        raise ValueError("of the second process")
    return "large" * 100_000

begun = []
processes._SILENT = 600 if len(sys.argv) > 2 else 0.5
tasks = [(str(number), lambda number=number: task(number)) for number in range(6)]
with processes.Shared(tasks) as shared:
    results = dict(shared.results())
print(*sorted(results), set(map(type, results.values())) == {bool, str}, flush=True)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no copies of processes elsewhere")


def _started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_both_do_their_share() -> None:
    out, _ = _started("works", "waiting").communicate(timeout=600)
    assert out == "0 1 2 3 4 5 True\n"


@pytest.mark.parametrize("what", ["dies", "hangs", "fails there"])
def test_what_the_second_process_does_not_do_is_left(what: str) -> None:
    out, said = _started(what).communicate(timeout=600)
    *numbers, both = out.splitlines()[-1].split()
    assert (len(numbers), both, said) == (5, "False", "")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_both_end_together(how: signal.Signals) -> None:
    first = _started("hangs", "waiting")
    assert first.stdout is not None
    second = psutil.Process(int(first.stdout.readline()))
    first.send_signal(how)
    first.communicate(timeout=600)
    deadline = time.monotonic() + 120
    while second.is_running() and second.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_error_of_the_first_process_ends_the_second() -> None:
    _, said = _started("fails").communicate(timeout=600)
    assert "ValueError: of the first process" in said
