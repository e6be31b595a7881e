"""Server processes that share limits by Redis and tell each other of releases, and go on where it is away."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from field_profiles import IDS, profile
from field_tasks import FILES, TASK, Group

from postgres_cluster import Postgres
from redis_server import RedisServer
from tapml.cli import main
from tapml.errors import InputError
from tapml.field.profiles import HEADER
from tapml.field.service import fleet_state
from tapml.field.service.fleet_state import FleetState
from tapml.field.service.limits import Limiter, Limits
from tapml.field.service.redis_link import Counted, RedisLink
from tapml.field.service.serving import FieldServer
from tapml.field.storage.fleet import FleetStore
from tapml.field.storage.samples import SampleStore
from tapml.field.storage.store import Store

PATIENCE = 180


@pytest.fixture
def link(redis: RedisServer) -> Iterator[Callable[..., RedisLink]]:
    made: list[RedisLink] = []

    def make(*arguments: Any) -> RedisLink:
        made.append(RedisLink(redis.url, *arguments))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def until(found: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.02)


def test_a_bucket_is_one_for_all_processes(link: Callable[..., RedisLink]) -> None:
    # Slow enough that nothing drips in meanwhile, however busy the machine is.
    limits = Limits(address=0.001, device=0.05)
    first, second = (Limiter(limits, shared=link()) for _ in range(2))
    assert first.address("192.0.2.1") == 0
    assert 900 < second.address("192.0.2.1") <= 1000
    assert second.address("192.0.2.2") == 0
    assert first.device("192.0.2.1") == 0  # another kind of bucket
    assert 0 < second.device("192.0.2.1") <= 20


def test_a_bucket_of_redis_admits_what_one_in_memory_does(link: Callable[..., RedisLink]) -> None:
    shared = link()
    assert [shared.take("address", "a", 0.001, 10_000) for _ in range(10)] == [0.0] * 10
    wait = shared.take("address", "a", 0.001, 10_000)
    assert wait is not None
    assert 0 < wait <= 1000


def test_while_redis_is_away_limits_are_of_each_process_and_it_is_said(
    redis: RedisServer, link: Callable[..., RedisLink], caplog: pytest.LogCaptureFixture
) -> None:
    shared = link()
    limiter = Limiter(Limits(address=0.001, device=1), shared=shared)
    assert limiter.address("a") == 0
    redis.kill()
    assert limiter.address("a") == 0  # its own bucket, which is full
    assert limiter.address("a") > 0
    assert shared.away
    assert shared.totals is None
    assert not shared.announce([])
    shared.look()
    assert shared.away
    redis.start()
    shared.look()
    assert not shared.away
    assert limiter.address("a") == 0  # Redis's is full, too
    said = [record.message for record in caplog.records]
    assert [text.split(" (")[0] for text in said] == [f"Redis at {redis.url} is away", said[1]]
    assert said[1].startswith(f"Redis at {redis.url} is back")


def test_counts_are_of_all_processes_and_none_is_lost_while_redis_is_away(
    redis: RedisServer, link: Callable[..., RedisLink]
) -> None:
    counts = [{"answers": 5}, {"answers": 7}]
    links = [
        link(name, None, lambda at=at: Counted(counts[at], {"connections": 10}))
        for at, name in enumerate(["first", "second"])
    ]
    links[0].asked(IDS[:20])
    links[1].asked(IDS[10:30])
    for _ in range(2):  # what was told is not told again
        for one in links:
            one.look()
    assert links[1].totals == {"answers": 12, "connections": 20, "processes": 2, "devices": 30}
    redis.kill()
    counts[0] = {"answers": 9}
    links[0].look()
    assert links[0].totals is None
    redis.start()  # empty
    for one in links:
        one.look()
    assert links[1].totals == {"answers": 4, "connections": 20, "processes": 2, "devices": 0}


@pytest.mark.parametrize("url", ["", "http://a", "redis://:secret@a:port/0", "localhost:6379"])
def test_an_address_that_is_none_is_refused_without_a_word_of_it(url: str) -> None:
    with pytest.raises(InputError, match="--redis-url is no address") as refused:
        RedisLink(url)
    assert "secret" not in str(refused.value)


def test_the_password_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    link = RedisLink("redis://user:hunter2@127.0.0.1:1/3")
    assert link.take("device", "a", 1, 20) is None
    assert link.shown == "redis://127.0.0.1:1/3"
    assert "hunter2" not in caplog.text
    link.stop()


class Field:
    """A version that is released to every device, in PostgreSQL."""

    def __init__(self, folder: Path, postgres: Postgres, redis: RedisServer) -> None:
        self.group = Group(folder)
        self.group.add("1.0", FILES)
        self.group.publish("1.0")
        self.where = ["--database-url", postgres.database(), "--redis-url", redis.url]
        plan = {"task": TASK, "version": "1.0", "steps": [{"kind": "full"}]}
        (folder / "plan.json").write_text(json.dumps(plan))
        self.plan = folder / "plan.json"
        self.release()

    def release(self) -> None:
        assert main(["field", "release", str(self.group.path), str(self.plan), *self.where]) == 0

    def roll_back(self) -> None:
        line = ["field", "rollback", str(self.group.path), TASK, "1.0", "--reason", "it is slow"]
        assert main([*line, *self.where]) == 0


def ask(url: str, device: str = IDS[0]) -> tuple[int, Any]:
    with contextlib.closing(HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)) as connection:
        connection.request("GET", "/field/answer", headers={HEADER: profile(device).model_dump_json(exclude_none=True)})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def offered(url: str) -> bool:
    status, answer = ask(url)
    assert status == 200, answer
    return bool(answer["install"])


@pytest.fixture
def field(tmp_path: Path, postgres: Postgres, redis: RedisServer) -> Field:
    return Field(tmp_path, postgres, redis)


def test_releases_reach_every_process_by_word_of_the_others(
    field: Field, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # None of them looks at the database by itself.
    monkeypatch.setattr(fleet_state, "WATCH_SECONDS", 3600)
    database = field.where[1]
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(FieldServer(field.group.path, database, redis_url=redis.url)) for _ in range(2)
        ]  # fmt: skip
        listening(redis, 2)
        assert all(offered(server.url) for server in servers)
        field.roll_back()
        until(lambda: not any(offered(server.url) for server in servers))
        field.release()
        until(lambda: all(offered(server.url) for server in servers))
        # And what one process found: the other looks at once.
        servers[0].state.store.roll_back(TASK, "1.0", "it is ugly", 5)
        servers[0].state.look()
        assert not offered(servers[0].url)
        until(lambda: not offered(servers[1].url))


def test_processes_that_tell_each_other_take_turns_to_look(tmp_path: Path) -> None:
    database = tmp_path / "field.sqlite3"
    state = FleetState(Store(database), FleetStore(database), SampleStore(database))
    assert state.interval() == 1
    for processes, least, most in ((4, 2, 6), (2000, 15, 45)):
        state.processes = lambda processes=processes: processes  # type: ignore[misc]
        assert all(least <= state.interval() <= most for _ in range(100))


def listening(redis: RedisServer, count: int) -> None:
    from redis import Redis

    with Redis.from_url(redis.url) as client:
        until(lambda: dict(client.pubsub_numsub("tapml:field:releases"))[b"tapml:field:releases"] == count)


@contextlib.contextmanager
def serving(field: Field) -> Iterator[str]:
    line = [sys.executable, "-m", "tapml", "field", "serve", str(field.group.path), "--port", "0", *field.where]
    limits = ["--device-rate", "0.05"]
    with subprocess.Popen([*line, *limits], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told.startswith("the field is served at "), told
        try:
            yield told.split()[5]
        finally:
            process.kill()


@pytest.mark.slow
def test_two_processes_one_redis_one_database(field: Field, redis: RedisServer) -> None:
    with serving(field) as first, serving(field) as second:
        listening(redis, 2)
        # A device may ask once in twenty seconds, whichever process it asks.
        assert ask(first, IDS[1])[0] == 200
        assert ask(second, IDS[1])[0] == 429
        field.roll_back()
        strangers = (f"stranger-{number:012d}" for number in range(100_000))
        until(lambda: ask(second, next(strangers))[1]["install"] == [])
        redis.kill()
        # They go on, each with limits of its own.
        assert ask(first, "device-of-its-own-01")[0] == 200
        assert ask(second, "device-of-its-own-01")[0] == 200
        field.release()
        for url in (first, second):
            until(lambda url=url: ask(url, next(strangers))[1]["install"])  # type: ignore[misc]
        redis.start()
        listening(redis, 2)
        # Until both have noticed.
        until(lambda: [ask(url, device)[0] for device in [next(strangers)] for url in (first, second)] == [200, 429])
