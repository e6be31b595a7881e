import { beforeEach, describe, expect, it } from "vitest";
import { StorageClient } from "./client";
import type { Ask, Asked } from "./messages";
import { TaskTables } from "./tables";

/** A worker that remembers what it is asked, and answers when `answer` says so, or at once. */
class Worker {
  readonly asked: Ask[] = [];
  refuses: string | null = null;
  private listener: (message: unknown) => void = () => {};
  fail: (message: string) => void = () => {};

  postMessage(message: unknown): void {
    const { id, ask } = message as Asked;
    this.asked.push(ask);
    const value =
      { start: { place: "disk", reason: null }, open: { lost: null } }[ask.kind as "start"] ?? null;
    const error = ask.kind === "write" ? this.refuses : null;
    queueMicrotask(() => this.listener({ id, value, error }));
  }
  onMessage(listener: (message: unknown) => void): void {
    this.listener = listener;
  }
  onError(listener: (message: string) => void): void {
    this.fail = listener;
  }
  terminate(): void {}
  written(): unknown[] {
    return this.asked.flatMap((ask) => (ask.kind === "write" ? [[...ask.rows]] : []));
  }
}

const KEEPS = { tables: { a: { x: "integer" }, b: { y: "text" } }, bytes: 1_000_000, buffer: 3 } as const;
let workers: Worker[];
let failed: string[];
let tables: TaskTables;
let client: StorageClient;

beforeEach(() => {
  workers = [];
  failed = [];
  const spawn = () => {
    workers.push(new Worker());
    return workers.at(-1) as Worker;
  };
  client = new StorageClient(spawn, () => {});
  tables = new TaskTables("shop/a", KEEPS, client, (message) => failed.push(message));
});

describe("rows that a task adds", () => {
  it("wait for as many as the buffer holds, and are then written together", async () => {
    tables.add("a", [1]);
    tables.add("b", ["x"]);
    expect(workers).toEqual([]); // nothing is started before
    tables.add("a", [2]);
    tables.add("a", [3]);
    await tables.write();
    expect(workers[0]?.asked.map(({ kind }) => kind)).toEqual(["start", "open", "write", "write"]);
    expect(workers[0]?.written()).toEqual([
      [
        ["a", [[1], [2]]],
        ["b", [["x"]]],
      ],
      [["a", [[3]]]],
    ]);
  });

  it("are written before somebody reads", async () => {
    tables.add("a", [1]);
    await tables.sql("SELECT x FROM a", []);
    expect(workers[0]?.asked.map(({ kind }) => kind)).toEqual(["start", "open", "write", "sql"]);
  });

  it("are told of where they are lost, to the page and once to the task", async () => {
    tables.add("a", [1]);
    await tables.flush();
    (workers[0] as Worker).refuses = "it is full";
    tables.add("a", [2]);
    await expect(tables.flush()).rejects.toThrow("it is full");
    expect(failed).toEqual(["it is full"]);
    (workers[0] as Worker).refuses = null;
    tables.add("a", [3]);
    expect(await tables.flush()).toBe("disk");
    expect(workers[0]?.written().length).toBe(3);
  });

  it("go to another worker where one is lost, which opens the database again", async () => {
    tables.add("a", [1]);
    await tables.flush();
    workers[0]?.fail("no memory");
    tables.add("a", [2]);
    await tables.flush();
    expect(workers[1]?.asked.map(({ kind }) => kind)).toEqual(["start", "open", "write"]);
  });

  it("are no more than 64 MB on their way", async () => {
    const row = ["x".repeat(333_000)];
    for (let i = 0; i < 100; i++) tables.add("b", row);
    await expect(tables.flush()).rejects.toThrow("rows come faster than they are written");
    const rows = workers[0]?.asked.flatMap((ask) =>
      ask.kind === "write" ? [...ask.rows.values()].flat() : [],
    );
    expect(rows?.length).toBe(64);
    tables.add("b", row);
    await tables.flush();
    expect(failed.length).toBe(1);
  });

  it("and SQL are refused where they are not what was declared", async () => {
    const add = (table: unknown, row: unknown) => () => tables.add(table, row);
    for (const table of ["c", "__proto__", "constructor", 1, null])
      expect(add(table, [1])).toThrow("task.json declares no such table");
    for (const row of [null, 1, "x", {}, [], [1, 2], { length: 1, 0: 1 }])
      expect(add("a", row)).toThrow("a row has 1 values");
    for (const value of ["1", 1.5, Number.NaN, 2 ** 60, 2n ** 63n, true, {}, [], Symbol("x")])
      expect(add("a", [value])).toThrow("x is not a whole number");
    for (const value of [1, {}, new String("x"), new Uint8Array()])
      expect(add("b", [value])).toThrow("y is not text");
    for (const text of [null, 1, {}, "x".repeat(100_001)])
      await expect(tables.sql(text, [])).rejects.toThrow("SQL is");
    for (const value of [{}, [], true, 2n ** 64n])
      await expect(tables.sql("SELECT ?", [value])).rejects.toThrow();
    await expect(tables.sql("SELECT 1", "no list")).rejects.toThrow("values are given");
    expect(workers).toEqual([]);
  });
});
