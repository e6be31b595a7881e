"""Requests as nobody means well sends them: each is refused with one sentence, by status 4xx, and harms nothing.

`REQUESTS` go through any HTTP client; `RAW` are bytes for a socket, for what clients do not let one send.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

CHANGE = {"X-Tapml": "1"}
JSON = {**CHANGE, "Content-Type": "application/json"}
SURROGATE = '"\\ud800"'
DEEP = "[" * 200_000
UPGRADE = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}  # fmt: skip
SOCKET = "/socket.io/?EIO=4&transport=websocket"


@dataclass(frozen=True)
class HostileRequest:
    """One request; `path` as it stands in the request line."""

    path: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def __str__(self) -> str:
        return f"{self.method} {self.path[:60]} {list(self.headers.items())[-1:]} {self.body[:40]!r}"


FOREIGN_ORIGINS = (
    "null", "", "http://evil.example", "http://localhost:1", "https://localhost", "http://[::1", "http://[", "http://",
    "file://", "http://localhost@evil.example", "http://evil.example@localhost", "http://localhost.evil.example",
    "http://localhost/", "http://localhost:80:80", "http://localhost:999999", "localhost", "//localhost",
    "http://localhost, http://localhost", "\xff\xfe", "chrome-extension://abc", "http://localhost#", "http://[::1]:x",
)  # fmt: skip
FOREIGN_HOSTS = (
    "evil.example", "", "127.0.0.1@evil.example", "evil.example@127.0.0.1", "localhost.evil.example",
    "127.0.0.1.nip.io", "localhost,evil.example", "[::1", "[", "[]", "localhost:80:80", "localhost:x", "localhost:",
    "localhost/", "0.0.0.0",
    "127.0.0.1#", "127.0.0.1?x", "local host", "2130706433", "127.1", "\xff", "192.168.0.1", "[::ffff:192.168.0.1]",
)  # fmt: skip
FOREIGN_FETCHES = (
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
)
"""What browsers tell of requests for which they send no Origin: scripts, images and frames of other pages."""

_JOB = {"kind": "validation", "suite": "small", "devices": ["nobody"], "kernels": None}
_JOB_FIELDS: dict[str, tuple[Any, ...]] = {
    "kind": (True, 6, None, [], {}, "dance", "\0"),
    "suite": (True, 6, None, [], {}, "other", "../small", "\0", "\ud800"),
    "devices": (True, "nobody", None, [], {}, [[]], [1], [None], ["x\0"], ["\x1b[2J"], ["\ud800"], ["x"] * 3 + [2]),
    "kernels": (True, "all", 6, {}, [[]], [1], ["\ud800"]),
    "runs": (True, "6", 1.5, 0, -1, 101, 10**30, [], {}, None),
    "model": ("true", 1, None, []),
}
_BODIES = (
    b"", b"[", DEEP.encode(), (b'{"a":' * 100_000), b"\xff\xfe", b"[]", b"7", b'"x"', b"null", b"{} {}", b"{}x",
    b'{"kind":"validation","kind":"offload"}', b'{"runs":NaN}', b'{"runs":Infinity}', b'{"runs":1e999}',
    b'{"runs":' + b"9" * 5000 + b"}", b'{"suite":"\\ud800"}', b"\x00", b" " * (1 << 20) + b"{}",
)  # fmt: skip
_SHARE = "/api/suites/small/tests/n000.s0/shares"
_PATHS = (
    "/%00", "/static/%00", "/static/a%00b", "/static/..%2f..%2flocal.py", "/static/%2e%2e/%2e%2e/local.py",
    "/static//etc/passwd", "/blobs/%00", "/blobs/..%2f..%2fsuite.json", "/blobs/%ff", "/blobs/%ed%a0%80",
    "/blobs/" + "0" * 64, "/blobs/" + "+".join(["0" * 64] * 65), "/blobs/+++", "/api/suites/%00", "/api/suites/%0d%0a",
    "/api/suites/..%2f..", "/api/suites/small/kernels/%00", "/api/suites/small/kernels/..%2fsuite",
    "/api/suites/small/kernels/" + "k" * 5000, "/api/suites/small/tests/%00", "/api/suites/small/tests/n999.s0",
    "/api/suites/small/tests/..%2f..%2fsuite.json", "/api/suites/small/history/%00", "/api/suites/small/history/x",
    "/api/suites/small/tests/n000.s0/export?form=exe", "/api/suites/small/tests/n000.s0/export?form=%00",
    "/api/suites/small/tests/n000.s0/export?form=html&form=wgsl", "/api/jobs/x?after=1", "/api/jobs/%00",
    "/api/suites?" + "a" * 9000, "/api/suites?" + "&".join(f"a{n}=1" for n in range(200)), "/api/suites?a=1&a=2",
    "/api/suites?a=%00", "/api/suites?a=%ff", "/" + "a" * 9000, "/s/" + "A" * 22 + "/test",
    "/s/" + "A" * 22 + "/blobs/" + "0" * 64, "/s/" + "A" * 22 + "/repro.html", "/unknown",
)  # fmt: skip
_SOCKETS = (
    "/socket.io/", "/socket.io/?EIO=4&transport=polling", "/socket.io/?EIO=4&transport=polling&j=0",
    "/socket.io/?EIO=4&transport=websocket&j=0", "/socket.io/?EIO=4&transport=websocket&sid=x",
    "/socket.io/?EIO=3&transport=websocket", "/socket.io/?EIO=4&transport=websocket&transport=polling",
    "/socket.io/x?EIO=4", "/socket.io/?EIO=4&transport=%00",
)  # fmt: skip

REQUESTS: tuple[HostileRequest, ...] = (
    *(HostileRequest("/api/suites", headers={"Origin": origin}) for origin in FOREIGN_ORIGINS),
    *(HostileRequest("/api/suites", headers={"Host": host}) for host in FOREIGN_HOSTS),
    *(HostileRequest("/api/suites", headers=fetch) for fetch in FOREIGN_FETCHES),
    *(HostileRequest(path) for path in _PATHS),
    *(HostileRequest(path, headers=UPGRADE) for path in _SOCKETS),
    *(HostileRequest(path) for path in _SOCKETS),
    *(HostileRequest(path, "POST", CHANGE, b"40/device,") for path in _SOCKETS),
    *(HostileRequest(SOCKET, headers={**UPGRADE, "Origin": origin}) for origin in FOREIGN_ORIGINS),
    *(HostileRequest(SOCKET, headers={**UPGRADE, "Host": host}) for host in FOREIGN_HOSTS),
    *(HostileRequest(SOCKET, headers={**UPGRADE, "Sec-WebSocket-Key": key}) for key in ("", "x", "====")),
    HostileRequest(SOCKET, headers={**UPGRADE, "Sec-WebSocket-Version": "12"}),
    *(HostileRequest("/api/jobs", "POST", headers, b"{}") for headers in ({}, {"X-Tapml": "2"}, CHANGE)),
    *(HostileRequest("/api/jobs", "POST", JSON, body) for body in _BODIES),
    *(
        HostileRequest("/api/jobs", "POST", JSON, json.dumps({**_JOB, name: value}).encode())
        for name, values in _JOB_FIELDS.items()
        for value in values
    ),
    *(HostileRequest(f"/api/jobs/{job}", "DELETE", CHANGE) for job in ("none", "%00", "a" * 5000)),
    *(HostileRequest("/api/devices/x/leave", "POST", JSON, body) for body in _BODIES),
    HostileRequest("/api/devices/x/leave", "POST", JSON, b'{"session": true}'),
    *(HostileRequest("/api/calls/none/downloads", "POST", CHANGE, body) for body in (b"", b"x" * 100)),
    *(HostileRequest(_SHARE, "POST", JSON, body) for body in _BODIES if body),
    *(
        HostileRequest(_SHARE, "POST", JSON, json.dumps({"device": device, "days": days}).encode())
        for device, days in ((True, 1), ([], 1), (None, True), (None, "6"), (None, -1), (None, 10**20), (None, 1e300))
    ),
    *(HostileRequest("/api/suites/small/shares/" + name, "DELETE", CHANGE) for name in ("x", "..%2fsuite", "%00")),
    *(HostileRequest("/api/imports?name=x.html", "POST", CHANGE, body) for body in (b"", b"\0", b"<p>", b"[" * 10_000)),
    HostileRequest("/api/imports?name=%00", "POST", CHANGE, b"x"),
    *(
        HostileRequest("/api/suites/small/imports", "POST", JSON, json.dumps(body).encode())
        for body in ({}, {"suite": True, "test": 1}, {"suite": "small", "test": "../x"}, {"suite": "small", "test": []})
    ),
    *(HostileRequest("/api/suites", method) for method in ("PUT", "PATCH", "TRACE", "BREW")),
    *(HostileRequest("/api/suites", method, CHANGE) for method in ("POST", "PUT", "PATCH", "DELETE", "BREW")),
)  # fmt: skip

_HOST = b"Host: localhost\r\n"
RAW: tuple[bytes, ...] = (
    b"GET /api/suites HTTP/1.1\r\n\r\n",
    b"GET /api/suites HTTP/1.0\r\n\r\n",
    b"GET /api/suites HTTP/1.1\r\n" + _HOST + b"Host: evil.example\r\n\r\n",
    b"GET /api/suites HTTP/1.1\r\n" + _HOST + _HOST + b"\r\n",
    b"GET /api/suites HTTP/1.1\r\n" + _HOST + b"Origin: http://localhost\r\nOrigin: http://evil.example\r\n\r\n",
    b"GET http://localhost/api/suites HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET http://[::1/ HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET //[ HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET * HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET api/suites HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"CONNECT localhost:80 HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET / HTTP/9.9\r\n" + _HOST + b"\r\n",
    b"GET / HTTP/x\r\n" + _HOST + b"\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"GET /\xff\x00 HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET / \r\n\r\n",
    b"one two three four five\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET / HTTP/1.1\r\n" + _HOST + b"A: " + b"a" * 70_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + _HOST + b"".join(b"A%d: x\r\n" % number for number in range(200)) + b"\r\n",
    b"GET / HTTP/1.1\r\n" + _HOST + b"no header at all\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + _HOST + b" folded: header\r\n\r\n",
    *(
        b"POST /api/jobs HTTP/1.1\r\n" + _HOST + b"X-Tapml: 1\r\nContent-Type: application/json\r\n" + more + b"\r\n{}"
        for more in (
            b"Content-Length: -1\r\n", b"Content-Length: x\r\n", b"Content-Length: 2\r\nContent-Length: 3\r\n",
            b"Content-Length: 99999999999999999999\r\n", b"Content-Length: 2_0\r\n", b"Content-Length: +2\r\n",
            b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n",
            b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n", b"Transfer-Encoding: x\r\n",
            b"Content-Encoding: gzip\r\nContent-Length: 2\r\n",
        )
    ),
)  # fmt: skip
