"""Captured calls of devices, computed again on the reference; what is wrong becomes a shared test with a link."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from tapml.errors import InputError
from tapml.field.service.fleet_state import milliseconds
from tapml.field.service.looking import Looking
from tapml.field.storage.samples import Failure, SampleStore
from tapml.results.base import adapter_name
from tapml.sharing import links
from tapml.sharing.capture import Capture, read_capture
from tapml.sharing.captured import CapturedVerdict, judge
from tapml.suite import Suite

MOST_BYTES = 16 << 20
"""Of a sample."""

_PIECE_BYTES = 1 << 20
_LOOK_SECONDS = 0.2
_IDLE_SECONDS = 5.0
"""Where no suite is here, and all that can be said of a sample is that."""
_MOST_FAILURES = 8
"""Of one sample: one kernel that is wrong makes those after it no wronger."""


class Judging(Looking):
    """`folder`: where samples wait, in `samples/`, and where shared tests lie, in `shares/`. `suites`: those that the
    tasks' models were built from; only their programs say what is right."""

    def __init__(
        self, folder: Path, samples: SampleStore, suites: Sequence[Path], now: Callable[[], int] = milliseconds
    ) -> None:
        """Raises InputError for a suite that is none."""
        super().__init__("field judging", _LOOK_SECONDS if suites else _IDLE_SECONDS, "samples wait")
        self.folder = folder
        self._waiting = folder / "samples"
        self._waiting.mkdir(parents=True, exist_ok=True)
        self._samples = samples
        self._suites = [Suite(path) for path in suites]
        self._now = now

    def keep(self, body: IO[bytes]) -> str:
        """A sample's bytes, until it is judged: the name of their file. Raises InputError where they are no sample."""
        name = secrets.token_hex(16)
        path = self._waiting / name
        try:
            with path.open("xb") as file:
                shutil.copyfileobj(body, file, _PIECE_BYTES)
            if read_capture(path) is None:
                raise InputError("this is no captured call: send a file of `model.capture` (docs/capture.md)")
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return name

    def drop(self, name: str) -> None:
        """A sample that is not wanted."""
        (self._waiting / name).unlink(missing_ok=True)

    def look(self) -> bool:
        """Judge one sample, if there is any."""
        taken = self._samples.take(self._now())
        if taken is None:
            return False
        path = self._waiting / taken.file
        try:
            capture = read_capture(path)
            if capture is None:
                raise InputError("its file is gone")
            found = judge(capture, self._suite(capture))
            failures = [self._filed(capture, one) for one in found if one.verdict == "fail"][:_MOST_FAILURES]
            self._samples.judged(taken.number, len(found), failures, self._now())
        except InputError as error:
            self._samples.judged(taken.number, 0, [], self._now(), str(error))
        finally:
            path.unlink(missing_ok=True)
        return True

    def _suite(self, capture: Capture) -> Suite:
        """A device's own word for what an operator computes is not taken."""
        model = capture.document.model
        needed = {kernel.kernel for kernel in capture.document.kernels}
        for suite in self._suites:
            if suite.manifest["model"]["sha256"] == model.sha256 and needed <= set(suite.kernels):
                return suite
        raise InputError(f"no suite of {model.title or model.name} is here: start the service with its --suite")

    def _filed(self, capture: Capture, found: CapturedVerdict) -> Failure:
        link = ""
        if found.repro is not None:
            link, _ = links.create(self.folder, found.repro)
        device = capture.document.device
        return {
            "kernel": found.call.kernel,
            "variant": found.call.variant,
            "node": found.call.node,
            "browser": device["name"],
            "gpu": adapter_name(device["adapter"]),
            "message": found.message,
            "link": link,
        }
