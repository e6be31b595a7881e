/** What one task keeps, seen from the page: rows are collected here, and written together by count or when somebody reads. */

import type { StorageClient } from "./client";
import type { Row } from "./messages";
import { checkedRow } from "./rows";
import type { Found, Keeps, Value } from "./types";

/** Bytes that are collected, or on their way to the worker. */
const MOST_WAITING = 64_000_000;
const MOST_TEXT = 100_000;
const MOST_VALUES = 1000;

export class TaskTables {
  private rows = new Map<string, Row[]>();
  private count = 0;
  private collected = 0;
  private bytes = 0;
  private opened: { generation: number; done: Promise<void> } | null = null;
  private last: Promise<void> = Promise.resolve();
  /** Why rows were lost; told once to the task. */
  private lost: string | null = null;

  constructor(
    private readonly task: string,
    private readonly keeps: Keeps,
    private readonly client: StorageClient,
    private readonly failed: (message: string) => void,
  ) {}

  /** A row, as a VM gives it: throws an Error where it does not fit. */
  add(table: unknown, given: unknown): void {
    if (typeof table !== "string" || !Object.hasOwn(this.keeps.tables, table))
      throw new Error("task.json declares no such table");
    const [row, bytes] = checkedRow(this.keeps.tables[table] as never, given);
    if (this.bytes + bytes > MOST_WAITING) {
      this.lose(`rows come faster than they are written: what is beyond ${MOST_WAITING} bytes is not kept`);
      return;
    }
    this.bytes += bytes;
    this.collected += bytes;
    const rows = this.rows.get(table);
    if (rows === undefined) this.rows.set(table, [row]);
    else rows.push(row);
    if (++this.count >= this.keeps.buffer) void this.write();
  }

  /** Rejects where rows were lost since the last time. Gives where they are. */
  async flush(): Promise<string> {
    const { place } = await this.client.place();
    await this.write();
    if (this.lost !== null) {
      const lost = this.lost;
      this.lost = null;
      throw new Error(lost);
    }
    return place;
  }

  /** What the text does reaches no other task's tables: the worker sees to that. */
  async sql(text: unknown, values: unknown): Promise<Found> {
    if (typeof text !== "string" || text.length > MOST_TEXT)
      throw new Error(`SQL is text of at most ${MOST_TEXT} characters`);
    const given = checkedValues(values);
    await this.flush();
    await this.ready();
    return await this.client.ask({ kind: "sql", task: this.task, text, values: given });
  }

  /** Begins to write what is collected. Never rejects. */
  write(): Promise<void> {
    if (this.count === 0) return this.last;
    const { rows, collected } = this;
    this.rows = new Map();
    this.count = 0;
    this.collected = 0;
    const written = this.ready()
      .then(() => this.client.ask({ kind: "write", task: this.task, rows }))
      .catch((cause: Error) => this.lose(cause.message));
    const done = Promise.all([this.last, written]).then(() => {
      this.bytes -= collected;
    });
    this.last = done;
    return done;
  }

  private ready(): Promise<void> {
    const { generation } = this.client;
    if (this.opened?.generation !== generation) {
      const { tables, bytes } = this.keeps;
      const done = this.client.ask({ kind: "open", task: this.task, tables, bytes }).then(({ lost }) => {
        if (lost !== null) this.failed(lost);
      });
      this.opened = { generation, done };
      done.catch(() => {
        this.opened = null;
      });
    }
    return (this.opened as { done: Promise<void> }).done;
  }

  private lose(why: string): void {
    if (this.lost === why) return;
    this.lost = why;
    this.failed(why);
  }
}

function checkedValues(given: unknown): Value[] {
  if (!Array.isArray(given) || given.length > MOST_VALUES)
    throw new Error(`at most ${MOST_VALUES} values are given to SQL`);
  return given.map((value: unknown) => {
    if (value === undefined || value === null) return null;
    const fits = typeof value === "number" || typeof value === "string" || value instanceof Uint8Array;
    // A row of one column says whether an integer has 64 bits.
    if (typeof value === "bigint") return checkedRow({ value: "integer" }, [value])[0][0] as bigint;
    if (!fits) throw new Error("values of SQL are numbers, text, bytes and None");
    return value as Value;
  });
}
