"""What tasks keep on the device, in a real browser: files that outlive pages, workers that are ended in the middle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from field_tasks import TASK, Group
from playwright.sync_api import Page

from pages import PATIENCE, PLAIN, Opened
from tapml.field.releases import Plan
from tapml.field.service.serving import FieldServer
from tapml.field.storage.store import Store
from test_agent import AGENT, watched

PAGE = """<!doctype html><meta charset="utf-8"><title>Shop</title><link rel="icon" href="data:,"><script type="module">
import { createAgent } from "./agent/tapml-agent.js";
globalThis.said = { failed: [], storage: [] };
globalThis.begin = async (service, key) => {
  globalThis.agent = await createAgent({ service, key, app: "1.0" });
  for (const kind of ["failed", "storage"]) agent.on(kind, (what) => said[kind].push(what));
  await agent.pull();
};
globalThis.run = (event) => agent.tasks.get("shop/highlight").start(event);

const tables = { rows: { n: "integer", text: "text" } };
let asked = 0;
let waiting = new Map();
/** The storage worker itself, as the agent drives it. */
globalThis.openStorage = async (bytes = 50_000_000) => {
  globalThis.worker = new Worker("./agent/tapml-storage.js", { type: "module" });
  waiting = new Map();
  worker.onmessage = ({ data: { id, value, error } }) => waiting.get(id)(error ?? value);
  globalThis.ask = (ask) => new Promise((resolve) => {
    waiting.set(++asked, resolve);
    worker.postMessage({ id: asked, ask });
  });
  const place = await ask({ kind: "start" });
  return [place, await ask({ kind: "open", task: "test/rows", tables, bytes })];
};
globalThis.found = (text) => ask({ kind: "sql", task: "test/rows", text, values: [] }).then(({ rows }) => rows);
globalThis.closeStorage = () => ask({ kind: "close" }).then(() => worker.terminate());
/** Writes batches of `size` from row `first` on, and ends the worker while some of them are on their way. */
globalThis.crash = async (first, size, batches) => {
  let acknowledged = first;
  let ended;
  const done = new Promise((resolve) => { ended = resolve; });
  for (let batch = 0; batch < 40; batch++) {
    const rows = Array.from({ length: size }, (_, i) => [first + batch * size + i, "x".repeat(200)]);
    void ask({ kind: "write", task: "test/rows", rows: new Map([["rows", rows]]) }).then((error) => {
      if (error !== null) ended(error);
      acknowledged = first + (batch + 1) * size;
      if (batch + 1 === batches) { worker.terminate(); ended(acknowledged); }
    });
  }
  return await done;
};
globalThis.ready = true;
</script>"""
MAIN = """
import tapml

async def run(event):
    if "sql" in event:
        return await tapml.sql(event["sql"])
    for n in range(event["from"], event["to"]):
        tapml.table("rows").add(n=n, text="x")
    return await tapml.flush() if event["flush"] else None
"""


def site(folder: Path) -> Path:
    folder.mkdir()
    (folder / "agent").symlink_to(AGENT)
    (folder / "index.html").write_text(PAGE)
    return folder


def visited(page: Page, address: str) -> None:
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.wait_for_function("globalThis.ready")


BROWSERS = pytest.mark.parametrize("browser", [PLAIN, pytest.param("firefox", marks=pytest.mark.slow)])


@BROWSERS
def test_a_worker_that_is_ended_in_the_middle_loses_at_most_what_was_not_acknowledged(
    browser: str, tmp_path: Path, opened: Opened
) -> None:
    # Not cross-origin isolated: sync access handles need no such page.
    with watched(site(tmp_path / "site"), isolated=False) as own, opened(browser) as page:
        visited(page, own.address)
        assert not page.evaluate("crossOriginIsolated")
        kept = 0
        for batches, size in [(1, 100), (7, 250), (3, 1)]:
            place, anew = page.evaluate("openStorage()")
            assert (place, anew) == ({"place": "disk", "reason": None}, {"lost": None})
            acknowledged = page.evaluate("given => crash(...given)", [kept, size, batches])
            assert isinstance(acknowledged, int), acknowledged
            # Opening looks at the whole file: PRAGMA integrity_check.
            assert page.evaluate("openStorage()")[1] == {"lost": None}
            ((count, least, most),) = page.evaluate("found('SELECT count(*), min(n), max(n) FROM rows')")
            assert (least, most) == (0, count - 1), "rows are a prefix of what was written"
            assert (count - kept) % size == 0, "a batch is there whole or not at all"
            assert count >= acknowledged, "what was acknowledged is there"
            kept = count
            page.evaluate("closeStorage()")
        # So is a page that is reloaded in the middle.
        page.evaluate("openStorage()")
        page.evaluate("kept => void crash(kept, 100, 41)", kept)
        page.reload()
        page.wait_for_function("globalThis.ready")
        assert page.evaluate("openStorage()") == [{"place": "disk", "reason": None}, {"lost": None}]
        ((count, most),) = page.evaluate("found('SELECT count(*), max(n) FROM rows')")
        assert most == count - 1
        assert (count - kept) % 100 == 0

        # A second page of the origin has what it keeps in memory, and is told. No popup: whoever asks one of Firefox
        # before its document has come waits for an answer of the empty document, which is gone.
        other = page.context.new_page()
        visited(other, own.address)
        (place, _) = other.evaluate("openStorage()")
        assert place == {"place": "memory", "reason": "another page of this origin has the files"}
        other.close()

        # A damaged file is begun anew, and that is told.
        page.evaluate("closeStorage()")
        damage(page)
        place, anew = page.evaluate("openStorage()")
        assert place["place"] == "disk"
        assert "cannot be read" in anew["lost"]
        assert page.evaluate("found('SELECT count(*) FROM rows')") == [[0]]
        page.evaluate("closeStorage()")


def damage(page: Page) -> None:
    """Everything behind the headers of the pool's files."""
    page.evaluate(
        """async () => {
          const root = await navigator.storage.getDirectory();
          const folder = await (await root.getDirectoryHandle(".tapml-storage")).getDirectoryHandle(".opaque");
          for await (const handle of folder.values()) {
            const { size } = await handle.getFile();
            if (size <= 8192) continue;
            const file = await handle.createWritable({ keepExistingData: true });
            await file.write({ type: "write", position: 4096 + 10, data: new Uint8Array(size - 4106).fill(7) });
            await file.close();
          }
        }"""
    )


@pytest.fixture
def group(tmp_path: Path) -> Group:
    """With a version that is published, and released to every device."""
    group = Group(tmp_path)
    tables = {"rows": {"n": "integer", "text": "text"}}
    configuration = {"format": "tapml.task-configuration/1", "keeps": {"tables": tables, "buffer": 10}}
    files = {"task.json": json.dumps(configuration), "main.py": MAIN}
    group.add("1.0", {name: text.encode() for name, text in files.items()})
    plan = {"task": TASK, "version": "1.0", "manifest": group.publish("1.0"), "steps": [{"kind": "full"}]}
    Store(group.path / "field.sqlite3").add(Plan.model_validate(plan), 1)
    return group


@BROWSERS
def test_what_a_task_keeps_is_there_at_the_next_visit(
    browser: str, group: Group, tmp_path: Path, opened: Opened
) -> None:
    with (
        watched(site(tmp_path / "site"), isolated=False) as own,
        FieldServer(group.path, group.path / "field.sqlite3", origins=[own.address]) as field,
        opened(browser) as page,
    ):

        def began() -> None:
            visited(page, own.address)
            page.evaluate("given => begin(...given)", [f"{field.url}/field/", group.key.public])

        def run(event: dict[str, Any]) -> Any:
            found = page.evaluate("event => run(event)", event)
            assert found["failure"] is None
            return found["result"]

        began()
        assert run({"from": 0, "to": 25, "flush": True}) == "disk"
        assert run({"from": 25, "to": 28, "flush": False}) is None  # in the buffer: a reload loses them at most
        began()
        ((row),) = run({"sql": "SELECT count(*) AS n, max(n) AS most FROM rows"})
        assert row["n"] == row["most"] + 1
        assert 25 <= row["n"] <= 28
        assert page.evaluate("agent.sql('shop/highlight', 'SELECT count(*) FROM rows').then(({ rows }) => rows)") == [
            [row["n"]]
        ]
        assert page.evaluate("said") == {"failed": [], "storage": [{"place": "disk", "reason": None}]}
        page.evaluate("agent.close()")
