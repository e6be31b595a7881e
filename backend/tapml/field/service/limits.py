"""How often one address, and one device, may ask: a bucket of tokens each, that fills evenly."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tapml.errors import InputError

_MOST_KEYS = 100_000
"""Buckets that are kept; beyond, the one that was used least lately is forgotten."""
_BURST_SECONDS = 20
_BYTES = 65_536
_LEAST_BYTES = 1_048_576
_LONGEST = 100
"""Of a name that is no address: whoever forwards it may write anything."""


@dataclass(frozen=True)
class Limits:
    """Requests a second; at once it may be those of 20 seconds."""

    address: float = 100
    """Of an address, behind which may be a whole office. By the tunnel it may send 64 kB for each of them."""
    device: float = 5


class Buckets(Protocol):
    """Those of several processes."""

    def take(self, kind: str, name: str, rate: float, burst: float) -> float | None:
        """Seconds to wait for a token; None where they cannot be asked now. `rate`: tokens a second; `burst`: seconds
        within which an empty bucket fills."""


class Limiter:
    """May be asked by several threads. Raises InputError where a limit is none."""

    def __init__(
        self,
        limits: Limits,
        now: Callable[[], float] = time.monotonic,
        *,
        most_keys: int = _MOST_KEYS,
        shared: Buckets | None = None,
    ) -> None:
        """`shared`: asked first; where it is away the limits are those of this process."""
        self._shared = shared
        for name, rate in (("address", limits.address), ("device", limits.device)):
            if not 0 < rate <= 1e6:
                raise InputError(f"a limit of {rate:g} requests a second of one {name} is none: give 0.1 or more")
        self._rates = {"address": limits.address, "device": limits.device}
        self._now, self._most_keys = now, most_keys
        self._lock = threading.Lock()
        # The moment at which each bucket is full again; one that is full by now needs none.
        self._full: OrderedDict[tuple[str, str], float] = OrderedDict()

    def address(self, text: str) -> float:
        """Seconds to wait; 0 where it may go on."""
        return self._take("address", _network(text))

    def device(self, name: str) -> float:
        """Likewise."""
        return self._take("device", name)

    def sent(self, text: str, count: int) -> float:
        """Likewise, of an address that sent so many bytes; always of this process alone."""
        rate = self._rates["address"] * _BYTES
        return self._fill(("bytes", _network(text)), count / rate, max(_BURST_SECONDS, _LEAST_BYTES / rate))

    def _take(self, kind: str, name: str) -> float:
        rate = self._rates[kind]
        # One request fits always, however low the rate is.
        burst = max(_BURST_SECONDS, 1 / rate)
        if self._shared is not None and (told := self._shared.take(kind, name, rate, burst)) is not None:
            return told
        return self._fill((kind, name), 1 / rate, burst)

    def _fill(self, key: tuple[str, str], seconds: float, burst: float) -> float:
        """`seconds`: how long the bucket takes to fill by as much as is taken; `burst`: all of it."""
        now = self._now()
        with self._lock:
            full = max(self._full.get(key, now), now) + seconds
            wait = full - now - burst
            if wait > 1e-9:
                return wait
            self._full[key] = full
            self._full.move_to_end(key)
            if len(self._full) > self._most_keys:
                self._full.popitem(last=False)
        return 0.0


def _without_port(text: str) -> str:
    """Some proxies forward it with the address; each connection would be an address of its own."""
    host, colon, port = text.rpartition(":")
    bare = host if colon and port.isdecimal() and (host.endswith("]") or ":" not in host) else text
    return bare.removeprefix("[").removesuffix("]")


def _network(text: str) -> str:
    """Of IPv6 the network of one customer: within it addresses are free."""
    try:
        address = ipaddress.ip_address(_without_port(text))
    except ValueError:
        return text[:_LONGEST]
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((int(address), 64), strict=False))
    return str(address)
