"""Firefox by its own remote control (Marionette), which may also run scripts of the browser: those that collect
garbage and give memory back, as about:memory's button does."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tapml.browsers import options

_START_SECONDS = 30.0
_SCRIPT_SECONDS = 300.0
_COLLECT = """\
const done = arguments[0];
const manager = Cc["@mozilla.org/memory-reporter-manager;1"].getService(Ci.nsIMemoryReporterManager);
Services.obs.notifyObservers(null, "child-mmu-request");
Cu.forceGC();
Cu.forceCC();
manager.minimizeMemoryUsage(() => done(true));
"""


class Marionette:
    """Of a Firefox that listens at a port. Messages are JSON behind their length."""

    def __init__(self, port: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", port), timeout=_SCRIPT_SECONDS)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        self._file = self._socket.makefile("rb")
        self._read()
        self._number = 0
        self.call("WebDriver:NewSession", {})
        self.call("WebDriver:SetTimeouts", {"script": int(1000 * _SCRIPT_SECONDS)})

    def call(self, name: str, parameters: dict[str, Any]) -> Any:
        """Raises RuntimeError with what Firefox says is wrong."""
        self._number += 1
        message = json.dumps([0, self._number, name, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self._read()
        if error:
            raise RuntimeError(f"{name}: {error['message']}")
        return result

    def browser_script(self, text: str) -> Any:
        """What a script of the browser gives to its argument, a function."""
        self.call("Marionette:SetContext", {"value": "chrome"})
        return self.call("WebDriver:ExecuteAsyncScript", {"script": text, "args": []})["value"]

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _read(self) -> Any:
        digits = b""
        while (byte := self._file.read(1)) != b":":
            if not byte:
                raise RuntimeError("Firefox hung up")
            digits += byte
        return json.loads(self._file.read(int(digits)))


@contextlib.contextmanager
def firefox(url: str) -> Iterator[Callable[[], object]]:
    """A new Firefox that opens a page: what collects its garbage."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        preferences = {**options.FIREFOX_PREFERENCES, "marionette.port": port}
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in preferences.items()]
        (Path(folder) / "user.js").write_text("\n".join(lines))
        switches = ["--headless", "--no-remote", "-marionette", "-remote-allow-system-access", "-profile", folder]
        process = subprocess.Popen(
            ["/usr/bin/firefox-esr", *switches, url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            with contextlib.closing(Marionette(port)) as control:
                yield lambda: control.browser_script(_COLLECT)
        finally:
            process.terminate()
            process.wait(30)
