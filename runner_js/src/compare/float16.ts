/**
 * IEEE 754 half precision to float32 by table. Float16Array is younger than the browsers we run in.
 * All 65,536 values take 256 KiB and are made on first use.
 */

let table: Float32Array | null = null;

export function decodeHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

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
