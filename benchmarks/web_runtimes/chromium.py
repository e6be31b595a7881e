"""Loads of a page in a fresh Chromium, one after the other, and the CPU time of the thread that runs it."""

from __future__ import annotations

import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.web_runtimes.server import SiteServer
from tapml.browsers.options import chromium_arguments

LOADS = ("start", "cold", "warm", "host", "memory")
"""What a session does: the browser's own start, the first load of the page, a second, and two that are looked into."""

_SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    # Timestamps of the GPU as they are: rounded to 0.1 ms a token's passes are not told apart.
    "--disable-dawn-features=timestamp_quantization",
)
_SECONDS = 120


class PageFailed(Exception):
    """What the page said of it."""


def session(
    chromium: str,
    site: Path,
    runtime: str,
    loads: Sequence[str],
    megabits: float | None,
    seconds: float = _SECONDS,
    switches: Sequence[str] = (),
) -> dict[str, Any]:
    """What each load gave, by name, with the bytes that it fetched by path. `switches`: of Chromium, beside those that
    every session has. Raises PageFailed, also for a load that takes more than so many seconds."""
    results: queue.Queue[dict[str, Any]] = queue.Queue()
    marks: dict[str, dict[int, float]] = {}
    left = [*loads]

    def address(what: str) -> str:
        return "/page.html?" + urlencode({"runtime": runtime, "what": what})

    def answer(name: str, document: Any) -> Any:
        if name == "mark":
            marks[document["name"]] = threads(process.pid)
            return {}
        left.pop(0)
        results.put({**document, "bytes": dict(server.taken())})
        return {"next": None if "error" in document or not left else address(left[0])}

    server = SiteServer(site, answer, megabits)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [chromium, *_SWITCHES, *switches, *chromium_arguments(), f"--user-data-dir={profile}"]
        process = subprocess.Popen([*command, server.url + address(left[0])], stderr=subprocess.DEVNULL)
        try:
            for load in loads:
                found[load] = results.get(timeout=seconds)
                if error := found[load].get("error"):
                    raise PageFailed(f"{runtime}, {load}: {error}")
        except queue.Empty:
            raise PageFailed(f"{runtime}, {load}: nothing within {seconds:g} s") from None
        finally:
            process.terminate()
            process.wait()
            server.shutdown()
            server.server_close()
    if "host" in found:
        begin, end = marks["begin"], marks["end"]
        spent = max(end[pid] - begin[pid] for pid in begin.keys() & end.keys())
        found["host"]["cpu"] = spent / found["host"]["calls"]
    return found


def threads(browser: int) -> dict[int, float]:
    """CPU milliseconds of the main thread of each process that draws a page of this browser."""
    parents: dict[int, int] = {}
    pages = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            pid, parent = int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            parents[pid] = parent
            if b"--type=renderer" in (folder / "cmdline").read_bytes():
                pages.append(pid)
        except OSError:
            continue  # has ended meanwhile
    return {pid: _milliseconds(pid) for pid in pages if _below(pid, browser, parents)}


def _below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != ancestor:
        pid = parents[pid]
    return pid == ancestor


def _milliseconds(pid: int) -> float:
    """To the nanosecond where the kernel tells, else to a hundredth of a second."""
    thread = Path(f"/proc/{pid}/task/{pid}")
    try:
        if found := int((thread / "schedstat").read_text().split()[0]):
            return found / 1e6
    except OSError:
        pass
    user, system = (thread / "stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) * 1000 / os.sysconf("SC_CLK_TCK")
