"""How often an address and a device may ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from field_profiles import IDS
from field_tasks import FILES, Group
from werkzeug.test import TestResponse

from tapml.errors import InputError
from tapml.field.profiles import HEADER
from tapml.field.service.application import create_app
from tapml.field.service.fleet_state import FleetState
from tapml.field.service.limits import Limiter, Limits
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
