/** The storage worker of an agent: SQLite, and one database a task. tapml-storage.js is made of this file. */
import type { Sqlite3Static } from "@sqlite.org/sqlite-wasm";
import { Damaged, said, TaskDatabase } from "./database";
import type { Answered, Ask, Asked, Opened } from "./messages";
import { type Files, openFiles } from "./place";
import type { Found, Place } from "./types";

/** Bytes that SQLite takes at most, the databases in memory among them. */
const MOST_MEMORY = 268_435_456;

type Load = (options: { locateFile: (name: string) => string }) => Promise<Sqlite3Static>;

// The other ways to files would start workers of their own.
Object.assign(globalThis, {
  sqlite3ApiConfig: {
    disable: { vfs: { opfs: true, "opfs-vfs": true, "opfs-wl": true, kvvfs: true } },
    ...{ log() {}, warn() {}, error() {} },
  },
});

interface Ready {
  readonly sqlite: Sqlite3Static;
  readonly files: Files;
}
let ready: Promise<Ready> | null = null;
const open = new Map<string, TaskDatabase>();
let last: Promise<unknown> = Promise.resolve();

globalThis.addEventListener("message", (event) => {
  const { id, ask } = (event as MessageEvent).data as Asked;
  last = last.then(async () => {
    let answer: Answered;
    try {
      answer = { id, value: await done(ask), error: null };
    } catch (cause) {
      answer = { id, value: null, error: said(cause) };
    }
    (globalThis as unknown as { postMessage(message: Answered): void }).postMessage(answer);
  });
});

async function start(): Promise<Ready> {
  const { default: load } = await import("@sqlite.org/sqlite-wasm");
  const locateFile = (name: string): string => new URL(name, import.meta.url).href;
  const sqlite = await (load as unknown as Load)({ locateFile });
  const memory = new sqlite.oo1.DB(":memory:", "c");
  memory.exec(`PRAGMA hard_heap_limit = ${MOST_MEMORY}`);
  memory.close();
  return { sqlite, files: await openFiles(sqlite) };
}

async function done(ask: Ask): Promise<Place | Opened | Found | null> {
  ready ??= start();
  const { sqlite, files } = await ready;
  if (ask.kind === "start") return { place: files.place, reason: files.reason };
  if (ask.kind === "open") return await opened(sqlite, files, ask);
  if (ask.kind === "close") {
    for (const { db } of open.values()) db.close();
    open.clear();
    return null;
  }
  if (ask.kind === "erase") {
    open.get(ask.task)?.db.close();
    open.delete(ask.task);
    files.remove(ask.task);
    return null;
  }
  const database = open.get(ask.task);
  if (database === undefined) throw new Error(`${ask.task} has no database`);
  if (ask.kind === "sql") return database.sql(ask.text, ask.values);
  database.write(ask.rows);
  return null;
}

async function opened(
  sqlite: Sqlite3Static,
  files: Files,
  { task, tables, bytes }: Ask & { kind: "open" },
): Promise<Opened> {
  const made = async (): Promise<void> => {
    const db = open.get(task)?.db ?? (await files.open(task));
    open.delete(task);
    try {
      open.set(task, new TaskDatabase(sqlite, db, tables, bytes));
    } catch (cause) {
      db.close();
      throw cause;
    }
  };
  try {
    await made();
    return { lost: null };
  } catch (cause) {
    if (!(cause instanceof Damaged)) throw cause;
    // What cannot be read any more is of no use to anybody.
    files.remove(task);
    await made();
    return { lost: `what it had kept cannot be read (${cause.message.slice(0, 200)}), and is begun anew` };
  }
}
