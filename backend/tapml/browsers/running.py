"""What is common to every device that was started on this machine."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol
from urllib.parse import urldefrag, urlsplit


class DeviceProcess(Protocol):
    """A started device. A context manager: closed when the block is left, and when Python ends."""

    name: str

    @property
    def alive(self) -> bool:
        """Can it still be a device?"""

    @property
    def console(self) -> list[str]:
        """The last lines it wrote."""

    def screenshot(self) -> bytes | None:
        """What its page shows, as PNG; None where there is no page, or none any more."""

    def reset_gpu(self) -> bool:
        """End a GPU that hangs. True where the device goes on with a new one; False where it was closed for that."""

    def close(self) -> None:
        """End it and wait until it is gone. Does nothing when called again."""

    def __enter__(self) -> DeviceProcess: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def without_secrets(text: str, url: str) -> str:
    """`text` for people to read, where it may name the page: what its address has behind "?" and "#" opens doors."""
    shown = urlsplit(url)._replace(query="", fragment="").geturl()
    return text.replace(url, shown).replace(urldefrag(url).url, shown)
