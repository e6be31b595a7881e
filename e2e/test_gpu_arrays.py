"""What a page gives its tasks: its GPU for large arrays, for which the VM waits and the page does not, and wheels."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from field_tasks import TASK, Group

from pages import Opened
from tapml.field.releases import Plan
from tapml.field.service.serving import FieldServer
from tapml.field.storage.store import Store

PAGE = """<!doctype html><meta charset="utf-8"><title>Shop</title><link rel="icon" href="data:,">
<script type="module" src="page.js"></script>"""
SCRIPT = """
import { createAgent } from "/static/agent/tapml-agent.js";
import { arraysOnGpu } from "/static/agent/tapml-gpu.js";
import { load } from "/static/runtime/tapml-runtime.js";
const WHEEL = "little-1.0-py3-none-any.whl";
globalThis.failures = [];
globalThis.begin = async (key) => {
  globalThis.arrays = arraysOnGpu({ load, least: 0, onFailure: (cause) => failures.push(String(cause)) });
  globalThis.agent = await createAgent({ service: "/field/", key, app: "1.0", arrays, packages: [WHEEL] });
  await agent.pull();
};
globalThis.run = (event) => agent.tasks.get("shop/highlight").start(event);
globalThis.ready = true;
"""
MAIN = """
import tapml.arrays as np
import tapml.images as cv2

try:
    import little
except ImportError:
    little = None

def run(event):
    n = event["n"]
    x = np.reshape(np.arange(n * n, dtype="float32"), (n, n)) % 7
    image = np.reshape(np.arange(n * n * 3, dtype="int32") % 251, (n, n, 3)).astype("uint8")
    small = cv2.resize(image, (n // 2, n // 2))
    total = np.exp(x / 7).astype("float64").sum().item()
    return [np.matmul(x, x)[-1, :3].tolist(), total, small[-1, -1].tolist(), little.NAME]
"""


@pytest.mark.parametrize("browser", ["chromium", pytest.param("firefox", marks=pytest.mark.slow)])
def test_large_arrays_are_computed_by_the_page(browser: str, tmp_path: Path, opened: Opened) -> None:
    group = Group(tmp_path)
    configuration = {"format": "tapml.task-configuration/1", "needs": {"seconds": 60}}
    group.add("1.0", {"task.json": json.dumps(configuration).encode(), "main.py": MAIN.encode()})
    plan = {"task": TASK, "version": "1.0", "manifest": group.publish("1.0"), "steps": [{"kind": "full"}]}
    Store(group.path / "field.sqlite3").add(Plan.model_validate(plan), 1)
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text(PAGE)
    (site / "page.js").write_text(SCRIPT)
    with zipfile.ZipFile(site / "little-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("little.py", "NAME = 'of the page'\n")
        wheel.writestr("little-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: little\nVersion: 1.0\n")
        wheel.writestr("little-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("little-1.0.dist-info/RECORD", "")
    # The service's own pages are cross-origin isolated.
    with FieldServer(group.path, group.path / "field.sqlite3", pages=site) as field, opened(browser) as page:
        page.goto(f"{field.url}/pages/")
        page.wait_for_function("globalThis.ready")
        assert page.evaluate("crossOriginIsolated")
        page.evaluate("key => begin(key)", group.key.public)
        n = 64
        found = page.evaluate("n => run({ n })", n)
        assert found["failure"] is None, found["failure"]
        product, total, pixel, name = found["result"]
        x = [[float((row * n + column) % 7) for column in range(n)] for row in range(n)]
        assert product == [sum(x[-1][k] * x[k][column] for k in range(n)) for column in range(3)]
        assert total == pytest.approx(sum(2.718281828459045 ** (value / 7) for row in x for value in row), rel=1e-6)
        assert len(pixel) == 3
        assert name == "of the page"
        assert page.evaluate("arrays.speed()") > 0
        assert page.evaluate("failures") == []
        assert page.evaluate("arrays.counts.answered") >= 3
