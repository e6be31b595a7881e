"""Tells when a kernel's files change on disk, whoever writes them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tapml.devices.messages import digest_now
from tapml.errors import InputError
from tapml.server.registry import SuiteRegistry
from tapml.suite import Suite
from tapml.suite.trial import files_of

_LOG = logging.getLogger(__name__)

_STEP_MS = 100
"""Without another change, what changed is told: an editor writes a file in several steps."""
_LOOK_MS = 1000
"""How often it is looked whether there are other folders to watch."""

Listener = Callable[[str, dict[str, dict[str, Any]]], None]
"""Takes a suite's id and `state_of` by kernel."""


def state_of(suite: Suite, kernel: str) -> dict[str, Any]:
    """What a kernel is now: `digest`, which verdicts are compared by (None where it is damaged), and whether it is
    `edited`."""
    try:
        return {
            "digest": digest_now(suite, kernel),
            "edited": suite.kernel(kernel).edited,
        }
    except InputError:
        return {"digest": None, "edited": True}


class SuiteWatch:
    """Watches the folders of kernels of all suites of a registry, on a thread, until it is closed."""

    def __init__(self, suites: SuiteRegistry) -> None:
        self._suites = suites
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.listener: Listener = lambda suite_id, kernels: None

    def start(self) -> None:
        """Without watchfiles, in an environment of an earlier version of tapml, a warning says so."""
        try:
            import watchfiles  # noqa: F401
        except ModuleNotFoundError:
            _LOG.warning("watchfiles is not installed: edits are seen when a page is loaded; run `make setup`")
            return
        self._thread = threading.Thread(target=self._run, name="watch suites", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """May be called twice, and without a start."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(5)

    def _run(self) -> None:
        import watchfiles

        while not self._stopped.is_set():
            folders = self._folders()
            if not folders:
                self._stopped.wait(_LOOK_MS / 1000)
                continue
            try:
                for changes in watchfiles.watch(
                    *folders,
                    watch_filter=None,
                    step=_STEP_MS,
                    stop_event=self._stopped,
                    rust_timeout=_LOOK_MS,
                    yield_on_timeout=True,
                    raise_interrupt=False,
                    ignore_permission_denied=True,
                    recursive=False,
                ):
                    self.changed({Path(name) for _, name in changes})
                    if self._folders() != folders:
                        break
            except (OSError, RuntimeError) as error:  # a folder that went away in between; no more watches to be had
                _LOG.warning("suites cannot be watched: %s", error)
                self._stopped.wait(_LOOK_MS / 1000)

    def _folders(self) -> dict[Path, tuple[int, int]]:
        """Folders of kernels that there are, and which they are: one may be put in another one's place."""
        found = {}
        for path in self._suites.paths():
            folder = path / "kernels"
            try:
                facts = folder.stat()
            except OSError:
                continue
            found[folder] = (facts.st_dev, facts.st_ino)
        return found

    def changed(self, files: Iterable[Path]) -> None:
        """Tell the listener what the kernels are now that these files belong to."""
        by_folder: dict[Path, set[str]] = {}
        for file in files:
            by_folder.setdefault(file.parent, set()).add(file.name)
        for suite_id, path in self._suites.items():
            if names := by_folder.get(path / "kernels"):
                try:
                    suite = Suite(path)
                    touched = [name for name in suite.kernels if not names.isdisjoint(_files(suite, name))]
                    found = {name: state_of(suite, name) for name in touched}
                except InputError:  # damaged in the middle of being written: its page says so when it is loaded
                    continue
                if found:
                    self.listener(suite_id, found)


def _files(suite: Suite, kernel: str) -> list[str]:
    """Names of the files that a kernel is made of. Of a damaged one its document is known."""
    try:
        return files_of(suite, kernel)
    except InputError:
        return [f"{kernel}.json"]
