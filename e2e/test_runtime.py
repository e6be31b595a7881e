"""A web page that runs a compiled MiniLM with @tapml/runtime, under a content security policy without exceptions."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import copied, read_json
from pages import BROWSERS, Opened, People
from preloaded import tapml
from sites import Site, address, served, wait_until
from workers import made_once

PAGE = '<!doctype html><meta charset="utf-8"><title>MiniLM</title><script type="module" src="page.js"></script>'
SCRIPT = """\
import { load } from "./tapml-runtime.js";
const inputs = await (await fetch("inputs.json")).json();
const arrays = Object.fromEntries(
  Object.entries(inputs).map(([name, { data, shape }]) => [name, { data: Int32Array.from(data), shape }]),
);
let refused = 0;
addEventListener("securitypolicyviolation", () => refused++);
const progress = [];
const told = (said) => progress.push([said.bytes, said.totalBytes]);
globalThis.once = async (from) => {
  progress.length = 0;
  const model = await load(from, { onProgress: told, unvalidated: "ignore" });
  const { outputs, dispatches } = await model.profile(arrays);
  const { memory, outputs: [{ name }] } = model;
  model.dispose();
  const facts = { memory, refused, dispatches: dispatches.length, last: progress.at(-1) };
  return { values: Array.from(outputs[name]), ...facts };
};
globalThis.ready = true;
"""


LITTLE_SCRIPT = """\
import { load } from "./tapml-runtime.js";
const x = Float32Array.from({ length: 96 }, (_, i) => Math.sin(i));
let refused = 0;
addEventListener("securitypolicyviolation", () => refused++);
const open = (from) => load(from, { unvalidated: "ignore" });
globalThis.embedded = async (from) => {
  const model = await open(from);
  const { probabilities } = await model.run({ x });
  model.dispose();
  return Array.from(probabilities);
};
globalThis.embeddedByAWorker = (from) =>
  new Promise((resolve, reject) => {
    const worker = new Worker("worker.js", { type: "module" });
    worker.onmessage = ({ data }) => {
      worker.terminate();
      data.why ? reject(new Error(data.why)) : resolve(data.probabilities);
    };
    worker.onerror = () => reject(new Error("the worker does not start"));
    worker.postMessage({ from: new URL(from, location.href).href, x });
  });
globalThis.captured = async (from, options) => {
  const model = await open(from);
  const capture = model.capture(options);
  await model.run({ x });
  const { file, operators } = await capture;
  model.dispose();
  return { bytes: Array.from(new Uint8Array(await file.arrayBuffer())), operators, refused };
};
// A busy machine takes longer for what the runtime has a second for.
const start = globalThis.setTimeout;
globalThis.setTimeout = (call, after, ...rest) => start(call, after === 1000 ? 60000 : after, ...rest);
globalThis.chosen = async (from) => {
  const model = await load(from, { unvalidated: "ignore", choose: "time" });
  const { probabilities } = await model.run({ x });
  const { variants } = model;
  model.dispose();
  return { variants, sum: probabilities.reduce((sum, one) => sum + one, 0) };
};
globalThis.remembered = async (text) => {
  const cache = await caches.open("tapml");
  const found = (await cache.keys()).find(({ url }) => url.includes("/choices/"));
  if (!found) return null;
  if (text) await cache.put(found, new Response(text));
  return (await cache.match(found)).text();
};
const begin = {
  load: (from) => open(from),
  call: async (from) => {
    const model = await open(from);
    for (let i = 0; i < 100; i++) model.run({ x });
  },
  capture: async (from) => {
    const model = await open(from);
    for (let i = 0; i < 20; i++) model.capture({ inputs: { x } });
  },
};
globalThis.begun = (what, from) => {
  begin[what](from).then(() => { globalThis.underWay = true; });
};
globalThis.ready = true;
"""


WORKER_SCRIPT = """\
import { load } from "./tapml-runtime.js";
addEventListener("message", async ({ data: { from, x } }) => {
  try {
    const model = await load(from, { unvalidated: "ignore" });
    const { probabilities } = await model.run({ x });
    postMessage({ probabilities: Array.from(probabilities) });
  } catch (cause) {
    postMessage({ why: String(cause) });
  }
});
"""


def first_step(suite: Path) -> Any:
    return read_json(suite / "suite.json")["steps"][0]


def tensor(suite: Path, ref: Any) -> np.ndarray:
    return np.fromfile(suite / "tensors" / ref["digest"][:2] / f"{ref['digest']}.bin", ref["dtype"]).reshape(
        ref["shape"]
    )


def built(path: Path, suite: Path) -> None:
    for options, name in (((), "minilm.tapml"), (("--single",), "minilm.single")):
        ran = tapml("build", suite, *options, "-o", path / name)
        assert ran.code == 0, ran.err


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, carved: Path) -> Iterator[str]:
    folder = made_once(tmp_path_factory, "site", lambda path: (path.mkdir(), built(path, carved)))
    inputs = {name: tensor(carved, ref) for name, ref in first_step(carved)["inputs"].items()}
    given = {name: {"data": data.ravel().tolist(), "shape": list(data.shape)} for name, data in inputs.items()}
    (folder / "inputs.json").write_text(json.dumps(given))
    (folder / "index.html").write_text(PAGE)
    (folder / "page.js").write_text(SCRIPT)
    with served(folder) as server:
        yield address(server)


@pytest.mark.slow  # a software GPU takes seconds for a call
@pytest.mark.parametrize("browser", BROWSERS)
def test_a_page_embeds_a_sentence(browser: str, site: str, carved: Path, opened: Opened) -> None:
    (expected,) = (tensor(carved, ref) for ref in first_step(carved)["outputs"])
    with opened(browser) as page:
        page.goto(site)
        wait_until(page, "globalThis.ready")
        for name in ("minilm.tapml/", "minilm.single"):
            found = page.evaluate("name => once(name)", name)
            got = np.array(found["values"], np.float32)
            np.testing.assert_allclose(got, expected.ravel(), atol=1e-5)
            assert found["refused"] == 0
            assert found["dispatches"] == 84  # of 101 nodes, some as one dispatch
            done, total = found["last"]
            assert done == total == found["memory"]["weights"]
            memory = found["memory"]
            assert memory["total"] <= 1.05 * (memory["weights"] + memory["arenas"])


def carve_little(path: Path) -> None:
    weights = np.random.default_rng(5).standard_normal((16, 16), np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["first"], axis=-1),
        helper.make_node("MatMul", ["first", "weights"], ["again"]),
        helper.make_node("Softmax", ["again"], ["probabilities"], axis=-1),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [6, 16]) for name in ("x", "probabilities"))
    graph = helper.make_graph(nodes, "little", [x], [y], [numpy_helper.from_array(weights, "weights")])
    model = path.with_suffix(".onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    ran = tapml("carve", model, "--random-inputs", "-o", path)
    assert ran.code == 0, ran.err


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite of a matrix product and a softmax, twice."""
    return made_once(tmp_path_factory, "little.suite", carve_little)


@pytest.fixture
def little_site(little: Path, tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "site"
    folder.mkdir()
    ran = tapml("build", little, "-o", folder / "little.tapml")
    assert ran.code == 0, ran.err
    (folder / "index.html").write_text(PAGE)
    (folder / "page.js").write_text(LITTLE_SCRIPT)
    (folder / "worker.js").write_text(WORKER_SCRIPT)
    broken = folder / "broken.tapml"
    shutil.copytree(folder / "little.tapml", broken)
    text = (broken / "model.json").read_text()
    # Also where it is a part of a dispatch, and has the names and the memory of one.
    wrong = re.sub(r" / (\w*T_softmax_expsum_shared(?:\[\w+\])?\[0i\])\)", r" / (1.001f * \1))", text)
    assert wrong != text
    (broken / "model.json").write_text(wrong)
    with served(folder) as server:
        yield server


@pytest.mark.parametrize("browser", ["chromium", pytest.param("firefox", marks=pytest.mark.slow)])
def test_a_broken_kernel_of_a_deployed_model_is_captured_and_accused(
    browser: str, little: Path, little_site: Site, opened: Opened, tmp_path: Path
) -> None:
    suite = copied(little, tmp_path / "little.suite")
    found = {}
    with opened(browser) as page:
        page.goto(address(little_site))
        wait_until(page, "globalThis.ready")
        for name, options in (("little", {}), ("broken", {"nodes": ["softmax", "n000"]})):
            got = page.evaluate("([name, options]) => captured(`${name}.tapml/`, options)", [name, options])
            assert got["refused"] == 0
            (tmp_path / f"{name}.capture").write_bytes(bytes(got["bytes"]))
            found[name] = [operator["node"] for operator in got["operators"]]
        got = page.evaluate("embeddedByAWorker('little.tapml/')")
        assert got == pytest.approx(page.evaluate("embedded('little.tapml/')"), abs=0)
    assert found == {"little": ["n000", "n001", "n002", "n003"], "broken": ["n000", "n001", "n003"]}
    ran = tapml("import", tmp_path / "little.capture", "--into", suite)
    assert (ran.code, ran.out.count("✓ pass")) == (0, 4), ran.err
    ran = tapml("import", tmp_path / "broken.capture", "--into", suite)
    assert (ran.code, ran.out.count("✓ pass"), ran.out.count("✗ fail")) == (1, 1, 2), ran.err
    assert f"softmax is wrong on {browser.title()}" in ran.out


@pytest.mark.parametrize("during", ["load", "call", "capture"])
def test_a_page_that_closes_leaves_the_next_one_whole(
    during: str, little: Path, little_site: Site, people: People
) -> None:
    site = address(little_site)
    with people.context("chromium") as context:

        def page() -> Any:
            found = context.new_page()
            found.goto(site)
            wait_until(found, "globalThis.ready")
            return found

        first = page()
        if during == "load":
            little_site.open.clear()
        first.evaluate("what => begun(what, 'little.tapml/')", during)
        if during == "load":
            assert little_site.waiting.wait(60)
        else:
            wait_until(first, "globalThis.underWay")
        first.close()
        little_site.open.set()
        second = page()
        got = second.evaluate("embedded('little.tapml/')")
        assert sum(got) == pytest.approx(6, abs=1e-4), "six rows of a softmax"
        asked = len(little_site.asked)
        assert second.evaluate("embedded('little.tapml/')") == got
        second.close()
        assert page().evaluate("embedded('little.tapml/')") == got
        assert len(little_site.asked) == asked, "weights come from the cache"


@pytest.mark.parametrize("browser", ["chromium", pytest.param("firefox", marks=pytest.mark.slow)])
def test_a_page_times_variants_that_no_table_tells_apart_and_remembers_the_fastest(
    browser: str, little_site: Site, tmp_path: Path, opened: Opened
) -> None:
    kernel = slowed(tmp_path / "site" / "little.tapml" / "model.json")
    with opened(browser) as page:
        page.goto(address(little_site))
        wait_until(page, "globalThis.ready")
        for said in ("fast", "slow", "rubbish", "fast"):
            # What was remembered last, whether or not it is right, is what the next load goes by, where it can be read.
            if said == "slow":
                page.evaluate("remembered", page.evaluate("remembered()").replace("fast", "slow"))
            elif said == "rubbish":
                page.evaluate("remembered", "rubbish")
            found = page.evaluate("chosen('little.tapml/')")
            assert found["variants"][kernel] == ("fast" if said == "rubbish" else said)
            assert found["sum"] == pytest.approx(6, abs=1e-4), "six rows of a softmax"
            wait_until(page, f"remembered().then((text) => text?.includes('{said if said == 'slow' else 'fast'}'))")


def slowed(path: Path) -> str:
    """Gives a kernel that is dispatched a second variant, which a table of other devices wrongly takes for the faster
    one; its name."""
    document = json.loads(path.read_text())
    (first, *_) = (one for one in document["functions"]["main"]["code"] if one["op"] == "dispatch")
    kernel = document["kernels"][first["kernel"]]
    (fast,) = kernel["variants"]
    (entry,) = fast["entry_points"]
    text = document["wgsl"][entry["wgsl"]]
    written = re.search(r"var<storage, read_write> (\w+) : array<f32>;", text)
    assert written is not None
    head, mark, body = text.partition(f"fn {entry['name']}(")
    signature, brace, rest = body.partition("{")
    assert brace
    loop = "var t = 0.5f; for (var k = 0; k < 20000; k++) { t = fract(t * 1.7f + 0.3f); }"
    document["wgsl"].append(f"{head}{mark}{signature}{{ {loop} if (t > 9.0f) {{ {written[1]}[0] = t; }} {rest}")
    slow = {**entry, "file": "slow.wgsl", "wgsl": len(document["wgsl"]) - 1}
    kernel["variants"] = [
        {**fast, "name": "slow", "entry_points": [slow], "expected": {"gpu": 1.0, "software": 1.0}},
        {**fast, "name": "fast", "expected": {"gpu": 2.0, "software": 2.0}},
    ]
    path.write_text(json.dumps(document))
    return str(kernel["kernel"])
