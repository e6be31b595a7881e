"""Redis between server processes: buckets of limits that they share, word of releases that moved, what all count.

Nothing that has to be kept is in it: where it is away every process goes on by itself, with limits of its own and
releases as the database has them, which it looks at.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from tapml.errors import InputError
from tapml.field.releases import Release
from tapml.field.service.looking import Looking

if TYPE_CHECKING:
    from redis import Redis

_PREFIX = "tapml:field:"
_CHANNEL = f"{_PREFIX}releases"
_TOTALS = f"{_PREFIX}totals"
_PROCESSES = f"{_PREFIX}processes"
_TIMEOUT_SECONDS = 0.5
_BEAT_SECONDS = 1.0
_GONE_MICROSECONDS = 10_000_000
"""A process that has said nothing for so long is not counted any more."""
_DAYS_SECONDS = 3 * 86_400
_NAMES_AT_ONCE = 5_000
_MOST_NAMES = 100_000
"""That are kept while Redis is away."""

# By Redis's own clock, for those of the processes differ. Times are in microseconds.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + tonumber(ARGV[1])
local wait = full - now - tonumber(ARGV[2])
if wait > 0 then return math.ceil(wait) end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
return 0
"""

T = TypeVar("T")
_log = logging.getLogger(__name__)


def digest(releases: Iterable[Release]) -> str:
    """Of all that answers depend on: the same in every process that knows the same releases."""
    known = [(one.number, one.step, one.since, one.status) for one in releases]
    return hashlib.sha256(repr(known).encode()).hexdigest()


@dataclass(frozen=True)
class Counted:
    """Of one process: `added`, since it started; `now`, at this moment. By name."""

    added: Mapping[str, int] = field(default_factory=dict)
    now: Mapping[str, int] = field(default_factory=dict)


class RedisLink(Looking):
    """Raises InputError for an address that is none, or where the client is not installed; that Redis is away is no
    error."""

    def __init__(
        self,
        url: str,
        process: str = "",
        changed: Callable[[str], None] | None = None,
        counted: Callable[[], Counted] = Counted,
    ) -> None:
        """`process`: the name of this one, unlike that of all others. `changed`: called on a thread of the link, with
        the digest of releases that another process has. `counted`: asked once a second."""
        super().__init__("field Redis", _BEAT_SECONDS, "Redis is away")
        self._redis = _client(url)
        self.shown = _shown(url)
        self._process, self._changed, self._counted = process, changed, counted
        self._script = self._redis.register_script(_TAKE)
        self._away = False
        self._told: dict[str, int] = {}
        self._names: set[str] = set()
        self._lock = threading.Lock()
        self._totals: dict[str, int] = {}
        self._listener = threading.Thread(target=self._listen, name="field Redis listener", daemon=True)

    @property
    def away(self) -> bool:
        """As of the last time that it was asked."""
        return self._away

    def start(self) -> None:
        """Count and listen from now on."""
        super().start()
        if self._changed is not None:
            self._listener.start()

    def stop(self) -> None:
        """May be called twice."""
        super().stop()
        if self._listener.ident is not None:
            self._listener.join(10)
        self._redis.close()

    def take(self, kind: str, name: str, rate: float, burst: float) -> float | None:
        """One token of a bucket: seconds to wait, 0 where there was one; None where Redis is away. `rate`: tokens a
        second; `burst`: seconds within which an empty bucket fills."""
        hashed = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=16).hexdigest()
        keys, arguments = [f"{_PREFIX}limit:{kind}:{hashed}"], [round(1e6 / rate), round(1e6 * burst)]
        found = self._asked(lambda: self._script(keys=keys, args=arguments))
        return None if found is None else int(found) / 1e6

    def announce(self, releases: Iterable[Release]) -> bool:
        """Tell all processes that releases are these now; False where Redis is away."""
        return self._asked(lambda: self._redis.publish(_CHANNEL, digest(releases))) is not None

    def asked(self, devices: Iterable[str]) -> None:
        """Names of devices that asked; how many different ones there are today is counted."""
        with self._lock:
            if len(self._names) < _MOST_NAMES:
                self._names.update(devices)

    @property
    def totals(self) -> dict[str, int] | None:
        """Of all processes, a second ago; None while Redis is away."""
        return None if self._away else dict(self._totals)

    def processes(self) -> int:
        """As many as there were when Redis was asked last; 1 before."""
        return self._totals.get("processes", 1)

    def look(self) -> bool:
        """A beat: what this process counted is added to what all did. It also notices that Redis is back."""
        counted = self._counted()
        with self._lock:
            names, self._names = sorted(self._names), set()
        found = self._asked(lambda: self._beat(counted, names), probing=True)
        if found is not None:
            self._told, self._totals = dict(counted.added), found
        return False

    def _beat(self, counted: Counted, names: list[str]) -> dict[str, int]:
        seconds, microseconds = self._redis.time()
        now, day = seconds * 1_000_000 + microseconds, f"{_PREFIX}devices:{seconds // 86_400}"
        pipe = self._redis.pipeline(transaction=False)
        for at in range(0, len(names), _NAMES_AT_ONCE):
            pipe.pfadd(day, *names[at : at + _NAMES_AT_ONCE])
        if names:
            pipe.expire(day, _DAYS_SECONDS)
        for name, value in counted.added.items():
            if by := value - self._told.get(name, 0):
                pipe.hincrby(_TOTALS, name, by)
        pipe.hset(_PROCESSES, self._process, json.dumps({"at": now, "now": dict(counted.now)}))
        pipe.hgetall(_TOTALS)
        pipe.hgetall(_PROCESSES)
        pipe.pfcount(day)
        *_, totals, processes, devices = pipe.execute()
        found = {name.decode(): int(value) for name, value in totals.items()}
        alive = 0
        for process, text in processes.items():
            told = json.loads(text)
            if now - told["at"] > _GONE_MICROSECONDS:
                self._redis.hdel(_PROCESSES, process)
                continue
            alive += 1
            for name, value in told["now"].items():
                found[name] = found.get(name, 0) + int(value)
        return {**found, "processes": alive, "devices": int(devices)}

    def _listen(self) -> None:
        from redis import RedisError

        while not self._end.is_set():
            try:
                with self._redis.pubsub(ignore_subscribe_messages=True) as heard:  # type: ignore[no-untyped-call]
                    heard.subscribe(_CHANNEL)
                    while not self._end.is_set():
                        message = heard.get_message(timeout=0.5)
                        if message is not None and self._changed is not None:
                            self._changed(message["data"].decode(errors="replace"))
            except (RedisError, OSError):
                self._end.wait(_BEAT_SECONDS)

    def _asked(self, work: Callable[[], T], *, probing: bool = False) -> T | None:
        """What `work` gives; None where Redis is away. While it is, only the beat tries whether it is back."""
        from redis import RedisError

        if self._away and not probing:
            return None
        try:
            found = work()
        except (RedisError, OSError) as error:
            if not self._away:
                self._away = True
                _log.warning(
                    "Redis at %s is away (%s): limits are of each process by itself for now, and releases move when "
                    "each has looked at the database",
                    self.shown, type(error).__name__,
                )  # fmt: skip
            return None
        if self._away:
            self._away = False
            _log.warning("Redis at %s is back: limits are of all processes again", self.shown)
        return found


def _client(url: str) -> Redis:
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise InputError("--redis-url needs the client of Redis: run pip install 'tapml[redis]'") from error
    try:
        # A connection that Redis closed when it was restarted is replaced by another, at once.
        return Redis.from_url(
            url, socket_timeout=_TIMEOUT_SECONDS, socket_connect_timeout=_TIMEOUT_SECONDS, retry=Retry(NoBackoff(), 1),
            health_check_interval=5,
        )  # fmt: skip
    except (ValueError, TypeError):  # nothing of the text is repeated: a password may be anywhere in it
        raise InputError(
            "--redis-url is no address: write it as redis://:PASSWORD@HOST:PORT/DATABASE, rediss://... or "
            "unix:///PATH?db=DATABASE, with the password's special characters percent-encoded"
        ) from None


def _shown(url: str) -> str:
    """Without user, password and options."""
    parts = urlsplit(url)
    host = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    return f"{parts.scheme}://{host}{parts.path}"
