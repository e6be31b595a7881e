/** What the agent asks of the storage worker, which runs nothing of a task but the SQL that `database.ts` checks. */
import type { Found, Place, Tables, Value } from "./types";

/** Values of one row, in the order of the table's columns. */
export type Row = readonly Value[];

export type Ask =
  /** First; gives a Place. */
  | { kind: "start" }
  /** Gives an Opened. Databases are named by their tasks, SCENARIO/TASK. */
  | { kind: "open"; task: string; tables: Tables; bytes: number }
  /** All rows or none of them. */
  | { kind: "write"; task: string; rows: ReadonlyMap<string, readonly Row[]> }
  /** Gives a Found. */
  | { kind: "sql"; task: string; text: string; values: readonly Value[] }
  /** The task's database is no more. */
  | { kind: "erase"; task: string }
  /** Nothing is asked any more: its files are let go of. */
  | { kind: "close" };

export interface Opened {
  /** Why what the task had kept is gone; null where it is there, or there was nothing. */
  readonly lost: string | null;
}

export interface Asked {
  readonly id: number;
  readonly ask: Ask;
}

export interface Answered {
  readonly id: number;
  readonly value: Place | Opened | Found | null;
  readonly error: string | null;
}

/** What a VM says of tables. */
export type TableMessage =
  | { kind: "add"; table: string; row: Value[] }
  | { kind: "flush"; id: number }
  | { kind: "sql"; id: number; text: string; values: Value[] };
