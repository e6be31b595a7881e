"""A running `tapml serve` as seen from another process: `--device http://127.0.0.1:8808`."""

from __future__ import annotations

import http.client
import io
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import numpy as np

from tapml.browsers import STARTABLE_NAMES, startable_kind
from tapml.compiled.call import CompiledRun, call_of, taken
from tapml.compiled.files import CompiledFiles
from tapml.devices.compiled import MOST_CAPTURE_BYTES
from tapml.devices.hub import device_named
from tapml.errors import InputError, TapmlError
from tapml.jobs import JobSpecification
from tapml.jobs.job import Offer
from tapml.jobs.run import RunOptions, RunSpecification
from tapml.program.graph import numpy_dtype
from tapml.server import answers
from tapml.sharing import read
from tapml.sharing.arrays_file import arrays_file, calls_of, named_by_call, read_arrays
from tapml.strict_json import parse_json
from tapml.suite import Suite
from tapml.text import listed, one_line
from tapml.validation.events import Cancel, Cancelled, Emit

_POLL_SECONDS = 0.2
_TIMEOUT_SECONDS = 30.0
_UNREACHABLE_SECONDS = 30.0
_MOST_REASON_BYTES = 100_000
_MOST_REPRO_BYTES = 1 << 30
_MOST_HEADER = 1 << 24
_START = "start one with `tapml serve SUITE`, or `tapml serve --models FOLDER` for `tapml run`"


class _Unreachable(InputError):
    """Nobody answers at the address."""


class _Gone(Exception):
    """The server does not know the job any more, or is no more."""


class RemoteServer:
    """Starts jobs at a server and follows them. The address may carry the pairing link's token, and behind "#" the
    name of a device there.
    """

    def __init__(self, url: str) -> None:
        """Raises InputError for what is no address."""
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise InputError(
                f"{url} is no address of a server ({error}): give one such as http://127.0.0.1:8808"
            ) from None
        self.base = f"{parts.scheme}://{parts.netloc}"
        self._token = next(iter(parse_qs(parts.query).get("token", [])), None)
        self._wanted = unquote(parts.fragment)
        self._device: answers.Connected | None = None

    @property
    def address(self) -> str:
        """Of the server and its device, without the token."""
        return self.base + (f"#{quote(self._wanted)}" if self._wanted else "")

    @property
    def known_as(self) -> str:
        """The name of the device that `device` found; before that what the address names."""
        return self._device["name"] if self._device is not None else self._wanted or self.base

    @property
    def runner_url(self) -> str:
        """Where a runner joins, with the token."""
        return f"{self.base}/runner" + (f"?token={quote(self._token)}" if self._token else "")

    def devices(self) -> list[answers.Connected]:
        """What is connected there. Raises InputError where nobody answers."""
        return answers.checked(self.base, answers.Devices, self._request("GET", "/api/devices")).connected

    def run(
        self,
        specification: JobSpecification,
        suite: Suite,
        emit: Emit,
        cancel: Cancel,
        offer: Offer | None = None,
    ) -> Any:
        """Run a job on the server's suite of the same content and kernels, on `device`; `offer` takes the reduced test.

        Raises InputError where the server cannot be reached, does not serve the suite or has no such device, and
        Cancelled where there is nothing to tell.
        """
        suite_id = self._suite(suite)
        device = self.device(emit, cancel)["id"]
        body = {**specification.model_dump(), "suite": suite_id, "devices": [device]}
        path = self._started(self._request("POST", "/api/jobs", body))
        try:
            document = self._follow(path, emit, cancel)
        except _Gone as gone:
            raise TapmlError(
                f"{self.base} was stopped in the middle of this run ({gone}); the verdicts it had given are in the "
                f"suite it serves (results/) as soon as it is started again; run this command again for the rest"
            ) from gone
        found = answers.result_document(self.base, specification.kind, document)
        if offer is not None:
            data, _ = self._fetch("GET", f"{path}/export?form=safetensors", most=_MOST_REPRO_BYTES)
            offer(read(f"the answer of {self.base}", lambda: io.BytesIO(data)))
        return found

    def run_model(
        self,
        files: CompiledFiles,
        calls: Sequence[Mapping[str, np.ndarray]],
        options: RunOptions,
        emit: Emit,
        cancel: Cancel,
    ) -> tuple[CompiledRun, list[str]]:
        """Call a compiled model that the server has, too, on `device`: what that gave, and the kernels that are not
        validated there.

        Raises InputError where the server cannot be reached, does not serve the model or has no such device, and
        Cancelled.
        """
        model = self._model(files)
        calls = [taken(files.model, options.function, arrays) for arrays in calls]
        types = [call_of(files.model, options.function, arrays).outputs for arrays in calls]
        asked = RunSpecification(
            **dict(options),
            model=model,
            content=files.content,
            device=self.device(emit, cancel)["id"],
            calls=len(calls),
        )
        body = b"".join(arrays_file(asked.model_dump_json(), named_by_call(calls)))
        answer, _ = self._fetch("POST", "/api/runs", body, content_type="application/octet-stream")
        path = self._started(self._parsed(answer))
        try:
            found = self._follow(path, emit, cancel)
        except _Gone as gone:
            raise TapmlError(
                f"{self.base} was stopped in the middle of this run ({gone}); run this command again"
            ) from gone
        document = answers.checked(self.base, answers.RunDocument, found)
        where = f"the answer of {self.base}"
        expected = sum(found.nbytes for outputs in types for found in outputs.values())
        data, _ = self._fetch("GET", f"{path}/outputs", most=expected + _MOST_HEADER)
        arrays = calls_of(read_arrays(where, lambda: io.BytesIO(data))[1], len(calls))
        for outputs, given in zip(types, arrays, strict=True):
            got = {name: (array.dtype, array.shape) for name, array in given.items()}
            if got != {name: (numpy_dtype(found.dtype), found.shape) for name, found in outputs.items()}:
                raise InputError(f"{where} has not the outputs that the model gives")
        capture = None
        if options.capture is not None:
            capture, _ = self._fetch("GET", f"{path}/capture", most=MOST_CAPTURE_BYTES)
        run = CompiledRun(
            [{name: given[name] for name in outputs} for outputs, given in zip(types, arrays, strict=True)],
            document.load_seconds,
            document.call_seconds,
            document.variants,
            document.bytes,
            capture,
        )
        return run, document.unvalidated

    def _started(self, answer: Any) -> str:
        """The address of the job that was started."""
        job = answers.checked(self.base, answers.Started, answer).job
        return f"/api/jobs/{quote(job, safe='')}"

    def _model(self, files: CompiledFiles) -> str:
        served = answers.checked(self.base, answers.Models, self._request("GET", "/api/models"))
        found = next((model.id for model in served.models if model.content == files.content), None)
        if found is None:
            raise InputError(
                f"{self.base} does not serve {files.path}: start it with `tapml serve --models "
                f"{files.path.absolute().parent}`"
            )
        return found

    def _suite(self, suite: Suite) -> str:
        served = answers.checked(self.base, answers.Suites, {"suites": self._request("GET", "/api/suites")})
        mend = f"start it with `tapml serve {suite.path}`"
        alike = [found for found in served.suites if found.content == suite.id]
        if not alike:
            raise InputError(f"{self.base} does not serve {suite.path}: {mend}")
        own, edited = suite.kernels_id, suite.edited_kernels
        same = [
            found for found in alike if (own == found.kernels_id if found.kernels_id else [*found.edited] == edited)
        ]
        if not same:
            there = "; ".join(f"{found.id}: {listed(found.edited, 4) or 'none edited'}" for found in alike[:4])
            raise InputError(
                f"{self.base} serves the tests of {suite.path} with other kernels (edited there: {there}; here: "
                f"{listed(edited, 4) or 'none'}): copy them there, or {mend}"
            )
        # Copies of one suite differ in their folders' names alone.
        return next((found for found in same if found.name == suite.folder_name), same[0]).id

    def device(self, emit: Emit, cancel: Cancel) -> answers.Connected:
        """The device that the address names, found once: one connected there, or one to start, of which no more than
        its name is known. Where it names none, any that is connected (waiting for one).

        Raises InputError where nobody answers, or there is no such device, and Cancelled.
        """
        if self._device is None:
            self._device = self._named() if self._wanted else self._any(emit, cancel)
        return self._device

    def _named(self) -> answers.Connected:
        found = {device["id"]: device for device in self.devices()}
        if startable_kind(self._wanted):
            known: dict[str, Any] = {"id": self._wanted, "name": self._wanted, "user_agent": "", "adapter": {}}
            return answers.CONNECTED.validate_python({**known, "unavailable": None})
        names = {device["id"]: device["name"] for device in found.values()}
        return found[device_named(self._wanted, names, STARTABLE_NAMES)]

    def _any(self, emit: Emit, cancel: Cancel) -> answers.Connected:
        said = False
        while True:
            for device in self.devices():
                if not device["unavailable"]:
                    return device
            if not said:
                text = (
                    f"waiting for a device: open {self.base}/runner in a browser, run `tapml device node-dawn --server "
                    f"{self.base}`, or name one that the server starts, such as --device {self.base}#node-dawn"
                )
                emit({"type": "message", "level": "info", "text": text})
                said = True
            cancel.check()
            time.sleep(1)

    def _follow(self, path: str, emit: Emit, cancel: Cancel) -> dict[str, Any]:
        after, cancelled = 0, False
        while True:
            state = answers.checked(self.base, answers.State, self._patient(f"{path}?after={after}"))
            for event in answers.known_events(self.base, state.events):
                emit(event)
            after = state.next
            if state.state != "running" and not state.events:
                break
            if cancel.requested and not cancelled:
                self._request("DELETE", path)
                cancelled = True
            if not state.events:
                time.sleep(_POLL_SECONDS)
        if state.document is None:
            if state.state == "cancelled":
                raise Cancelled
            error = InputError if state.input_error else TapmlError
            raise error(f"{self.base}: {state.error or 'the job ended without a result'}")
        return state.document

    def _patient(self, path: str) -> Any:
        """GET, over a network that may be cut for a while. Raises _Gone where the server that ran the job is none."""
        deadline = time.monotonic() + _UNREACHABLE_SECONDS
        while True:
            try:
                return self._request("GET", path)
            except _Unreachable as error:
                if time.monotonic() > deadline:
                    raise _Gone(f"no answer for {_UNREACHABLE_SECONDS:.0f} s") from error
                time.sleep(_POLL_SECONDS)
            except InputError as error:
                raise _Gone(str(error)) from error

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        answer, whole = self._fetch(method, path, data)
        return self._parsed(answer, whole=whole)

    def _parsed(self, answer: bytes, *, whole: bool = True) -> Any:
        try:
            return parse_json(answer, f"the answer of {self.base}", "see that it is a tapml server")
        except InputError as error:
            if whole:
                raise
            raise _Unreachable(
                f"cannot reach a tapml server at {self.base} (its answer broke off): {_START}"
            ) from error

    def _fetch(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        most: int = answers.MOST_ANSWER_BYTES,
        content_type: str = "application/json",
    ) -> tuple[bytes, bool]:
        """The answer, and whether it is known to be whole."""
        headers = {"X-Tapml": "1", "Content-Type": content_type}
        if self._token:
            headers["Cookie"] = f"tapml-token={self._token}"
        request = urllib.request.Request(self.base + path, data=data, headers=headers, method=method)
        try:
            with _OPENER.open(request, timeout=_TIMEOUT_SECONDS) as response:
                answer = response.read(most + 1)
                whole = response.length == 0  # None where the server did not say how long it is
        except urllib.error.HTTPError as error:
            said, refusal = _reason(error)
            raise InputError(f"{self.base} refused: {said}", **refusal) from error
        except (OSError, ValueError, http.client.HTTPException) as error:  # the last: cut in the middle of an answer
            reason = getattr(error, "reason", error)
            raise _Unreachable(f"cannot reach a tapml server at {self.base} ({reason}): {_START}") from error
        if len(answer) > most:
            raise InputError(f"the answer of {self.base} is larger than {most} bytes")
        return answer, whole


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An answer of 3xx is an error: the token is for this server alone."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _reason(error: urllib.error.HTTPError) -> tuple[str, dict[str, str]]:
    """The sentence, and what else a refusal tells."""
    try:
        found = parse_json(error.read(_MOST_REASON_BYTES), "the answer", "")
    except (InputError, OSError, http.client.HTTPException):
        found = None
    answer = found if isinstance(found, dict) else {}
    said, fields = answer.get("error"), ("operator", "node", "reason")
    told = {name: one_line(value) for name in fields if isinstance(value := answer.get(name), str)}
    return one_line(said) if isinstance(said, str) else f"HTTP {error.code}", told
