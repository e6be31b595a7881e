"""JUnit XML: what CI systems read, whatever strangers wrote into names and messages."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from made_runs import bad, document, result
from tapml.reports.junit import junit
from tapml.text import visible

EXPECTED = {"verdict": "fail", "reason": "issue 7", "expires": "2027-01-31", "expired": False}


def parsed(*tests: dict[str, object], **changes: object) -> ET.Element:
    return ET.fromstring(junit(document(tests, **changes)))


def test_counts_names_and_properties() -> None:
    root = parsed(
        result(),
        bad(id="n001.s0", kernel="softmax"),
        bad(id="n002.s0", verdict="error", outcome="error", message="no compile"),
        result(id="n003.s0", verdict="unsupported", outcome="unsupported", message="needs shader-f16"),
    )
    (suite,) = root
    for element in (root, suite):
        counts = {key: element.get(key) for key in ("tests", "failures", "errors", "skipped")}
        assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    assert suite.get("name") == "s on chromium"
    assert suite.get("time") == "1.500", "the device's, in which tests ran side by side"
    properties = {entry.get("name"): entry.get("value") for entry in suite.iter("property")}
    assert properties["browser"] == "Fake 1"
    assert properties["adapter"] == "none fake"
    assert {"user agent", "driver", "suite"} <= properties.keys()
    cases = suite.findall("testcase")
    assert [(case.get("classname"), case.get("name")) for case in cases][:2] == [
        ("s.matmul", "n000.s0"),
        ("s.softmax", "n001.s0"),
    ]
    assert list(cases[0]) == []
    failure = cases[1].find("failure")
    assert failure is not None
    assert failure.get("message") == "1 of 4 elements differ"
    assert failure.text is not None
    assert "expected 1.0, got 2.0" in failure.text
    assert "tapml export /tmp/s.suite n001.s0" in failure.text
    assert cases[2].find("error") is not None
    assert cases[3].find("skipped[@message='needs shader-f16']") is not None


def test_flaky_expected_and_worse() -> None:
    earlier = [
        {"verdict": "fail", "message": "once", "mismatched": 1, "total": 4, "first": None, "worst": None, "seconds": {}}
    ]
    root = parsed(
        result(id="flaky", flaky=True, attempts=["fail", "pass"], earlier=earlier),
        bad(id="expected", outcome="expected", fails_run=False, expected=EXPECTED),
        bad(id="worse", verdict="error", outcome="error", expected=EXPECTED),
        bad(id="expired", expected={**EXPECTED, "expired": True}),
        bad(id="again", attempts=["fail", "fail"], earlier=earlier),
    )
    cases = {case.get("name"): case for case in root.iter("testcase")}
    flaky = cases["flaky"].find("flakyFailure")
    assert flaky is not None
    assert (flaky.get("message"), flaky.findtext("stackTrace")) == ("once", "once")
    assert [child.tag for child in cases["flaky"]] == ["flakyFailure"]
    skipped = cases["expected"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "expected fail: issue 7 (until 2027-01-31)"
    worse = cases["worse"].find("error")
    assert worse is not None
    assert "worse than fail" in str(worse.get("message"))
    expired = cases["expired"].find("failure")
    assert expired is not None
    assert "expired on 2027-01-31" in str(expired.get("message"))
    assert [child.tag for child in cases["again"]] == ["failure", "rerunFailure"]


def test_unbounded_is_a_failure_with_its_own_type_and_words() -> None:
    element = {"output": 0, "index": [0], "expected": 1.0, "got": 2.0, "bound": "Infinity"}
    bound = {"digest": "0" * 64, "dtype": "float32", "shape": [4]}
    root = parsed(
        bad(
            verdict="unbounded", outcome="unbounded", mismatched=0, unbounded=2, tied=1, first=element, worst=None,
            message="2 of 4 elements are unbounded: WGSL promises nothing for them",
            tolerances=[{"absolute": 0.25, "relative": 0, "reasons": ["a reason"], "bound": bound}],
        )
    )  # fmt: skip
    assert root.get("failures") == "1"
    (failure,) = root.iter("failure")
    assert failure.get("type") == "unbounded"
    assert failure.text is not None
    assert "first: output 0 [0]: expected 1.0, got 2.0, may differ by Infinity" in failure.text
    assert "|got - expected| <= a bound of each element's own, at most 0.25" in failure.text
    assert "1 elements differ and are right" in failure.text


def test_a_whole_device_that_is_missing_is_a_failure() -> None:
    root = parsed(bad(verdict="unsupported", outcome="unsupported", message="no WebGPU"))
    assert root.get("failures") == "1"


@given(st.text(st.characters(), max_size=40))
def test_any_text_stays_text(text: str) -> None:
    """What a terminal obeys is escaped, what XML cannot hold goes; all else comes back and makes no element."""
    message = f"<failure/>]]>&{text}\x00\x1b\ud800\ufffe"
    root = parsed(bad(id=text, kernel=text, message=message))
    (case,) = root.iter("testcase")
    assert [child.tag for child in case] == ["failure"]
    (failure,) = case
    legal = "".join(
        c
        for c in visible(text)
        if c in "\t\n\r" or (c >= "\x20" and not "\ud800" <= c <= "\udfff" and c < "\ufffe") or c > "\uffff"
    )
    assert failure.get("message") == rf"<failure/>]]>&{legal}\x00\x1b\ud800"
    assert case.get("name") == legal
