"""What is kept of releases, in SQLite and in PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from field_profiles import IDS, MANIFEST, profile
from tunnel_client import STREAM, record
from tunnel_client import TASK as TUNNELED

from tapml.errors import InputError
from tapml.field.releases import Counts, Plan, Release
from tapml.field.storage.fleet import FleetStore
from tapml.field.storage.records import Batch, Records, Sent
from tapml.field.storage.store import Reported, Store

STEPS = [{"kind": "beta", "devices": IDS[:2]}, {"kind": "gray", "share": 0.5}, {"kind": "full"}]


def plan(version: str = "1.0", **more: Any) -> Plan:
    return Plan.model_validate(
        {"task": "shop/highlight", "version": version, "manifest": MANIFEST, "steps": STEPS, **more}
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'field.sqlite3'}"
    found: str = request.getfixturevalue("postgres").database()
    return found


def reported(store: Store, release: Release, devices: list[str], *, failed: bool = False) -> int:
    return sum(store.report(release, device, failed=failed, slow=False, now=5) for device in devices)


def test_a_release_goes_on_by_what_is_reported_and_outlives_the_process(url: str) -> None:
    store = Store(url)
    first = store.add(plan(), 1000)
    assert store.releases() == [first]
    assert reported(store, first, [*IDS[:2], *IDS[:2]]) == 2  # a device counts once
    assert store.counts(first) == Counts(2, 0, 0)
    (second,) = Store(url).watch(2000)
    assert (second.step, second.since) == (1, 2000)
    assert Store(url).watch(3000) == [second]
    assert reported(store, first, IDS[5:6]) == 0  # that step is over
    assert reported(store, second, IDS[:2]) == 2  # a new step, a new count
    assert reported(store, second, IDS[2:], failed=True) == len(IDS) - 2
    (gone,) = Store(url).watch(4000)
    assert gone.status == "rolled-back"
    assert gone.reason == f"{len(IDS) - 2} of {len(IDS)} devices failed, and 1.00% may"
    assert reported(store, second, IDS[:1]) == 0
    assert Store(url).releases() == [gone]
    assert [(event["at"], event["step"], event["status"]) for event in store.events(gone)] == [
        (1000, 0, "running"), (2000, 1, "running"), (4000, 1, "rolled-back"),
    ]  # fmt: skip


def test_times_of_runs_are_told_by_step(url: str) -> None:
    store = Store(url)
    release = store.add(plan(), 1000)
    assert store.rates() == {}

    def report(release: Release, devices: list[str], *took: float | None, failed: bool = False) -> None:
        given = [
            Reported(release, device, failed, slow=False, milliseconds=one)
            for device, one in zip(devices, took, strict=True)
        ]
        for one in given:  # in transactions of their own, and together
            store.report_all([one], 5)
        store.report_all(given, 5)

    report(release, IDS[:2], 40.0, None)
    (release,) = store.watch(2000)
    report(release, IDS[:9], 0.0, 10.0, 10.1, 10.2, 10.0, 10.0, 10.0, 1e9, 1e12)
    report(release, IDS[9:11], 7.0, 7.0, failed=True)
    first, second = Store(url).rates()[release.number]
    assert first == {"step": 0, "devices": 2, "failed": 0, "slow": 0, "times": {"devices": 1, "p50": 41.5, "p95": 41.5}}
    assert (second["step"], second["devices"], second["failed"]) == (1, 11, 2)
    times = second["times"]
    assert times is not None
    assert times["devices"] == 9
    assert times["p50"] == pytest.approx(10, rel=0.045)
    assert times["p95"] == pytest.approx(2**30, rel=0.01)


def test_a_version_is_released_once_at_a_time_and_rolled_back_by_hand(url: str) -> None:
    store = Store(url)
    store.add(plan(), 1)
    with pytest.raises(InputError, match="roll it back first"):
        store.add(plan(), 2)
    assert store.roll_back("shop/highlight", "1.0", "it is\nugly'; --", 3).status == "rolled-back"
    with pytest.raises(InputError, match="is not being released"):
        store.roll_back("shop/highlight", "1.0", "again", 4)
    assert store.add(plan(), 5).number == 2
    assert [one.reason for one in store.releases()] == ["it is\nugly'; --", ""]


def test_records_are_taken_once_and_in_order_whatever_comes_together(url: str) -> None:
    def sent(device: str, first: int, *values: int) -> Sent:
        told = [record(value) for value in values]
        return Sent(device, STREAM, Batch.model_validate({"first": first, "records": told}))

    records = Records(url)
    assert records.lasts([(IDS[0], STREAM)]) == [0]
    together = [
        sent(IDS[0], 1, 1, 2),
        sent(IDS[1], 1, 1),
        sent(IDS[0], 2, 2, 3),
        sent(IDS[2], 5, 5),
        sent(IDS[0], 9, 9),
    ]
    assert records.take(together, 7) == [2, 1, 3, 0, 3]
    assert records.take([sent(IDS[0], 1, 1, 2, 3, 4)], 8) == [4]
    assert records.lasts([(IDS[1], STREAM), (IDS[0], STREAM), (IDS[0], STREAM[::-1])]) == [1, 4, 0]
    kept = sorted((device, value) for device, _, _, value in records.values(TUNNELED))
    assert kept == [(IDS[0], 1), (IDS[0], 2), (IDS[0], 3), (IDS[0], 4), (IDS[1], 1)]
    assert [(one["records"], one["devices"], one["latest"]) for one in records.emitted()] == [(5, 2, 8)]


def test_a_device_is_kept_as_it_told_last(url: str) -> None:
    fleet = FleetStore(url)
    seen = {device: (profile(device), 5) for device in IDS[:3]}
    fleet.saw(seen, [], 6)
    fleet.saw({IDS[1]: (profile(IDS[1], app="2.0", holds={"shop/highlight": "1.0"}), 9)}, [], 9)
    assert [(one["device"], one["at"], one["app"]) for one in fleet.devices()] == [
        (IDS[1], 9, "2.0"), (IDS[0], 5, "1.4.2"), (IDS[2], 5, "1.4.2"),
    ]  # fmt: skip
    assert fleet.devices()[0]["holds"] == {"shop/highlight": "1.0"}


def test_a_database_that_is_of_no_use_is_told(tmp_path: Path) -> None:
    (tmp_path / "field.sqlite3").write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match=r"the field's database in .* is damaged"):
        Store(tmp_path / "field.sqlite3")
