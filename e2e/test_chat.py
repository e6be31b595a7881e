"""The page that writes (examples/chat) and `tapml demo --model tiny`: a real language model in real browsers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from pages import BROWSERS, PLAIN, Opened
from preloaded import tapml
from tapml.models import folder_of
from tapml.server import Server
from tapml.suite import Suite
from workers import made_once

ROOT = Path(__file__).parents[1]
SECONDS = 240_000
"""In ms. A software GPU takes a second for a token, on a busy machine several."""
PROMPT = "It was a dark and stormy night"
TOKENS = 64

KEEP_DEVICE = """
const request = (globalThis.GPUAdapter ?? class {}).prototype.requestDevice;
if (request) {
  GPUAdapter.prototype.requestDevice = async function (...given) {
    return (globalThis.usedDevice = await request.apply(this, given));
  };
}
addEventListener("message", ({ data }) => data.type === "lose" && usedDevice.destroy());
"""
"""Before the worker's program: a device that can be taken away. Its own messages it does not know, and says so."""

LISTEN = """
globalThis.heard = [];
globalThis.frames = 0;
globalThis.gpus = 0;
requestAnimationFrame(function tick() { frames++; requestAnimationFrame(tick); });
const { gpu } = navigator;
if (gpu) {
  const request = gpu.requestAdapter;
  Object.getPrototypeOf(gpu).requestAdapter = function (...given) { gpus++; return request.apply(this, given); };
}
globalThis.Worker = class extends Worker {
  constructor(...given) {
    super(...given);
    globalThis.usedWorker = this;
    this.addEventListener("message", ({ data: { file, ...data } }) => heard.push({ ...data, frames }));
  }
};
"""

Site = Callable[[Path], AbstractContextManager[str]]


def made_by_demo(path: Path) -> None:
    ran = tapml("demo", "--model", "tiny", "--device", "node-dawn", "--no-serve", "-o", path)
    assert ran.code == 0, ran.err
    assert re.search(r"validated +(\d+) of \1 tests pass in node", ran.out), ran.out
    assert "built" in ran.out


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "tiny-demo", made_by_demo)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """The examples, of which the worker's device can be taken away, and the models and suites of a folder."""
    pages = tmp_path / "pages"
    shutil.copytree(ROOT / "examples", pages)
    worker = pages / "chat" / "worker.js"
    text = worker.read_text()
    head, separator, rest = text.partition("\nconst MODEL = ")
    assert separator
    known = rest.replace("await work[data.type](data);", 'if (data.type !== "lose") await work[data.type](data);')
    assert known != rest
    worker.write_text(f"{head}{KEEP_DEVICE}{separator}{known}")

    @contextmanager
    def served(folder: Path) -> Iterator[str]:
        with Server(list(folder.glob("*.suite")), models=folder, pages=pages) as server:
            yield f"{server.url}/pages/chat/"

    return served


def heard(page: Page, kind: str) -> list[dict[str, Any]]:
    return [message for message in page.evaluate("heard") if message["type"] == kind]


def until_heard(page: Page, kind: str, count: int) -> list[dict[str, Any]]:
    """The messages of the worker, when there are so many."""
    for _ in range(SECONDS // 100):
        found = heard(page, kind)
        if len(found) >= count:
            return found
        assert not heard(page, "failed"), heard(page, "failed")
        page.wait_for_timeout(100)
    raise AssertionError(f"{len(found)} of {count} messages {kind!r}")


def number(page: Page, name: str, value: float) -> None:
    """In Firefox, Playwright's `fill` writes behind what a number's field holds."""
    page.locator(f"#{name}").evaluate("(field, value) => { field.value = value; }", value)


def greedily(page: Page, tokens: int) -> None:
    page.locator("details").evaluate("details => { details.open = true; }")
    page.locator("#greedy").check()
    number(page, "tokens", tokens)


def of_transformers(count: int) -> tuple[list[int], str]:
    """What transformers itself continues with, greedily."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = folder_of("tiny")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = tokenizer(PROMPT, return_tensors="pt").input_ids
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    found = model.generate(
        given, do_sample=False, repetition_penalty=1.0, min_new_tokens=count, max_new_tokens=count, pad_token_id=1
    )
    ids = found[0, given.shape[1] :].tolist()
    return ids, tokenizer.decode(ids)


@pytest.mark.slow
@pytest.mark.parametrize("browser", BROWSERS)
def test_it_writes_what_python_writes_though_it_is_stopped_and_its_device_lost(
    browser: str, made: Path, site: Site, opened: Opened
) -> None:
    expected, text = of_transformers(TOKENS)
    with site(made) as url, opened(browser) as page:
        page.add_init_script(LISTEN)
        page.goto(url)
        write, stop, go_on = (page.locator(f"#{name}") for name in ("write", "stop", "continue"))
        expect(write).to_be_enabled(timeout=SECONDS)
        number(page, "tokens", 0)
        write.click()
        expect(page.locator("#status")).to_have_text(re.compile("^Tokens at a time: "))
        progress = heard(page, "progress")[-1]
        assert 0 < progress["bytes"] == progress["totalBytes"]
        assert progress["kernels"] == progress["totalKernels"]
        greedily(page, TOKENS)
        page.locator("#prompt").fill(PROMPT)
        write.click()
        until_heard(page, "piece", 12)
        stop.click()
        (first,) = until_heard(page, "ended", 1)
        pieces = heard(page, "piece")
        assert first["reason"] == "abort"
        assert 12 <= len(pieces) == first["count"] < TOKENS
        shown = page.locator(".written").inner_text()
        assert shown
        assert text.startswith(shown)
        gaps = [after["frames"] - before["frames"] for before, after in pairwise(pieces)]
        # Two messages may wait for one frame of a busy browser.
        assert median(gaps) > 0, "the page shows frames while a token is made"
        assert page.evaluate("gpus") == 0, "the GPU is the worker's"
        expect(go_on).to_be_enabled()
        number(page, "tokens", TOKENS - len(pieces))
        go_on.click()
        until_heard(page, "piece", len(pieces) + 12)
        page.evaluate("usedWorker.postMessage({ type: 'lose' })")
        until_heard(page, "lost", 1)
        _, last = until_heard(page, "ended", 2)
        assert last["reason"] == "length"
        assert [piece["id"] for piece in heard(page, "piece")] == expected
        expect(page.locator(".written")).to_have_text(text, use_inner_text=True)
        expect(page.locator("article footer")).to_have_text(
            re.compile(rf"^{TOKENS} tokens · [\d.]+ tokens a second · greedy · as long as you asked for$")
        )
        expect(page.locator("#memory")).to_have_text(re.compile(r"^[1-9][\d.]* MB$"))
        assert heard(page, "failed") == []
        page.locator("#prompt").fill("a word " * 2000)
        write.click()
        expect(page.locator("#status")).to_have_text(re.compile("has room for 512"))
        expect(page.locator("article")).to_have_count(1)
        expect(page.locator(".written")).to_have_text(text, use_inner_text=True)
        expect(go_on).to_be_enabled()


def worse(path: Path) -> None:
    """The sigmoid in this text divides by a little too much."""
    text = path.read_text()
    path.write_text(text.replace("/ (1.0f + small)", "/ (1.01f + small)"))
    assert path.read_text() != text


@pytest.mark.slow  # two pages that load and write
def test_a_call_is_carved_in_the_page_and_the_broken_kernel_is_named(
    made: Path, site: Site, opened: Opened, tmp_path: Path
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "broken"
    shutil.copytree(made, whole)
    shutil.copytree(made, folder)
    worse(folder / "tiny.tapml" / "model.json")
    for place, wrong in ((whole, False), (folder, True)):
        with site(place) as url, opened("chromium") as page:
            page.goto(url)
            expect(page.locator("#write")).to_be_enabled(timeout=SECONDS)
            expect(page.locator("#carve")).to_be_disabled()
            greedily(page, 2)
            page.locator("#write").click()
            expect(page.locator("#carve")).to_be_enabled(timeout=SECONDS)
            page.locator("#carve").click()
            expect(page.locator("#carved-what")).to_contain_text("operator calls of one token", timeout=SECONDS)
            with page.expect_download() as download:
                page.locator("#download").click()
            assert download.value.suggested_filename == "tiny.capture"
            download.value.save_as(place / "tiny.capture")
            page.locator("#hand-over").click()
            status = page.locator("#carved-status")
            expect(status.locator("a")).to_have_text(str(place / "tiny.suite"), timeout=SECONDS)
            passed, total = map(int, re.findall(r"\d+", status.inner_text())[:2])
            row = page.locator("#verdicts tbody tr").first
            assert (passed < total) is wrong
            expect(row).to_contain_text("fail" if wrong else "pass")
            if wrong:
                expect(row).to_contain_text("sigmoid")
            else:  # from a server without the suite
                page.route("**/api/captures/*", lambda route: route.fulfill(status=404))
                page.locator("#carve").click()
                expect(page.locator("#carved-import")).to_be_visible(timeout=SECONDS)
                expect(page.locator("#hand-over")).to_be_hidden()
        joined = Suite(place / "tiny.suite")
        assert 0 < len(joined.imported.tests) <= total
        ran = tapml("import", place / "tiny.capture", "--into", place / "tiny.suite")
        assert ran.code == int(wrong), ran.err
        assert len(Suite(place / "tiny.suite").imported.tests) == len(joined.imported.tests), "they are there already"


@pytest.mark.slow  # only for its model
def test_the_demo_goes_on_with_what_it_made(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "demo")
    kernel = next((tmp_path / "demo" / "tiny.suite" / "kernels").glob("*sigmoid*.wgsl"))
    worse(kernel)
    ran = tapml("demo", "--model", "tiny", "--device", "node-dawn", "--no-serve", "-o", tmp_path / "demo")
    assert ran.code == 1, ran.err
    assert f"of an earlier demo, is used again; edited: {kernel.stem}" in ran.err
    assert "✗ fail" in ran.out


@pytest.mark.slow  # only for its model
def test_without_webgpu_people_are_told_what_to_do(made: Path, site: Site, opened: Opened) -> None:
    with site(made) as url, opened(PLAIN) as page:
        page.goto(url)
        said = re.compile("^This page writes with your graphics card")
        expect(page.locator("#status")).to_have_text(said)
        expect(page.locator("#status")).to_have_class("status failed")
        expect(page.locator("#write")).to_be_disabled()
