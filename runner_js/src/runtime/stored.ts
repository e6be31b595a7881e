import type { Shard } from "../compiled/generated/model";

/** Bits of the float32 number of each float16 one. */
let halves: Uint32Array | null = null;

/**
 * The bytes that a shard has in its buffer. Of float32 numbers that are stored with 16 bits (float16, bfloat16), the same
 * numbers, exactly: for every pattern of bits what backend/tapml/compiled/stored.py makes of it.
 */
export function widened(data: Uint8Array<ArrayBuffer>, stored: Shard["stored"]): Uint8Array<ArrayBuffer> {
  if (!stored) return data;
  const from = new Uint16Array(data.buffer, data.byteOffset, data.length >> 1);
  const words = new Uint32Array(from.length);
  if (stored === "bfloat16") for (let i = 0; i < from.length; i++) words[i] = (from[i] as number) << 16;
  else {
    halves ??= Uint32Array.from({ length: 1 << 16 }, (_, bits) => ofHalf(bits));
    for (let i = 0; i < from.length; i++) words[i] = halves[from[i] as number] as number;
  }
  return new Uint8Array(words.buffer);
}

function ofHalf(bits: number): number {
  const sign = (bits & 0x8000) << 16;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 0x3ff;
  if (exponent === 31) return sign | 0x7f800000 | (fraction << 13);
  if (exponent) return sign | ((exponent + 112) << 23) | (fraction << 13);
  if (!fraction) return sign;
  // Below the normal ones of float16: the fraction's highest bit becomes the one that is not written.
  const shift = Math.clz32(fraction) - 21;
  return sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13);
}
