/** What the VM's Python calls to keep rows: a task's mistakes are told to the task here, and the page checks again. */

import type { TableMessage } from "./messages";
import { checkedRow, MOST_ADDED } from "./rows";
import type { Found, Tables, Value } from "./types";

/** Of Python: a list. */
interface Listed {
  toJs(options?: object): unknown[];
}
type Reply = [error: string, value: unknown];

export function tableCalls(
  tables: Tables,
  send: (message: TableMessage) => void,
  reply: (ask: (id: number) => void) => Promise<Reply>,
) {
  let added = 0;
  return {
    tables: JSON.stringify(tables),
    /** Of a run that begins. */
    begin(): void {
      added = 0;
    },
    add(table: string, row: Listed): void {
      const columns = Object.hasOwn(tables, table) ? tables[table] : undefined;
      if (columns === undefined) throw new Error(`task.json declares no table ${table}`);
      const [checked] = checkedRow(columns, row.toJs());
      if (++added > MOST_ADDED) throw new Error(`a run adds at most ${MOST_ADDED} rows`);
      send({ kind: "add", table: String(table), row: checked });
    },
    flush: () => reply((id) => send({ kind: "flush", id })),
    async sql(text: string, given: Listed): Promise<Reply> {
      const values = given.toJs() as Value[];
      const [error, found] = await reply((id) => send({ kind: "sql", id, text: String(text), values }));
      return [error, error ? null : json(found as Found)];
    },
  };
}

/** JSON as Python reads it: integers of any size, whole REALs with a point, bytes as {"blob": BASE64}. */
function json({ columns, rows, reals }: Found): string {
  const whole = new Set(reals);
  const lines = rows.map((row, i) => {
    const cells = row.map((value, j) => {
      if (value instanceof Uint8Array) return `{"blob":"${base64(value)}"}`;
      if (typeof value === "string") return JSON.stringify(value);
      return whole.has(i * columns.length + j) ? (value as number).toFixed(1) : String(value);
    });
    return `[${cells}]`;
  });
  return `{"columns":${JSON.stringify(columns)},"rows":[${lines}]}`;
}

function base64(data: Uint8Array): string {
  let text = "";
  for (let at = 0; at < data.length; at += 8192) text += String.fromCharCode(...data.subarray(at, at + 8192));
  return btoa(text);
}
