"""Rows a second that a task keeps on the device: one by one, and collected before they are written together.

`python -m benchmarks.storage [BROWSER ...]`: a task in its VM adds rows of 200 bytes to a table, and the page waits
until they are in SQLite's file. The whole way is measured: Python, page, storage worker, disk.
"""

from __future__ import annotations

import argparse
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import Playwright, sync_playwright

from benchmarks.web_runtimes.server import SiteServer
from tapml.browsers.find import find
from tapml.server.pages import STATIC

ROWS = {1: 300, 100: 20_000, 1000: 20_000}
"""How many rows are added, by the rows that the buffer holds."""

LAUNCH: dict[str, dict[str, Any]] = {"chromium": {"args": ["--no-sandbox"]}, "firefox": {"channel": "moz-firefox"}}

_PUBLISHED = Path(__file__).with_name("published.mjs")
_MAIN = """
import tapml

async def run(event):
    rows = tapml.table("rows")
    for n in range(event["rows"]):
        rows.add(n=n, score=n / 7, text="x" * 180)
    return await tapml.flush()
"""
_SCRIPT = """
async ({ helper, main, counts }) => {
  const { createAgent } = await import("/agent/tapml-agent.js");
  const { published, SERVICE } = await import(`data:text/javascript,${encodeURIComponent(helper)}`);
  const tables = { rows: { n: "integer", score: "real", text: "text" } };
  const task = (buffer) => {
    const keeps = { tables, buffer, bytes: 100_000_000 };
    return { "main.py": main, "task.json": { format: "tapml.task-configuration/1", needs: { seconds: 600 }, keeps } };
  };
  const tasks = Object.fromEntries(counts.map(([buffer]) => [`bench/b${buffer}`, task(buffer)]));
  const given = await published(tasks);
  const agent = await createAgent({ service: SERVICE, app: "1", ...given });
  const failed = [];
  agent.on("failed", ({ message }) => failed.push(message));
  await agent.pull();
  const measured = [];
  for (const [buffer, rows] of counts) {
    const one = agent.tasks.get(`bench/b${buffer}`);
    await one.start({ rows: 1 });
    const began = performance.now();
    const { result } = await one.start({ rows });
    const seconds = (performance.now() - began) / 1000;
    const [[count]] = (await agent.sql(`bench/b${buffer}`, "SELECT count(*) FROM rows")).rows;
    if (count !== rows + 1) failed.push(`${count} of ${rows + 1} rows are there`);
    measured.push({ buffer, rows, place: result, rate: rows / seconds });
  }
  if (failed.length) throw new Error(failed.join("; "));
  return measured;
}
"""


def measure(playwright: Playwright, name: str) -> None:
    server = SiteServer(STATIC, lambda name, document: None)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        browser = getattr(playwright, name).launch(executable_path=find(name).program, **LAUNCH[name])
        page = browser.new_page()
        page.goto(f"{server.url}/agent/package.json")
        given = {"helper": _PUBLISHED.read_text(), "main": _MAIN, "counts": list(ROWS.items())}
        found = page.evaluate(_SCRIPT, given)
        print(f"{name} {browser.version}:")
        for one in found:
            what = "one by one" if one["buffer"] == 1 else f"{one['buffer']} collected"
            ratio = one["rate"] / found[0]["rate"]
            rate = f"{one['rate']:>9,.0f} rows a second, {ratio:.1f} x"
            print(f"  {what:>15}: {rate} ({one['rows']:,} rows, {one['place']})")
        browser.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser(description="rows a second that a task keeps on the device")
    parser.add_argument("browsers", nargs="*", default=["chromium", "firefox"])
    with sync_playwright() as playwright:
        for name in parser.parse_args().browsers:
            measure(playwright, name)


if __name__ == "__main__":
    main()
