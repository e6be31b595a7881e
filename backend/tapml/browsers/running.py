"""What is common to every device that was started on this machine."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Self
from urllib.parse import urldefrag, urlsplit

import psutil

from tapml.errors import ToolchainError


class DeviceProcess:
    """A started device. A context manager: closed when the block is left, and when Python ends."""

    def __init__(self, name: str, title: str, url: str, on_exit: Callable[[str], None] | None) -> None:
        """`on_exit` is called once, from a thread of its own, with the reason if it ends; not if `close` ends it."""
        self.name = name
        self.url = url
        self._title = title
        self._on_exit = on_exit
        self._alive = False
        self._lock = threading.Lock()
        self._closing = False
        self._thread: threading.Thread | None = None
        # Chromium gives no adapter any more when a second GPU process ends soon after the first.
        self._may_reset = name in ("chromium", "chromedriver")
        atexit.register(self.close)

    def open(self) -> None:
        """Return once its page has loaded. Raises ToolchainError where it does not start or cannot open the page."""

    @property
    def alive(self) -> bool:
        """Can it still be a device?"""
        return self._alive

    @property
    def console(self) -> list[str]:
        """The last lines it wrote."""
        raise NotImplementedError

    def open_beside(self, url: str) -> None:
        """Open another page as a user of its own, whose storage and cookies are nobody else's. Raises ToolchainError
        where it cannot be opened, or where there are no pages."""
        raise ToolchainError(f"{self._title} has no pages: start a browser")

    def screenshot(self) -> bytes | None:
        """What its page shows, as PNG; None where there is no page, or none any more."""
        return None

    def reset_gpu(self) -> bool:
        """End a GPU that hangs. True where the device goes on with a new one; False where it was closed for that, and
        must be started again."""
        for process in self._descendants() if self._may_reset else ():
            with contextlib.suppress(psutil.Error):
                if "--type=gpu-process" in process.cmdline():
                    self._may_reset = False
                    process.kill()
                    return True
        self.close()
        return False

    def close(self) -> None:
        """End it and wait until it is gone. Does nothing when called again."""
        with self._lock:
            first, self._closing = not self._closing, True
        if first:
            atexit.unregister(self.close)
            self._end()
        if self._thread is not None and self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _start_thread(self, watch: Callable[[], None]) -> None:
        # A daemon, for Python joins the others before it runs what is registered with atexit.
        self._thread = threading.Thread(target=watch, name=f"tapml-{self.name}", daemon=True)
        self._thread.start()

    def _end(self) -> None:
        """End it, or tell the thread to."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _descendants(self) -> Sequence[psutil.Process]:
        """Its processes."""
        return ()

    def _report(self, reason: str) -> None:
        """In a thread of its own, for it may call close(), which waits for this one."""
        if self._on_exit is not None and not self._closing:
            threading.Thread(target=self._on_exit, args=(reason,), name=f"tapml-{self.name}-exit").start()

    def _without_secrets(self, text: str) -> str:
        """`text` for people, where it may name the page: what its address has behind "?" and "#" opens doors."""
        shown = urlsplit(self.url)._replace(query="", fragment="").geturl()
        return text.replace(self.url, shown).replace(urldefrag(self.url).url, shown)
