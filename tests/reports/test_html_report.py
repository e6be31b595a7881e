"""The HTML report: one file, no network, nothing a stranger wrote becomes HTML (in Chromium: e2e/test_ci.py)."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import sync_playwright

from made_runs import bad, document, result
from tapml.ci.document import json_text
from tapml.errors import ToolchainError
from tapml.reports import html as html_report
from tapml.reports.html import html
from tapml.reports.junit import junit

HOSTILE = """</script><script>document.title="owned"</script><img src=x onerror='document.title="owned"'><!--"""


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', page)
    assert found
    unpacked: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return unpacked


def test_the_policy_allows_the_pages_own_script_and_nothing_else() -> None:
    page = html(document([result()]), {"d": b"\x89PNG"})
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert script
    assert style
    for name, text in (("script-src", script[1]), ("style-src", style[1])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert data_of(page)["screenshots"] == {"d": base64.b64encode(b"\x89PNG").decode()}


@settings(max_examples=30)
@given(st.text(st.characters(), max_size=60))
def test_no_text_breaks_out_of_the_data(text: str) -> None:
    page = html(document([bad(id=text, kernel=text, message=HOSTILE + text)]))
    assert page.count("<script") == 2
    assert "owned" not in page
    assert data_of(page)["document"]["tests"][0]["message"] == HOSTILE + text


def test_a_page_that_was_not_built_says_how(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(html_report, "TEMPLATE", tmp_path / "none.html")
    with pytest.raises(ToolchainError, match="not built"):
        html(document([]))
    (tmp_path / "none.html").write_text("something else")
    with pytest.raises(ToolchainError, match="is damaged"):
        html(document([]))


OPEN = {"index": [3], "expected": 1.0, "got": 2.0, "bound": "Infinity"}


def test_hostile_names_and_odd_evidence_are_drawn_as_text(tmp_path: Any) -> None:
    """In a real browser: nothing runs, and what a device reported in the wrong shape is shown all the same."""
    diagnostic = {"severity": HOSTILE, "line": 1, "column": 2, "message": HOSTILE, "source": HOSTILE, "file": HOSTILE}
    tests = [
        bad(id=HOSTILE, kernel=HOSTILE, node=HOSTILE, message=HOSTILE, diagnostics=[diagnostic],
            error={"kind": HOSTILE, "gpu_message": HOSTILE, "lost_reason": None, "arguments": None, "stack": HOSTILE}),
        bad(id="odd", first={"output": 0, "index": 7, "expected": None, "got": {}}, diagnostics=["text"]),
        bad(id="open", verdict="unbounded", mismatched=0, unbounded=3, first={**OPEN, "output": 0}, worst=None),
    ]  # fmt: skip
    found = document(tests)
    found["suites"][0].update(id="s", name=HOSTILE, path=HOSTILE)
    found["devices"][0].update(name=HOSTILE, user_agent=HOSTILE, features=[HOSTILE], unavailable=HOSTILE)
    path = tmp_path / "report.html"
    path.write_text(html(found, {"d": b"no png"}))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-state=ready]")
        assert page.title() == "tapml test: s"
        for number in (0, 1, 2):
            page.locator("details.test").nth(number).locator("summary").first.click()
        page.wait_for_selector(".detail")
        assert page.locator("details.test").first.inner_text().count("onerror") > 3
        assert '"index": 7' in page.locator("details.test").nth(1).inner_text()
        unbounded = page.locator("details.test").nth(2).inner_text()
        assert "∞ unbounded" in unbounded
        assert "3 of 4" in unbounded
        assert "first unbounded" in unbounded
        assert page.locator("img").count() == 1, "the screenshot"
        assert page.locator("script").count() == 2
        assert page.title() == "tapml test: s"
        assert errors == []
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
        browser.close()


def test_ten_thousand_tests_are_written_in_a_few_seconds() -> None:
    """`make bench-reports` measures; this catches what is quadratic."""
    reasons = [f"reason {number} " + "x" * 100 for number in range(4)]
    tolerance = [{"absolute": 1e-5, "relative": 1e-6, "reasons": reasons}]
    make = [result, bad]
    tests = [
        make[number % 10 == 0](id=f"n{number}", kernel=f"k{number % 97}", tolerances=tolerance)
        for number in range(10_000)
    ]
    found = document(tests)
    started = time.process_time()  # however busy the machine is
    for report in (junit(found), html(found), json_text(found)):
        assert len(report) > 100_000
    assert time.process_time() - started < 15
    assert json.loads(json_text(found)) == found


def test_json_survives_a_lone_surrogate(tmp_path: Any) -> None:
    from tapml.ci.document import write_report

    found = document([bad(message="\ud800 and ü")])
    write_report(tmp_path / "d.json", json_text(found))
    assert json.loads((tmp_path / "d.json").read_bytes()) == found
