"""How another machine's browser, a phone's say, becomes a device here: a link for one use, and its QR code."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlencode, urlsplit

from tapml.server.security import INVITATION_SECONDS, Security, is_loopback

_EVERYWHERE = ("0.0.0.0", "::")
"""Addresses that mean all of a machine's."""


def pairing(url: str, security: Security) -> dict[str, Any]:
    """What a page shows of it. `url`: where the server listens.

    `address` is this machine's in its network, null where it has none; `link` and its `qr` (a square of `size` modules,
    the dark ones as an SVG path) are null on loopback, which no other machine reaches. `secure`: https, without which
    browsers offer no WebGPU to pages of another machine.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    address = _in_network(host)
    described = {"address": address, "port": port, "secure": parts.scheme == "https", "seconds": INVITATION_SECONDS}
    if is_loopback(host) or address is None:
        return {**described, "link": None, "qr": None}
    link = f"{_at(parts.scheme, address, port)}/runner?{urlencode({'pair': security.invite()})}"
    return {**described, "link": link, "qr": _qr(link)}


def url_elsewhere(url: str) -> str | None:
    """By which other machines reach a server that listens on all of this one's addresses, which `url` says of itself;
    None for one that names its address, and where this machine has none in a network."""
    parts = urlsplit(url)
    address = _in_network(parts.hostname) if parts.hostname in _EVERYWHERE else None
    return None if address is None else _at(parts.scheme, address, parts.port)


def _at(scheme: str, address: str, port: int | None) -> str:
    return f"{scheme}://{f'[{address}]' if ':' in address else address}:{port}"


def _in_network(host: str) -> str | None:
    """The address that others reach this machine by: `host` itself where it names one interface, else the one through
    which packets leave."""
    if host not in _EVERYWHERE and not is_loopback(host):
        return host
    return _leaving(socket.AF_INET) or _leaving(socket.AF_INET6)


def _leaving(family: socket.AddressFamily) -> str | None:
    """Nothing is sent: a datagram socket that is connected knows its own end. The other end is one of those that are
    for documentation."""
    far = "192.0.2.1" if family == socket.AF_INET else "2001:db8::1"
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((far, 9))
        except OSError:
            return None
        found = str(probe.getsockname()[0])
    return None if is_loopback(found) else found


def _qr(text: str) -> dict[str, Any]:
    import segno  # late: only where somebody pairs

    rows = list(segno.make(text, error="m", micro=False).matrix_iter(border=4))
    path = "".join(f"M{x} {y}h1v1h-1z" for y, row in enumerate(rows) for x, dark in enumerate(row) if dark)
    return {"size": len(rows), "path": path}
