/** What tasks keep on the device, as pages and tasks see it. */

export type ColumnType = "integer" | "real" | "text" | "blob";
/** Types by the columns' names. */
export type Columns = Readonly<Record<string, ColumnType>>;
/** By the tables' names. */
export type Tables = Readonly<Record<string, Columns>>;
/** Of a column; a bigint where a number would not hold the integer. */
export type Value = null | number | bigint | string | Uint8Array;

export interface Keeps {
  readonly tables: Tables;
  /** Of its database, at most. */
  readonly bytes: number;
  /** Rows that are collected in memory and then written together. */
  readonly buffer: number;
}

export interface Place {
  /** `memory`: what tasks keep is gone when the page is. */
  readonly place: "disk" | "memory";
  /** Why it is memory. */
  readonly reason: string | null;
}

/** What SQL found. */
export interface Found {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Value[])[];
  /** Which of all values, row by row, are REAL in SQLite though they are whole numbers. */
  readonly reals: readonly number[];
}
