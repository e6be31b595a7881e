"""Who may talk to the server: pages of its own and programs on loopback; elsewhere whoever holds the token."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from tapml.errors import InputError
from tapml.files import sha256

TOKEN_COOKIE = "tapml-token"
INVITATION_SECONDS = 600
"""How long a one-time pairing link may wait for the phone that it was shown to."""
_MOST_INVITATIONS = 20
# A name, an IPv4 or a bracketed IPv6 address, and perhaps a port: no user, no path, no list of several.
_HOST = re.compile(r"(?P<name>[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?")
# What the holder of a shared link reaches without the token; the views behind it ask for the link's own secret.
_SHARED = re.compile(r"/s/[A-Za-z0-9_-]{22}(/[^\n]*)?|/static/share/[A-Za-z0-9_./-]+")
# What pages of other origins may load where the server was told so: models and what runs them, nothing else.
_LOADED = re.compile(r"/(?:models|runtime)/[^\n]*|/api/models")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_loopback(host: str) -> bool:
    """True for an address only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def same_secret(given: str, secret: str) -> bool:
    """Compare what a stranger sent with a secret, in a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())


class Security:
    """On loopback: requests must name a loopback host, so that no foreign page reaches the server through a DNS
    name of its own. Elsewhere: every request needs the token of the pairing link, kept as a cookie after the first;
    only shared links are for strangers. Everywhere: a request that a page made comes from a page of this server, or
    asks for a model from a page of `origins`.
    """

    def __init__(self, host: str, origins: Iterable[str] = ()) -> None:
        """Raises InputError for an origin that is none, and where models would need the token that such pages lack."""
        self.local = is_loopback(host)
        self.token = None if self.local else secrets.token_urlsafe(24)
        self._origins = {_named(origin): origin for origin in origins}
        # Hashes of what was given out -> until when. By hashes, how long a look-up takes tells nothing of another.
        self._invitations: dict[str, float] = {}
        self._inviting = threading.Lock()
        if self._origins and not self.local:
            raise InputError(
                f"pages of {next(iter(self._origins.values()))} do not have the token that a server on {host} asks for"
                ": allow other origins on 127.0.0.1 only, or copy the models to a web server"
            )

    def refusal(self, environ: Mapping[str, Any], tokens: Iterable[str]) -> str | None:
        """Why a request is not allowed, as a sentence; None where it is.

        `environ`: as WSGI has it. `tokens`: all that the request carries, whether right or wrong.
        """
        host = _HOST.fullmatch(str(environ.get("HTTP_HOST", "")))
        if host is None or (self.local and not is_loopback(host["name"].strip("[]").lower())):
            return self._sentence("host")
        if not (_from_here(environ, host) or self.allowed_origin(environ)):
            return self._sentence("origin")
        if self.token is not None and not self.shared(environ) and not self.holds_token(tokens):
            return self._sentence("token")
        return None

    def invite(self) -> str:
        """A code for a link that pairs one browser, once, within INVITATION_SECONDS; the oldest of too many is void."""
        code, now = secrets.token_urlsafe(16), time.monotonic()
        with self._inviting:
            waiting = [(known, end) for known, end in self._invitations.items() if end > now]
            self._invitations = dict(waiting[-_MOST_INVITATIONS + 1 :])
            self._invitations[sha256(code)] = now + INVITATION_SECONDS
        return code

    def redeem(self, codes: Iterable[str]) -> bool:
        """Is one of these a code that was given out, and not used yet? From now on it is used."""
        with self._inviting:
            ends = [self._invitations.pop(sha256(code), 0.0) for code in codes]
        return any(end > time.monotonic() for end in ends)

    def holds_token(self, tokens: Iterable[str]) -> bool:
        """Is the server's token among these?"""
        return self.token is not None and any(same_secret(token, self.token) for token in tokens)

    def allowed_origin(self, environ: Mapping[str, Any]) -> str | None:
        """The other origin whose page loads a model with this request, where that is allowed."""
        reads = environ.get("REQUEST_METHOD") in ("GET", "HEAD", "OPTIONS")
        path, origin = str(environ.get("PATH_INFO", "")), str(environ.get("HTTP_ORIGIN", ""))
        if not reads or _LOADED.fullmatch(path) is None or ".." in path.split("/"):
            return None
        place = _place(origin)
        return origin if place is not None and place in self._origins else None

    def shared(self, environ: Mapping[str, Any]) -> bool:
        """Is this a request for what a shared link shows?"""
        path = str(environ.get("PATH_INFO", ""))
        reads = environ.get("REQUEST_METHOD") in ("GET", "HEAD")
        return reads and _SHARED.fullmatch(path) is not None and ".." not in path.split("/")

    def _sentence(self, what: str) -> str:
        printed = "address" if self.local else "pairing link"
        return f"this {what} is not allowed here: open the {printed} the server printed"


def _from_here(environ: Mapping[str, Any], host: re.Match[str]) -> bool:
    """No page of another origin: neither by Origin, nor by what browsers tell where they send none."""
    scheme = str(environ.get("wsgi.url_scheme", "http"))
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None:
        return _place(str(origin)) == (scheme, host["name"].lower(), int(host["port"] or _DEFAULT_PORTS[scheme]))
    if environ.get("HTTP_SEC_FETCH_SITE") not in ("cross-site", "same-site"):
        return True
    # A link on another page may lead here; nothing else of another page may.
    document = environ.get("HTTP_SEC_FETCH_DEST") == "document" and environ.get("HTTP_SEC_FETCH_MODE") == "navigate"
    return document and environ.get("REQUEST_METHOD") in ("GET", "HEAD")


def _named(origin: str) -> tuple[str, str, int]:
    """Raises InputError."""
    place = _place(origin)
    if place is None:
        raise InputError(f"{origin} is no origin: give one as browsers name it, such as https://example.org")
    return place


def _place(origin: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an Origin header; None for what is none, such as "null" or "http://[::1"."""
    scheme, separator, rest = origin.partition("://")
    host = _HOST.fullmatch(rest)
    if not separator or host is None or scheme not in _DEFAULT_PORTS:
        return None
    return scheme, host["name"].lower(), int(host["port"] or _DEFAULT_PORTS[scheme])
