/** Where databases are: files of the browser's origin private file system (OPFS), or memory. */
import type { Database, SAHPoolUtil, Sqlite3Static } from "@sqlite.org/sqlite-wasm";
import type { Place } from "./types";

const FOLDER = "tapml-storage";
/** Milliseconds to wait for a page that has just gone to let go of its files. */
const PATIENCE = 3000;
/** A page's files: a database and its journal each. */
const EACH = 2;

export interface Files extends Place {
  /** `name`: SCENARIO/TASK. */
  open(name: string): Promise<Database>;
  /** Of a database that is closed. */
  remove(name: string): void;
}

/** Sync access handles, which need no cross-origin isolation, and which one page at a time can have. */
export async function openFiles(sqlite: Sqlite3Static): Promise<Files> {
  try {
    if (typeof navigator?.storage?.getDirectory !== "function")
      return inMemory(sqlite, "this browser has no file system for pages, or the page is no secure context");
    if (!(await alone())) return inMemory(sqlite, "another page of this origin has the files");
    return onDisk(await pool(sqlite));
  } catch (cause) {
    return inMemory(sqlite, `the browser's file system cannot be used: ${String(cause).slice(0, 300)}`);
  }
}

/** The lock is the worker's until it ends, however it ends. */
function alone(): Promise<boolean> {
  const { locks } = navigator;
  if (locks === undefined) return Promise.resolve(true);
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(PATIENCE);
    locks
      .request(FOLDER, { signal }, () => {
        resolve(true);
        return new Promise(() => {});
      })
      .catch(() => resolve(false));
  });
}

async function pool(sqlite: Sqlite3Static): Promise<SAHPoolUtil> {
  const until = performance.now() + PATIENCE;
  for (;;)
    try {
      return await sqlite.installOpfsSAHPoolVfs({
        ...{ name: FOLDER, directory: `.${FOLDER}`, initialCapacity: 2 * EACH },
        // The handles of a worker that was ended a moment ago are let go of after its lock.
        ...{ forceReinitIfPreviouslyFailed: true, preserveOnInitFailure: true },
      });
    } catch (cause) {
      if (performance.now() > until) throw cause;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

function onDisk(files: SAHPoolUtil): Files {
  const path = (name: string): string => `/${name}.sqlite3`;
  return {
    ...{ place: "disk", reason: null },
    async open(name) {
      const there = files.getFileNames();
      const needed = there.length + (there.includes(path(name)) ? EACH - 1 : EACH);
      if (files.getCapacity() < needed) await files.addCapacity(needed - files.getCapacity());
      return new files.OpfsSAHPoolDb(path(name));
    },
    remove(name) {
      for (const one of [path(name), `${path(name)}-journal`]) files.unlink(one);
    },
  };
}

function inMemory(sqlite: Sqlite3Static, reason: string): Files {
  return {
    ...{ place: "memory", reason },
    open: async () => new sqlite.oo1.DB(":memory:", "c"),
    remove() {},
  };
}
