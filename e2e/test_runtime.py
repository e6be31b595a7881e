"""A web page that runs a compiled MiniLM with @tapml/runtime, under a content security policy without exceptions."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapml as package
from conftest import read_json
from pages import BROWSERS, Opened
from preloaded import tapml
from workers import made_once

RUNTIME = Path(package.__file__).parent / "server/static/runtime/tapml-runtime.js"

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
POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self'"


class _Handler(http.server.SimpleHTTPRequestHandler):
    """The folder, with the policy."""

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


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
    (folder / "tapml-runtime.js").write_bytes(RUNTIME.read_bytes())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow  # a software GPU takes seconds for a call
@pytest.mark.parametrize("browser", BROWSERS)
def test_a_page_embeds_a_sentence(browser: str, site: str, carved: Path, opened: Opened) -> None:
    (expected,) = (tensor(carved, ref) for ref in first_step(carved)["outputs"])
    with opened(browser) as page:
        page.goto(site)
        page.wait_for_function("globalThis.ready")
        for name in ("minilm.tapml/", "minilm.single"):
            found = page.evaluate("name => once(name)", name)
            got = np.array(found["values"], np.float32)
            np.testing.assert_allclose(got, expected.ravel(), atol=1e-5)
            assert found["refused"] == 0
            assert found["dispatches"] == 101
            done, total = found["last"]
            assert done == total == found["memory"]["weights"]
            memory = found["memory"]
            assert memory["total"] <= 1.05 * (memory["weights"] + memory["arenas"])
