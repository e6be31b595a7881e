"""What happened on an item's page, as Walle's item-page-view feature (OSDI 2022): it becomes 128 bytes on the device,
and for comparison in the cloud, of the raw events. `make example-page-views`; docs/field.md says more."""

from __future__ import annotations

import argparse
import base64
import importlib.metadata
import json
import shutil
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from playwright.sync_api import Page

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE.parent), str(_HERE / "task")]

import feature  # noqa: E402
from field_example import Service, arguments, build, opened, run, shown  # noqa: E402
from tapml.field.storage.records import Records  # noqa: E402

TASK, RAW = "features/page-view", "features/raw-events"
NUMBERS = 32
"""Of an encoding, float32: 128 bytes."""

_VIEWS = 12
_VIEWPORT = {"width": 412, "height": 800}
"""A phone's."""

_WHEEL, _PAUSE_MS = 420, 250
_IN_VIEW = """[...document.querySelectorAll("#others button")].filter((card) => {
  const { top, bottom } = card.getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight;
}).map((card) => card.dataset.tapmlId)"""
_LOOK_SECONDS, _LATE_SECONDS = 0.02, 120.0
_MOST_TEXT, _MOST_KEYWORDS = 800, 12
Item = dict[str, Any]


def catalogue() -> list[Item]:
    """The items: Python packages that are installed here, as they describe themselves."""
    found = {}
    for package in importlib.metadata.distributions():
        about = package.metadata
        if not about["Name"] or not about["Summary"]:
            continue
        topics = [
            text.split(" :: ")[-1].lower() for text in about.get_all("Classifier", []) if text.startswith("Topic")
        ]
        found[about["Name"]] = {
            "name": about["Name"],
            "version": about["Version"],
            "summary": about["Summary"],
            "description": str(about.get_payload() or about["Description"] or "")[:_MOST_TEXT],
            "keywords": topics[:_MOST_KEYWORDS],
            "licence": (about["License-Expression"] or about["License"] or "")[:40],
            "python": about["Requires-Python"] or "",
            "author": (about["Author"] or about["Author-email"] or "")[:80],
            "links": [text[:120] for text in about.get_all("Project-URL", [])[:4]],
            "needs": [text[:60] for text in (package.requires or [])[:6]],
        }
    return [found[name] for name in sorted(found, key=str.lower)]


class Encoder:
    """Latent semantic analysis (Deerwester and others 1990) of the catalogue's words: of a bag of them, (n, 256), the
    `NUMBERS` directions in which items differ most, (n, 32), of length 1."""

    def __init__(self, items: list[Item]) -> None:
        bags = np.array([feature.bag(seen(item)) for item in items], np.float32)
        rare = np.log(len(items) / np.maximum((bags > 0).sum(0), 1)).astype(np.float32)
        _, _, directions = np.linalg.svd(bags * rare, full_matrices=False)
        self.weights = (rare[:, None] * directions[:NUMBERS].T).astype(np.float32)
        self.items = self(bags)
        """What each item's own words give."""

    def __call__(self, bags: np.ndarray) -> np.ndarray:
        made = bags @ self.weights
        return made / np.sqrt((made * made).sum(-1, keepdims=True) + np.float32(1e-12))

    def save(self, path: Path) -> None:
        """As ONNX, of one bag at a time."""
        node, tensor = onnx.helper.make_node, onnx.helper.make_tensor_value_info
        nodes = [
            node("MatMul", ["bag", "weights"], ["made"]),
            node("Mul", ["made", "made"], ["squares"]),
            node("ReduceSum", ["squares", "last"], ["sum"], keepdims=1),
            node("Add", ["sum", "little"], ["more"]),
            node("Sqrt", ["more"], ["length"]),
            node("Div", ["made", "length"], ["encoding"]),
        ]
        given = [tensor("bag", onnx.TensorProto.FLOAT, [1, feature.BUCKETS])]
        gives = [tensor("encoding", onnx.TensorProto.FLOAT, [1, NUMBERS])]
        constants = {"weights": self.weights, "last": np.array([-1]), "little": np.float32([1e-12])}
        known = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
        graph = onnx.helper.make_graph(nodes, "page-view", given, gives, known)
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), path)


def seen(item: Item) -> dict[str, Any]:
    """The feature of a page that nothing happened on."""
    return {"words": feature.words([item]), "clicked_words": [], "exposed_words": []}


class Cloud:
    """Beside the service: it makes features and encodings of raw events, when a stay's last one has come."""

    def __init__(self, encoder: Encoder, records: Records) -> None:
        self._encoder, self._records = encoder, records
        self._taken = 0
        self._open: dict[str, list[dict[str, Any]]] = {}
        self.stays: list[list[dict[str, Any]]] = []
        self.encodings: list[np.ndarray] = []
        self.milliseconds: list[float] = []
        """From a stay's end to its encoding."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """It takes what comes for the length of a `with` block."""
        ended = threading.Event()
        with ThreadPoolExecutor(1) as worker:
            watch = worker.submit(self._watch, ended)
            try:
                yield
            finally:
                ended.set()
        watch.result()

    def wait(self, count: int) -> None:
        """Until it has encoded so many stays."""
        deadline = time.monotonic() + _LATE_SECONDS
        while len(self.stays) < count:
            if time.monotonic() > deadline:
                raise SystemExit(f"of {count} pages' events {len(self.stays)} came within {_LATE_SECONDS:.0f} s")
            time.sleep(_LOOK_SECONDS)

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(_LOOK_SECONDS):
            for device, _, _, event in self._records.values(RAW)[self._taken :]:
                self._taken += 1
                stay = self._open.setdefault(device, [])
                stay.append(event)
                if event["kind"] == "exit":
                    self._encode(self._open.pop(device))

    def _encode(self, events: list[dict[str, Any]]) -> None:
        self.encodings.append(self._encoder(np.float32([feature.bag(feature.feature(events))]))[0])
        self.milliseconds.append(1000 * time.time() - events[-1]["time"])
        self.stays.append(events)


def browsed(page: Page, random: np.random.Generator) -> None:
    """Somebody who looks at an item's page, scrolls, and leaves it by a click on another item."""
    page.wait_for_timeout(2 * _PAUSE_MS)
    for _ in range(int(random.integers(2, 5))):
        page.mouse.wheel(0, int(random.integers(_WHEEL // 2, _WHEEL)))
        page.wait_for_timeout(_PAUSE_MS)
    in_view: list[str] = page.evaluate(_IN_VIEW)
    chosen = in_view[int(random.integers(len(in_view)))]
    page.locator(f'#others button[data-tapml-id="{chosen}"]').click()


def left(page: Page, count: int) -> None:
    """Until the device has encoded so many stays."""
    deadline = time.monotonic() + _LATE_SECONDS
    while (found := len(page.evaluate("told().views"))) < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"of {count} pages {found} were encoded within {_LATE_SECONDS:.0f} s")
        page.wait_for_timeout(_PAUSE_MS)


def page_views(options: argparse.Namespace) -> dict[str, Any]:
    folder = options.output
    items = catalogue()
    print(f"a catalogue of {len(items)} items; an encoder of their words, compiled")
    encoder = Encoder(items)
    tasks = {TASK: folder / "task", RAW: folder / "task-raw"}
    for files in tasks.values():
        shutil.copytree(_HERE / files.name, files, ignore=shutil.ignore_patterns("__pycache__"))
    encoder.save(folder / "encoder.onnx")
    np.save(folder / "bag.npy", np.float32([feature.bag(seen(items[0]))]))
    build(folder / "encoder.onnx", {"bag": folder / "bag.npy"}, tasks[TASK] / "model.tapml", options.device)

    with Service(folder, tasks, _HERE) as service:
        (service.site / "items.json").write_text(json.dumps(items))
        print(f"{_VIEWS} pages, in {options.device}")
        cloud = Cloud(encoder, Records(service.database))
        with cloud.watching(), opened(options.device, service.page, viewport=_VIEWPORT) as page:
            random = np.random.default_rng(0)
            for view in range(_VIEWS + 1):
                browsed(page, random)
                if view in (0, _VIEWS):  # with the first both tasks' Python starts, and the model is loaded
                    left(page, view + 1)
                    cloud.wait(view + 1)
            told = page.evaluate("told()")
    measured = _measured(told, cloud, encoder, items) | {"browser": options.device, "items": len(items)}
    _show(measured)
    return measured


def _measured(told: dict[str, Any], cloud: Cloud, encoder: Encoder, items: list[Item]) -> dict[str, Any]:
    """tapml.example-page-views/1; the first page, for which Python and model were started, is apart."""
    if told["failed"]:
        raise SystemExit(told["failed"][0])
    names = [item["name"] for item in items]
    encodings = np.array([np.frombuffer(base64.b64decode(view["data"]), "<f4") for view in told["views"]])
    pages = [view["page"].partition(":")[2] for view in told["views"]]
    nearest = [names[at] for at in (encodings @ encoder.items.T).argmax(-1)]
    raw = [[json.dumps(event, separators=(",", ":")).encode() for event in stay] for stay in cloud.stays[1:]]
    device = [view["ms"] for view in told["views"]]
    return {
        "format": "tapml.example-page-views/1",
        "pages": len(raw),
        "events": _mean([len(stay) for stay in raw]),
        "raw_bytes": _mean([sum(map(len, stay)) for stay in raw]),
        "raw_bytes_compressed": _mean([len(zlib.compress(b",".join(stay))) for stay in raw]),
        "feature_bytes": _mean([size["feature_bytes"] for size in told["sizes"][1:]]),
        "encoding_bytes": told["sizes"][0]["encoding_bytes"],
        "device_ms": _percentiles(device[1:]),
        "run_ms": _percentiles([size["ms"] for size in told["sizes"][1:]]),
        "cloud_ms": _percentiles(cloud.milliseconds[1:]),
        "first_ms": {"device": device[0], "cloud": cloud.milliseconds[0]},
        "largest_difference": float(np.abs(encodings - np.array(cloud.encodings)).max()),
        "nearest_is_viewed": sum(found == viewed for found, viewed in zip(nearest, pages, strict=True)) / len(pages),
    }


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def _percentiles(values: list[float]) -> dict[str, float]:
    return {f"p{share}": float(np.percentile(values, share)) for share in (50, 95)}


def _show(found: dict[str, Any]) -> None:
    raw, packed, made = found["raw_bytes"], found["raw_bytes_compressed"], found["encoding_bytes"]
    device, cloud, first = found["device_ms"], found["cloud_ms"], found["first_ms"]
    rows = [
        ("a page", f"{found['events']:.1f} events, {raw / 1000:.1f} kB ({packed / 1000:.1f} kB compressed); mean of "
         f"{found['pages']}"),
        ("on the device", f"a feature of {found['feature_bytes'] / 1000:.2f} kB, an encoding of {made} bytes"),
        ("bytes saved", f"{1 - made / raw:.1%}; of the compressed ones {1 - made / packed:.1%}"),
        ("the device's way", f"{device['p50']:.0f} ms (p95 {device['p95']:.0f}) from the page's end to its encoding, "
         f"of which the run {found['run_ms']['p50']:.0f} ms"),
        ("the cloud's way", f"{cloud['p50']:.0f} ms (p95 {cloud['p95']:.0f}), by tunnel and database of this machine"),
        ("the first page", f"{first['device'] / 1000:.1f} s and {first['cloud'] / 1000:.1f} s: Python starts"),
        ("both the same", f"encodings differ by {found['largest_difference']:.1e} at most"),
        ("what it says", f"{found['nearest_is_viewed']:.0%} are nearest to the item that was viewed, of "
         f"{found['items']}"),
    ]  # fmt: skip
    shown("summary", rows)


if __name__ == "__main__":
    run(page_views, arguments("page-views", __doc__.split(".")[0]))
