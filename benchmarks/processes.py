"""Commands that benchmarks run, which shall not outlive them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


@contextmanager
def running(command: Sequence[str], env: Mapping[str, str], patience: float = 30) -> Iterator[subprocess.Popen[str]]:
    """A process of its own group, which a Ctrl-C of this one does not reach. Where the block is left before it has
    ended it is interrupted, to end its browsers itself; what is left after `patience` seconds is killed."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(patience)
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
