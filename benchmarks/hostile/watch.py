# ruff: noqa: PTH114, PTH115, PTH117, PTH118
"""What a case touches: files outside of its own folders, code that runs, memory.

Paths stay the strings that the events tell.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGES = {
    "os.remove",
    "os.rmdir",
    "os.rename",
    "os.link",
    "os.symlink",
    "os.mkdir",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.utime",
    "os.setxattr",
    "os.removexattr",
    "shutil.rmtree",
    "shutil.move",
    "os.chdir",
}
_LISTS = {"os.listdir", "os.scandir", "glob.glob"}
_RUNS = {
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "pty.spawn",
    "pickle.find_class",
    "ctypes.dlopen",
    "ctypes.dlsym",
    "sqlite3.load_extension",
    "sqlite3.enable_load_extension",
    "socket.connect",
    "socket.sendto",
    "urllib.Request",
    "webbrowser.open",
    "cpython.run_command",
    "cpython.run_file",
}


class Watch:
    """Records, while `watching`, what audit events tell. Hooks cannot be removed: one for a process."""

    def __init__(self, own: Sequence[Path], readable: Sequence[Path], ports: set[int]) -> None:
        """`own`: folders that may be written to; `readable`: Python's and tapml's own files; `ports`: of this machine,
        which may be connected to."""
        self._own = [os.path.realpath(path) for path in own]
        self._readable = [os.path.realpath(path) for path in readable]
        self._active = False
        self._looking = threading.local()
        self._ports = ports
        self.outside: list[str] = []
        self.ran: list[str] = []
        sys.addaudithook(self._hook)

    def begin(self) -> None:
        self.outside, self.ran = [], []

    def while_active(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, watched."""

        def watched(*args: Any, **options: Any) -> Any:
            self._active = True
            try:
                return function(*args, **options)
            finally:
                self._active = False

        return watched

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        # Of each thread: another may end what is watched while one looks.
        if not self._active or getattr(self._looking, "here", False):
            return
        self._looking.here = True
        try:
            self._look(event, args)
        except Exception as error:
            self.outside.append(f"{event} {args!r:.200}: {error!r}")
        finally:
            self._looking.here = False

    def _look(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            self._opened(args[0], args[2] or 0)
        elif event in _LISTS:
            if not isinstance(args[0], int) and args[0] is not None:
                self._path(event, os.fspath(args[0]), write=False)
        elif event in _CHANGES:
            self._changed(event, args)
        elif event == "sqlite3.connect":
            name = os.fsdecode(args[0])
            self._path(event, unquote(urlsplit(name).path) if name.startswith("file:") else name, write=False)
        elif event == "exec":
            self._executed(args[0])
        elif event in _RUNS and not self._is_own(event, args):
            self.ran.append(f"{event} {args!r:.200}")

    def _is_own(self, event: str, args: tuple[Any, ...]) -> bool:
        """A connection to a server of the benchmark."""
        if event == "socket.connect":
            return args[1][0] == "127.0.0.1" and args[1][1] in self._ports
        return event == "urllib.Request" and urlsplit(args[0]).port in self._ports

    def _opened(self, path: Any, flags: int) -> None:
        if isinstance(path, int):
            return
        name = os.fsdecode(path)
        write = bool(flags & _WRITES)
        if flags & os.O_NOFOLLOW:
            # Relative to a descriptor, which the event does not tell; a single name leads nowhere else.
            if not os.path.isabs(name) and os.sep not in name and name != os.pardir:
                return
            parent, last = os.path.split(name)
            name = os.path.join(os.path.realpath(parent), last)
            if os.path.islink(name):
                return
        elif flags & os.O_PATH:
            return
        self._path("open", name, write=write)

    def _changed(self, event: str, args: tuple[Any, ...]) -> None:
        paths = list(args[: 2 if event in ("os.rename", "os.link", "shutil.move") else 1])
        if event == "os.symlink":
            paths = [args[1]]
        folders = [arg for arg in args[len(paths) :] if isinstance(arg, int) and arg >= 0]
        for path in paths:
            if isinstance(path, int):
                path = f"/proc/self/fd/{path}"
            name = os.fsdecode(path)
            if not os.path.isabs(name) and folders and event != "os.mkdir" and event != "os.chmod":
                name = os.path.join(f"/proc/self/fd/{folders[0]}", name)
            elif not os.path.isabs(name) and os.sep not in name and name != os.pardir:
                continue
            parent, last = os.path.split(name)
            follows = event not in (
                "os.remove",
                "os.rename",
                "os.rmdir",
                "os.symlink",
                "os.link",
                "shutil.rmtree",
                "os.mkdir",
            )
            self._path(
                event, name if follows else os.path.join(os.path.realpath(parent), last), write=True, as_is=not follows
            )

    def _path(self, event: str, name: str, *, write: bool, as_is: bool = False) -> None:
        real = name if as_is else os.path.realpath(name)
        allowed = self._own if write else [*self._own, *self._readable]
        if not any(real == folder or real.startswith(folder + os.sep) for folder in allowed):
            self.outside.append(f"{event} {'writes' if write else 'reads'} {real}")

    def _executed(self, code: types.CodeType) -> None:
        frame = sys._getframe(3)
        while frame is not None:
            name = frame.f_code.co_filename
            # Modules that are loaded late, and the frames that TVM makes of the places in C++ that an error came from.
            if name.startswith("<frozen importlib") or name.endswith("/tvm_ffi/error.py"):
                return
            frame = frame.f_back  # type: ignore[assignment]
        real = os.path.realpath(code.co_filename)
        if not any(real.startswith(folder + os.sep) for folder in self._readable):
            self.ran.append(f"exec of {code.co_filename} {code.co_name}")


def signature(path: Path) -> tuple[Any, ...]:
    """What a file is, for telling whether anybody touched it."""
    found = path.lstat()
    link = os.readlink(path) if stat.S_ISLNK(found.st_mode) else ""
    if stat.S_ISDIR(found.st_mode):
        return ("folder", found.st_mode, link)
    return (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ino, link)


def snapshot(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Every file below a folder by its path from there; links are not followed."""
    found: dict[str, tuple[Any, ...]] = {}
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        for entry in os.scandir(here):
            path = Path(entry.path)
            found[os.path.relpath(entry.path, folder)] = signature(path)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)
    return found


class Memory:
    """The most that this process had resident, in megabytes, since `begin`."""

    def __init__(self) -> None:
        self.base = self._read("VmRSS")

    def begin(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")

    def growth(self) -> float:
        return max(0.0, self._read("VmHWM") - self.base)

    @staticmethod
    def _read(name: str) -> float:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1000
        raise AssertionError(name)
