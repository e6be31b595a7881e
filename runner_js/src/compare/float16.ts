/**
 * IEEE 754 half precision to float32 by table. Float16Array is younger than the browsers we run in.
 * All 65,536 values take 262 kB and are made on first use.
 */

import { decodeHalf } from "../program/dtypes";

let table: Float32Array | null = null;

function halfTable(): Float32Array {
  if (!table) {
    table = new Float32Array(1 << 16);
    for (let bits = 0; bits < table.length; bits++) table[bits] = decodeHalf(bits);
  }
  return table;
}

/** Decodes halves[from .. from + count) into the start of `out`. */
export function decodeHalves(halves: Uint16Array, from: number, count: number, out: Float32Array): void {
  const values = halfTable();
  for (let i = 0; i < count; i++) out[i] = values[halves[from + i] as number] as number;
}
