"""Heat maps, growth along a graph, and how both are shown."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from computing_device import ComputingDevice
from playwright.sync_api import sync_playwright

from tapml.browsers.find import find
from tapml.locating import Locate
from tapml.locating.growth import growth
from tapml.locating.heatmap import MOST, heatmap
from tapml.program import Graph, Node, NodeKind, TensorType, Value, ValueKind
from tapml.reports.console import SafeConsole
from tapml.reports.html import html
from tapml.reports.locate import picture_lines, show_locate, verdict_line
from tapml.suite import Suite
from tapml.validation.context import JobContext


def test_a_small_output_is_shown_element_by_element() -> None:
    excess = np.zeros((2, 3, 4))
    excess[1, 2, 3] = 10.0
    found = heatmap(excess, np.zeros(excess.shape, bool))
    assert (found["rows"], found["columns"], found["row_extent"], found["column_extent"]) == (3, 4, 1, 1)
    values = np.array(found["values"])
    assert values[2, 3] == pytest.approx(0.25 + 0.75 / 6, abs=1e-3)
    assert values.sum() == values[2, 3], "what is inside its bound is 0"


def test_a_large_one_is_binned_by_its_worst() -> None:
    excess = np.full((1000, 65), 0.5)
    excess[999, 64] = np.inf
    found = heatmap(excess, np.zeros(excess.shape, bool))
    values = np.array(found["values"])
    assert values.shape == (found["rows"], found["columns"])
    assert max(values.shape) <= MOST
    assert (found["row_extent"], found["column_extent"]) == (16, 2)
    assert values[-1, -1] == 1.0
    assert np.count_nonzero(values) == 1


def test_what_is_unbounded_is_neither_inside_nor_outside() -> None:
    excess, unbounded = np.zeros((2, 3)), np.zeros((2, 3), bool)
    unbounded[:, 1:] = True
    excess[1, 2] = 100.0  # of another element in the same cell
    found = heatmap(excess, unbounded)
    assert found["values"][0] == [0.0, None, None]
    assert found["values"][1][:2] == [0.0, None]
    assert found["values"][1][2] == pytest.approx(0.5)
    assert picture_lines(found)[0] == "·∞∞"
    assert "∞ unbounded" in picture_lines(found)[-1]


@pytest.mark.parametrize("shape", [(), (1,), (130,), (0, 4)])
def test_any_shape_has_a_heat_map(shape: tuple[int, ...]) -> None:
    found = heatmap(np.full(shape, 2.0), np.zeros(shape, bool))
    assert np.array(found["values"]).size == found["rows"] * found["columns"]
    assert len(picture_lines(found)) <= 17


def test_errors_grow_along_the_graph(suite: Suite) -> None:
    graph = suite.model_graph
    expected = {
        v: suite.tensors.get(r)
        for t in suite.tests
        for v, r in zip(node_outputs(suite, t.node), t.outputs, strict=True)
    }
    got = {value: array.copy() for value, array in expected.items()}
    first, second = graph.kernel_nodes[:2]
    got[first.outputs[0]] += np.float32(0.5)
    got[second.outputs[0]] += np.float32(2.0)
    found = {grown.node: grown for grown in growth(graph, got, expected, {first.id: 0.25})}
    assert found[first.id].error == pytest.approx(0.5)
    assert found[first.id].amplification == pytest.approx(2.0)
    assert found[second.id].amplification == pytest.approx(4.0)
    largest = np.abs(expected[second.outputs[0]]).max()
    assert found[second.id].relative == pytest.approx(found[second.id].error / largest)
    rest = [grown for node, grown in found.items() if node not in (first.id, second.id)]
    assert all(grown.error == 0.0 for grown in rest)


def test_the_number_of_a_token_is_no_error_that_grew() -> None:
    logits, token = np.array([3.0, 1.0, 2.9], np.float32), np.array([0], np.int32)
    values = {
        name: Value(id=name, kind=kind, type=TensorType(array.shape, str(array.dtype)), name=name)
        for name, array, kind in (
            ("x", logits, ValueKind.INPUT),
            ("logits", logits, ValueKind.INTERMEDIATE),
            ("next", token, ValueKind.INTERMEDIATE),
        )
    }
    nodes = (
        Node("n0", NodeKind.KERNEL, "copy", ("x",), ("logits",)),
        Node("n1", NodeKind.KERNEL, "choose", ("logits",), ("next",)),
    )
    graph = Graph(values=values, nodes=nodes, inputs=("x",), outputs=("logits", "next"))
    got = {"logits": logits + np.array([0, 0, 0.2], np.float32), "next": token + 2}
    copied, chosen = growth(graph, got, {"logits": logits, "next": token}, {"n0": 0.1})
    assert copied.amplification == pytest.approx(2.0, rel=1e-5)
    assert (chosen.error, chosen.amplification) == (2.0, None)


def node_outputs(suite: Suite, node: str) -> tuple[str, ...]:
    return next(found.outputs for found in suite.graph.nodes if found.id == node)


@pytest.fixture
def document(suite: Suite) -> dict[str, Any]:
    kernel = next(name for name in suite.kernels if "softmax" in name)

    def half(inputs: list[np.ndarray], right: np.ndarray, before: np.ndarray) -> np.ndarray:
        right[3:] /= 2
        return right

    device = ComputingDevice(suite, {kernel: half})
    return Locate(JobContext(suite, [device.device], device.blobs)).run()


def test_the_terminal_shows_reason_bound_and_picture(document: dict[str, Any]) -> None:
    out = io.StringIO()
    show_locate(SafeConsole(out, width=200, soft_wrap=True), document)
    text = out.getvalue()
    (found,) = document["kernels"]
    assert found["kernel"] in text
    assert "0.5 (1/2) times the expected one" in text
    assert "rows 3 to 5 (the end)" in text
    assert "may differ by" in text
    for reason in found["outputs"][0]["bound"]["reasons"]:
        assert reason in " ".join(text.split())
    picture = [line.strip() for line in text.splitlines() if re.fullmatch(r"[·░▒▓█]+(  \d+ times)?", line.strip())]
    right, *wrong = picture
    assert re.fullmatch(r"·+  3 times", right)  # rows that look alike are said once
    assert len(wrong) == 3
    assert all(set(line) - {"·"} for line in wrong)
    assert verdict_line(document) in text
    assert "1 faulty kernel: " in text


def test_the_page_shows_all_of_it_and_texts_as_text(document: dict[str, Any], tmp_path: Path) -> None:
    document["suite_name"] = "<script>alert(1)</script>"
    document["kernels"][0]["reason"] = '"><img src=x onerror=alert(1)>'
    document["kernels"][0]["kernel"] = "<b>&"
    path = tmp_path / "locate.html"
    path.write_text(html(document))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find("chromium").program, args=["--no-sandbox"])
        page = browser.new_page()
        problems: list[str] = []
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda asked: problems.append(asked.url) if not asked.url.startswith("file:") else None)
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-state=ready]")
        text = page.locator("body").inner_text()
        (found,) = document["kernels"]
        assert page.title() == "<script>alert(1)</script>: faulty kernels"
        for wanted in ('"><img src=x onerror=alert(1)>', "<b>&", "1 faulty kernel on", "validate", found["test"]):
            assert wanted in text
        for reason in found["outputs"][0]["bound"]["reasons"]:
            assert reason in text
        for finding in found["findings"][:4]:
            assert finding["text"] in text
        assert page.locator(".heat rect").count() > 1
        assert page.locator("img, script:not(head script, body > script)").count() == 0
        page.locator(".node-button").first.click()
        assert page.locator(".node-button[aria-pressed=true]").count() == 1
        assert problems == []
        browser.close()
