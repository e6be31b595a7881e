"""TVM's wasm runtime: built from the wheel, cached, and running a model in a real browser."""

from __future__ import annotations

import concurrent.futures
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from playwright.sync_api import Page, Route, sync_playwright
from tvm import relax
from tvm.s_tir import dlight

from tapml.cache import cache_dir
from tapml.compilers.tvm.wasm import emscripten
from tapml.compilers.tvm.wasm.runtime import IMPORTS, link_model, runtime_objects
from tapml.errors import ToolchainError

ROWS, INNER, COLUMNS = 5, 24, 16

# Loads a model linked into wasm, calls it once wrongly and once rightly.
CALL_MODEL = """async ([x, weight, bias, shapes]) => {
  // The first answer of a browser that is still starting its GPU process may be null.
  for (let tries = 0; tries < 50 && !(await navigator.gpu.requestAdapter()); tries++)
    await new Promise(done => setTimeout(done, 200));
  const wasm = await (await fetch('model.wasm')).arrayBuffer();
  const instance = await tvmjs.instantiate(wasm, tvmjs.createPolyfillWASI());
  instance.initWebGPU((await tvmjs.detectGPUDevice()).device);
  const device = instance.webgpu();
  instance.beginScope();
  const machine = instance.createVirtualMachine(device);
  const main = machine.getFunction('main');
  await instance.asyncLoadWebGPUPipelines(machine.getInternalModule());
  const put = (data, shape) => instance.empty(shape, 'float32', device).copyFrom(data);
  const tensors = [put(x, shapes[0]), put(weight, shapes[1]), put(bias, shapes[2])];
  let error = null;
  try { main(tensors[1], tensors[1], tensors[2]); } catch (e) { error = String(e); }
  const result = main(...tensors);
  const host = instance.empty(result.shape, 'float32', instance.cpu()).copyFrom(result);
  await device.sync();
  return {values: [...host.toArray()], shape: result.shape, error};
}"""


def tvmjs() -> Path:
    """TVM's JavaScript half, from npm."""
    root = Path(__file__).parents[2]
    for folder in ("runner_js", "webui", "."):
        script = root / folder / "node_modules" / "@mlc-ai" / "web-runtime" / "lib" / "index.js"
        if script.exists():
            return script
    if chosen := os.environ.get("TAPML_TVMJS"):
        return Path(chosen)
    pytest.fail("tvmjs was not found: run `npm ci` in runner_js, or set TAPML_TVMJS to its lib/index.js")


@pytest.fixture(scope="module")
def browser_page() -> Any:
    """A page on localhost, where WebGPU is allowed, with `tvmjs` loaded."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),  # None: Playwright's own
            args=["--no-sandbox", "--enable-unsafe-webgpu"],
        )
        page = browser.new_page()
        page.route("http://localhost/", lambda route: route.fulfill(content_type="text/html", body="<p>"))
        page.goto("http://localhost/")
        page.add_script_tag(content=tvmjs().read_text())
        yield page
        browser.close()


def serve(page: Page, name: str, file: Path) -> None:
    def fulfill(route: Route) -> None:
        route.fulfill(content_type="application/wasm", body=file.read_bytes())

    page.route(f"http://localhost/{name}", fulfill)


def tiny_model() -> Any:
    """relu(x @ weight + bias) as a VM executable for WebGPU, its tensors given by the caller."""
    builder = relax.BlockBuilder()
    shapes = {"x": (ROWS, INNER), "weight": (INNER, COLUMNS), "bias": (COLUMNS,)}
    arguments = [relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in shapes.items()]
    x, weight, bias = arguments
    with builder.function("main", arguments):
        with builder.dataflow():
            result = builder.emit(relax.op.nn.relu(relax.op.matmul(x, weight) + bias))
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    host = {"kind": "llvm", "mtriple": "wasm32-unknown-unknown-wasm"}
    target = tvm.target.Target("webgpu", host=host)
    gpu = dlight.gpu
    with target:
        module = relax.transform.LegalizeOps()(builder.get())
        module = dlight.ApplyDefaultSchedule(gpu.Matmul(), gpu.GeneralReduction(), gpu.Fallback())(module)
        return relax.build(module, target)


def test_model_runs_in_a_browser_as_in_numpy(tmp_path: Path, browser_page: Page) -> None:
    link_model(tiny_model(), tmp_path / "model.wasm", cache_dir())
    assert [path.name for path in tmp_path.iterdir()] == ["model.wasm"]
    serve(browser_page, "model.wasm", tmp_path / "model.wasm")
    random = np.random.default_rng(1)
    tensors = [
        random.standard_normal(shape).astype("float32") for shape in ((ROWS, INNER), (INNER, COLUMNS), (COLUMNS,))
    ]
    x, weight, bias = tensors

    answer = browser_page.evaluate(CALL_MODEL, [*(t.ravel().tolist() for t in tensors), [t.shape for t in tensors]])

    expected = np.maximum(x @ weight + bias, 0)
    assert (expected > 0).any()
    np.testing.assert_allclose(np.reshape(answer["values"], answer["shape"]), expected, rtol=1e-5, atol=1e-5)
    # An error in the runtime has its text in JavaScript and leaves the instance usable.
    assert "shape" in answer["error"].lower()


def test_second_build_is_taken_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = runtime_objects(cache_dir())
    assert all(path.stat().st_size > 0 for path in objects)

    def compile_unit(*_arguments: Any) -> None:
        pytest.fail("compiled again")

    monkeypatch.setattr(emscripten, "compile_unit", compile_unit)
    said: list[str] = []
    assert runtime_objects(cache_dir(), said.append) == objects
    assert said == []


@pytest.fixture
def fake_emscripten(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Compiles in no time; the list says what was compiled."""
    compiled: list[Path] = []

    def compile_unit(source: Path, target: Path, *_others: Any) -> None:
        compiled.append(source)
        target.write_bytes(b"object")

    monkeypatch.setattr(emscripten, "version", lambda: "emcc 1")
    monkeypatch.setattr(emscripten, "compile_unit", compile_unit)
    return compiled


@pytest.mark.usefixtures("fake_emscripten")
def test_another_compiler_is_another_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = runtime_objects(tmp_path)
    monkeypatch.setattr(emscripten, "version", lambda: "emcc 2")
    second = runtime_objects(tmp_path)
    assert first != second
    assert first[0].exists()


def test_builders_at_once_agree(tmp_path: Path, fake_emscripten: list[Path]) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = {tuple(objects.result()) for objects in [pool.submit(runtime_objects, tmp_path) for _ in range(8)]}
    assert len(found) == 1
    assert [path.read_bytes() for path in found.pop()] == [b"object", b"object"]
    assert len(fake_emscripten) >= 2
    # Nothing half-built is left behind.
    assert len(list((tmp_path / "wasm-runtime").iterdir())) == 1


def test_missing_emcc_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolchainError, match=r"^emcc was not found: install emscripten \(Debian: apt-get"):
        runtime_objects(tmp_path)


def test_failed_compilation_names_the_cause_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emscripten, "COMPILE_FLAGS", ("-std=c++99999",))
    with pytest.raises(ToolchainError, match=r"emcc could not compile vm\.cc: .*c\+\+99999"):
        runtime_objects(tmp_path)
    assert list((tmp_path / "wasm-runtime").iterdir()) == []


@pytest.mark.parametrize(("frozen", "expected"), [("False", "own"), ("True", "theirs")])
def test_closed_emscripten_cache_is_replaced(
    frozen: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = {
        "emcc": 'echo "error: ${EM_CACHE:-theirs}" >&2; exit 1',
        "em-config": f'[ "$1" = CACHE ] && echo /nowhere || echo {frozen}',
    }
    for name, text in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("EM_CACHE", raising=False)
    own = tmp_path / "own"
    with pytest.raises(ToolchainError) as caught:
        emscripten.compile_unit(tmp_path / "a.cc", tmp_path / "a.o", own)
    used = str(caught.value).split("error: ")[1]
    assert used == (str(own / "emscripten") if expected == "own" else "theirs")


def test_undefined_symbol_fails_the_link(tmp_path: Path) -> None:
    source = tmp_path / "unit.cc"
    source.write_text('extern "C" int nowhere(); extern "C" __attribute__((used)) int f() { return nowhere(); }')
    emscripten.compile_unit(source, tmp_path / "unit.o", cache_dir())
    with pytest.raises(ToolchainError, match=r"could not link f\.wasm: .*nowhere"):
        emscripten.link([tmp_path / "unit.o"], tmp_path / "f.wasm", IMPORTS, cache_dir())
