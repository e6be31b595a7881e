"""What comes over the network: requests, devices' messages, another server's answers, raw bytes."""

from __future__ import annotations

import contextlib
import http.server
import io
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

from benchmarks.hostile import mutate
from benchmarks.hostile.case import Case
from helpers import RESULTS, FakeRunner, hello, verdict
from tapml.cli.runs import JobEvents
from tapml.devices import DeviceHub
from tapml.jobs import JobSpecification
from tapml.reports.console import SafeConsole
from tapml.reports.locate import show_locate
from tapml.reports.progress import ProgressReport
from tapml.reports.terminal import show_offload, show_validation
from tapml.server import Server
from tapml.server.client import RemoteServer
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.events import Cancel, Cancelled

PORTS: set[int] = set()
"""What the servers of these checks listen on."""

_PATHS = (
    "/",
    "/runner",
    "/static/{x}",
    "/blobs/{digest}",
    "/blobs/{x}",
    "/blobs/{digest}+{x}",
    "/api/suites",
    "/api/suites/{x}",
    "/api/suites/good",
    "/api/suites/good/kernels/{x}",
    "/api/suites/good/tests/{x}",
    "/api/suites/good/tests/{test}",
    "/api/suites/good/results",
    "/api/suites/good/tests/{test}/export?form={x}&device={x}",
    "/api/suites/good/tests/{x}/export",
    "/api/suites/good/shares",
    "/api/suites/good/shares/{x}",
    "/api/suites/good/tests/{test}/shares",
    "/api/suites/good/imports",
    "/api/imports?name={x}",
    "/s/{share}",
    "/s/{share}/{x}",
    "/s/{x}/test",
    "/s/{share}/blobs/{digest}",
    "/api/suites/good/history/{x}",
    "/api/suites/good/history",
    "/api/devices/{x}/leave",
    "/api/jobs",
    "/api/jobs/{x}",
    "/api/jobs/{x}?after={x}",
    "/api/calls/{x}/downloads",
    "/{x}",
    "/suites/{x}",
    "/static/../{x}",
    "/static/runner/{x}",
    "/socket.io/?EIO=4&transport={x}",
)
_BODIES: tuple[Any, ...] = (
    {"kind": "validation", "suite": "good", "devices": ["no-such-device"], "kernels": None},
    {"kind": "locate", "suite": "good", "devices": ["x"], "kernels": ["y"], "runs": 3, "model": True},
    {"device": None, "days": 3.5},
    {"suite": "good", "test": "n000.s0"},
    {"session": "x"},
    {},
)
_HEADERS = (
    "Host",
    "Origin",
    "Cookie",
    "Content-Type",
    "X-Tapml",
    "Range",
    "If-None-Match",
    "If-Modified-Since",
    "If-Range",
    "Accept",
    "Transfer-Encoding",
    "Content-Length",
    "X-Forwarded-For",
    "Authorization",
    "Expect",
)
_TEXTS = (
    "127.0.0.1",
    "evil.example",
    "http://[::1",
    "http://127.0.0.1:9",
    "null",
    "\xff\xfe",
    "a" * 20_000,
    "bytes=0-1,5-2",
    "bytes=-99999999999999999999",
    "chunked",
    "-1",
    "999999999999",
    "tapml-token=x; tapml-token=y",
    "0",
    "é",
    "%00",
    "[",
    "",
)
_METHODS = ("GET", "GET", "POST", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH", "TRACE", "G\x00T")


def _address(case: Case) -> str:
    """A path with holes filled by what may be there, or by what should not."""
    facts, choose = case.checks.facts, case.choose

    def hole() -> str:
        if choose.random() < 0.3:
            return str(
                choose.choice((facts["kernel"], facts["test"], "good", "html", "python", "n000", "1", "index.html"))
            )
        return str(
            choose.choice(
                (
                    "..%2f..%2foutside%2fsecret.txt",
                    "%00",
                    "%ff",
                    "é",
                    "../../../../etc/passwd",
                    "a" * 5000,
                    "%ed%a0%80",
                    "0" * 64,
                    "x%0d%0aSet-Cookie:a=b",
                    "-1",
                    "99999999999999999999999",
                    "nan",
                    "1e5",
                    "%1b[31m",
                    "<script>",
                    "polling",
                    "websocket",
                    str(case.outside / "secret.txt").lstrip("/"),
                    "con",
                    "",
                    ".",
                    "%",
                    "%2e%2e",
                    "\u202e",
                    "+".join(["0" * 64] * 70),
                )
            )
        )

    digest = next(case.suite.glob("tensors/*/*.bin")).stem
    known = {"test": facts["test"], "share": facts["share"], "digest": digest}
    path = choose.choice(_PATHS)
    while "{x}" in path:
        path = path.replace("{x}", hole(), 1)
    for name, value in known.items():
        path = path.replace("{" + name + "}", value)
    return path


def _body(case: Case) -> bytes:
    return case.mutated(json.dumps(case.choose.choice(_BODIES)).encode())


def _headers(case: Case) -> dict[str, str]:
    headers = {"Host": "127.0.0.1", "X-Tapml": "1", "Content-Type": "application/json"}
    for _ in range(case.choose.choice((0, 0, 1, 2))):
        headers[case.choose.choice(_HEADERS)] = case.choose.choice(_TEXTS)
    return headers


def _http(case: Case) -> None:
    """Requests through the whole application, but for the socket."""
    case.checks.serve(case.suite)
    method, path, headers = case.choose.choice(_METHODS[:-1]), _address(case), _headers(case)
    options: dict[str, Any] = {"headers": headers}
    if method in ("POST", "PUT", "PATCH", "DELETE"):
        options["data"] = _body(case)
    headers.pop("Transfer-Encoding", None)
    case.checks.request(case.outcome, method, path, **options)


_EVENT_MESSAGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("progress", {"call": "", "number": 0, "progress": {}}),
    ("reply", {"call": "", "number": 0, "ok": True, "result": RESULTS["validate"]}),
    (
        "reply",
        {
            "call": "",
            "number": 0,
            "ok": False,
            "error": {
                "kind": "compile",
                "message": "it does not compile",
                "kernel": "softmax",
                "test": "n000.s0",
                "diagnostics": [
                    {"severity": "error", "line": 3, "column": 5, "message": "no", "source": "x", "file": "a.wgsl"}
                ],
            },
        },
    ),
)


def _messages(case: Case) -> None:
    """A device's hello, progress and replies, and what is made of them."""
    from tapml.devices import Blobs
    from tapml.validation.operatorwise import OperatorRun

    hub = DeviceHub()

    def changed(message: dict[str, Any]) -> Any:
        data = mutate.mutate_json(message, case.choose, case.outside)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return data.decode("utf-8", "replace")

    def answer(message: dict[str, Any], runner: FakeRunner) -> None:
        for test in message["params"]["tests"]:
            event, form = case.choose.choice(_EVENT_MESSAGES)
            body = {**form, "call": message["call"]}
            if event == "progress":
                body["progress"] = verdict(test)
            getattr(runner.device, event)(changed(body))
        runner.finish(message)

    def greet() -> None:
        hub.hello(changed(hello()), lambda event, body: None, "connection")

    def run() -> None:
        suite = Suite(case.suite)
        device = FakeRunner(hub, answer).device
        document = OperatorRun(JobContext(suite, [device], Blobs(), hang_seconds=1), save=True).run()
        show_validation(SafeConsole(io.StringIO(), width=120), document)
        suite.results("validation")

    case.watched(lambda: case.outcome.attempt(greet))
    if case.choose.random() < 0.5:
        case.watched(lambda: case.outcome.attempt(run))


class _Answers(http.server.BaseHTTPRequestHandler):
    """Another machine's server: for each path the next of what it was given, then the last again."""

    given: ClassVar[dict[str, list[bytes]]] = {}

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        answers = self.given.get(path) or [b"{}"]
        data = answers.pop(0) if len(answers) > 1 else answers[0]
        with contextlib.suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


_other: list[http.server.ThreadingHTTPServer] = []


def _remote(case: Case) -> None:
    """`--device http://...` and `tapml devices`, at a server that means harm."""
    if not _other:
        _other.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers))
        threading.Thread(target=_other[0].serve_forever, daemon=True).start()
    address = _other[0].server_address
    PORTS.add(int(address[1]))
    suite = Suite(case.suite)
    kind = case.choose.choice(("validation", "offload", "locate"))
    documents = suite.results(kind) or suite.results("validation")
    if not suite.results(kind):
        kind = "validation"
    document = case.choose.choice(documents)
    device = {**document["devices"][0], "busy": False, "unavailable": None}
    events = [
        {"type": "started", "kind": kind, "total": 1, "kernels": ["x"]},
        {"type": "device", "device": device},
        {"type": "compile", "device": device["id"], "kernel": "x", "done": 1, "total": 2},
        {"type": "message", "level": "info", "text": "x"},
    ]
    if document.get("tests"):
        events.append({"type": "verdict", "device": device["id"], "result": document["tests"][0]})
    ended = {
        "job": "j",
        "kind": kind,
        "suite": "good",
        "state": "done",
        "events": [],
        "next": 5,
        "document": document,
        "error": None,
    }
    good: dict[str, Any] = {
        "/api/suites": [{"id": "good", "content": suite.id}],
        "/api/devices": {"connected": [device], "startable": []},
        "/api/jobs": {"job": "j"},
        "/api/jobs/j": {**ended, "state": "running", "events": events, "document": None},
    }
    answers = {path: [json.dumps(found).encode()] for path, found in good.items()}
    answers["/api/jobs/j"].append(json.dumps(ended).encode())
    path = case.choose.choice(list(answers))
    number = case.choose.randrange(len(answers[path]))
    # The last one stays: a job that never ends is no defect.
    good_end = answers["/api/jobs/j"][-1]
    answers[path][number] = mutate.mutate_json(json.loads(answers[path][number]), case.choose, case.outside)
    if path != "/api/devices":
        answers[path].append(good_end if path == "/api/jobs/j" else json.dumps(good[path]).encode())
    _Answers.given = answers
    console = SafeConsole(io.StringIO(), width=120)
    shows = {"validation": show_validation, "offload": show_offload, "locate": show_locate}

    def run() -> None:
        server = RemoteServer(f"http://127.0.0.1:{address[1]}/?token=x")
        server.devices()
        specification = JobSpecification.model_validate({"kind": kind, "devices": [server.base]})
        cancel = Cancel()
        timer = threading.Timer(2.0, cancel.set)  # where it says that no device can run kernels
        timer.start()
        try:
            with ProgressReport(console) as report:
                found = server.run(specification, suite, JobEvents(report), cancel)
        except Cancelled:  # a terminal takes it for Ctrl-C
            return
        finally:
            timer.cancel()
        shows[kind](console, found)

    case.watched(lambda: case.outcome.attempt(run))


_live: list[Server] = []
_ANSWER_SECONDS = 8.0


def _raw(case: Case) -> None:
    """Bytes on the socket of a running server: good requests, cut and bent; and frames of websockets."""
    if not _live:
        _live.append(Server([case.suite]))
    port = int(_live[0].url.rsplit(":", 1)[1])
    PORTS.add(port)
    headers = {**_headers(case), "Host": f"127.0.0.1:{port}"}
    if case.choose.random() < 0.3:
        request = _upgrade(case, port)
    else:
        body = _body(case)
        headers.setdefault("Content-Length", str(len(body)))
        lines = [
            f"{case.choose.choice(_METHODS)} {_address(case)} HTTP/1.1",
            *(f"{k}: {v}" for k, v in headers.items()),
        ]
        request = "\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + body
    if case.choose.random() < 0.5:
        request = mutate.mutate_bytes(request, case.choose)
    case.watched(lambda: _send(case, port, request))


def _send(case: Case, port: int, request: bytes) -> None:
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_SECONDS) as connection:
        started = time.monotonic()
        with contextlib.suppress(OSError):
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while time.monotonic() - started < _ANSWER_SECONDS and len(answer) < 1_000_000:
                data = connection.recv(65536)
                if not data:
                    break
                answer += data
    case.outcome.said.append(answer[:100_000].decode("latin-1"))
    status = answer[9:12] if answer.startswith(b"HTTP/") else b""
    if status.startswith(b"5") and status not in (b"501", b"503", b"505"):
        case.outcome.errors_500.append(f"{request[:500]!r}: {answer[:500]!r}")
    elif status.startswith((b"2", b"1", b"3")):
        case.outcome.accepted += 1
    else:
        case.outcome.refused += 1


def _upgrade(case: Case, port: int) -> bytes:
    """A websocket of Engine.IO with mutated packets."""
    head = (
        f"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()
    packets = [
        b"40/device,",
        b'42/device,1["hello",' + json.dumps(hello()).encode() + b"]",
        b'42/device,["progress",{}]',
        b'42/device,["reply",{"call":"x"}]',
        b"2",
        b"3",
        b"41/device,",
        b'451-/device,["x",{"_placeholder":true,"num":0}]',
        b'40/events,{"token":1}',
        b"6",
        b"40" + b"/" * 300,
        b'42["' + b"[" * 2000,
    ]
    frames = []
    for packet in [packets[0], *case.choose.choices(packets, k=3)]:
        if case.choose.random() < 0.6:
            packet = mutate.mutate_bytes(packet, case.choose)
        code = case.choose.choice((0x81, 0x81, 0x81, 0x82, 0x01, 0x89, 0xF1))
        size = len(packet)
        length = (
            bytes([0x80 | size])
            if size < 126
            else b"\xfe" + size.to_bytes(2, "big")
            if size < 65536
            else b"\xff" + size.to_bytes(8, "big")
        )
        frames.append(bytes([code]) + length + b"\0\0\0\0" + packet)
    return head + b"".join(frames)


READERS: dict[str, Callable[[Case], None]] = {
    "HTTP requests": _http,
    "devices' messages": _messages,
    "servers' answers": _remote,
    "raw connections": _raw,
}
"""As suites.READERS."""
