"""What one process, one database and one Redis of the field can do (`make bench-scale`): docs/scaling.md stands on it.

By CPU time of the process that does it, so that what else runs on the machine matters little; what waits for a disk is
by the clock. Prints one JSON line a measurement. Bounded: a minute or two, on 127.0.0.1.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil
from tests.field.field_profiles import profile
from tests.field.field_tasks import TASK, Group
from tests.postgres_cluster import Postgres
from tests.redis_server import RedisServer

from benchmarks.fleet.services import FILES, Service
from benchmarks.measured import report
from tapml.field.profiles import HEADER
from tapml.field.releases import Plan
from tapml.field.service.redis_link import Counted, RedisLink
from tapml.field.service.together import Together
from tapml.field.storage.fleet import FleetStore
from tapml.field.storage.records import Batch, Records, Sent
from tapml.field.storage.store import Reported, Store

REQUESTS = 2000


def header(device: str) -> str:
    return profile(
        device, gpu={"vendor": "intel", "architecture": "gen-12lp"}, speed=310.5,
        attributes={"age": 31, "habit": "night"}, holds={TASK: "1.0"},
    ).model_dump_json(exclude_none=True)  # fmt: skip


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def requests(service: Service, paths: list[tuple[str, dict[str, str]]]) -> tuple[float, float, int]:
    """CPU seconds of the service, seconds by the clock, and bytes that it answered."""

    def ask(one: tuple[str, dict[str, str]]) -> int:
        connection = HTTPConnection("127.0.0.1", service.port, timeout=60)
        connection.request("GET", one[0], headers=one[1])
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        connection.close()
        return len(body) + len(str(answer.headers))

    before, began = service.cpu_seconds, time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        answered = sum(pool.map(ask, paths))
    return service.cpu_seconds - before, time.perf_counter() - began, answered


def http(folder: Path, postgres: Postgres) -> None:
    group, database = Group(folder), postgres.database()
    group.add("1.0", {**FILES, "model/weights.bin": bytes(1_000_000)})
    digest = group.publish("1.0")
    plan = {"task": TASK, "version": "1.0", "manifest": digest, "steps": [{"kind": "full"}]}
    Store(database).add(Plan.model_validate(plan), 1)
    service = Service(group.path, database)
    try:
        asked = [("/field/answer", {HEADER: header(f"device-{at:012d}")}) for at in range(REQUESTS)]
        requests(service, asked[:100])
        cpu, wall, size = requests(service, asked)
        report("answers over HTTP, of one process", REQUESTS / cpu, "per CPU second", clock=REQUESTS / wall)
        report("bytes of an answer, with its head", size / REQUESTS, "bytes")
        report("bytes of a profile", len(asked[0][1][HEADER]), "bytes")
        published = group.path / "published"
        manifest = (published / "manifests" / f"{digest}.json").read_bytes()
        files = json.loads(manifest)["shared"]
        own = sum(file["bytes"] for file in files if not file["path"].startswith("model/"))
        report("bytes of a pull without its models", len(manifest) + 64 + own, "bytes", files=len(files) + 2)
        (large,) = (file["sha256"] for file in files if file["path"].startswith("model/"))
        cpu, wall, size = requests(service, [(f"/field/blobs/{large}", {})] * 300)
        report("files of 1 MB, of one process", size / cpu / 1e6, "MB per CPU second", clock=size / wall / 1e6)
    finally:
        service.kill()


@contextmanager
def sampled(name: str, count: int, find: Callable[[], list[psutil.Process]]) -> Iterator[None]:
    """By the clock, with the database's own CPU time where it has any that can be asked."""

    def spent() -> float:
        found = 0.0
        for process in find():
            try:
                times = process.cpu_times()
                found += times.user + times.system + times.children_user + times.children_system
            except psutil.NoSuchProcess:
                pass  # a connection's, that ended: its parent counts it
        return found

    before, own, began = spent(), time.process_time(), time.perf_counter()
    yield
    took = time.perf_counter() - began
    more: dict[str, Any] = {"own_ms_each": 1000 * (time.process_time() - own) / count}
    if find():
        more["database_ms_each"] = 1000 * (spent() - before) / count
    report(name, count / took, "a second by the clock", None, **more)


def database(what: str, url: str, find: Callable[[], list[psutil.Process]]) -> None:
    store, fleet, records = Store(url), FleetStore(url), Records(url)
    profiles = {f"device-{at:012d}": (profile(f"device-{at:012d}", holds={TASK: "1.0"}), 5) for at in range(20_000)}
    with sampled(f"{what}: devices, new", 20_000, find):
        fleet.saw(profiles, [], 5)
    with sampled(f"{what}: devices, changed", 20_000, find):
        fleet.saw(profiles, [], 6)
    plan = {"task": TASK, "version": "1.0", "manifest": "0" * 64, "steps": [{"kind": "full"}]}
    release = store.add(Plan.model_validate(plan), 1)
    with sampled(f"{what}: looks at releases, which each process takes once a second", 200, find):
        for _ in range(200):
            store.watch(6)
    reports: Together[Reported, bool] = Together(lambda given: store.report_all(given, 5))
    with ThreadPoolExecutor(100) as pool, sampled(f"{what}: reports, 100 at once", 5000, find):
        given = [Reported(release, device, False, False) for device in list(profiles)[:5000]]
        assert all(pool.map(reports, given))
    for size in (1300, 30_000):
        told = {"task": TASK, "version": "1.0", "name": "feature", "at": 5, "value": "x" * size}
        batch = Batch.model_validate({"first": 1, "records": [told]})
        count = 4000 if size < 10_000 else 1000
        with sampled(f"{what}: records of {size} bytes, 200 together", count, find):
            for at in range(0, count, 200):
                records.take([Sent(f"device-{size}-{at + i:08d}", "s" * 16, batch) for i in range(200)], 7)


def redis(folder: Path) -> None:
    server = RedisServer(folder)
    try:
        (found,) = (one for one in psutil.Process().children() if one.name().startswith("redis"))
        link = RedisLink(server.url, "bench", None, lambda: Counted({"answers": 1}, {"connections": 1}))
        count = 20_000
        before, own = found.cpu_times(), time.process_time()
        took = seconds(lambda: [link.take("device", f"d{at % 5000}", 5, 20) for at in range(count)])
        after = found.cpu_times()
        spent = after.user + after.system - before.user - before.system
        own_ms = 1000 * (time.process_time() - own) / count
        report(
            "Redis: tokens of limits",
            count / spent,
            "per CPU second of Redis",
            own_ms_each=own_ms,
            ms_each=1000 * took / count,
        )
        link.look()
        before = found.cpu_times()
        for beat in range(500):
            link.asked(f"d{beat}-{at}" for at in range(100))
            link.look()
        after = found.cpu_times()
        spent = after.user + after.system - before.user - before.system
        report("Redis: a second's beat of a process, with 100 devices", 1e6 * spent / 500, "us of Redis")
        memory = int(link._redis.info("memory")["used_memory"])
        buckets = 5000
        report("Redis: memory of a bucket, at most", memory / buckets, "bytes, with all else")
        link.stop()
    finally:
        server.kill()


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="tapml-rates-"))
    folder.chmod(0o755)
    cluster = folder / "postgres"
    cluster.mkdir()
    postgres = Postgres(cluster, durable=True)
    try:
        database("SQLite", f"sqlite:///{folder / 'field.sqlite3'}", lambda: [])
        (master,) = (one for one in psutil.process_iter(["cmdline"]) if _is_master(one, cluster))
        database("PostgreSQL", postgres.database(), lambda: [master, *master.children()])
        redis(folder)
        http(folder, postgres)
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)
    report("processors", psutil.cpu_count() or 0, "", load=psutil.getloadavg()[0])
    return 0


def _is_master(process: psutil.Process, cluster: Path) -> bool:
    line = process.info["cmdline"] or []
    return str(cluster / "data") in line


if __name__ == "__main__":
    sys.exit(main())
