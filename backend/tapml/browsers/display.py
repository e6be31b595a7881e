"""A display for a browser that has no headless mode."""

from __future__ import annotations

import os
import shutil

from tapml.browsers.guarded import Child, guarded
from tapml.errors import ToolchainError

_START_SECONDS = 20.0


def has_display() -> bool:
    """Is there a screen, of whatever kind, to open windows on?"""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def find_xvfb() -> str:
    """Xvfb's path. Raises ToolchainError where it is missing."""
    program = shutil.which("Xvfb")
    if program is None:
        raise ToolchainError("there is no display to open a window on: apt-get install xvfb (Debian), or set DISPLAY")
    return program


def start_display() -> tuple[Child, dict[str, str]]:
    """A display that nobody sees, and the environment that leads a program there.

    Raises ToolchainError if Xvfb is missing or does not start.
    """
    # It writes the number of the display, the first that is free, to its standard output.
    command = [find_xvfb(), "-displayfd", "1", "-screen", "0", "1280x1024x24", "-nolisten", "tcp"]
    server = guarded(command, os.environ)
    try:
        number = server.wait_for_line(r"\d+", _START_SECONDS)
        if number is None:
            raise ToolchainError(f"Xvfb did not start: {' / '.join(server.lines[-5:]) or 'it printed nothing'}")
    except BaseException:
        server.close()
        raise
    return server, {"DISPLAY": f":{number}", "GDK_BACKEND": "x11"}
