"""The view Generation: a text that a browser tab writes, step by step beside the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from conftest import serving
from pages import BROWSERS, PLAIN, VIEWPORT, Opened
from preloaded import tapml
from tapml.models import folder_of
from tapml.suite import Suite
from workers import made_once

pytestmark = [
    pytest.mark.slow,  # a software GPU takes seconds for a token
    pytest.mark.torch,
]

SECONDS = 240_000
"""In ms."""
PROMPT = "Once upon a time"


def carve(path: Path) -> None:
    ran = tapml("carve", "--hf", folder_of("tiny"), "--prompt", PROMPT, "--steps", "1", "-o", path)
    assert ran.code == 0, ran.err


@pytest.fixture
def suite(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    made = made_once(tmp_path_factory, "tiny.suite", carve)
    (tmp_path / "tiny.suite").symlink_to(made)
    return made


@pytest.mark.parametrize("browser", BROWSERS)
def test_a_tab_writes_and_each_token_opens_its_step(opened: Opened, suite: Path, browser: str) -> None:
    with serving(suite) as url, opened(browser) as tab, opened(PLAIN, viewport=VIEWPORT) as page:
        tab.goto(f"{url}/runner")
        page.goto(f"{url}/suites/{suite.name.removesuffix('.suite')}?view=generation&tokens=3")
        write = page.get_by_role("button", name=re.compile("^Write on .* 1", re.IGNORECASE))
        expect(write).to_be_enabled(timeout=SECONDS)
        tokens = page.get_by_role("group", name="Tokens, each with its step").get_by_role("button")
        page.get_by_label("Prompt").fill("")
        write.click()
        expect(page.get_by_role("alert")).to_contain_text("The prompt is empty")
        page.get_by_label("Prompt").fill(PROMPT)
        write.click()
        status = page.get_by_label("Generation", exact=True).get_by_role("status")
        expect(status).to_contain_text("3 tokens behind a prompt of 6", timeout=SECONDS)
        expect(page.get_by_text("The likeliest token is the reference's in all 3 steps")).to_be_visible(timeout=SECONDS)
        expect(tokens).to_have_text([",", " he", " was"])
        expect(page.get_by_role("row", name=re.compile("^prefill 6 "))).to_be_visible()
        expect(page.get_by_role("row", name=re.compile("^decode 2 "))).to_be_visible()
        expect(page.get_by_text("197 kB")).to_be_visible()

        # The token's step: the suite has tests of it, or it is carved now. The address has all of it.
        tokens.nth(1).click()
        step = page.get_by_role("article", name="Step of position 7")
        expect(step.get_by_text("Step 1 of the suite: 91 operator tests")).to_be_visible()
        expect(page).to_have_url(re.compile("position=7"))
        page.reload()
        expect(step.get_by_text("within the model's tolerance")).to_be_visible(timeout=SECONDS)
        tokens.nth(2).click()
        last = page.get_by_role("article", name="Step of position 8")
        expect(last.get_by_text("The suite has no tests of this step.")).to_be_visible()

        # What was written stays.
        page.get_by_label("Tokens at most").fill("500")
        write.click()
        expect(tokens.nth(1)).to_be_visible(timeout=SECONDS)
        page.get_by_role("button", name="Abort").click()
        expect(status).to_contain_text("(aborted)", timeout=SECONDS)
        assert tokens.all_inner_texts()[:2] == [",", " he"]
        assert len(Suite(suite).tests) == 97 + 91
