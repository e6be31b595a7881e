"""What a verdict means for a run: good, bad, expected or fixed."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from tapml.ci.baseline import Baseline, Key, expired, rank
from tapml.results import FAILING, TestResult, Verdict
from tapml.results.checks import ATTEMPT
from tapml.results.run import BaselineEntry, Expectation, Judgement, Outcome


@dataclass(frozen=True)
class Judge:
    """Holds verdicts against a baseline, where there is one."""

    baseline: Baseline | None
    today: datetime.date
    fail_on_flaky: bool = False

    def excused(self, key: Key, verdict: Verdict) -> bool:
        """Is this verdict no worse than what is expected of the test?"""
        entry = self._entry(key)
        return entry is not None and not expired(entry, self.today) and rank(verdict) <= rank(entry["verdict"])

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
            outcome = "expected" if flaky or verdict == entry["verdict"] else "fixed"
        elif entry is not None and verdict == "pass" and not flaky:
            outcome = "fixed"
        expected: Expectation | None = None
        if entry is not None:
            expected = {
                "verdict": entry["verdict"],
                "reason": entry["reason"],
                "expires": entry["expires"],
                "expired": expired(entry, self.today),
            }
        bad = verdict in FAILING or (verdict == "unsupported" and (unavailable or self.baseline is not None))
        flaky_fails = flaky and self.fail_on_flaky and outcome != "expected"
        return {
            "attempts": [attempt["verdict"] for attempt in attempts],
            "earlier": [ATTEMPT.validate_python(attempt) for attempt in attempts[:-1]],
            "flaky": flaky,
            "outcome": outcome,
            "fails_run": (bad and not excused) or flaky_fails,
            "expected": expected,
        }

    def _entry(self, key: Key) -> BaselineEntry | None:
        return self.baseline.expected.get(key) if self.baseline else None
