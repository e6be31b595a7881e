"""TVM's own way to a browser's GPU, RPC over WebSocket, measured as the baseline of tapml's session with a device."""

from .build import LENGTH
from .session import TvmSession, served

__all__ = ["LENGTH", "TvmSession", "served"]
