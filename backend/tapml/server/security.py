"""Who may talk to the server: loopback names only, or whoever holds the token."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from urllib.parse import urlsplit

from flask import Flask, Request, Response, abort, jsonify, request

_COOKIE = "tapml-token"
# What the holder of a shared link reaches without the token; the views behind it ask for the link's own secret.
_SHARED = re.compile(r"/s/[A-Za-z0-9_-]{22}(/.*)?|/static/share/[A-Za-z0-9_./-]+")
_LOCAL_NAMES = {"localhost", "127.0.0.1", "::1"}


def is_loopback(host: str) -> bool:
    """True for an address only this machine can reach."""
    if host in _LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Security:
    """On loopback: requests must name a loopback host, so that no foreign page reaches the server through a DNS
    name of its own. Elsewhere: every request needs the token of the pairing link, kept as a cookie after the first;
    only shared links are for strangers.
    """

    def __init__(self, host: str) -> None:
        self.local = is_loopback(host)
        self.token = None if self.local else secrets.token_urlsafe(24)

    def allows(self, incoming: Request, token: str | None = None) -> bool:
        """`token`: one that came another way than by address, header or cookie (a socket's auth)."""
        if not self._origin_fits(incoming):
            return False
        if self.token is None:
            return (_hostname(incoming.host) or "") in _LOCAL_NAMES
        if incoming.method in ("GET", "HEAD") and _SHARED.fullmatch(incoming.path):
            return True
        given = token or incoming.args.get("token") or incoming.cookies.get(_COOKIE) or ""
        return hmac.compare_digest(given.encode(), self.token.encode())

    def _origin_fits(self, incoming: Request) -> bool:
        origin = incoming.headers.get("Origin")
        return origin is None or urlsplit(origin).netloc == incoming.host

    def install(self, app: Flask) -> None:
        """Check every request before any view sees it."""

        @app.before_request
        def check() -> None:
            if not self.allows(request):
                mend = "use http://127.0.0.1" if self.local else "open the pairing link the server printed"
                abort(403, f"this address, origin or token is not allowed here: {mend}")
            if request.method not in ("GET", "HEAD", "OPTIONS") and request.headers.get("X-Tapml") != "1":
                abort(403, "a request that changes something needs the header X-Tapml: 1")

        @app.after_request
        def harden(response: Response) -> Response:
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
            response.headers["Content-Security-Policy"] = (
                "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
                "img-src 'self' data:; connect-src 'self' ws: wss:; frame-ancestors 'none'; base-uri 'none'"
            )
            if self.token and request.args.get("token"):
                response.set_cookie(_COOKIE, self.token, httponly=True, samesite="Strict")
            return response


def _hostname(host: str) -> str | None:
    return urlsplit(f"//{host}").hostname


def json_errors(app: Flask) -> None:
    """Every HTTP error as {"error": sentence}."""
    from werkzeug.exceptions import HTTPException

    from tapml.errors import InputError

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> tuple[Response, int]:
        return jsonify({"error": error.description}), error.code or 500

    @app.errorhandler(InputError)
    def input_error(error: InputError) -> tuple[Response, int]:
        return jsonify({"error": str(error)}), 400
