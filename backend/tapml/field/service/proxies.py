"""Who asks, where proxies stand before the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from werkzeug.middleware.proxy_fix import ProxyFix

from tapml.errors import InputError

MOST = 10


def behind_proxies(application: Any, count: int) -> ProxyFix:
    """A WSGI application whose requests have the address that the outermost of `count` proxies saw: each of them
    appends to `X-Forwarded-For` whom it answers, and what stands before these is the client's own word, and not
    believed. Nothing else that is forwarded is believed. Raises InputError where no proxy can be meant."""
    if not 1 <= count <= MOST:
        raise InputError(f"{count} proxies before the service: give 1 to {MOST}, or leave the option out for none")
    return ProxyFix(application, x_for=count, x_proto=0, x_host=0, x_port=0, x_prefix=0)


def address_behind(peer: str, forwarded: Sequence[str], count: int) -> str:
    """The same of a connection that is not WSGI's: `forwarded`, the lines of its `X-Forwarded-For`."""
    if not count:
        return peer
    environ = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": ",".join(forwarded)}
    found: list[str] = []

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        found.append(environ["REMOTE_ADDR"])
        return []

    behind_proxies(application, count)(environ, lambda *_: None)  # type: ignore[arg-type]
    return found[0]
