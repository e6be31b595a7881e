"""The web application: pages, suites, blobs, jobs and the sockets that devices and pages talk through."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapml.server.local import Server

__all__ = ["Server"]


def __getattr__(name: str) -> Any:
    """Late: Flask takes a second to load, and the client of another server goes without."""
    if name == "Server":
        from tapml.server.local import Server

        return Server
    raise AttributeError(name)
