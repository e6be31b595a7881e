"""The files of a suite, each changed in a suite that is good else."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from benchmarks.hostile import mutate
from benchmarks.hostile.case import Case
from benchmarks.hostile.files import safetensors_bytes


def _file(pattern: str, *wanted: str) -> Callable[[Case], None]:
    def run(case: Case) -> None:
        path = case.any_of(pattern)
        path.write_bytes(case.mutated(path.read_bytes()))
        case.read_suite(*wanted)

    return run


def _wgsl(case: Case) -> None:
    path = case.any_of("kernels/*.wgsl")
    text = path.read_bytes()
    if case.choose.random() < 0.3:
        path.write_text(mutate.mutate_wgsl(text.decode(), case.choose))
        return case.read_suite("kernels", "barriers")
    if case.choose.random() < 0.4:
        text = text.replace(b"\n", mutate.ESCAPES.encode() + b"\n", 2)
    path.write_bytes(mutate.mutate_bytes(text, case.choose))
    return case.read_suite("kernels", "barriers", "export")


def _tensor(case: Case) -> None:
    """Damaged, or other values under a digest that fits."""
    path = case.any_of("tensors/*/*.bin")
    data = mutate.mutate_bytes(path.read_bytes(), case.choose)
    if case.choose.random() < 0.6:
        size = path.stat().st_size
        data = (data + bytes(size))[:size]
        path.unlink()
        digest = hashlib.sha256(data).hexdigest()
        old, path = path.stem, path.parents[1] / digest[:2] / f"{digest}.bin"
        path.parent.mkdir(exist_ok=True)
        for name in ("suite.json", "tests.json", "imported.json"):
            document = case.suite / name
            document.write_text(document.read_text().replace(old, digest))
    path.write_bytes(data)
    case.read_suite("verify", "tensors", "export")


def _lines(case: Case) -> None:
    path = case.any_of("results/running/*.jsonl")
    lines = path.read_bytes().splitlines()
    number = case.choose.randrange(min(3, len(lines)))
    lines[number] = case.mutated(lines[number])
    data = b"\n".join(lines) + b"\n"
    path.write_bytes(mutate.mutate_bytes(data, case.choose) if case.choose.random() < 0.1 else data)
    if case.choose.random() < 0.2:
        names = ("x.jsonl", "1.jsonl", "a.b.c.jsonl", f"x.{2**80}.a.jsonl", "x.-1.a.jsonl", "x.٣٣٣٣٣٣٣٣.a.jsonl")
        path.rename(path.with_name(case.choose.choice(names)))
    case.read_suite("recover", "results")


_STATEMENTS = (
    "DROP TABLE {table}",
    "DELETE FROM {table}",
    "UPDATE {table} SET {column} = {value}",
    "ALTER TABLE {table} RENAME COLUMN {column} TO other",
    "ALTER TABLE {table} ADD COLUMN other DEFAULT {value}",
    "ALTER TABLE {table} RENAME TO moved; CREATE VIEW {table} AS SELECT * FROM moved",
    "ALTER TABLE {table} RENAME TO moved; CREATE VIEW {table} AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL "
    "SELECT x + 1 FROM n) SELECT moved.* FROM moved, n",
    "ALTER TABLE {table} RENAME TO moved; CREATE VIEW {table} AS SELECT moved.*, zeroblob(900000000) AS o FROM moved",
    "CREATE TRIGGER evil AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
    "CREATE TRIGGER evil AFTER INSERT ON {table} BEGIN WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
    "INSERT INTO {table} SELECT NULL FROM n; END",
    "INSERT INTO {table} SELECT * FROM {table}",
    "PRAGMA user_version = 99",
    "PRAGMA journal_mode = delete",
)
_CELLS = (
    "NULL",
    "-1",
    "1e308",
    "9e999",
    "'x'",
    "''",
    "x'ff'",
    "9223372036854775807",
    "'\x1b[31m'",
    "zeroblob(2000000)",
    "'2026'",
    "'9999999-01-01'",
    "char(0xd800)",
    "CAST(x'eda080' AS TEXT)",
    "'[1'",
    "'{{}}'",
)


def _history(case: Case) -> None:
    path = case.suite / "results" / "history.sqlite3"
    what = case.choose.randrange(10)
    if what < 6:
        with sqlite3.connect(path, isolation_level=None) as database:
            database.execute("PRAGMA foreign_keys = OFF")
            tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for _ in range(case.choose.choice((1, 1, 2))):
                table = case.choose.choice(tables)
                columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")] or ["x"]
                statement = case.choose.choice(_STATEMENTS).format(
                    table=table, column=case.choose.choice(columns), value=case.choose.choice(_CELLS)
                )
                try:
                    database.executescript(statement)
                except (sqlite3.Error, UnicodeError):
                    continue
        database.close()
    elif what < 9:
        path.write_bytes(mutate.mutate_bytes(path.read_bytes(), case.choose))
    else:
        _sidecar(path, case)
    case.read_suite("history", "timeline", "validate")


def _sidecar(path: Path, case: Case) -> None:
    """What SQLite reads beside a database: links, noise, and a journal that names a file to be removed."""
    side = path.with_name(path.name + case.choose.choice(("-wal", "-journal", "-shm")))
    side.unlink(missing_ok=True)
    what = case.choose.randrange(3)
    if what == 0:
        side.symlink_to(case.outside / case.choose.choice(("secret.txt", "new.txt")))
    elif what == 1:
        side.write_bytes(case.choose.randbytes(5000))
    else:
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA journal_mode = delete")
        database.close()
        path.with_name(path.name + "-journal").write_bytes(hot_journal(path, case.outside / "secret.txt"))


def hot_journal(database: Path, named: Path) -> bytes:
    """A rollback journal of no pages whose super-journal is `named`: SQLite plays it back, then removes `named`."""
    pages = database.stat().st_size // 4096
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + b"".join(number.to_bytes(4, "big") for number in (0, 1, pages, 512, 4096))
    name = str(named).encode()
    tail = (4096 * 262144 // 4096 + 1).to_bytes(4, "big") + name + len(name).to_bytes(4, "big")
    return header.ljust(512, b"\0") + tail + sum(name).to_bytes(4, "big") + magic


def _share(case: Case) -> None:
    path = case.any_of("shares/*")
    data = path.read_bytes()
    path.write_bytes(safetensors_bytes(data, case) if path.suffix == ".safetensors" else case.mutated(data))
    case.read_suite("shares", "link")


def _special(case: Case) -> None:
    patterns = ("*.json", "kernels/*", "model/**/*", "tensors/*/*", "results/*", "results/running/*", "shares/*")
    path = case.any_of(case.choose.choice(patterns))
    mutate.special_file(path, case.choose, case.outside)
    case.read_suite(
        *case.choose.sample(("show", "verify", "recover", "link", "shares", "validate", "add", "results"), 4)
    )


def _folder(case: Case) -> None:
    names = [path for path in case.suite.rglob("*") if path.is_dir()]
    mutate.linked_folder(case.choose.choice(sorted(names)), case.outside)
    case.read_suite(
        "add", "validate", "share", *case.choose.sample(("show", "verify", "recover", "link", "results"), 2)
    )


READERS: dict[str, Callable[[Case], None]] = {
    "suite.json": _file("suite.json", "show", "detail", "verify"),
    "program.json": _file("program.json", "show", "detail", "export"),
    "tests.json": _file("tests.json", "show", "verify", "tensors", "export"),
    "imported.json": _file("imported.json", "show", "add", "export"),
    "kernels/*.json": _file("kernels/*.json", "kernels", "export", "show", "validate"),
    "model/operators/*.json": _file("model/operators/*.json", "operators"),
    "*.wgsl": _wgsl,
    "results/*.json": _file("results/*.json", "results", "export", "validate"),
    "journals": _lines,
    "history.sqlite3": _history,
    "shares/*": _share,
    "tensors": _tensor,
    "links, special files": _special,
    "linked folders": _folder,
}
"""Format -> what makes a document of it and has it read."""
