"""A run as JUnit XML, as Maven's Surefire writes it and CI systems read it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable

from tapml.reports.evidence import evidence
from tapml.results.base import adapter_name
from tapml.results.run import RunDeviceDocument, RunDocument, RunSuite, RunTest
from tapml.text import visible

# What XML 1.0 does not allow; ElementTree writes the rest as it is, and no reader takes it.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(document: RunDocument) -> bytes:
    """tapml.test/1 as JUnit XML: a <testsuite> for each suite and device, a <testcase> for each test.

    What fails the run is a <failure> or an <error>. Expected failures and unsupported tests are <skipped>, flaky ones
    pass and carry a <flakyFailure> for each attempt that failed. Suites go by their ids, which are unique.
    """
    tests: dict[tuple[str, str], list[RunTest]] = defaultdict(list)
    for test in document["tests"]:
        tests[test["suite"], test["device"]].append(test)
    root = ET.Element("testsuites", name="tapml")
    for suite in document["suites"]:
        for device in document["devices"]:
            if found := tests[suite["id"], device["id"]]:
                root.append(_suite(document, suite, device, found))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(entry.get(key, 0)) for entry in root)))
    root.set("time", f"{document['summary']['seconds']:.3f}")
    ET.indent(root, " ")
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _suite(
    document: RunDocument,
    suite: RunSuite,
    device: RunDeviceDocument,
    tests: list[RunTest],
) -> ET.Element:
    element = ET.Element("testsuite", name=_text(f"{suite['id']} on {device['requested']}"))
    element.set("timestamp", document["created"][:19])
    properties = ET.SubElement(element, "properties")
    for name, value in _properties(document, suite, device):
        ET.SubElement(properties, "property", name=name, value=_text(value))
    cases = [_case(suite, test) for test in tests]
    element.extend(cases)
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(key, str(sum(case.find(tag) is not None for case in cases)))
    element.set("tests", str(len(cases)))
    # Kernels compile side by side: their times together may be more than has passed.
    passed = document["summary"]["devices"].get(device["id"], {}).get("wall", float("inf"))
    element.set("time", f"{min(passed, sum(map(_seconds, tests))):.3f}")
    return element


def _properties(document: RunDocument, suite: RunSuite, device: RunDeviceDocument) -> Iterable[tuple[str, str]]:
    yield "browser", device["name"]
    yield "device", device["requested"]
    yield "adapter", adapter_name(device["adapter"]) or "not named"
    yield "user agent", device["user_agent"]
    yield "driver", device["driver"] or "none"
    yield "suite", suite["path"]
    if suite["synthetic"]:
        yield "synthetic inputs", "true"
    if suite["doubts"]:
        yield "do not trust", "; ".join(suite["doubts"])
    if suite["edited_kernels"]:
        yield "edited kernels", ", ".join(suite["edited_kernels"])
    if document["shard"]:
        yield "shard", document["shard"]
    if device["unavailable"]:
        yield "unavailable", device["unavailable"]


def _case(suite: RunSuite, test: RunTest) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=_text(f"{suite['id']}.{test['kernel']}"),
        name=_text(test["id"]),
        time=f"{_seconds(test):.6f}",
    )
    message = _text(test["message"])
    if test["fails_run"]:
        tag = "error" if test["verdict"] == "error" else "failure"
        text = f"flaky: {', '.join(test['attempts'])}" if test["flaky"] else _with_expected(test, message)
        problem = ET.SubElement(case, tag, message=text, type=_text(test["verdict"]))
        problem.text = _text(evidence(test, suite["path"], test["attempts"]))
    elif test["outcome"] == "expected" and (expected := test["expected"]):
        until = f" (until {expected['expires']})" if expected["expires"] else ""
        ET.SubElement(case, "skipped", message=_text(f"expected {expected['verdict']}: {expected['reason']}{until}"))
    elif test["verdict"] != "pass":
        ET.SubElement(case, "skipped", message=message)
    for attempt in test["earlier"] if test["flaky"] or test["fails_run"] else ():
        tag = "flakyFailure" if test["flaky"] else "rerunFailure"
        entry = ET.SubElement(case, tag, message=_text(attempt["message"]), type=_text(attempt["verdict"]))
        ET.SubElement(entry, "stackTrace").text = _text(attempt["message"])
    return case


def _with_expected(test: RunTest, message: str) -> str:
    expected = test["expected"]
    if expected is None:
        return message
    why = f"that expired on {expected['expires']}" if expected["expired"] else "of the baseline"
    return _text(f"{message} (worse than {expected['verdict']}, the expectation {why}: {expected['reason']})")


def _seconds(test: RunTest) -> float:
    parts = [test["seconds"], *(attempt["seconds"] for attempt in test["earlier"])]
    return float(sum(part.get(key, 0.0) for part in parts for key in ("fetch", "compile", "run", "compare")))


def _text(value: object) -> str:
    """With escapes for what a reader's page or terminal would obey, and without what XML cannot hold."""
    return _ILLEGAL.sub("", visible(str(value)))
