"""Heat maps, growth along a graph, and how both are shown."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from computing_device import ComputingDevice
from rich.console import Console

from tapml.locating import Locate
from tapml.locating.growth import growth
from tapml.locating.heatmap import MOST, heatmap
from tapml.reports.locate import picture_lines, show_locate, verdict_line
from tapml.reports.locate_html import locate_page
from tapml.suite import Suite


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


def node_outputs(suite: Suite, node: str) -> tuple[str, ...]:
    return next(found.outputs for found in suite.graph.nodes if found.id == node)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def document(suite: Suite) -> dict[str, Any]:
    kernel = next(name for name in suite.kernels if "softmax" in name)

    def half(inputs: list[np.ndarray], right: np.ndarray, before: np.ndarray) -> np.ndarray:
        right[3:] /= 2
        return right

    device = ComputingDevice(suite, {kernel: half})
    return Locate(suite, device.device, device.blobs).run()


def test_the_terminal_shows_reason_bound_and_picture(document: dict[str, Any]) -> None:
    out = io.StringIO()
    show_locate(Console(file=out, width=200, soft_wrap=True), document)
    text = out.getvalue()
    (found,) = document["kernels"]
    assert found["kernel"] in text
    assert "0.5 (1/2) times the expected one" in text
    assert "rows 3 to 5 (the end)" in text
    assert "may differ by" in text
    for reason in found["outputs"][0]["bound"]["reasons"]:
        assert reason in " ".join(text.split())
    picture = [line.strip() for line in text.splitlines() if re.fullmatch(r"[·░▒▓█]+", line.strip())]
    assert len(picture) == 6
    assert all(set(line) == {"·"} for line in picture[:3])
    assert all(set(line) - {"·"} for line in picture[3:])
    assert verdict_line(document) in text
    assert "1 faulty kernel: " in text


def test_the_page_is_whole_and_escapes_everything(document: dict[str, Any]) -> None:
    document["suite_name"] = "<script>alert(1)</script>"
    document["kernels"][0]["reason"] = '"><img src=x onerror=alert(1)>'
    document["kernels"][0]["kernel"] = "<b>&"
    text = locate_page(document)
    page = Page(text)
    assert page.open == []
    assert not {"script", "img", "b", "link", "iframe"} & set(page.tags)
    assert "<script>alert(1)</script>" in page.text
    assert '"><img src=x onerror=alert(1)>' in page.text
    assert "svg" in page.tags
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=\"(?!#)", text)
