"""A failing operator as a link and as a file: strangers' browsers run it again and say the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from conftest import Edit, copied, free_port, off_by_one, read_json, rewrite, serving, tapml
from pages import BROWSERS, Opened
from preloaded import python
from tapml.server import Server
from tapml.sharing import export, of_suite
from tapml.suite import Suite
from tapml.validation.context import JobContext
from tapml.validation.operatorwise import OperatorRun

_DONE = "body[data-state=done], body[data-state=error]"


def run_to_end(page: Page, url: str) -> str | None:
    """Open a page that runs a test: its verdict."""
    page.goto(url)
    page.wait_for_selector(_DONE)
    return page.locator("body").get_attribute("data-verdict")


def carved_tests(suite: Path) -> list[dict[str, Any]]:
    return list(read_json(suite / "tests.json")["tests"])


def nbytes(test: dict[str, Any], suite: Path) -> int:
    tolerances = [found[key] for found in test["tolerances"] for key in ("bound", "ties") if key in found]
    digests = {ref["digest"] for ref in (*test["inputs"], *test["outputs"], *tolerances)}
    return sum((suite / "tensors" / digest[:2] / f"{digest}.bin").stat().st_size for digest in digests)


@pytest.fixture(scope="module")
def validated(
    carved: Path, tmp_path_factory: pytest.TempPathFactory, shared_server: Server
) -> tuple[Path, dict[str, dict[str, Any]]]:
    """The suite with a wrong kernel and one that does not compile, and its verdicts by browser's name and test."""
    suite = copied(carved, tmp_path_factory.mktemp("validated") / "minilm.suite")
    rewrite(suite, "layer_norm", off_by_one)
    rewrite(suite, "divide", lambda text: text.replace(") {\n", ") {\n  nonsense();\n", 1))
    devices = [shared_server.state.device(name) for name in BROWSERS]
    kernels = [test["kernel"] for test in ten_kernels(suite)]
    run = OperatorRun(JobContext(Suite(suite), devices, shared_server.state.blobs), kernels=kernels, save=True)
    names = {device.id: name for device, name in zip(devices, BROWSERS, strict=True)}
    verdicts: dict[str, dict[str, Any]] = {}
    for test in run.run()["tests"]:
        verdicts.setdefault(names[test["device"]], {})[test["id"]] = test
    return suite, verdicts


def ten_kernels(suite: Path) -> list[dict[str, Any]]:
    """A test each of ten kernels: the largest one, the broken ones, and eight others."""
    first: dict[str, dict[str, Any]] = {}
    for test in carved_tests(suite):
        first.setdefault(test["kernel"], test)
    chosen = [first.pop(kernel) for kernel in ("take", "layer_norm", "divide")]
    return [*chosen, *list(first.values())[:7]]


@pytest.mark.slow
def test_the_html_files_of_ten_tests_give_the_suites_verdicts(
    validated: tuple[Path, dict[str, dict[str, Any]]], opened: Opened, tmp_path: Path
) -> None:
    """All in Chromium; in Firefox the largest, the two that are broken and one that passes."""
    suite, verdicts = validated
    tests = ten_kernels(suite)
    assert len({test["kernel"] for test in tests}) == 10
    files = {}
    for test in tests:
        (path,) = export(of_suite(Suite(suite), test["id"]), "html", tmp_path / f"{test['id']}.html")
        assert path.stat().st_size < nbytes(test, suite) + 300_000
        files[test["id"]] = path
    for name in BROWSERS:
        with opened(name) as page:
            requests: list[str] = []
            page.on("request", lambda request, seen=requests: seen.append(request.url))
            for test in tests if name == "chromium" else tests[:4]:
                expected = verdicts[name][test["id"]]
                verdict = run_to_end(page, files[test["id"]].as_uri())
                assert verdict == expected["verdict"], (name, test["id"])
                found = page.evaluate("window.tapmlRepro")
                assert found["verdict"] == expected["verdict"]
                mismatched = sum(output["mismatched"] for output in found["outputs"])
                assert mismatched == expected["mismatched"], (name, test["id"])
                if expected["verdict"] == "error":
                    expect(page.locator("body")).to_contain_text("divide.wgsl:")
            assert all(url.startswith("file:") for url in requests), "nothing is fetched"
    assert {verdicts["chromium"][test["id"]]["verdict"] for test in tests} == {"pass", "fail", "error"}


def test_a_link_reproduces_what_was_reported(
    validated: tuple[Path, dict[str, dict[str, Any]]], opened: Opened, tmp_path: Path
) -> None:
    suite, _ = validated
    broken = next(test["id"] for test in carved_tests(suite) if test["kernel"] == "layer_norm")
    port = free_port()
    with serving(suite, port) as url:
        ran = tapml("share", suite, broken, "--device", "chromium", "--server", url)
        assert ran.code == 0, ran.err
        link = ran.out.strip()
        for name in BROWSERS:
            with opened(name, viewport={"width": 1200, "height": 900}) as page:
                assert run_to_end(page, link) == "fail"
                body = page.locator("body")
                expect(body).to_have_attribute("data-reproduced", "yes")
                expect(body).to_contain_text("Reproduced here too")
                page.screenshot(path=tmp_path / f"{name}.png")
    with serving(suite, port), opened("chromium") as page:
        assert run_to_end(page, link) == "fail", "after a restart"
    assert tapml("share", suite, "--json", tmp_path / "shares.json").code == 0
    (share,) = read_json(tmp_path / "shares.json")["shares"]
    assert tapml("share", suite, "--revoke", share["name"][:12]).code == 0
    # The page of a revoked link is answered 404, which a console calls an error.
    with serving(suite, port), opened("chromium") as page:
        run_to_end(page, link)
        expect(page.locator("body")).to_contain_text("revoked")


def test_a_verdict_does_not_go_along_with_a_kernel_that_was_mended_since(
    suite: Path, edit: Callable[[str, Edit], None], opened: Opened, tmp_path: Path
) -> None:
    """It failed, and what is exported passes: the page must not claim to reproduce that."""
    before = (suite / "kernels" / "softmax.wgsl").read_text()
    edit("softmax", lambda text: text.replace("exp(", "exp(0.5f + ", 1))
    assert tapml("validate", suite, "--device", "node-dawn", "--kernel", "softmax").code == 1
    (suite / "kernels" / "softmax.wgsl").write_text(before)
    test = next(test["id"] for test in carved_tests(suite) if test["kernel"] == "softmax")
    path = tmp_path / "softmax.html"
    assert tapml("export", suite, test, "--html", path).code == 0
    with opened("chromium") as page:
        verdict = run_to_end(page, path.as_uri())
        assert verdict == "pass"
        expect(page.locator("body")).to_have_attribute("data-reproduced", "unreported")


def test_the_python_script_says_the_same(suite: Path, edit: Callable[[str, Edit], None], tmp_path: Path) -> None:
    edit("layer_norm", off_by_one)
    ids = {test["kernel"]: test["id"] for test in carved_tests(suite)}
    for kernel, code in (("layer_norm", 1), ("softmax", 0)):
        path = tmp_path / f"{kernel}.py"
        assert tapml("export", suite, ids[kernel], "--python", path).code == 0
        ran = python(path, "node-dawn")
        assert ran.code == code, ran.out + ran.err
        assert ("0 of" in ran.out) == (code == 0)


def opens(page: Page, url: str, file: Path) -> None:
    page.goto(f"{url}/")
    page.locator("input[type=file]").set_input_files(file)
    page.wait_for_url("**/suites/layer_norm*")


def test_the_page_shares_opens_and_adds(
    suite: Path,
    edit: Callable[[str, Edit], None],
    opened: Opened,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TAPML_DATA", str(tmp_path / "data"))
    edit("layer_norm", off_by_one)
    assert tapml("validate", suite, "--device", "node-dawn", "--kernel", "layer_norm").code == 1
    node = next(test["node"] for test in carved_tests(suite) if test["kernel"] == "layer_norm")
    with serving(suite) as url, opened("chromium", viewport={"width": 1440, "height": 900}) as page:
        page.goto(f"{url}/suites/minilm?node={node}")
        page.get_by_role("button", name="Share…").click()
        page.get_by_role("button", name="Create link").click()
        link = page.get_by_label("Link", exact=True).input_value()
        with page.expect_download() as download:
            page.get_by_role("link", name="HTML file").click()
        file = tmp_path / "theirs.html"
        download.value.save_as(file)
        assert run_to_end(page, link) == "fail"
        opens(page, url, file)
        expect(page.get_by_label("Node n000")).to_contain_text("(reported)")
        page.get_by_role("button", name="Add", exact=True).click()
        expect(page.get_by_text("It is there already")).to_be_visible()
        # Somebody else's: the same operator, another implementation.
        data = file.read_bytes()
        assert data.count(b" + 65i)]") == 1
        file.write_bytes(data.replace(b" + 65i)]", b" + 63i)]"))
        opens(page, url, file)
        expect(page.get_by_label("Node n000")).to_contain_text("Not run on any device yet")
        page.get_by_role("button", name="Add", exact=True).click()
        page.wait_for_url("**/suites/minilm?node=i000")
        expect(page.get_by_label("Operators by device")).to_contain_text("layer_norm_2")
    ran = tapml("validate", suite, "--device", "node-dawn", "--kernel", "layer_norm_2", "--json", tmp_path / "r.json")
    assert ran.code == 1
    (result,) = read_json(tmp_path / "r.json")["tests"]
    assert (result["id"], result["verdict"]) == ("i000.s0", "fail")
