"""A fleet on this machine, and what breaks under it (`make bench-fleet`).

Agents of @tapml/agent in node pull a task, run it in Python VMs and send what it emits; simulated devices, each with a
connection of the tunnel, send features of 30 kB. Meanwhile connections are cut, the service is killed and started
again, and its database crashes and comes back. Then every record is compared with what its device sent.

All of it is on 127.0.0.1, of a number and a time that are given, and ends by itself. Prints a table, and with --json
the same as a document; exit code 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sql
from rich.console import Console
from rich.table import Table
from tests.field.field_tasks import Group
from tests.postgres_cluster import Postgres

from benchmarks.fleet.devices import TASK, VERSION, Device, Fleet
from benchmarks.fleet.services import FILES, Service
from tapml.field.releases import Plan
from tapml.field.storage.store import Store

AGENT = Path(__file__).parents[2] / "backend/tapml/server/static/agent"
_SETTLE_SECONDS = 180


class Bench:
    """`ended` is given what has to be stopped, whatever happens."""

    def __init__(self, options: argparse.Namespace, folder: Path, ended: contextlib.ExitStack) -> None:
        self.options = options
        self.rows: list[tuple[str, str, str, bool | None]] = []
        self.found: dict[str, Any] = {}
        self.postgres = Postgres(folder, durable=True)
        ended.callback(self.postgres.stop)
        self.database = self.postgres.database()
        group = Group(folder)
        group.add(VERSION, FILES)
        plan = {"task": TASK, "version": VERSION, "manifest": group.publish(VERSION), "steps": [{"kind": "full"}]}
        Store(self.database).add(Plan.model_validate(plan), 1)
        self.key = group.key.public
        self.service = Service(group.path, self.database)
        ended.callback(self.service.kill)
        self.fleet = Fleet(self.service.tunnel_port, options.bytes, options.every)
        self.devices = [Device(self.fleet, number) for number in range(options.connections)]
        self.agents_found: list[dict[str, Any]] = []

    def tell(self, what: str, value: str, goal: str = "", good: bool | None = None, **raw: Any) -> None:
        self.rows.append((what, value, goal, good))
        self.found[what] = {"value": value, "goal": goal, "ok": good, **raw}
        mark = "" if good is None else " (ok)" if good else " (MISSED)"
        print(f"  {what}: {value}{f', goal {goal}' if goal else ''}{mark}", flush=True)

    async def phase(self, name: str, seconds: float) -> None:
        self.fleet.phase = name
        print(f"{name}: {self.fleet.connections} connected", flush=True)
        await asyncio.sleep(seconds)

    async def until_connected(self, seconds: float) -> float:
        began = time.monotonic()
        while self.fleet.connections < len(self.devices) and time.monotonic() < began + seconds:
            await asyncio.sleep(0.1)
        return time.monotonic() - began

    async def run(self) -> None:
        before = self.service.memory
        running = []
        began = time.monotonic()
        for device in self.devices:  # not faster than the machine takes them
            running.append(asyncio.create_task(device.run()))
            if len(running) % 50 == 0:
                await asyncio.sleep(0.05)
        await self.until_connected(120)
        took = time.monotonic() - began
        count = self.fleet.connections
        self.tell("connections", f"{count:,} in {took:.1f} s", f"{len(self.devices):,}", count == len(self.devices))
        each = (self.service.memory - before) / max(count, 1)
        self.tell("memory of the service a connection", f"{each / 1024:.1f} kB", bytes=each)
        await self.calm()
        agents = asyncio.create_task(self.agents())
        await self.broken()
        self.fleet.ending = True
        self.fleet.sending = False
        done, left = await asyncio.wait(running, timeout=_SETTLE_SECONDS)
        for task in done:
            task.result()
        for task in left:
            task.cancel()
        await agents
        self.compare()

    async def calm(self) -> None:
        """What a feature takes where nothing breaks."""
        self.fleet.sending = True
        await self.phase("warm", 5)
        cpu, began = self.service.cpu_seconds, time.monotonic()
        await self.phase("calm", self.options.seconds)
        spent, wall = self.service.cpu_seconds - cpu, time.monotonic() - began
        await self.phase("after calm", 5)
        took = sorted(self.fleet.took.get("calm", []))
        marks = {name: took[min(int(len(took) * at), len(took) - 1)] for name, at in _MARKS.items()}
        spread = ", ".join(f"{name} {1000 * value:.0f}" for name, value in marks.items())
        size = f"{self.options.bytes / 1000:.0f} kB"
        self.tell(f"ms until a feature of {size} is committed and acknowledged", spread, **marks)
        within = sum(one <= 0.5 for one in took) / len(took)
        self.tell("of these within 500 ms", f"{100 * within:.2f}%", "99%", within >= 0.99)
        rate = len(took) / wall
        self.tell("features a second meanwhile", f"{rate:.0f} ({rate * self.options.bytes / 1e6:.1f} MB/s)")
        self.tell(
            "processor of the service", f"{100 * spent / wall:.0f}% of one, {1000 * spent / len(took):.1f} ms each"
        )

    async def broken(self) -> None:
        cut = self.fleet.luck.sample(self.devices, len(self.devices) // 5)
        for device in cut:
            device.cut()
        await self.phase("connections cut", 5)
        self.service.kill()
        await self.phase("service killed", 2)
        await asyncio.to_thread(self.service.start)
        took = await self.until_connected(120)
        self.tell("all connected again after the service was killed", f"{took:.1f} s")
        await self.phase("service back", 5)
        self.postgres.stop()
        await self.phase("database crashed", 3)
        await asyncio.to_thread(self.postgres.start)
        took = await self.until_connected(120)
        self.tell("all connected again after the database crashed", f"{took:.1f} s")
        await self.phase("database back", 10)
        self.tell("connections that were made again", f"{self.fleet.reconnected:,}")

    async def agents(self) -> None:
        options = self.options
        line = [
            "node", "--experimental-websocket", "--no-warnings", str(Path(__file__).with_name("agents.mjs")),
            f"{AGENT.as_uri()}/", f"{self.service.url}/field/", f"ws://127.0.0.1:{self.service.tunnel_port}/field/tunnel",
            self.key, str(options.agents), str(options.runs), str(options.vms),
        ]  # fmt: skip
        process = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        try:
            told = [json.loads(text) async for text in process.stdout]
        finally:
            if process.returncode is None:
                process.kill()
        self.agents_found, unexpected = told[:-1], told[-1]["unexpected"]
        ran = sum(len(one["done"]) for one in self.agents_found)
        wanted = options.agents * options.runs
        self.tell(
            "runs of the task by agents", f"{ran:,} of {len(self.agents_found)} agents", f"{wanted:,}", ran == wanted
        )
        self.tell("failures of tasks", f"{len(unexpected)}", "0", not unexpected)
        pulls = sum(one["pulls"] for one in self.agents_found)
        self.tell("pulls that were tried again", f"{pulls - len(self.agents_found)}")

    def compare(self) -> None:
        """What is in the database with what devices know."""
        engine = sql.create_engine(self.database.replace("postgresql:", "postgresql+psycopg:", 1))
        with engine.connect() as connection:
            rows = connection.execute(
                sql.text("select device, number, md5(value) as hash, value from tapml_field_records"
                         " where device like 'simulated-%' or length(value) < 5000")
            ).all()  # fmt: skip
        engine.dispose()
        kept: dict[str, list[tuple[int, str]]] = {}
        values: dict[str, list[Any]] = {}
        for row in rows:
            kept.setdefault(row.device, []).append((row.number, row.hash))
            if not row.device.startswith("simulated-"):
                values.setdefault(row.device, []).append(json.loads(row.value))
        lost = changed = twice = sent = acknowledged = 0
        for device in self.devices:
            mine = dict(kept.get(device.device, []))
            twice += len(kept.get(device.device, [])) - len(mine)
            sent, acknowledged = sent + device.emitted, acknowledged + device.acknowledged
            lost += sum(number not in mine for number in range(1, device.acknowledged + 1))
            changed += sum(device.hashes[number] != mine[number] for number in mine)
        self.tell("records acknowledged", f"{acknowledged:,} of {sent:,}", "all", acknowledged == sent)
        self.tell("acknowledged and lost", f"{lost}", "0", lost == 0)
        self.tell("kept twice", f"{twice}", "0", twice == 0)
        self.tell("kept otherwise than sent", f"{changed}", "0", changed == 0)
        runs = list(range(self.options.runs))
        wrong = sum(
            sorted(one["run"] for one in values.get(found["device"], [])) != runs for found in self.agents_found
        )
        self.tell("agents of which a run is missing or there twice", f"{wrong}", "0", wrong == 0)


_MARKS = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=200, help="at most 500")
    parser.add_argument("--runs", type=int, default=3, help="of the task by each agent")
    parser.add_argument("--vms", type=int, default=2, help="at the same time")
    parser.add_argument("--connections", type=int, default=5000, help="at most 8000")
    parser.add_argument("--bytes", type=int, default=30_000, help="of a feature")
    parser.add_argument("--every", type=float, default=120, help="seconds between two features of a device")
    parser.add_argument("--seconds", type=float, default=30, help="of the calm phase, at most 120")
    parser.add_argument("--minutes", type=float, default=20, help="until it is given up")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.agents > 500 or options.connections > 8000 or options.seconds > 120 or options.minutes > 60:
        parser.error("that is more than this benchmark is for")
    folder = Path(tempfile.mkdtemp(prefix="tapml-fleet-"))
    with contextlib.ExitStack() as ended:
        ended.callback(shutil.rmtree, folder, ignore_errors=True)
        bench = Bench(options, folder, ended)
        asyncio.run(asyncio.wait_for(bench.run(), 60 * options.minutes))
    table = Table("what", "measured", "goal", "", title=f"{options.connections:,} connections, {options.agents} agents")
    for what, value, goal, good in bench.rows:
        table.add_row(what, value, goal, "" if good is None else "ok" if good else "MISSED")
    Console(width=120).print(table)
    load = ", ".join(f"{one:.1f}" for one in psutil.getloadavg())
    print(f"{psutil.cpu_count()} processors, load {load} at the end, the fleet's own work on the same processors")
    if options.json:
        options.json.write_text(json.dumps(bench.found, indent=1))
    return 0 if all(good is not False for *_, good in bench.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
