/**
 * What a tensor is and how it is stored. A tensor without an encoding is stored element by element, as its dtype says;
 * the encodings are those of backend/tapml/encodings.py, and tests/vectors/encodings.json holds both to the same bytes.
 */
import type { DType, Encoding, TensorType } from "../protocol/messages";

export const BYTES_PER_ELEMENT: Record<DType, number> = {
  float32: 4,
  float16: 2,
  int32: 4,
  uint32: 4,
  int8: 1,
  uint8: 1,
  bool: 1,
};

/** Bits of an element, and whether one of them is a sign. */
const STORED: Record<Encoding, readonly [number, boolean]> = {
  int8x4: [8, true],
  uint8x4: [8, false],
  int4x8: [4, true],
  uint4x8: [4, false],
  float16: [16, true],
};

export function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

/** Bytes that are stored of it. */
export function bytesOf({ dtype, shape, encoding }: TensorType): number {
  const elements = elementsOf(shape);
  if (!encoding) return elements * BYTES_PER_ELEMENT[dtype];
  const [bits] = STORED[encoding];
  return encoding === "float16" ? 2 * elements : 4 * Math.ceil((elements * bits) / 32);
}

/** "float32[1, 16, 384]", "int8[384] as int8x4" */
export function describeType({ dtype, shape, encoding }: TensorType): string {
  return `${dtype}[${shape.join(", ")}]${encoding ? ` as ${encoding}` : ""}`;
}

/** Float16Array is younger than WebGPU. */
export function decodeHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** The elements, as their dtype says, of the bytes that are stored of them. */
export function decoded(bytes: Uint8Array, { dtype, shape, encoding }: TensorType): Uint8Array {
  if (!encoding || encoding === dtype) return bytes;
  const [bits, signed] = STORED[encoding];
  const out = new Uint8Array(elementsOf(shape) * BYTES_PER_ELEMENT[dtype]);
  const elements = arrayOf(out, dtype);
  const halves = bits === 16 ? new Uint16Array(bytes.buffer, bytes.byteOffset, elements.length) : null;
  for (let i = 0; i < elements.length; i++) {
    if (halves) elements[i] = decodeHalf(halves[i] ?? 0);
    else {
      const code = bits === 8 ? (bytes[i] ?? 0) : (bytes[i >>> 1] ?? 0) >>> (4 * (i & 1));
      elements[i] = signed ? (code << (32 - bits)) >> (32 - bits) : code & ((1 << bits) - 1);
    }
  }
  return out;
}

/** The bytes that are stored of elements, as `decoded` gives them; null where one cannot be stored: nothing is rounded. */
export function encoded(elements: Uint8Array<ArrayBuffer>, type: TensorType): Uint8Array<ArrayBuffer> | null {
  const { dtype, encoding } = type;
  if (!encoding || encoding === dtype) return elements;
  const values = arrayOf(elements, dtype);
  const out = new Uint8Array(bytesOf(type));
  const [bits] = STORED[encoding];
  const halves = bits === 16 ? new Uint16Array(out.buffer) : null;
  values.forEach((value: number, i: number) => {
    if (halves) halves[i] = encodeHalf(value);
    else if (bits === 8) out[i] = value;
    else out[i >>> 1] = (out[i >>> 1] as number) | ((value & 15) << (4 * (i & 1)));
  });
  const found = arrayOf(decoded(out, type), dtype);
  return values.every((value: number, i: number) => Object.is(value, found[i])) ? out : null;
}

/** The nearest half below a number that is one; of any other number some half. */
function encodeHalf(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(size)) return 0x7e00;
  if (size === Number.POSITIVE_INFINITY) return sign | 0x7c00;
  if (size >= 65_536) return sign;
  if (size < 2 ** -14) return sign | (size * 2 ** 24);
  const exponent = Math.floor(Math.log2(size));
  return sign | ((exponent + 15) << 10) | ((size / 2 ** exponent - 1) * 1024);
}

/** Bytes that are not encoded as what they hold; those of float16 as their patterns. */
export function arrayOf({ buffer, byteOffset, byteLength }: Uint8Array, dtype: DType) {
  const length = byteLength / BYTES_PER_ELEMENT[dtype];
  if (dtype === "float32") return new Float32Array(buffer, byteOffset, length);
  if (dtype === "float16") return new Uint16Array(buffer, byteOffset, length);
  if (dtype === "int32") return new Int32Array(buffer, byteOffset, length);
  if (dtype === "uint32") return new Uint32Array(buffer, byteOffset, length);
  return dtype === "int8"
    ? new Int8Array(buffer, byteOffset, length)
    : new Uint8Array(buffer, byteOffset, length);
}
