"""Expected failures: what a file may say, what it excuses, and what an update makes of it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from made_runs import result
from tapml.ci.baseline import Baseline, Judge, parse_expiry, read_baseline
from tapml.errors import InputError

TODAY = datetime.date(2026, 11, 21)
KEY = ("s", "n000.s0", "matmul", "chromium")


def entry(**changes: Any) -> dict[str, Any]:
    whole = {
        "suite": "s", "test": "n000.s0", "kernel": "matmul", "device": "chromium", "verdict": "fail",
        "reason": "the driver is wrong", "expires": "2027-01-31",
    }  # fmt: skip
    return {**whole, **changes}


def write(path: Path, *entries: Any, **changes: Any) -> Path:
    path.write_text(json.dumps({"format": "tapml.baseline/1", "created": "", "expected": list(entries), **changes}))
    return path


def judge(verdict: str, expires: datetime.date | None = None, **options: Any) -> Judge:
    expected = entry(verdict=verdict, reason="why", expires=expires.isoformat() if expires else None)
    return Judge(Baseline(Path("b.json"), {KEY: expected}), TODAY, **options)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("{", "is not valid JSON"),
        ("[]", "is no JSON object"),
        (json.dumps({"format": "tapml.suite/1"}), "has the format 'tapml.suite/1', not 'tapml.baseline/1'"),
        (json.dumps({"format": "tapml.baseline/2"}), "newer tapml"),
        (json.dumps({"format": "tapml.baseline/1"}), "expected: Field required: see docs/results-format.md"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, broken: str, words: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(broken)
    with pytest.raises(InputError) as caught:
        read_baseline(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (7, "expected[1]: it is not an object"),
        ({k: v for k, v in entry().items() if k != "reason"}, "expected[1].reason: Field required"),
        (entry(expire=None), "expected[1].expire: there is no such field"),
        (entry(reason="  "), "expected[1].reason: it is blank"),
        (entry(kernel=None), "expected[1].kernel: Input should be a valid string"),
        (
            entry(verdict="pass"),
            "expected[1].verdict: what passes needs no entry: give unsupported, unbounded, fail or error",
        ),
        (entry(expires="2027-13-01"), "expected[1].expires: it is not a date such as 2027-01-31"),
        (entry(expires="20270131"), "expires: it is not a date"),
        (entry(expires=20270131), "expires: Input should be a valid string"),
        (entry(test="first"), "entry 2: first of s on chromium is there twice"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, wrong: Any, words: str) -> None:
    path = write(tmp_path / "b.json", entry(test="first"), wrong)
    with pytest.raises(InputError) as caught:
        read_baseline(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_says_how_to_record_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist: record a baseline with --baseline .* --update-baseline"):
        read_baseline(tmp_path / "none.json")
    assert read_baseline(tmp_path / "none.json", may_be_new=True).expected == {}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    baseline = read_baseline(write(tmp_path / "b.json", entry(), entry(test="other", expires=None)))
    baseline.write(baseline.expected.values())
    again = read_baseline(tmp_path / "b.json")
    assert again.expected == baseline.expected
    assert json.loads((tmp_path / "b.json").read_text())["created"]
    assert [path.name for path in tmp_path.iterdir()] == ["b.json"]


@pytest.mark.parametrize(
    ("expected", "verdict", "outcome", "fails"),
    [
        ("fail", "pass", "fixed", False),
        ("fail", "unsupported", "fixed", False),
        ("fail", "fail", "expected", False),
        ("fail", "error", "error", True),
        ("error", "fail", "fixed", False),
        ("unsupported", "unsupported", "expected", False),
        ("unsupported", "fail", "fail", True),
        ("unbounded", "unbounded", "expected", False),
        ("unbounded", "unsupported", "fixed", False),
        ("unbounded", "fail", "fail", True),
        ("unsupported", "unbounded", "unbounded", True),
        ("fail", "unbounded", "fixed", False),
    ],
)
def test_only_worse_fails_the_run(expected: str, verdict: str, outcome: str, fails: bool) -> None:
    judged = judge(expected).judge(KEY, [result(verdict=verdict)], unavailable=False)
    assert (judged["outcome"], judged["fails_run"]) == (outcome, fails)
    assert judged["expected"]["reason"] == "why"


def test_an_expired_entry_excuses_nothing_and_its_last_day_still_does() -> None:
    last_day = judge("fail", TODAY).judge(KEY, [result(verdict="fail")], unavailable=False)
    assert last_day["outcome"] == "expected"
    after = judge("fail", TODAY - datetime.timedelta(1)).judge(KEY, [result(verdict="fail")], unavailable=False)
    assert after["outcome"] == "fail"
    assert after["fails_run"]
    assert after["expected"]["expired"]


def test_with_a_baseline_losing_support_is_worse_without_one_it_is_not() -> None:
    unsupported = [result(verdict="unsupported")]
    with_baseline = Judge(Baseline(Path("b"), {}), TODAY)
    assert with_baseline.judge(KEY, unsupported, unavailable=False)["fails_run"]
    assert not Judge(None, TODAY).judge(KEY, unsupported, unavailable=False)["fails_run"]


def test_unbounded_fails_a_run_that_expects_nothing() -> None:
    assert Judge(None, TODAY).judge(KEY, [result(verdict="unbounded")], unavailable=False)["fails_run"]


def test_a_device_without_webgpu_fails_the_run_unless_expected() -> None:
    unsupported = [result(verdict="unsupported")]
    assert Judge(None, TODAY).judge(KEY, unsupported, unavailable=True)["fails_run"]
    assert not judge("unsupported").judge(KEY, unsupported, unavailable=True)["fails_run"]


def test_flaky_tests() -> None:
    attempts = [result(verdict="fail", message="first"), result()]
    judged = Judge(None, TODAY).judge(KEY, attempts, unavailable=False)
    assert judged["flaky"]
    assert judged["outcome"] == "pass"
    assert judged["attempts"] == ["fail", "pass"]
    assert [earlier["message"] for earlier in judged["earlier"]] == ["first"]
    assert not judged["fails_run"]
    assert Judge(None, TODAY, fail_on_flaky=True).judge(KEY, attempts, unavailable=False)["fails_run"]
    # It still fails now and then: its entry is not "fixed".
    errors = [result(verdict="error"), result()]
    assert judge("fail", fail_on_flaky=True).judge(KEY, errors, unavailable=False)["outcome"] == "expected"


def test_expiry_on_the_command_line() -> None:
    assert parse_expiry("never") is None
    assert parse_expiry("2027-01-31") == datetime.date(2027, 1, 31)
    with pytest.raises(InputError, match="--expires soon: write a date"):
        parse_expiry("soon")
