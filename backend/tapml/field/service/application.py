"""The service's HTTP: everything that comes is hostile, and everything that is for all may be kept for ever."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Collection
from typing import Annotated, Literal, NoReturn

from flask import Blueprint, Flask, Response, abort, jsonify, request
from pydantic import Field

from tapml.errors import InputError
from tapml.field.names import TaskName, Version
from tapml.field.profiles import HEADER, Profile, parse_profile
from tapml.field.service import console_views
from tapml.field.service.fleet_state import FleetState
from tapml.field.service.judging import MOST_BYTES, Judging
from tapml.field.service.limits import Limiter
from tapml.field.service.traffic import Traffic
from tapml.field.signing import granted_subject
from tapml.field.tasks.published import Published
from tapml.folder import FileInside, FileMissing, Folder
from tapml.formats import validated
from tapml.protocol.base import Message
from tapml.server import model_views
from tapml.server.bodies import json_object
from tapml.server.errors import json_errors
from tapml.server.model_views import IMMUTABLE, POLICY, file_answer
from tapml.server.pages import built_file
from tapml.server.share_views import add_visitors

ANSWER_HEADER = "Tapml-Answer"
GRANT_HEADER = "Tapml-Grant"
_PRIVATE = "private, no-store"
_DIGEST = r"[0-9a-f]{64}"
_BYTES = "application/octet-stream"
_MOST_BODY = 10_000
_NO_PAGE = "default-src 'none'; frame-ancestors 'none'"
_LOCAL = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
_HOST = re.compile(r"([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?")
_AGENTS = ("/pages/", "/agent/", "/static/agent/")
_SCRIPTS = ("text/javascript", "application/javascript")  # as Python and the system call them
_SERVED = [
    "GET /field/answer",
    "POST /field/reports",
    "POST /field/samples?task=TASK&version=VERSION",
    "GET /field/manifests/SHA256.json",
    "GET /field/manifests/SHA256.sig",
    "GET /field/blobs/SHA256",
    "GET /field/exclusive/MANIFEST/document.json",
    "GET /field/exclusive/MANIFEST/document.sig",
    "GET /field/exclusive/MANIFEST/files/PATH",
    "GET /agent/tapml-agent.js",
]
_PAGES, _CONSOLE = ["GET /pages/", "GET /runtime/tapml-runtime.js"], ["GET /console/"]
_ALLOWED_HEADERS = f"{HEADER}, {GRANT_HEADER}, Content-Type, Range"
_EXPOSED_HEADERS = f"{ANSWER_HEADER}, Retry-After"


class RunFailed(Message):
    """Why a run failed, or a pull; a text of the task's own might have its user's data in it, and is not taken."""

    kind: Literal["start", "exception", "time", "crash", "queue", "storage", "pull"]
    what: Annotated[
        str,
        Field(
            pattern=r"^(?:[A-Za-z_][A-Za-z0-9_.]{0,63} at [A-Za-z0-9_./+@-]{1,100}:[0-9]{1,6}"
            r"|task\.json|untrusted|missing)?$"
        ),
    ] = ""
    """The exception's type and the task's line; of a pull what is wrong with the version."""


class Report(Message):
    """Of one run of a task, or of a version that a device cannot install."""

    task: TaskName
    version: Version
    failed: bool
    ms: Annotated[float, Field(ge=0, le=1e9)] | None = None
    """How long it took."""
    failure: RunFailed | None = None


def create_app(
    state: FleetState,
    published: Published,
    judging: Judging | None = None,
    *,
    grants: str | None,
    origins: Collection[str],
    local: bool,
    console_key: str | None = None,
    traffic: Callable[[], Traffic] | None = None,
    pages: Folder | None = None,
    limiter: Limiter | None = None,
    tunnel_port: Callable[[], int] | None = None,
) -> Flask:
    """`grants`: the public key of who signs grants; without it nobody has exclusive files. `origins`: whose pages may
    ask. `local`: only this machine may, by its own names. `judging`: takes samples, and gives the tests made of them.
    `console_key`: opens the console, which shows `traffic`. `pages`: web pages of this origin, at /pages/.
    `limiter`: how often an address and a device may ask; without it there is no limit. `tunnel_port`: of this host,
    to which these pages may connect as well."""
    app = Flask("tapml.field", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = _MOST_BODY
    app.url_map.merge_slashes = False
    json_errors(app)

    @app.before_request
    def check() -> Response | None:
        if local and not _LOCAL.fullmatch(request.headers.get("Host", "")):
            abort(403, "this host is not allowed here: open the address the server printed")
        origin = request.headers.get("Origin")
        if origin is not None and origin not in origins and origin != request.host_url.rstrip("/"):
            abort(403, "pages of this origin may not ask: start the server with --allow-origin")
        if request.method == "OPTIONS":
            return Response(status=204)
        return None if limiter is None else _limited(limiter)

    @app.after_request
    def finish(response: Response) -> Response:
        response.headers["X-Content-Type-Options"] = "nosniff"
        # Of a page, and of a script, for a worker has the policy that its script came with.
        runs = response.mimetype in ("text/html", *_SCRIPTS)
        of_agents = request.path.startswith(_AGENTS)
        policy = _agent_policy(tunnel_port) if of_agents else POLICY
        response.headers["Content-Security-Policy"] = policy if runs else _NO_PAGE
        if runs:
            response.headers["Referrer-Policy"] = "no-referrer"
        if runs and of_agents:
            # Threads may share memory: tasks are interrupted, and wait for the GPU, by it. No other host is asked.
            response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
            response.headers["Cross-Origin-Embedder-Policy"] = "require-corp"
        response.headers.setdefault("Cache-Control", "no-store")
        if (origin := request.headers.get("Origin")) in origins and origin is not None:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Allow-Headers"] = _ALLOWED_HEADERS
            response.headers["Access-Control-Expose-Headers"] = _EXPOSED_HEADERS
            response.vary.add("Origin")
        if request.method == "GET" and HEADER in request.headers and response.status_code < 400:
            # A profile that is wrong never breaks the page's own request.
            try:
                answer = json.dumps(state.answer(_profile()), separators=(",", ":"))
            except InputError as error:
                answer = json.dumps({"error": str(error)})
            response.headers[ANSWER_HEADER] = answer
        return response

    @app.get("/")
    def index() -> Response:
        served = [*_SERVED, *(_PAGES if pages is not None else []), *(_CONSOLE if console_key is not None else [])]
        return jsonify({"service": "tapml field", "served": served})

    @app.get("/field/answer")
    def answer() -> Response:
        return jsonify(state.answer(_profile()))

    @app.post("/field/reports")
    def report() -> Response:
        found = validated("the report", Report, json_object(), "; send what @tapml/agent sends")
        failure = None if found.failure is None else (found.failure.kind, found.failure.what)
        counted = state.report(_profile(), found.task, found.version, found.failed, found.ms, failure)
        return jsonify({"counted": counted})

    @app.post("/field/samples")
    def sample() -> Response:
        request.max_content_length = MOST_BYTES
        profile, task, version = _profile(), request.args.get("task", ""), request.args.get("version", "")
        if judging is None or not state.samples_of(profile, task, version):
            return jsonify({"counted": False})
        name = judging.keep(request.stream)
        counted = state.sampled(profile, task, version, name)
        if not counted:
            judging.drop(name)
        return jsonify({"counted": counted})

    @app.get("/field/blobs/<digest>")
    def blob(digest: str) -> Response:
        return _public("blobs", digest, _DIGEST, _BYTES)

    @app.get("/field/manifests/<name>")
    def manifest(name: str) -> Response:
        return _public("manifests", name, rf"({_DIGEST})\.(?:json|sig)", _type(name))

    @app.get("/field/exclusive/<digest>/document.<suffix>")
    def exclusive_document(digest: str, suffix: Literal["json", "sig"]) -> Response:
        subject = _subject()
        if not re.fullmatch(_DIGEST, digest) or suffix not in ("json", "sig"):
            _nothing()
        return _opened(published.exclusive_document(digest, subject, suffix), _type(f".{suffix}"), _PRIVATE)

    @app.get("/field/exclusive/<digest>/files/<path:name>")
    def exclusive_file(digest: str, name: str) -> Response:
        subject = _subject()
        if not re.fullmatch(_DIGEST, digest):
            _nothing()
        try:
            files = published.exclusive(digest, subject).files
        except FileMissing:
            _nothing()
        found = next((file.sha256 for file in files if file.path == name), None)
        if found is None:
            _nothing()
        return _opened(published.exclusive_blob(found), _BYTES, _PRIVATE)

    def _public(kind: Literal["blobs", "manifests"], name: str, pattern: str, content_type: str) -> Response:
        if not re.fullmatch(pattern, name):
            _nothing()
        return _opened(published.public(kind, name), content_type, IMMUTABLE, name)

    def _subject() -> str:
        """By the grant alone: no profile and no part of the address names one."""
        text = request.headers.get(GRANT_HEADER)
        if text is None or grants is None:
            _nothing()
        try:
            return granted_subject(grants, text, int(time.time()))
        except InputError as error:
            abort(403, str(error))

    looked_at = Blueprint("looked_at", __name__)
    add_visitors(looked_at, lambda: [judging.folder] if judging else [])
    looked_at.get("/static/<path:name>")(built_file)

    @looked_at.get("/agent/<path:name>")
    def agent(name: str) -> Response:
        """Where documentation and pages of other servers have it, too."""
        return built_file(f"agent/{name}")

    if pages is not None:
        model_views.add(looked_at, None, pages)
    if console_key is not None:
        console_views.add(looked_at, state, console_key, traffic)
    app.register_blueprint(looked_at)
    return app


def _agent_policy(tunnel_port: Callable[[], int] | None) -> str:
    """Of pages with an agent and of its workers: Python is WebAssembly, and the tunnel has a port of its own."""
    policy = POLICY.replace("script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'")
    if tunnel_port is None or (found := _HOST.fullmatch(request.host)) is None:
        return policy
    scheme = "wss" if request.is_secure else "ws"
    return policy.replace("connect-src 'self'", f"connect-src 'self' {scheme}://{found[1]}:{tunnel_port()}")


def _limited(limiter: Limiter) -> Response | None:
    wait, who = limiter.address(request.remote_addr or ""), "address"
    if wait == 0 and HEADER in request.headers:
        try:
            wait, who = limiter.device(_profile().device), "device"
        except InputError:
            return None  # whoever reads the profile says what is wrong with it
    if wait == 0:
        return None
    seconds = math.ceil(wait)
    answer = jsonify({"error": f"this {who} asks too often: ask again in {seconds} s"})
    answer.status_code = 429
    answer.headers["Retry-After"] = str(seconds)
    return answer


def _profile() -> Profile:
    header = request.headers.get(HEADER)
    if header is None:
        raise InputError(f"the header {HEADER} is missing: send what @tapml/agent sends")
    return parse_profile(header)


def _opened(file: FileInside, content_type: str, cache: str, tag: str | None = None) -> Response:
    try:
        return file_answer(file.open(), content_type, cache, tag)
    except FileMissing:
        _nothing()


def _nothing() -> NoReturn:
    """The same for what is missing and for what is somebody else's."""
    abort(404, "there is no such file, or it is not yours")


def _type(name: str) -> str:
    return "application/json" if name.endswith(".json") else _BYTES
