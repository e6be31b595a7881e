"""`--update-baseline`: what failed in a run becomes what is expected of the next one."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from importlib.metadata import version

from tapml.ci.baseline import Baseline, Key, expired, rank
from tapml.ci.run import CiRun
from tapml.results.run import BaselineEntry, RunDocument, RunTest

_DAYS = 90


@dataclass(frozen=True)
class Update:
    """The entries afterwards; how many of them are new or renewed, and how many earlier ones are gone."""

    expected: list[BaselineEntry]
    added: int
    dropped: int


def updated(
    baseline: Baseline,
    run: CiRun,
    found: RunDocument,
    today: datetime.date,
    *,
    reason: str | None = None,
    expires: datetime.date | None = None,
    expires_given: bool = False,
) -> Update:
    """The baseline after a run, whose document is `found`.

    Entries of tests that did not run (other suites, devices, kernels, shards) stay; those of tests that passed go, and
    those of tests that their suite has no more. An entry that still excuses its test keeps its reason and expiry. For
    all other tests that did not pass there is a new one: `reason` and `expires` (where `expires_given`) are for these.
    """
    requested = {device["id"]: device["requested"] for device in found["devices"]}
    names = {suite["id"]: suite["name"] for suite in found["suites"]}
    ran: dict[Key, RunTest] = {
        (names[test["suite"]], test["id"], test["kernel"], requested[test["device"]]): test for test in found["tests"]
    }
    gone = _gone(baseline, run)
    entries = {key: entry for key, entry in baseline.expected.items() if key not in ran and key not in gone}
    recorded = f"recorded on {today.isoformat()} by `tapml test --update-baseline` of tapml {version('tapml')}"
    until = expires if expires_given else today + datetime.timedelta(_DAYS)
    added = 0
    for key, test in ran.items():
        before, verdict = baseline.expected.get(key), test["verdict"]
        if test["flaky"]:
            if before is not None:
                entries[key] = before  # it still fails now and then; without an entry it needs none
        elif verdict == "pass":
            continue
        elif before is not None and not expired(before, today) and rank(verdict) <= rank(before["verdict"]):
            entries[key] = {**before, "verdict": verdict}
        else:
            added += 1
            same = before["reason"] if before is not None and before["verdict"] == verdict else recorded
            suite, name, kernel, device = key
            entries[key] = {
                "suite": suite,
                "test": name,
                "kernel": kernel,
                "device": device,
                "verdict": verdict,
                "reason": reason or same,
                "expires": until.isoformat() if until else None,
            }
    kept = len(entries.keys() & baseline.expected.keys())
    return Update(list(entries.values()), added, len(baseline.expected) - kept)


def _gone(baseline: Baseline, run: CiRun) -> set[Key]:
    """Entries of a suite and a device of this run, of tests that the suite does not have (it was carved again)."""
    devices = {place.requested for place in run.places}
    gone = set()
    for planned in run.planned:
        there = {(test.id, test.kernel) for test in planned.suite.tests}
        for key in baseline.expected:
            suite, test, kernel, device = key
            if suite == planned.suite.name and device in devices and (test, kernel) not in there:
                gone.add(key)
    return gone
