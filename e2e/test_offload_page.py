"""An offload on the page: its moves one after the other, and one word for what became of a kernel."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from conftest import rewrite
from pages import PLAIN, VIEWPORT, Opened, choose
from tapml.server import Server


def test_moves_are_played_on_the_graph_and_words_agree(opened: Opened, small: Path) -> None:
    rewrite(small, "softmax", lambda text: text.replace("exp(", "exp(0.5f + ", 1))
    with Server([small]) as server, opened(PLAIN, viewport=VIEWPORT) as page:
        page.goto(f"{server.url}/suites/{server.suite_ids[0]}")
        choose(page, "node-dawn")
        page.get_by_role("button", name="Offload").click()
        expect(page.get_by_label("Job")).to_contain_text("Offload done")
        trace, legend = page.get_by_label("Offload trace", exact=True), page.get_by_label("Nodes by state")
        graph = page.get_by_label("Graph", exact=True)

        # Of the kernel that stayed: table, legend, graph and the whole model's figure.
        kernels = trace.locator("tbody")
        stayed = kernels.filter(has_text="softmax")
        expect(stayed).to_contain_text(re.compile("fail.*-.*-.*stayed"))
        expect(kernels.filter(has_text="moved")).to_have_count(kernels.count() - 1)
        expect(legend).to_contain_text(re.compile(r"\d+ moved.*\d stayed: operator fail"))
        expect(graph.get_by_role("button", name=re.compile("^softmax.*, stayed: operator fail$")).first).to_be_visible()
        whole = trace.locator(".final")
        expect(whole).to_contain_text(re.compile("Whole model.*fail"))
        expect(whole).to_contain_text("Not moved in the steps below, but run here: softmax")
        expect(trace.get_by_role("img", name=re.compile("error"))).to_be_visible()

        moves, said = trace.get_by_label("Kernels tried"), trace.locator(".replay").get_by_role("status")
        moves.press("Home")
        expect(said).to_have_text(re.compile(rf"^0 of {kernels.count()}$"))
        expect(legend).to_have_text(re.compile(r"^\s*. ?\d+ not moved$"))
        moves.press("ArrowRight")
        expect(said).to_contain_text(re.compile("^1 of .*: max error .* moved$"))
        expect(legend.get_by_text(re.compile(r"^.? ?\d+ moved$"))).to_have_count(1)
        expect(page).to_have_url(re.compile("moves=1"))
        page.reload()
        expect(said).to_contain_text(re.compile("^1 of "))
        trace.get_by_role("button", name="Play the moves").click()
        expect(said).to_contain_text(re.compile(rf"^{kernels.count()} of {kernels.count()}: "))
        expect(legend).to_contain_text(re.compile("stayed: operator fail"))
        expect(page).not_to_have_url(re.compile("moves="))
        expect(trace.get_by_role("button", name="Play the moves")).to_be_visible()
