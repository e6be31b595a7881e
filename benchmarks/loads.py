"""What a page keeps that loads a compiled model, calls it and disposes of it, again and again.

`python -m benchmarks.loads [--docs FILE] [BROWSER ...]`: a small model (two kernels, four dispatches) on one page of
each browser, in blocks of loads. After each block garbage is collected (of Firefox all that about:memory's button gives
back), and what the browser's processes wrote and no other process shares is taken: of those that
run pages, of the one that talks to the GPU, and of the rest (in Firefox that is the one that talks to the GPU). The
first block makes what is made once; what a load keeps is the median slope over those after it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import queue
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
from onnx import TensorProto, helper, numpy_helper

from benchmarks.marionette import firefox
from benchmarks.measured import exit_code, report
from benchmarks.pages import between, check_docs
from benchmarks.web_runtimes.server import SiteServer
from tapml.browsers import options
from tapml.building.build import build
from tapml.carving.carve import carve
from tapml.importing import import_model
from tapml.server.pages import STATIC

BLOCKS, LOADS = 6, 200
KINDS = ("pages", "GPU", "others")
MOST_A_LOAD = 20_000
"""Bytes of all processes. A document and the buffers that a load left for good would be some 40 kB."""

_SECONDS = 1200
_MARK = "made by make bench-loads"
_PRIVATE = re.compile(r"^(?:Private_Dirty|SwapPss):\s+(\d+) kB$", re.MULTILINE)
_SCRIPT = """\
import { load } from "./tapml-runtime.js";
const told = async (what, document) => (await fetch(what, { method: "POST", body: JSON.stringify(document) })).json();
const x = Float32Array.from({ length: 96 }, (_, i) => Math.sin(i));
const block = async (count) => {
  for (let i = 0; i < count; i++) {
    const model = await load("./little.tapml/", { unvalidated: "ignore" });
    await model.run({ x });
    model.dispose();
  }
};
try {
  for (let more = true; more; ) {
    await block(LOADS);
    for (let collected = 0; collected < 4; collected++) {
      globalThis.gc?.();
      ({ more } = await told("memory", {}));
    }
    await told("block", {});
  }
} catch (cause) {
  await told("failed", String(cause));
}
"""
_PAGE = '<!doctype html><meta charset="utf-8"><title>loads</title><script type="module" src="page.js"></script>'


def little_model(folder: Path) -> Path:
    """A product and a softmax, twice; built."""
    weights = np.random.default_rng(5).standard_normal((16, 16)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["first"], axis=-1),
        helper.make_node("MatMul", ["first", "weights"], ["again"]),
        helper.make_node("Softmax", ["again"], ["y"], axis=-1),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [6, 16]) for name in ("x", "y"))
    graph = helper.make_graph(nodes, "little", [x], [y], [numpy_helper.from_array(weights, "weights")])
    model = folder / "little.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    suite = carve(import_model(str(model), random_inputs=True), folder / "little.suite", name="little")
    (folder / "models").mkdir()
    return build(suite, folder / "models" / "little.tapml").path


@contextlib.contextmanager
def chromium(url: str) -> Iterator[Callable[[], object]]:
    """Without anybody who watches it: what inspects a page keeps what it fetches. The page collects garbage itself."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        switches = ["--headless=new", "--no-sandbox", "--no-first-run", "--js-flags=--expose-gc"]
        command = ["/usr/bin/chromium", *switches, *options.chromium_arguments(), f"--user-data-dir={profile}", url]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield lambda: None
        finally:
            process.terminate()
            process.wait(30)


OPEN = {"chromium": chromium, "firefox": firefox}


def kind_of(command: list[str]) -> str | None:
    """Which of KINDS a process of a browser is; None for what is none."""
    if not command or not any(word in command[0] for word in ("firefox", "chrom")):
        return None
    if "--type=renderer" in command or command[-1] == "tab":
        return "pages"
    return "GPU" if "--type=gpu-process" in command or command[-1] == "gpu" else "others"


def memory() -> dict[str, int]:
    """Bytes that the browser's processes wrote and no other process has, by kind."""
    found = dict.fromkeys(KINDS, 0)
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            if (kind := kind_of(process.cmdline())) is not None:
                facts = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
                found[kind] += sum(1024 * int(count) for count in _PRIVATE.findall(facts))
    return found


def measured(name: str, site: Path) -> list[dict[str, int]]:
    """Memory after each block: the least that is seen while garbage is collected again and again."""
    rows: list[dict[str, int]] = []
    seen: list[dict[str, int]] = []
    ended: queue.Queue[str] = queue.Queue()

    def answer(what: str, document: Any) -> Any:
        if what == "memory":
            collect()
            time.sleep(3)
            seen.append(memory())
        elif what == "block":
            rows.append(min(seen, key=lambda found: sum(found.values())))
            print(name, len(rows) * LOADS, rows[-1], flush=True)
            seen.clear()
            if len(rows) == BLOCKS:
                ended.put("")
        else:
            ended.put(str(document))
        return {"more": len(rows) + 1 < BLOCKS}

    server = SiteServer(site, answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with OPEN[name](f"{server.url}/index.html") as collect:
        if said := ended.get(timeout=_SECONDS):
            raise RuntimeError(f"the page in {name}: {said}")
    server.shutdown()
    return rows


def slope(values: list[int]) -> float:
    """Bytes a load: the median of those of all pairs of blocks (Theil and Sen's)."""
    pairs = itertools.combinations(enumerate(values), 2)
    return statistics.median((b - a) / (LOADS * (j - i)) for (i, a), (j, b) in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loads", description=__doc__)
    parser.add_argument("browsers", nargs="*", metavar="BROWSER", help=f"of {', '.join(OPEN)}; all if none is given")
    parser.add_argument("--docs", type=Path, help="the file whose table is written")
    asked = parser.parse_args()
    check_docs(parser, asked.docs, _MARK)
    lines = [
        f"| after {2 * LOADS} and after {BLOCKS * LOADS:,} loads | processes of pages | of the GPU | others | all |",
        "| --- | --- | --- | --- | --- |",
    ]
    with tempfile.TemporaryDirectory() as folder:
        site = little_model(Path(folder)).parent
        (site / "index.html").write_text(_PAGE)
        (site / "page.js").write_text(_SCRIPT.replace("LOADS", str(LOADS)))
        shutil.copy(STATIC / "runtime" / "tapml-runtime.js", site)
        for name in asked.browsers or OPEN:
            rows = measured(name, site)
            columns = [[row[kind] for row in rows] for kind in KINDS]
            columns.append([sum(row.values()) for row in rows])
            slopes = [slope(column[1:]) for column in columns]
            texts = [
                f"{column[1] / 1e6:.1f} to {column[-1] / 1e6:.1f} MB: {each / 1e3:+.1f} kB a load" if column[-1] else ""
                for column, each in zip(columns, slopes, strict=True)
            ]
            lines.append(f"| {name} | {' | '.join(texts)} |")
            report(f"{name}: kept of a load", slopes[-1], "bytes", MOST_A_LOAD)
    print("\n".join(lines))
    if asked.docs:
        between(asked.docs, _MARK, "\n".join(lines))
    return exit_code()


if __name__ == "__main__":
    raise SystemExit(main())
