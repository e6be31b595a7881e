/** The comparison with what was expected, element by element. */
/** @import { Allowed, Bytes, Compared, DType, ErrorMap, TensorType } from "./types" */
import { arrayOf, decoded, decodeHalf, elementsOf } from "../src/program/dtypes.js";

/** @param {Bytes} bytes @param {DType} dtype */
function valuesOf(bytes, dtype) {
  const values = arrayOf(bytes, dtype);
  return dtype === "float16" ? Float32Array.from(values, decodeHalf) : values;
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

/** What an excess is counted in where a bound is 0: the least float32, so that any difference ranks above all others. */
const LEAST_BOUND = 2 ** -149;

/**
 * Where an operator may choose among equals. A group of `rows` (group, kind, number; kind 0 is an element's position, 1 a
 * value) is right when all elements at its positions are among its values, and no two are equal.
 * Gives the positions of elements that are right by that and differ from the expected ones.
 * @param {Int32Array} rows @param {ArrayLike<number>} got @param {ArrayLike<number>} expected
 */
function tiedPositions(rows, got, expected) {
  /** @type {Map<number, {positions: number[], values: Set<number>}>} */
  const groups = new Map();
  for (let row = 0; row + 2 < rows.length; row += 3) {
    const group = groups.get(rows[row]) ?? { positions: [], values: new Set() };
    groups.set(rows[row], group);
    if (rows[row + 1] === 0) group.positions.push(rows[row + 2]);
    else group.values.add(rows[row + 2]);
  }
  const right = [...groups.values()].filter(
    ({ positions, values }) =>
      positions.every((position) => values.has(got[position])) &&
      new Set(positions.map((position) => got[position])).size === positions.length,
  );
  return right
    .flatMap(({ positions }) => positions)
    .filter((position) => got[position] !== expected[position]);
}

/**
 * An element is right when |got - expected| <= bound[i] (without bounds: absolute + relative * |expected|), when it has the
 * very bits of the expected one, when both are NaN, or by its group of ties. One whose bound is Infinity is unbounded, which
 * is neither right nor wrong. `outside` is told of each that is wrong, and how many times the tolerance it is away.
 * @param {Bytes} got @param {Bytes} expected @param {TensorType} type
 * @param {Allowed} allowed @param {(index: number, times: number) => void} outside
 * @returns {Compared}
 */
export function compare(got, expected, type, allowed, outside = () => {}) {
  const { dtype, shape } = type;
  [got, expected] = [decoded(got, type), decoded(expected, type)];
  const { absolute, relative, bound: bounds = null, ties = null } = allowed;
  const total = elementsOf(shape);
  const [gotValues, values] = [valuesOf(got, dtype), valuesOf(expected, dtype)];
  const floats = dtype.startsWith("float") ? [orderOf(got, dtype), orderOf(expected, dtype)] : null;
  const tied = new Set(ties && !floats ? tiedPositions(ties, gotValues, values) : []);
  let [mismatched, unbounded, nan, inf, maxAbs, maxRel, maxUlp] = [0, 0, 0, 0, 0, 0, 0];
  let [first, firstUnbounded, worst, worstExcess] = [-1, -1, -1, Number.NEGATIVE_INFINITY];
  /** Only NaN is as good as NaN, and only the same infinity as an infinity. @param {number} i */
  const boundOf = (i) =>
    bounds ? bounds[i] : Number.isFinite(values[i]) ? absolute + relative * Math.abs(values[i]) : 0;
  /** @param {number} i @param {number} times */
  const wrong = (i, times) => {
    mismatched++;
    if (first < 0) first = i;
    outside(i, times);
  };
  for (let i = 0; i < total; i++) {
    const open = bounds?.[i] === Number.POSITIVE_INFINITY;
    if (open) {
      unbounded++;
      if (firstUnbounded < 0) firstUnbounded = i;
    }
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
        if (open) continue;
        wrong(i, Number.POSITIVE_INFINITY);
        if (worstExcess < Number.POSITIVE_INFINITY) worst = i;
        worstExcess = Number.POSITIVE_INFINITY;
        continue;
      }
      maxUlp = Math.max(maxUlp, Math.abs(floats[0].order(i) - floats[1].order(i)));
    } else if (difference === 0 || tied.has(i)) continue;
    const magnitude = Math.abs(e);
    maxAbs = Math.max(maxAbs, difference);
    if (magnitude > 0 && difference > maxRel * magnitude) maxRel = difference / magnitude;
    if (open) continue;
    const bound = boundOf(i);
    // Written so that a tolerance that is no number lets nothing pass.
    if (!(difference - bound <= 0)) wrong(i, bound > 0 ? difference / bound : 1e6);
    const excess = bounds ? difference / (bound > 0 ? bound : LEAST_BOUND) : difference - bound;
    if (excess > worstExcess && difference > 0) [worst, worstExcess] = [i, excess];
  }
  if (!floats) maxUlp = maxAbs;
  /** @param {number} flat */
  const element = (flat) =>
    flat < 0
      ? null
      : {
          index: indexOf(flat, shape),
          expected: jsonNumber(values[flat]),
          got: jsonNumber(gotValues[flat]),
          bound: jsonNumber(boundOf(flat)),
        };
  return {
    ...{ total, mismatched, unbounded, tied: tied.size, nan, inf },
    ...{ max_abs_error: maxAbs, max_rel_error: maxRel, max_ulp: maxUlp },
    ...{ first: element(first < 0 ? firstUnbounded : first), worst: element(worst) },
  };
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
 * @param {Bytes} got @param {Bytes} expected @param {TensorType} type
 * @param {number} output @param {Allowed} allowed
 * @returns {ErrorMap}
 */
export function errorMap(got, expected, type, output, allowed) {
  const [columns = 1, rows = 1] = type.shape.toReversed();
  const step = /** @type {[number, number]} */ ([Math.ceil(rows / 256), Math.ceil(columns / 512)]);
  const [height, width] = [Math.ceil(rows / step[0]), Math.ceil(columns / step[1])];
  const cells = new Uint8Array(width * height);
  compare(got, expected, type, allowed, (i, times) => {
    const row = Math.floor((Math.floor(i / columns) % rows) / step[0]);
    const cell = row * width + Math.floor((i % columns) / step[1]);
    // 1 just outside, 254 from a million times the tolerance on.
    const level = Math.round(1 + (253 / 6) * Math.log10(Math.max(1, times)));
    cells[cell] = Math.max(cells[cell], times === Number.POSITIVE_INFINITY ? 255 : Math.min(254, level));
  });
  return { output, width, height, step, cells };
}
