"""`tapml devices` and `tapml device`: what runs kernels here, and one more for a running server."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rich.console import Console

from tapml.browsers import check_startable, start, startable
from tapml.cli.arguments import DEFAULT_SERVER
from tapml.errors import InputError, TapmlError
from tapml.files import write_json_output
from tapml.reports.devices import show_devices
from tapml.reports.progress import ProgressReport
from tapml.server.answers import Connected
from tapml.server.client import RemoteServer

FORMAT = "tapml.devices/1"


def devices(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """List what is connected to a running server, and what can be started here."""
    document = {"format": FORMAT, "connected": _connected(options.server), "startable": _startable(options, progress)}
    if not write_json_output(options.json, document):
        show_devices(console, document)
    return 0


def _connected(server: str | None) -> list[Connected]:
    """At the server that was named, or at the usual address if one listens there."""
    try:
        return RemoteServer(server or DEFAULT_SERVER).devices()
    except InputError:
        if server:
            raise
        return []


def _startable(options: argparse.Namespace, progress: Console) -> list[dict[str, Any]]:
    from tapml.server import Server  # late: Flask takes a second to load

    found = [
        {"name": s.name, "available": s.available, "version": s.version, "message": s.message, "device": None}
        for s in startable()
    ]
    if options.no_probe:
        return found
    available = [entry for entry in found if entry["available"]]
    done = 0
    with ProgressReport(progress) as report, Server() as server, ThreadPoolExecutor(len(available) or 1) as pool:
        report.update("starting devices", done, len(available))

        def probe(entry: dict[str, Any]) -> None:
            nonlocal done
            try:
                device = server.state.device(str(entry["name"]))
                entry["device"] = device.describe()
                if device.hello.unavailable:
                    entry.update(available=False, message=device.hello.unavailable)
            except TapmlError as error:
                entry.update(available=False, message=str(error))
            done += 1
            report.update("starting devices", done, len(available))

        list(pool.map(probe, available))
    return found


def device(options: argparse.Namespace, console: Console, progress: Console) -> int:
    """Attach a device to a running server until Ctrl-C; one that hangs or dies is started again."""
    name = options.name
    check_startable(name)
    server = RemoteServer(options.server)
    server.devices()  # nobody there is an error now, not a device that waits for ever
    stop, ended = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with contextlib.suppress(KeyboardInterrupt):
        while not stop.is_set():
            ended.clear()
            with start(name, server.runner_url, on_exit=lambda reason: ended.set()) as process:
                console.print(f"{name} is a device of {server.base} now; Ctrl-C ends it")
                while not stop.wait(0.25) and not ended.is_set():
                    pass
                if ended.is_set():
                    said = " | ".join(process.console[-3:]) or "it printed nothing"
                    progress.print(f"{name} ended by itself ({said}); starting it again")
                    stop.wait(1)
    return 0
