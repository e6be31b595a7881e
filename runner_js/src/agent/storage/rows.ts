/** Whether a row fits its table: asked in the VM, where the task is told, and by the page again, which believes no VM. */
import type { Columns, ColumnType, Value } from "./types";

/** Bytes of one row, as they are counted here. */
export const MOST_ROW = 1_000_000;
/** Of one run. */
export const MOST_ADDED = 100_000;

const LEAST_INTEGER = -(2n ** 63n);
const MOST_INTEGER = 2n ** 63n - 1n;
const WANTED: Record<ColumnType, string> = {
  ...{ integer: "a whole number of 64 bits", real: "a number", text: "text", blob: "bytes" },
};

/** The row with null for what is not there, and the bytes it takes. Throws an Error that names the column. */
export function checkedRow(columns: Columns, given: unknown): [row: Value[], bytes: number] {
  const types = Object.entries(columns);
  if (!Array.isArray(given) || given.length !== types.length)
    throw new Error(`a row has ${types.length} values: one for each column`);
  let bytes = 8;
  const row = types.map(([name, type], i) => {
    const value: unknown = given[i] ?? null;
    if (value === null) return null;
    const size = sizeOf(type, value);
    if (size === null) throw new Error(`${name} is not ${WANTED[type]}`);
    bytes += size;
    return value as Value;
  });
  if (bytes > MOST_ROW) throw new Error(`a row has ${bytes} bytes, and at most ${MOST_ROW}: keep less in it`);
  return [row, bytes];
}

/** Null where it is no value of the type. */
function sizeOf(type: ColumnType, value: unknown): number | null {
  if (type === "text") return typeof value === "string" ? 3 * value.length : null;
  if (type === "blob") return value instanceof Uint8Array ? value.length : null;
  if (typeof value === "bigint")
    return type === "integer" && value >= LEAST_INTEGER && value <= MOST_INTEGER ? 8 : null;
  if (typeof value !== "number" || Number.isNaN(value)) return null;
  return type === "real" || Number.isSafeInteger(value) ? 8 : null;
}
