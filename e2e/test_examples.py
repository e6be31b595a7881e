"""The pages of examples/ as `tapml serve` gives them: real models, both browsers, a content security policy."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from pages import BROWSERS, PLAIN, Opened, eventually
from tapml.server import Server
from workers import made_once

ROOT = Path(__file__).parents[1]
SECONDS = 120_000
"""In ms. A software GPU takes seconds for a call, and longer for all kernels."""

FEW = """\
export const SENTENCES = [
  "Standard delivery takes two to four working days.",
  "We refund the full price within 14 days after you send an item back.",
  "Our jackets keep you dry in heavy rain.",
];
"""
TURN = """\
degrees => {
  const [width, height] = degrees % 180 ? [360, 480] : [480, 360];
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  context.translate(width / 2, height / 2);
  context.rotate((degrees * Math.PI) / 180);
  context.drawImage(document.getElementById("given"), -240, -180);
  return canvas.convertToBlob({ type: "image/png" }).then((blob) => blob.arrayBuffer())
    .then((data) => Array.from(new Uint8Array(data)));
}
"""

DROP = """\
bytes => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([new Uint8Array(bytes)], "dropped.png", { type: "image/png" }));
  const drop = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
  if (document.getElementById("drop").dispatchEvent(drop)) throw new Error("the browser opens the picture");
}
"""

KEEP_DEVICE = """\
const { prototype } = globalThis.GPUAdapter ?? { prototype: {} };  // an empty page has none
const request = prototype.requestDevice;
prototype.requestDevice = async function (...given) {
  return (globalThis.usedDevice = await request.apply(this, given));
};
"""


def build_models(folder: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "examples", folder], check=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    models = made_once(tmp_path_factory, "example-models", build_models)
    with Server(models=models, pages=ROOT / "examples") as server:
        yield f"{server.url}/pages/"


@pytest.mark.slow
@pytest.mark.parametrize("browser", BROWSERS)
def test_a_question_finds_its_answer(browser: str, site: str, opened: Opened) -> None:
    with opened(browser) as page:
        page.add_init_script(KEEP_DEVICE)
        # The others would take a software GPU a minute more.
        page.route("**/sentences.js", lambda route: route.fulfill(body=FEW, content_type="text/javascript"))
        page.goto(f"{site}embedding-search/")
        expect(page.locator("#progress")).to_be_hidden(timeout=SECONDS)
        expect(page.locator("#results li span").first).to_have_text(re.compile("^We refund the full price"))
        page.locator("#question").fill("Will I get wet?")
        page.locator("#question").press("Enter")
        expect(page.locator("#results li span").first).to_have_text(re.compile("^Our jackets"), timeout=SECONDS)
        expect(page.locator("#status")).to_have_text(re.compile(r"^\d+ ms, in this browser$"))
        page.locator("#question").fill(" ")
        page.locator("#question").press("Enter")
        expect(page.locator("#status")).to_have_text("Type a question.")
        expect(page.locator("#results li")).to_have_count(0)
        page.locator("#question").fill("Will I get wet?")
        page.locator("#question").press("Enter")
        expect(page.locator("#results li").first).to_be_visible(timeout=SECONDS)
        page.evaluate("usedDevice.destroy()")
        page.locator("#question").fill("How do I get my money back?")
        page.locator("#question").press("Enter")
        expect(page.locator("#status")).to_have_class("status failed")
        expect(page.locator("#results li")).to_have_count(0)


@pytest.mark.slow
@pytest.mark.parametrize("browser", BROWSERS)
def test_a_turned_page_is_turned_back(browser: str, site: str, opened: Opened, tmp_path: Path) -> None:
    with opened(browser) as page:
        held: list[Route] = []
        page.route("**/model.json", lambda route: held.append(route))
        page.goto(f"{site}page-orientation/")
        answer = page.locator("#answer")
        picture = bytes(page.evaluate(TURN, 180))
        page.evaluate(DROP, list(page.evaluate(TURN, 90)))
        expect(page.locator("#given")).to_have_js_property("width", 360)
        assert page.url.endswith("/page-orientation/"), "the picture is not opened in the page's place"
        eventually(page, lambda: bool(held), "the page did not ask for its model")
        held[0].continue_()
        expect(answer).to_have_text("It was turned by 90°", timeout=SECONDS)
        page.locator("#turn").click()
        page.locator("#turn").click()
        page.locator("#turn").click()
        expect(answer).to_have_text("It is upright", timeout=SECONDS)
        file = {"name": "page.png", "mimeType": "image/png", "buffer": picture}
        page.locator("#file").set_input_files(file)
        expect(answer).to_have_text("It was turned by 180°", timeout=SECONDS)
        page.locator("#file").set_input_files({**file, "buffer": b"no picture"})
        expect(page.locator("#status")).to_have_text("page.png is no picture that this browser can open")
        expect(answer).to_be_empty()
        expect(page.locator("#shares")).to_be_empty()


@pytest.mark.slow  # only for its models
def test_the_studio_lists_them(site: str, opened: Opened) -> None:
    with opened(PLAIN) as page:
        page.goto(site.removesuffix("pages/"))
        cards = page.locator(".models li.suite-card")
        expect(cards).to_have_count(3)
        expect(cards.first).to_contain_text("all-MiniLM-L6-v2")
        expect(cards.first).to_contain_text("tokens: 1 to 512")
        expect(cards.last).to_contain_text("Validated on no device.")


@pytest.mark.slow  # only for its models
@pytest.mark.parametrize("name", ["embedding-search", "page-orientation"])
def test_without_webgpu_a_sentence_says_so(name: str, site: str, opened: Opened) -> None:
    with opened(PLAIN) as page:
        page.goto(f"{site}{name}/")
        expect(page.locator("#status")).to_have_text(re.compile("^The browser found no GPU adapter"))
        expect(page.locator("#status")).to_have_class("status failed")
