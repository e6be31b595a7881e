"""How often an address and a device may ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from field_profiles import IDS
from field_tasks import FILES, Group
from werkzeug.test import TestResponse

from tapml.errors import InputError
from tapml.field.profiles import HEADER
from tapml.field.service.application import create_app
from tapml.field.service.fleet_state import FleetState
from tapml.field.service.limits import Limiter, Limits
from tapml.field.service.proxies import address_behind, behind_proxies
from tapml.field.storage.fleet import FleetStore
from tapml.field.storage.samples import SampleStore
from tapml.field.storage.store import Store
from tapml.field.tasks.publish import published_path
from tapml.field.tasks.published import Published


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_has_twenty_seconds_and_fills_evenly() -> None:
    clock = Clock()
    limiter = Limiter(Limits(address=2, device=1), clock)
    assert [limiter.address("10.0.0.1") for _ in range(40)] == [0] * 40
    assert limiter.address("10.0.0.1") == pytest.approx(0.5)
    assert limiter.address("10.0.0.2") == 0
    clock.now += 0.5
    assert [limiter.address("10.0.0.1") > 0 for _ in range(2)] == [False, True]
    clock.now += 1000
    assert sum(limiter.address("10.0.0.1") == 0 for _ in range(100)) == 40


def test_a_slow_rate_admits_one() -> None:
    limiter = Limiter(Limits(address=0.01, device=1), Clock())
    assert limiter.address("a") == 0
    assert limiter.address("a") == pytest.approx(100)


def test_addresses_of_one_ipv6_network_are_one() -> None:
    limiter = Limiter(Limits(address=0.01, device=1), Clock())
    assert limiter.address("2001:db8::1") == 0
    assert limiter.address("2001:db8::2:3") > 0
    assert limiter.address("2001:db8:0:1::1") == 0


@pytest.mark.parametrize("text", ["192.0.2.7", "192.0.2.7:5001", "::ffff:192.0.2.7", "[::ffff:192.0.2.7]:80"])
def test_the_port_that_a_proxy_tells_makes_no_other_address(text: str) -> None:
    limiter = Limiter(Limits(address=0.01, device=1), Clock())
    assert limiter.address("192.0.2.7") == 0
    assert limiter.address(text) > 0


@pytest.mark.parametrize(
    ("proxies", "forwarded", "seen"),
    [
        (0, "192.0.2.1", "10.0.0.9"),
        (1, "192.0.2.1", "192.0.2.1"),
        # What stands before those that the proxies wrote is the client's own word.
        (1, "198.51.100.1, 192.0.2.1", "192.0.2.1"),
        (2, "198.51.100.1, 192.0.2.1, 10.0.0.8", "192.0.2.1"),
        # It came past a proxy.
        (2, "192.0.2.1", "10.0.0.9"),
        (1, "", "10.0.0.9"),
    ],
)
def test_behind_proxies_the_address_is_the_one_that_the_outermost_saw(proxies: int, forwarded: str, seen: str) -> None:
    found: list[str] = []

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        found.append(environ["REMOTE_ADDR"])
        return []

    given = {"REMOTE_ADDR": "10.0.0.9", **({"HTTP_X_FORWARDED_FOR": forwarded} if forwarded else {})}
    list((behind_proxies(application, proxies) if proxies else application)(given, lambda *_: None))  # type: ignore
    assert found == [seen]
    assert address_behind("10.0.0.9", forwarded.split(", ") if forwarded else [], proxies) == seen


@pytest.mark.parametrize("count", [-1, 11])
def test_proxies_that_cannot_be_are_refused(count: int) -> None:
    with pytest.raises(InputError, match="give 1 to 10"):
        behind_proxies(None, count)


def test_no_more_buckets_than_there_is_room_for() -> None:
    limiter = Limiter(Limits(address=0.01, device=0.01), Clock(), most_keys=2)
    assert [limiter.device(name) for name in "abc"] == [0, 0, 0]
    assert limiter.device("c") > 0
    assert limiter.device("a") == 0  # forgotten


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_a_limit_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="is none: give"):
        Limiter(Limits(device=rate))


def test_who_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    clock, database = Clock(), tmp_path / "field.sqlite3"
    group = Group(tmp_path)
    group.add("1.0", FILES)
    group.publish("1.0")
    state = FleetState(Store(database), FleetStore(database), SampleStore(database), lambda: 1000)
    limiter = Limiter(Limits(address=2, device=0.1), clock)
    origin = "https://shop.example"
    app = create_app(
        state, Published(published_path(group.path)), grants=None, origins=[origin], local=True, limiter=limiter
    )
    client = app.test_client()

    def ask(device: str) -> TestResponse:
        told = {"device": device, "app": "1.4.2", "browser": {"name": "chromium", "version": 156}}
        return client.get("/field/answer", headers={HEADER: json.dumps(told), "Origin": origin})

    assert [ask(IDS[0]).status_code for _ in range(2)] == [200, 200]
    refused = ask(IDS[0])
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == "10"
    assert "Retry-After" in refused.headers["Access-Control-Expose-Headers"]
    assert refused.get_json() == {"error": "this device asks too often: ask again in 10 s"}
    assert ask(IDS[1]).status_code == 200
    while (found := client.get("/")).status_code == 200:
        pass
    assert found.get_json()["error"] == "this address asks too often: ask again in 1 s"
    clock.now += 10
    assert ask(IDS[0]).status_code == 200
