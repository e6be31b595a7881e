import sqlite3InitModule, { type Database, type Sqlite3Static } from "@sqlite.org/sqlite-wasm";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Damaged, TaskDatabase } from "./database";
import type { Row } from "./messages";
import type { Tables } from "./types";

const TABLES: Tables = {
  scores: { item: "text", score: "real", times: "integer", thumb: "blob" },
  seen: { item: "text" },
};
const BYTES = 1_000_000;

let sqlite: Sqlite3Static;
let db: Database;
let own: TaskDatabase;

beforeAll(async () => {
  sqlite = await sqlite3InitModule();
});
beforeEach(() => {
  db = new sqlite.oo1.DB(":memory:");
  own = new TaskDatabase(sqlite, db, TABLES, BYTES);
});

const put = (rows: readonly Row[], table = "scores"): void => own.write(new Map([[table, rows]]));
const ask = (text: string, ...values: never[]) => own.sql(text, values);

describe("what a task keeps", () => {
  it("is there as it was given, whole numbers of REAL columns told apart", () => {
    const thumb = new Uint8Array([0, 255, 0]);
    put([["ä\0b", 2, 7, thumb]]);
    put([[null, -0.5, 2n ** 63n - 1n, null]]);
    put([["", Number.POSITIVE_INFINITY, -5, new Uint8Array()]]);
    const { columns, rows, reals } = ask("SELECT * FROM scores ORDER BY rowid");
    expect(columns).toEqual(["item", "score", "times", "thumb"]);
    expect(rows).toEqual([
      ["ä\0b", 2, 7, thumb],
      [null, -0.5, 2n ** 63n - 1n, null],
      ["", Number.POSITIVE_INFINITY, -5, new Uint8Array()],
    ]);
    expect(reals).toEqual([1]);
  });

  it("is written whole or not at all", () => {
    put([["a", 1, 1, null]]);
    const wrong = new Map([
      ["seen", [["x"]]],
      ["scores", [["b", 1, 1, null], ["c", "text", 1, null] as never]],
    ]);
    expect(() => own.write(wrong)).toThrow();
    expect(ask("SELECT (SELECT count(*) FROM scores), (SELECT count(*) FROM seen)").rows).toEqual([[1, 0]]);
  });

  it("gets no larger than it was declared to, and can be made smaller by the task", () => {
    const row: Row = ["x".repeat(1000), 1, 1, null];
    const fill = (): void => {
      for (;;) put(Array<Row>(50).fill(row));
    };
    expect(fill).toThrow("database or disk is full");
    const full = Number(ask("SELECT count(*) FROM scores").rows[0]?.[0]);
    expect(full).toBeGreaterThan(700);
    expect(full % 50).toBe(0);
    expect(() => ask("INSERT INTO seen VALUES (printf('%.100000c', 'x'))")).toThrow(
      "what the task may keep is full: delete rows, or declare more in task.json",
    );
    ask("DELETE FROM scores WHERE rowid <= 100");
    put(Array<Row>(50).fill(row));
  });

  it("has the tables and columns of the version that runs, with what they held", () => {
    put([["a", 1, 7, null]]);
    put([["b"]], "seen");
    own = new TaskDatabase(
      sqlite,
      db,
      { scores: { times: "integer", item: "blob", rank: "real" }, fresh: { n: "integer" } },
      BYTES,
    );
    const found = ask("SELECT * FROM scores");
    expect([found.columns, found.rows]).toEqual([["times", "item", "rank"], [[7, null, null]]]);
    expect(() => ask("SELECT item FROM seen")).toThrow("no such table: seen");
    put([[1]], "fresh");
    own = new TaskDatabase(sqlite, db, { fresh: { n: "text" } }, BYTES);
    expect(ask("SELECT * FROM fresh").rows).toEqual([]);
  });

  it("is refused where it is no database", () => {
    const broken = new sqlite.oo1.DB(":memory:");
    const bytes = new Uint8Array(8192).fill(7);
    const at = sqlite.wasm.allocFromTypedArray(bytes);
    const { SQLITE_DESERIALIZE_FREEONCLOSE: free } = sqlite.capi;
    sqlite.capi.sqlite3_deserialize(broken, "main", at, bytes.length, bytes.length, free);
    expect(() => new TaskDatabase(sqlite, broken, TABLES, BYTES)).toThrow(Damaged);
  });
});

describe("SQL of a task", () => {
  const refused = [
    "ATTACH 'other.sqlite3' AS other",
    "ATTACH ':memory:' AS other",
    "VACUUM INTO '/shop/other.sqlite3'",
    "VACUUM",
    "PRAGMA max_page_count = 1000000",
    "PRAGMA writable_schema = on",
    "PRAGMA journal_mode = off",
    "SELECT * FROM pragma_table_info('scores')",
    "SELECT * FROM pragma_database_list",
    "SELECT sql FROM sqlite_schema",
    "SELECT sql FROM sqlite_master",
    "SELECT sql FROM sqlite_temp_schema",
    "SELECT data FROM sqlite_dbpage",
    "UPDATE sqlite_dbpage SET data = zeroblob(4096) WHERE pgno = 1",
    "SELECT name FROM dbstat",
    "UPDATE sqlite_schema SET sql = ''",
    "DELETE FROM sqlite_schema",
    "CREATE TABLE more (a)",
    "CREATE TEMP TABLE more (a)",
    "CREATE TABLE more AS SELECT 1",
    "CREATE VIEW more AS SELECT 1",
    "CREATE INDEX more ON scores (item)",
    "CREATE TRIGGER more AFTER INSERT ON seen BEGIN DELETE FROM scores; END",
    "CREATE VIRTUAL TABLE more USING fts5 (a)",
    "DROP TABLE scores",
    "ALTER TABLE scores RENAME TO more",
    "ALTER TABLE scores ADD COLUMN more",
    "ANALYZE",
    "BEGIN",
    "COMMIT",
    "SAVEPOINT more",
    "DETACH main",
    "SELECT load_extension('x')",
    "SELECT sqlite_version()",
    "SELECT fts5(1)",
    "SELECT 1; PRAGMA user_version = 3",
    "EXPLAIN SELECT sql FROM sqlite_schema",
    "WITH x AS (SELECT sql FROM sqlite_schema) SELECT * FROM x",
    "INSERT INTO seen SELECT sql FROM sqlite_schema",
    "INSERT INTO seen VALUES (1) RETURNING (SELECT sql FROM sqlite_schema)",
  ];
  it.each(refused)("does not do %s", (text) => {
    put([["a", 1, 1, null]]);
    const before = sqlite.capi.sqlite3_js_db_export(db);
    expect(() => ask(text)).toThrow();
    expect(sqlite.capi.sqlite3_js_db_export(db)).toEqual(before);
    expect(db.selectValue("PRAGMA max_page_count")).toBe(Math.floor(BYTES / 4096));
    expect(sqlite.capi.sqlite3_get_autocommit(db)).toBe(1);
  });

  it("asks, changes and counts", () => {
    put(Array.from({ length: 10 }, (_, i): Row => [i % 2 ? "odd" : "even", i / 2, i, null]));
    const sums = "SELECT item, sum(times) AS n FROM scores WHERE times >= ? GROUP BY item ORDER BY item";
    expect(own.sql(sums, [2])).toEqual({
      columns: ["item", "n"],
      rows: [
        ["even", 20],
        ["odd", 24],
      ],
      reals: [],
    });
    expect(ask("DELETE FROM scores WHERE times < 4 RETURNING times").rows).toEqual([[0], [1], [2], [3]]);
    ask("UPDATE scores SET score = times + 0.5; INSERT INTO seen SELECT item FROM scores");
    const counted =
      "WITH x(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM x WHERE n < 3) SELECT count(*) FROM x, seen";
    expect(ask(counted).rows).toEqual([[18]]);
    expect(ask("SELECT value FROM json_each('[1, 2]')").rows).toEqual([[1], [2]]);
    expect(ask("-- nothing").rows).toEqual([]);
  });

  it("ends where it takes too long, too much memory, or gives too much", () => {
    const endless = "WITH RECURSIVE x(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM x)";
    expect(() => ask(`${endless} SELECT max(n) FROM x`)).toThrow("it takes longer than 1 s: ask for less");
    expect(() => ask(`${endless} SELECT n FROM x`)).toThrow(
      "it gives more than 10000 rows: end it with a LIMIT",
    );
    const large = "SELECT randomblob(1900000) UNION ALL ".repeat(6);
    expect(() => ask(`${large} SELECT 1`)).toThrow("it gives more than 8000000 bytes: ask for less");
    expect(() => ask("SELECT zeroblob(3000000)")).toThrow("too big");
    expect(() => ask(`SELECT ${"1 + ".repeat(500)}1`)).toThrow("too large");
    expect(ask("SELECT 1").rows).toEqual([[1]]);
  });
});
