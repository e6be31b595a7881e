"""Events of pages that a browser goes through: what starts a task on its first visit, and after a page's end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from field_tasks import TASK, Group
from playwright.sync_api import Page

from pages import PLAIN, Opened, eventually
from tapml.field.releases import Plan
from tapml.field.service.serving import FieldServer
from tapml.field.storage.store import Store

PAGE = """<!doctype html><meta charset="utf-8"><title>Shop</title><link rel="icon" href="data:,">
<script type="module" src="NAME.js"></script><input>
<button data-tapml-id="buy" data-tapml-contents='{"item": 7, "price": 99}'>Buy</button>"""
SCRIPT = """
import { createAgent } from "/static/agent/tapml-agent.js";
import { collect, startByEvents } from "/static/agent/tapml-events.js";
globalThis.said = { emitted: [], failed: [] };
const agent = await createAgent({ service: "/field/", key: "KEY", app: "1.0" });
for (const kind of ["emitted", "failed"]) agent.on(kind, (what) => said[kind].push(what));
const processor = startByEvents(agent);
const allow = (event) => (event.kind === "exposure" ? null : { ...event, contents: { ...event.contents, price: "?" } });
collect(processor, { page: "NAME", storage: sessionStorage, allow });
globalThis.pull = async () => {
  await agent.pull();
  return [...agent.tasks.keys()];
};
globalThis.ready = true;
"""
MAIN = """
import json
import tapml

def run(event):
    told = [one["contents"] for one in event["events"] if one["id"] == "buy"]
    tapml.emit("stay", [event["event"]["page"], *(one["id"] for one in event["events"])])
    tapml.emit("all", [told, json.dumps(event)])
"""


@pytest.mark.parametrize("browser", [PLAIN, "firefox"])
def test_a_stay_starts_its_task_also_on_the_first_visit_and_where_its_page_is_gone(
    browser: str, tmp_path: Path, opened: Opened
) -> None:
    group, site = Group(tmp_path), tmp_path / "site"
    triggers = [["enter", "buy"], ["enter", "**", "exit"]]
    configuration = {"format": "tapml.task-configuration/1", "emits": ["stay", "all"], "triggers": triggers}
    group.add("1.0", {"task.json": json.dumps(configuration).encode(), "main.py": MAIN.encode()})
    plan = {"task": TASK, "version": "1.0", "manifest": group.publish("1.0"), "steps": [{"kind": "full"}]}
    Store(group.path / "field.sqlite3").add(Plan.model_validate(plan), 1)
    site.mkdir()
    for name in ("home", "item"):
        (site / f"{name}.html").write_text(PAGE.replace("NAME", name))
        (site / f"{name}.js").write_text(SCRIPT.replace("KEY", group.key.public).replace("NAME", name))

    def opens(page: Page, name: str) -> None:
        page.goto(f"{field.url}/pages/{name}.html")
        eventually(page, lambda: page.evaluate("globalThis.ready"), "the page does not begin")

    def stay_at_home(page: Page) -> list[str]:
        """What a task is told of on this page, once."""
        told = (
            "said.emitted.filter(({ name }) => name === 'stay').map(({ value }) => value)"
            ".filter(([name]) => name === 'home')"
        )
        eventually(page, lambda: page.evaluate(f"{told}.length > 0"), "no task ran")
        (stay,) = page.evaluate(told)
        return [str(one) for one in stay]

    with FieldServer(group.path, group.path / "field.sqlite3", pages=site) as field, opened(browser) as page:
        opens(page, "home")
        page.get_by_role("textbox").press_sequentially("my secret")
        page.get_by_role("button").click()
        # Its first visit: what happened until now was before the task was there.
        assert page.evaluate("pull()") == [TASK]
        assert stay_at_home(page) == ["home", "enter", "buy"]
        # What the page allows, and nothing that a user types.
        told, all_of_it = page.evaluate("said.emitted.find(({ name }) => name === 'all').value")
        assert told == [{"item": 7, "price": "?"}]
        assert "secret" not in all_of_it

        # The page ends with its exit, and with it the run that this starts.
        opens(page, "item")
        stay = stay_at_home(page)
        assert (stay[:2], stay[-1]) == (["home", "enter"], "exit")
        assert page.evaluate("said.failed") == []
