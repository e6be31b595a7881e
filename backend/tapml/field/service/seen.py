"""What devices tell of themselves with their requests, written to the database once a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tapml.field.profiles import Profile
from tapml.field.releases import Release
from tapml.field.service.looking import Looking
from tapml.field.storage.fleet import FleetStore

_SECONDS = 1.0
_MOST = 100_000
"""Devices that asked since the last look; what further ones tell is kept when they ask again."""


class SeenDevices(Looking):
    """On a thread of its own: a rollback does not wait until a hundred thousand rows are written."""

    def __init__(self, fleet: FleetStore, releases: Callable[[], list[Release]], now: Callable[[], int]) -> None:
        super().__init__("field devices", _SECONDS, "what devices told of themselves is not kept")
        self._fleet, self._releases, self._now = fleet, releases, now
        self._seen: dict[str, tuple[Profile, int]] = {}
        self.asked: Callable[[Iterable[str]], object] = lambda _: None
        """Told the names of those that asked."""

    def saw(self, profile: Profile) -> None:
        """It asked."""
        if len(self._seen) < _MOST:
            self._seen[profile.device] = profile, self._now()

    def look(self) -> bool:
        """Write what was seen. Raises InputError."""
        seen, self._seen = self._seen, {}
        self.asked(seen)
        self._fleet.saw(seen, self._releases(), self._now())
        return False
