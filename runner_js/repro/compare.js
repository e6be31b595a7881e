/** The comparison with what was expected, element by element. */
/** @import { Bytes, Compared, ErrorMap, Output } from "./types" */

/** @type {Record<string, number>} */
const ITEM_BYTES = { float32: 4, float16: 2, int32: 4, uint32: 4, int8: 1, uint8: 1 };

/** @param {readonly number[]} shape */
function elementsOf(shape) {
  return shape.reduce((product, extent) => product * extent, 1);
}

/** @param {{dtype: string, shape: readonly number[]}} tensor */
export function bytesOf({ dtype, shape }) {
  return elementsOf(shape) * (ITEM_BYTES[dtype] ?? 4);
}

/** @param {Bytes} bytes @param {string} dtype */
function valuesOf({ buffer, byteOffset, byteLength }, dtype) {
  const length = byteLength / (ITEM_BYTES[dtype] ?? 4);
  if (dtype === "float32") return new Float32Array(buffer, byteOffset, length);
  if (dtype === "float16") return Float32Array.from(new Uint16Array(buffer, byteOffset, length), decodeHalf);
  if (dtype === "int32") return new Int32Array(buffer, byteOffset, length);
  if (dtype === "uint32") return new Uint32Array(buffer, byteOffset, length);
  return dtype === "int8"
    ? new Int8Array(buffer, byteOffset, length)
    : new Uint8Array(buffer, byteOffset, length);
}

/** Float16Array is younger than WebGPU. @param {number} bits */
function decodeHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const [exponent, fraction] = [(bits >> 10) & 0x1f, bits & 0x3ff];
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/**
 * Bit patterns as signed integers that are ordered as the floats are; -0 and 0 are the same.
 * @param {Bytes} bytes @param {string} dtype
 */
function orderOf({ buffer, byteOffset, byteLength }, dtype) {
  const single = dtype === "float32";
  const patterns = single
    ? new Int32Array(buffer, byteOffset, byteLength / 4)
    : new Int16Array(buffer, byteOffset, byteLength / 2);
  const negativeZero = single ? -(2 ** 31) : -(2 ** 15);
  /** @param {number} i */
  const order = (i) => (patterns[i] < 0 ? negativeZero - patterns[i] : patterns[i]);
  return { patterns, order };
}

/**
 * An element is right when |got - expected| <= absolute + relative * |expected|, when it has the very bits of the expected
 * one, or when both are NaN. `outside` is told of each that is not, and how many times the tolerance it is away.
 * @param {Bytes} got @param {Bytes} expected @param {{dtype: string, shape: readonly number[]}} type
 * @param {{absolute: number, relative: number}} tolerance @param {(index: number, times: number) => void} outside
 * @returns {Compared}
 */
export function compare(got, expected, type, { absolute, relative }, outside = () => {}) {
  const { dtype, shape } = type;
  const total = elementsOf(shape);
  const [gotValues, values] = [valuesOf(got, dtype), valuesOf(expected, dtype)];
  const floats = dtype.startsWith("float") ? [orderOf(got, dtype), orderOf(expected, dtype)] : null;
  let [mismatched, nan, inf, maxAbs, maxRel, maxUlp] = [0, 0, 0, 0, 0, 0];
  let [first, worst, worstExcess] = [-1, -1, Number.NEGATIVE_INFINITY];
  /** @param {number} i @param {number} times */
  const wrong = (i, times) => {
    mismatched++;
    if (first < 0) first = i;
    outside(i, times);
  };
  for (let i = 0; i < total; i++) {
    const g = gotValues[i];
    const e = values[i];
    const difference = Math.abs(g - e);
    if (floats) {
      if (floats[0].patterns[i] === floats[1].patterns[i]) continue;
      if (!(difference < Number.POSITIVE_INFINITY)) {
        // NaN or Inf on one side at least, and other bits.
        if (Number.isNaN(g) && Number.isNaN(e)) continue;
        if (Number.isNaN(g)) nan++;
        if (Math.abs(g) === Number.POSITIVE_INFINITY && Math.abs(e) !== Number.POSITIVE_INFINITY) inf++;
        wrong(i, Number.POSITIVE_INFINITY);
        if (worstExcess < Number.POSITIVE_INFINITY) worst = i;
        worstExcess = Number.POSITIVE_INFINITY;
        continue;
      }
      maxUlp = Math.max(maxUlp, Math.abs(floats[0].order(i) - floats[1].order(i)));
    } else if (difference === 0) continue;
    const magnitude = Math.abs(e);
    maxAbs = Math.max(maxAbs, difference);
    if (magnitude > 0 && difference > maxRel * magnitude) maxRel = difference / magnitude;
    const bound = absolute + relative * magnitude;
    const excess = difference - bound;
    // Written so that a tolerance that is no number lets nothing pass.
    if (!(excess <= 0)) wrong(i, bound > 0 ? difference / bound : 1e6);
    if (excess > worstExcess && difference > 0) [worst, worstExcess] = [i, excess];
  }
  if (!floats) maxUlp = maxAbs;
  /** @param {number} flat */
  const element = (flat) =>
    flat < 0
      ? null
      : { index: indexOf(flat, shape), expected: jsonNumber(values[flat]), got: jsonNumber(gotValues[flat]) };
  const most = { max_abs_error: maxAbs, max_rel_error: maxRel, max_ulp: maxUlp };
  return { total, mismatched, nan, inf, ...most, first: element(first), worst: element(worst) };
}

/** @param {number} flat @param {readonly number[]} shape */
function indexOf(flat, shape) {
  const index = [];
  for (const extent of shape.toReversed()) {
    index.unshift(flat % extent);
    flat = Math.floor(flat / extent);
  }
  return index;
}

/** @param {number} value */
function jsonNumber(value) {
  return Number.isFinite(value) ? value : /** @type {"NaN" | "Infinity" | "-Infinity"} */ (String(value));
}

/**
 * Where an output is wrong, over its last two axes and the worst of all others.
 * @param {Bytes} got @param {Bytes} expected @param {Output} type @param {number} output
 * @returns {ErrorMap}
 */
export function errorMap(got, expected, type, output) {
  const [columns = 1, rows = 1] = type.shape.toReversed();
  const step = /** @type {[number, number]} */ ([Math.ceil(rows / 256), Math.ceil(columns / 512)]);
  const [height, width] = [Math.ceil(rows / step[0]), Math.ceil(columns / step[1])];
  const cells = new Uint8Array(width * height);
  compare(got, expected, type, type.tolerance, (i, times) => {
    const row = Math.floor((Math.floor(i / columns) % rows) / step[0]);
    const cell = row * width + Math.floor((i % columns) / step[1]);
    // 1 just outside, 254 from a million times the tolerance on.
    const level = Math.round(1 + (253 / 6) * Math.log10(Math.max(1, times)));
    cells[cell] = Math.max(cells[cell], times === Number.POSITIVE_INFINITY ? 255 : Math.min(254, level));
  });
  return { output, width, height, step, cells };
}
