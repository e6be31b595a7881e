"""The matrix of ten thousand kernels: until it is there, while it is scrolled, and as its filter is typed."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page

from benchmarks.studio.graph import SIZE, frames_of
from benchmarks.studio.suites import copied
from benchmarks.studio.views import run
from tapml.server import Server

ROWS = 10_000

_WATCH = """
window.shown = null;
new MutationObserver(() => {
  if (window.shown === null && document.querySelector('.matrix .cell .is-pass'))
    requestAnimationFrame(() => setTimeout(() => { window.shown ??= performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""

_MANY = r"""
const copies = (kernels) => {
  const more = Array.from({ length: ROWS - kernels.length }, (_, at) => {
    const of = kernels[at % kernels.length];
    return [`${of}_copy${at}`, of];
  });
  return more;
};
const firsts = (tests) => new Map(tests.toReversed().map((test) => [test.kernel, test]));
const tested = (tests, more) => {
  const first = firsts(tests);
  return more.flatMap(([name, of]) => first.has(of) ? [{ ...first.get(of), id: `${name}.s0`, kernel: name }] : []);
};
const change = {
  suite(suite) {
    const own = new Map(suite.kernels.map((one) => [one.kernel, one]));
    const more = copies(suite.kernels.map(({ kernel }) => kernel));
    suite.tests.push(...tested(suite.tests, more));
    suite.kernels.push(...more.map(([name, of]) => ({ ...own.get(of), kernel: name })));
  },
  results(results) {
    const more = copies(Object.keys(results.kernels));
    for (const document of results.validations) {
      document.tests.push(...tested(document.tests, more));
      for (const [name, of] of more) document.kernel_digests[name] = document.kernel_digests[of];
    }
    for (const [name, of] of more) results.kernels[name] = results.kernels[of];
  },
};
const read = Response.prototype.json;
Response.prototype.json = async function () {
  const found = await read.call(this);
  const kind = /api\/suites\/[^/]+(\/results)?$/.exec(this.url);
  if (kind !== null) {
    change[kind[1] === undefined ? 'suite' : 'results'](found);
    window.data = performance.now();
  }
  return found;
};
"""
"""The suite and its results as the page reads them, each kernel as often as makes ROWS."""

_TYPED = """() => new Promise((done) => {
  const field = document.querySelector('input[type=search]');
  const since = performance.now();
  new MutationObserver((_, watch) => {
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - since)));
  }).observe(document.querySelector('.matrix'), { childList: true, subtree: true, characterData: true });
  field.value += '7';
  field.dispatchEvent(new Event('input', { bubbles: true }));
})"""


@dataclass(frozen=True)
class Scrolled:
    """One fresh page. Milliseconds."""

    drawn: float
    """Since the suite and its results had come."""
    frame_p95: float
    typed: float
    """From a letter in the filter to its rows."""


def look(browser: Browser, suite: Path, rounds: int) -> list[Scrolled]:
    """Of `suite`, validated, with each of its kernels as often as makes `ROWS`."""
    with tempfile.TemporaryDirectory(dir=suite.parent) as folder, Server([copied(suite, Path(folder))]) as server:
        run(server, "validation")
        address = f"{server.url}/suites/{server.suite_ids[0]}"
        return [_looked(browser, address) for _ in range(rounds)]


def _looked(browser: Browser, address: str) -> Scrolled:
    page = browser.new_page(viewport=SIZE, bypass_csp=True)  # type: ignore[arg-type]
    page.add_init_script(_WATCH + f"const ROWS = {ROWS};" + _MANY)
    page.goto(address)
    page.wait_for_function("shown !== null")
    drawn = page.evaluate("shown - data")
    frames = frames_of(page, _scroll)
    page.get_by_label("Operators by device").evaluate("box => { box.scrollTop = 0; }")
    typed = statistics.median(page.evaluate(_TYPED) for _ in range(3))
    page.close()
    return Scrolled(drawn, statistics.quantiles(frames, n=20)[-1], typed)


def _scroll(page: Page) -> None:
    """Down by hand, to the end at once, and back up."""
    box = page.get_by_label("Operators by device")
    box.hover()
    for _ in range(60):
        page.mouse.wheel(0, 240)
    box.evaluate("box => { box.scrollTop = box.scrollHeight; }")
    for _ in range(60):
        page.mouse.wheel(0, -480)
