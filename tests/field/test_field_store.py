"""What is kept of releases, in SQLite and in PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from field_profiles import IDS, MANIFEST

from tapml.errors import InputError
from tapml.field.releases import Counts, Plan, Release
from tapml.field.storage.store import Store

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


def test_a_database_that_is_of_no_use_is_told(tmp_path: Path) -> None:
    (tmp_path / "field.sqlite3").write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match=r"the field's database in .* is damaged"):
        Store(tmp_path / "field.sqlite3")
