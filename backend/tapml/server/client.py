"""A running `tapml serve` as seen from another process: `--device http://127.0.0.1:8808`."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from tapml.errors import InputError, TapmlError
from tapml.suite import Suite
from tapml.validation.events import Cancel, Emit

_POLL_SECONDS = 0.2
_TIMEOUT_SECONDS = 30.0
_PATIENCE_SECONDS = 30.0


class _Unreachable(InputError):
    """Nobody answers at the address."""


class _Gone(Exception):
    """The server does not know the job any more, or is no more."""


class RemoteServer:
    """Starts jobs at a server and follows them. The address may carry the pairing link's token."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.base = f"{parts.scheme}://{parts.netloc}"
        self._token = next(iter(parse_qs(parts.query).get("token", [])), None)

    @property
    def runner_url(self) -> str:
        """Where a runner joins, with the token."""
        return f"{self.base}/runner" + (f"?token={quote(self._token)}" if self._token else "")

    def devices(self) -> list[dict[str, Any]]:
        """What is connected there. Raises InputError where nobody answers."""
        return list(self._request("GET", "/api/devices")["connected"])

    def run(
        self,
        kind: str,
        suite: Suite,
        kernels: Sequence[str] | None,
        emit: Emit,
        cancel: Cancel,
        **options: Any,
    ) -> dict[str, Any]:
        """Run a job on the server's suite of the same content, on a device connected there (waiting for one).
        `options`: further fields of the job's request (docs/http-api.md).

        Raises InputError where the server cannot be reached or does not serve the suite.
        """
        suite_id = self._suite(suite)
        device = self._device(emit, cancel)
        body = {"kind": kind, "suite": suite_id, "devices": [device], "kernels": kernels, **options}
        job = self._request("POST", "/api/jobs", body)["job"]
        try:
            return self._follow(f"/api/jobs/{quote(job)}", emit, cancel)
        except _Gone as gone:
            raise TapmlError(
                f"{self.base} was stopped in the middle of this run ({gone}); the verdicts it had given are in the "
                f"suite it serves (results/) as soon as it is started again; run this command again for the rest"
            ) from gone

    def _suite(self, suite: Suite) -> str:
        for found in self._request("GET", "/api/suites"):
            if found.get("content") == suite.id:
                return str(found["id"])
        raise InputError(f"{self.base} does not serve {suite.path}: start it with `tapml serve {suite.path}`")

    def _device(self, emit: Emit, cancel: Cancel) -> str:
        said = False
        while True:
            for device in self._request("GET", "/api/devices")["connected"]:
                if not device["unavailable"]:
                    return str(device["id"])
            if not said:
                text = f"waiting for a browser: open {self.base}/runner"
                emit({"type": "message", "level": "info", "text": text})
                said = True
            if cancel.requested:
                raise KeyboardInterrupt
            time.sleep(1)

    def _follow(self, path: str, emit: Emit, cancel: Cancel) -> dict[str, Any]:
        after, cancelled = 0, False
        while True:
            state = self._patient(f"{path}?after={after}")
            for event in state["events"]:
                emit(event)
            after = state["next"]
            if state["state"] != "running" and not state["events"]:
                break
            if cancel.requested and not cancelled:
                self._request("DELETE", path)
                cancelled = True
            if not state["events"]:
                time.sleep(_POLL_SECONDS)
        if state["document"] is None:
            raise TapmlError(f"{self.base}: {state['error'] or 'the job ended without a result'}")
        return dict(state["document"])

    def _patient(self, path: str) -> Any:
        """GET, over a network that may be cut for a while. Raises _Gone where the server that ran the job is none."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return self._request("GET", path)
            except _Unreachable as error:
                if time.monotonic() > deadline:
                    raise _Gone(f"no answer for {_PATIENCE_SECONDS:.0f} s") from error
                time.sleep(_POLL_SECONDS)
            except InputError as error:
                raise _Gone(str(error)) from error

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"X-Tapml": "1", "Content-Type": "application/json"}
        if self._token:
            headers["Cookie"] = f"tapml-token={self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise InputError(f"{self.base} refused: {_reason(error)}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:  # the last: cut in the middle of an answer
            reason = getattr(error, "reason", error)
            raise _Unreachable(
                f"cannot reach a tapml server at {self.base} ({reason}): start one with `tapml serve SUITE`"
            ) from error


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code}"
