"""What a running service knows: the catalogue of now, kept anew every second from the database."""

from __future__ import annotations

import time
from collections.abc import Callable

from tapml.field.decisions import Answer, Catalogue
from tapml.field.profiles import Profile
from tapml.field.releases import Release
from tapml.field.service.looking import Looking
from tapml.field.storage.fleet import FleetStore
from tapml.field.storage.samples import SampleStore
from tapml.field.storage.store import Store

WATCH_SECONDS = 1.0

_MOST_SEEN = 100_000
"""Devices that asked since the last look; what further ones tell of themselves is kept when they ask again."""


def milliseconds() -> int:
    """Since 1970."""
    return time.time_ns() // 1_000_000


class FleetState(Looking):
    """Answers are given from memory, without the database; reports are committed before they are acknowledged."""

    def __init__(
        self, store: Store, fleet: FleetStore, samples: SampleStore, now: Callable[[], int] = milliseconds
    ) -> None:
        super().__init__("field watch", WATCH_SECONDS, "releases stay as they are for now")
        self.store, self.fleet, self.samples = store, fleet, samples
        self._seen: dict[str, tuple[Profile, int]] = {}
        self._now = now
        self._releases: list[Release] = []
        self._catalogue = Catalogue([])
        self.look()

    def look(self) -> bool:
        """Advance what is under way, and answer by that from now on. Raises InputError."""
        found = self.store.watch(self._now())
        seen, self._seen = self._seen, {}
        self.fleet.saw(seen, found, self._now())
        if found != self._releases:
            self._releases, self._catalogue = found, Catalogue(found)
        return False

    @property
    def releases(self) -> list[Release]:
        """As of the last look."""
        return self._releases

    def answer(self, profile: Profile) -> Answer:
        """What the device is to do."""
        if len(self._seen) < _MOST_SEEN:
            self._seen[profile.device] = profile, self._now()
        return self._catalogue.answer(profile)

    def report(self, profile: Profile, task: str, version: str, failed: bool, milliseconds: float | None) -> bool:
        """Of one run; False where it does not count: the device is not to hold the version, has reported in this step,
        or the step is over."""
        release = self._catalogue.wanted(profile).get(task)
        if release is None or release.plan.version != version:
            return False
        limit = release.plan.thresholds.slow_ms
        slow = not failed and limit is not None and milliseconds is not None and milliseconds > limit
        return self.store.report(release, profile.device, failed=failed, slow=slow, now=self._now())

    def samples_of(self, profile: Profile, task: str, version: str) -> Release | None:
        """The release that takes a captured call of a version from this device; None where none does."""
        release = self._catalogue.wanted(profile).get(task)
        sampled = release is not None and release.plan.version == version and release.plan.sampling is not None
        return release if sampled else None

    def sampled(self, profile: Profile, task: str, version: str, file: str) -> bool:
        """A captured call, in a file of this name, is to be judged; False where it is not wanted."""
        release = self.samples_of(profile, task, version)
        return release is not None and self.samples.add(release, profile.device, file, self._now())
