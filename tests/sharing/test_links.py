"""Links: secret, revocable, expiring, and still there after a restart."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from tapml.errors import InputError
from tapml.sharing import Repro, links
from tapml.suite import Suite


def test_a_link_finds_its_test_and_nothing_on_disk_gives_it_away(suite: Suite, repro: Repro) -> None:
    share_id, made = links.create(suite.path, repro)
    found = links.find([suite.path], share_id)
    assert found is not None
    share, folder = found
    assert share == made
    assert (share.test, share.device, share.verdict) == (repro.document.test.id, "Fake 1", "fail")
    assert links.open_share(folder, share.name).document == repro.document
    for file in suite.path.rglob("*"):
        assert share_id not in file.name
        if file.is_file():
            assert share_id.encode() not in file.read_bytes()


def test_ids_are_random_and_long(suite: Suite, repro: Repro) -> None:
    ids = {links.create(suite.path, repro)[0] for _ in range(20)}
    assert len(ids) == 20
    assert all(len(found) == 22 for found in ids), "128 bits"


def test_a_revoked_link_is_gone_with_its_data(suite: Suite, repro: Repro) -> None:
    share_id, share = links.create(suite.path, repro)
    other_id, _ = links.create(suite.path, repro)
    assert links.revoke(suite.path, share.name)
    assert not links.revoke(suite.path, share.name)
    assert links.find([suite.path], share_id) is None
    assert not list((suite.path / "shares").glob(f"{share.name}*"))
    assert links.find([suite.path], other_id) is not None


def test_a_link_dies_when_its_time_has_come(suite: Suite, repro: Repro, monkeypatch: pytest.MonkeyPatch) -> None:
    share_id, share = links.create(suite.path, repro, days=2)
    now = links._now()
    monkeypatch.setattr(links, "_now", lambda: now + datetime.timedelta(days=1.9))
    assert links.find([suite.path], share_id) is not None
    monkeypatch.setattr(links, "_now", lambda: now + datetime.timedelta(days=2.1))
    assert links.find([suite.path], share_id) is None
    assert links.shares(suite.path) == []
    assert not list((suite.path / "shares").glob(f"{share.name}*"))


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf"), 1e9])
def test_a_time_that_is_none_is_refused(suite: Suite, repro: Repro, days: float) -> None:
    with pytest.raises(InputError, match="days"):
        links.create(suite.path, repro, days)
    assert not (suite.path / "shares").exists()


def test_without_a_time_it_lives_until_it_is_revoked(suite: Suite, repro: Repro) -> None:
    assert links.create(suite.path, repro, None)[1].expires is None


@pytest.mark.parametrize("wrong", ["", "..", "../../suite", "a" * 22, "A" * 21, "%2e%2e", "a" * 22 + "\n", "x/" * 11])
def test_what_is_no_link_finds_nothing(suite: Suite, repro: Repro, wrong: str) -> None:
    links.create(suite.path, repro)
    assert links.find([suite.path], wrong) is None


@pytest.mark.parametrize("wrong", ["", "..", "../suite", "0" * 64, "*"])
def test_what_is_no_name_revokes_nothing(suite: Suite, repro: Repro, wrong: str) -> None:
    share_id, _ = links.create(suite.path, repro)
    assert not links.revoke(suite.path, wrong)
    assert links.find([suite.path], share_id) is not None
    assert (suite.path / "suite.json").is_file()


def test_the_snapshot_stays_as_it_was_shared(suite: Suite, repro: Repro) -> None:
    share_id, _ = links.create(suite.path, repro)
    (name,) = repro.document.wgsl_names
    (suite.path / "kernels" / name).write_text("broken since")
    found = links.find([suite.path], share_id)
    assert found is not None
    assert links.open_share(found[1], found[0].name).document.text(name) == repro.document.text(name)


def test_a_damaged_description_is_as_good_as_revoked(suite: Suite, repro: Repro) -> None:
    share_id, share = links.create(suite.path, repro)
    path: Path = suite.path / "shares" / f"{share.name}.json"
    path.write_text("{")
    assert links.find([suite.path], share_id) is None
