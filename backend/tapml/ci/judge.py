"""What a verdict means for a run: good, bad, expected or fixed."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from tapml.ci.baseline import Baseline, Expected, Key, rank
from tapml.results import FAILING, TestResult, Verdict
from tapml.results.checks import ATTEMPT
from tapml.results.run import Expectation, Judgement, Outcome


@dataclass(frozen=True)
class Judge:
    """Holds verdicts against a baseline, where there is one."""

    baseline: Baseline | None
    today: datetime.date
    fail_on_flaky: bool = False

    def excused(self, key: Key, verdict: Verdict) -> bool:
        """Is this verdict no worse than what is expected of the test?"""
        entry = self._entry(key)
        return entry is not None and not entry.expired(self.today) and rank(verdict) <= rank(entry.verdict)

    def judge(self, key: Key, attempts: Sequence[TestResult], *, unavailable: bool) -> Judgement:
        """What a test's entry says beyond its last result.

        `unavailable`: the whole device cannot run WebGPU, which must not look as good as one operator without WGSL.
        """
        verdict = attempts[-1]["verdict"]
        flaky = verdict == "pass" and len(attempts) > 1
        entry = self._entry(key)
        excused = self.excused(key, verdict)
        outcome: Outcome = verdict
        if entry is not None and excused and (verdict != "pass" or flaky):
            # One that passes only sometimes still needs its entry.
            outcome = "expected" if flaky or verdict == entry.verdict else "fixed"
        elif entry is not None and verdict == "pass" and not flaky:
            outcome = "fixed"
        bad = verdict in FAILING or (verdict == "unsupported" and (unavailable or self.baseline is not None))
        flaky_fails = flaky and self.fail_on_flaky and outcome != "expected"
        return {
            "attempts": [attempt["verdict"] for attempt in attempts],
            "earlier": [ATTEMPT.validate_python(attempt) for attempt in attempts[:-1]],
            "flaky": flaky,
            "outcome": outcome,
            "fails_run": (bad and not excused) or flaky_fails,
            "expected": _expectation(entry, self.today),
        }

    def _entry(self, key: Key) -> Expected | None:
        return self.baseline.find(key) if self.baseline else None


def _expectation(entry: Expected | None, today: datetime.date) -> Expectation | None:
    if entry is None:
        return None
    return {
        "verdict": entry.verdict,
        "reason": entry.reason,
        "expires": entry.expires.isoformat() if entry.expires else None,
        "expired": entry.expired(today),
    }
