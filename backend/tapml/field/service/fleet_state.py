"""What a running service knows: the catalogue of now, kept anew every second from the database."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from tapml.errors import InputError
from tapml.field.decisions import Answer, Catalogue, watched
from tapml.field.profiles import Profile
from tapml.field.releases import NamedStep, Release
from tapml.field.service.looking import Looking
from tapml.field.service.redis_link import digest
from tapml.field.service.seen import SeenDevices
from tapml.field.service.together import Together
from tapml.field.storage.fleet import FleetStore, browser_of, gpu_of
from tapml.field.storage.runs import RunFailure
from tapml.field.storage.samples import SampleStore
from tapml.field.storage.store import Reported, Store

WATCH_SECONDS = 1.0
_MOST_SHARING = 30
"""Processes that take turns, at most: where none is told of what moved, none looks later than after 45 seconds."""


def milliseconds() -> int:
    """Since 1970."""
    return time.time_ns() // 1_000_000


class FleetState(Looking):
    """Answers are given from memory, without the database; reports are committed before they are acknowledged."""

    def __init__(
        self,
        store: Store,
        fleet: FleetStore,
        samples: SampleStore,
        now: Callable[[], int] = milliseconds,
        *,
        share: float = 1.0,
    ) -> None:
        """`share`: of devices, those whose reports count and of which is kept what they tell. Raises InputError."""
        if not 0 < share <= 1:
            raise InputError(f"a share of {share:g} of all devices cannot be watched: give more than 0, and at most 1")
        self.share = share
        super().__init__("field watch", WATCH_SECONDS, "releases stay as they are for now")
        self.store, self.fleet, self.samples = store, fleet, samples
        self.seen = SeenDevices(fleet, lambda: self._releases, now)
        self.announce: Callable[[list[Release]], object] = lambda _: None
        """Told of releases that moved and that no other process told of."""
        self.processes: Callable[[], int] = lambda: 1
        """How many look at the same database, and tell each other of what they find."""
        self._heard = ""
        self._reports: Together[Reported, bool] = Together(lambda given: store.report_all(given, now()))
        self._now = now
        self._releases: list[Release] = []
        self._catalogue = Catalogue([])
        self._lock = threading.Lock()
        self._answers = self._counted = 0
        self.look()

    def start(self) -> None:
        super().start()
        self.seen.start()

    def stop(self) -> None:
        super().stop()
        self.seen.stop()

    def interval(self) -> float:
        """A second for all of them together: a thousand processes ask the database no more than one does."""
        sharing = min(self.processes(), _MOST_SHARING)
        return WATCH_SECONDS * (1 if sharing <= 1 else sharing * random.uniform(0.5, 1.5))

    def look(self) -> bool:
        """Advance what is under way, and answer by that from now on. Raises InputError."""
        found = self.store.watch(self._now())
        if found != self._releases:
            self._releases, self._catalogue = found, Catalogue(found)
            if digest(found) != self._heard:
                self.announce(found)
        return False

    def heard(self, told: str) -> None:
        """Another process has releases of this digest: they are in the database now."""
        if told != digest(self._releases):
            self._heard = told
            self.poke()

    @property
    def releases(self) -> list[Release]:
        """As of the last look."""
        return self._releases

    @property
    def counted(self) -> dict[str, int]:
        """Answers that were given and reports that counted, since the start."""
        return {"answers": self._answers, "reports": self._counted}

    def answer(self, profile: Profile) -> Answer:
        """What the device is to do."""
        if watched(profile.device, self.share):
            self.seen.saw(profile)
        with self._lock:
            self._answers += 1
        return self._catalogue.answer(profile)

    def report(
        self, profile: Profile, task: str, version: str, failed: bool, milliseconds: float | None,
        failure: tuple[str, str] | None = None,
    ) -> bool:  # fmt: skip
        """Of one run; `failure`: of what kind, and where. False where it does not count: the device is not to hold the
        version, has reported in this step, is not watched, or the step is over."""
        release = self._catalogue.wanted(profile).get(task)
        if release is None or release.plan.version != version:
            return False
        # Devices of a named step were chosen one by one.
        named = isinstance(release.plan.steps[release.step], NamedStep)
        if not named and not watched(profile.device, self.share):
            return False
        if watched(profile.device, self.share) and (failure is None or failure[0] != "pull"):
            # A page that asks once a visit asked before it held the version that it runs.
            holds = {**profile.holds, task: version}
            self.seen.saw(profile.model_copy(update={"holds": holds}))
        limit = release.plan.thresholds.slow_ms
        slow = not failed and limit is not None and milliseconds is not None and milliseconds > limit
        why: RunFailure | None = None
        if failed and failure is not None:
            kind, what = failure
            why = {"kind": kind, "what": what, "browser": browser_of(profile), "gpu": gpu_of(profile)}
        counts = self._reports(Reported(release, profile.device, failed, slow, why, milliseconds))
        with self._lock:
            self._counted += counts
        return counts

    def samples_of(self, profile: Profile, task: str, version: str) -> Release | None:
        """The release that takes a captured call of a version from this device; None where none does."""
        release = self._catalogue.wanted(profile).get(task)
        sampled = release is not None and release.plan.version == version and release.plan.sampling is not None
        return release if sampled else None

    def sampled(self, profile: Profile, task: str, version: str, file: str) -> bool:
        """A captured call, in a file of this name, is to be judged; False where it is not wanted."""
        release = self.samples_of(profile, task, version)
        return release is not None and self.samples.add(release, profile.device, file, self._now())
