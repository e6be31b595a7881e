"""In front of everything, pages, API and sockets alike: requests are checked before anything else sees them."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from werkzeug.http import dump_cookie, parse_cookie

from tapml.server.connections import ENVIRON_KEY, FULL, Stage
from tapml.server.error_page import error_page, wants_page
from tapml.server.security import TOKEN_COOKIE, Security

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

SOCKET_PATH = "/socket.io/"
_MOST_QUERY = 8000
_MOST_PATH = 8000  # 64 digests of a request for blobs are 4160
_READS = ("GET", "HEAD", "OPTIONS")
_PAGES = re.compile(r"/|/runner|/(?:suites|pages)/[^\n]*")
_USED = "this pairing link has been used, or is older than ten minutes: ask the page's list of devices for another one"
_HEADERS = [
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    (
        "Content-Security-Policy",
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self' ws: wss:; frame-ancestors 'none'; base-uri 'none'",
    ),
]


class Refused(Exception):
    """A request that goes no further: `status` and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Guard:
    """WSGI middleware over the whole application, Socket.IO included."""

    def __init__(self, application: Application, security: Security) -> None:
        self._application = application
        self._security = security

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        cookies: list[tuple[str, str]] = []
        answered = False

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            nonlocal answered
            answered = True
            names = {name.lower() for name, _ in headers}
            extra = [header for header in _HEADERS if header[0].lower() not in names]
            if (origin := self._security.allowed_origin(environ)) is not None:
                extra += [("Access-Control-Allow-Origin", origin), ("Vary", "Origin")]
            return start_response(status, [*headers, *extra, *cookies], *more)

        try:
            _check_form(environ)
            _decode_cookies(environ)
            query = _query(environ)
            in_query = [value for name, value in query if name == "token"]
            in_cookie = parse_cookie(environ).getlist(TOKEN_COOKIE)
            if sentence := self._security.refusal(environ, [*in_query, *in_cookie]):
                # A page is opened by a one-time link: its browser holds the token from here on.
                opens = environ["REQUEST_METHOD"] == "GET" and _PAGES.fullmatch(environ["PATH_INFO"])
                codes = [value for name, value in query if name == "pair"] if opens else []
                if not codes or self._security.token is None:
                    raise Refused(403, sentence)
                if not self._security.redeem(codes):
                    raise Refused(403, _USED)
                in_query = [self._security.token]
                if sentence := self._security.refusal(environ, in_query):
                    raise Refused(403, sentence)
            if environ["REQUEST_METHOD"] not in _READS and environ.get("HTTP_X_TAPML") != "1":
                raise Refused(403, "a request that changes something needs the header X-Tapml: 1")
            if environ["PATH_INFO"].startswith(SOCKET_PATH):
                _check_handshake(environ, dict(query))
            self._admit(environ)
            if environ["REQUEST_METHOD"] == "OPTIONS" and self._security.allowed_origin(environ) is not None:
                # Some browsers ask before they ask for a part of a file.
                start("204 No Content", [("Access-Control-Allow-Headers", "Range"), ("Access-Control-Max-Age", "600")])
                return []
            if self._security.holds_token(in_query):
                cookies.append(("Set-Cookie", self._cookie(environ)))
                if _PAGES.fullmatch(environ["PATH_INFO"]) and _keeps_cookies_of_redirects(environ):
                    return _redirect(start, environ["PATH_INFO"], query)
        except Refused as refused:
            return answer(start, refused.status, str(refused), page=wants_page(environ))
        result = self._application(environ, start)
        if not answered:
            raise ConnectionError  # it was a WebSocket, which has ended: there is nothing to answer any more
        return result

    def _admit(self, environ: Environ) -> None:
        connection, connections = environ.get(ENVIRON_KEY, (None, None))
        if connection is None:
            return
        if environ["PATH_INFO"].startswith(SOCKET_PATH):
            stage: Stage = "socket"
        else:
            stage = "stranger" if not self._security.local and self._security.shared(environ) else "member"
        if not connections.advance(connection, stage):
            raise Refused(503, FULL)

    def _cookie(self, environ: Environ) -> str:
        """Only for a request that carried the very token."""
        assert self._security.token is not None
        secure = environ["wsgi.url_scheme"] == "https"
        return dump_cookie(TOKEN_COOKIE, self._security.token, httponly=True, samesite="Strict", secure=secure)


def answer(start_response: StartResponse, status: int, sentence: str, *, page: bool = False) -> list[bytes]:
    """An error as every other one: {"error": sentence}, or as a page."""
    body = error_page(status, sentence).encode() if page else json.dumps({"error": sentence}).encode()
    content_type = "text/html; charset=utf-8" if page else "application/json"
    headers = [("Content-Type", content_type), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
    if status == 503:
        headers.append(("Retry-After", "1"))
    start_response(f"{status} {HTTPStatus(status).phrase}", headers)
    return [body]


def _check_form(environ: Environ) -> None:
    if len(environ.get("QUERY_STRING", "")) > _MOST_QUERY or len(environ["PATH_INFO"]) > _MOST_PATH:
        raise Refused(414, "this address is too long")
    _check_text(environ["PATH_INFO"].encode("latin-1", "replace"), "the address")


def _decode_cookies(environ: Environ) -> None:
    """Other servers of this host set cookies too, and whoever reads them here expects UTF-8."""
    if "HTTP_COOKIE" in environ:
        text = environ["HTTP_COOKIE"].encode("latin-1").decode("utf-8", "replace")
        environ["HTTP_COOKIE"] = text.encode().decode("latin-1")


def _check_text(data: bytes, what: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Refused(400, f"{what} is not UTF-8") from None
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise Refused(400, f"{what} has control characters")
    return text


def _query(environ: Environ) -> list[tuple[str, str]]:
    given = environ.get("QUERY_STRING", "")
    try:
        query = parse_qsl(given, keep_blank_values=True, max_num_fields=50, encoding="latin-1")
    except ValueError:
        raise Refused(400, "the address has too many parameters") from None
    read = [(_parameter(name), _parameter(value)) for name, value in query]
    if len({name for name, _ in read}) != len(read):
        raise Refused(400, "a parameter of the address is given twice")
    return read


def _parameter(text: str) -> str:
    return _check_text(text.encode("latin-1", "replace"), "a parameter of the address")


def _check_handshake(environ: Environ, query: dict[str, str]) -> None:
    """Sockets are opened by WebSocket only: other pages can send all that Engine.IO takes otherwise."""
    version, key = environ.get("HTTP_SEC_WEBSOCKET_VERSION"), environ.get("HTTP_SEC_WEBSOCKET_KEY", "")
    upgrade = environ.get("HTTP_UPGRADE", "").lower() == "websocket"
    asked = [part.strip().lower() for part in environ.get("HTTP_CONNECTION", "").split(",")]
    fits = upgrade and "upgrade" in asked and version == "13" and _is_key(key)
    wanted = query.get("transport") == "websocket" and query.get("EIO") == "4" and not {"sid", "j"} & set(query)
    if environ["REQUEST_METHOD"] != "GET" or not fits or not wanted:
        raise Refused(400, "devices and pages connect by WebSocket (Engine.IO 4, transport=websocket) only")


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False


def _keeps_cookies_of_redirects(environ: Environ) -> bool:
    """A strict cookie does not follow a redirect that another site's link began: then the page itself takes the token
    out of its address."""
    return environ["REQUEST_METHOD"] == "GET" and environ.get("HTTP_SEC_FETCH_SITE") in ("none", "same-origin")


def _redirect(start_response: StartResponse, path: str, query: list[tuple[str, str]]) -> list[bytes]:
    """To the same page without the token or code, so that neither address bar nor history keep it."""
    rest = urlencode([(name, value) for name, value in query if name not in ("token", "pair")])
    location = quote(path.encode("latin-1"), safe="/") + (f"?{rest}" if rest else "")
    start_response("303 See Other", [("Location", location), ("Content-Length", "0"), ("Cache-Control", "no-store")])
    return []
