"""Keep TVM's log lines off the user's terminal while it works."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_ABANDONED = b"BlockBuilder destroyed with remaining blocks"
"""What TVM says of each function that an error leaves half-built, which tells nobody anything."""


def _sink() -> IO[bytes]:
    """Where log lines wait; where there is no room for them they are lost."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return Path(os.devnull).open("r+b")


def reason(error: Exception) -> str:
    """What TVM (or PyTorch) said, in a line: its errors have no common base, and many lines, with operators in full."""
    text = re.sub(r'ir\.Op\(.*?name="([^"]+)".*?support_level=\d+\)', r"\1", str(error), flags=re.DOTALL)
    # A constant is printed by its metadata, which are left out, and numbers as TVMScript has them.
    text = re.sub(r"# Metadata omitted\..*?to show it\.", "a constant", text)
    text = re.sub(r"\bT\.u?int\d+\((-?\d+)\)|\bR\.shape\((\[[^\]]*\])\)", lambda found: found[1] or found[2], text)
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if isinstance(error, KeyError) and lines:
        return f"KeyError: {lines[-1][:300]}"
    return lines[-1][:300] if lines else type(error).__name__


@contextmanager
def quiet_tvm() -> Iterator[None]:
    """Hold back what native code writes to standard error; show it after all if the body raises.

    TVM's C++ logging has no switch for single messages (each `take` warns about out-of-bounds indices), and
    writes to file descriptor 2 directly. Not for code that runs beside other threads that print.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    with _sink() as sink:
        os.dup2(sink.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(saved, 2)
            with contextlib.suppress(OSError):  # a log on a full disk
                sink.seek(0)
                os.write(2, b"".join(line for line in sink if _ABANDONED not in line))
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)
