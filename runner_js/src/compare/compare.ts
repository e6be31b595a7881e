import { arrayOf, decoded, decodeHalf, elementsOf } from "../program/dtypes";
import type { Comparison, DType, Element, JsonNumber, TensorType, TestVerdict } from "../protocol/messages";
import { decodeHalves } from "./float16";
import { type Outside, Tally } from "./tally";
import { acceptedTies } from "./ties";

/** Elements decoded at a time, for dtypes that are not compared where they lie. */
const STRETCH = 1 << 15;

const FLOAT32_LOWEST = -(2 ** 31);
const FLOAT16_LOWEST = -(2 ** 15);

/** What an output may differ by: the tolerance's numbers, and its tensors where it has such. */
export interface Allowed {
  absolute: number;
  relative: number;
  bound?: Float32Array | null;
  ties?: Int32Array | null;
}

export interface Watched {
  /** Is told of each element that is wrong. */
  outside?: Outside | undefined;
  /** Of an output that overwrites an input: what that held, stored as the output is. */
  before?: Uint8Array | undefined;
}

/**
 * Compares the first elementsOf(type.shape) elements of what is stored; both must hold at least that many and be
 * aligned to their dtype. The rule is in messages.ts (Tolerance, Comparison).
 */
export function compare(
  stored: Uint8Array,
  storedExpected: Uint8Array,
  type: TensorType,
  allowed: Allowed,
  { outside, before }: Watched = {},
): Comparison {
  const got = decoded(stored, type);
  const expected = decoded(storedExpected, type);
  const total = elementsOf(type.shape);
  const bound = allowed.bound ?? null;
  const kept = before && keptOf(decoded(before, type), expected, type);
  let disturbed = 0;
  const told: Outside | undefined = kept
    ? (index, difference, most) => {
        if (kept(index)) disturbed++;
        outside?.(index, difference, most);
      }
    : outside;
  const tally = new Tally(allowed, bound, told);
  let tied = 0;
  if (type.dtype === "float32") compareFloat32(got, expected, total, tally);
  else if (type.dtype === "float16") compareFloat16(got, expected, total, tally);
  else tied = compareIntegers(got, expected, type.dtype, total, tally, allowed.ties ?? null);
  const element = (flat: number): Element | null => {
    if (flat < 0) return null;
    const value = valueAt(expected, type.dtype, flat);
    return {
      index: multiIndex(flat, type.shape),
      expected: jsonNumber(value),
      got: jsonNumber(valueAt(got, type.dtype, flat)),
      bound: jsonNumber(bound ? (bound[flat] as number) : scalarBound(allowed, value)),
    };
  };
  return {
    total,
    mismatched: tally.mismatched,
    unbounded: tally.unbounded,
    tied,
    nan: tally.nan,
    inf: tally.inf,
    max_abs_error: tally.maxAbs,
    max_rel_error: tally.maxRel,
    max_ulp: tally.maxUlp,
    ulp_histogram: Array.from(tally.histogram),
    first: element(tally.notable),
    worst: element(tally.worst),
    disturbed,
  };
}

/** Whether an element is one that the operator leaves as it was, bit for bit. */
function keptOf(before: Uint8Array, expected: Uint8Array, { dtype }: TensorType): (flat: number) => boolean {
  const size = arrayOf(expected, dtype).BYTES_PER_ELEMENT;
  return (flat) => {
    for (let byte = flat * size; byte < (flat + 1) * size; byte++)
      if (before[byte] !== expected[byte]) return false;
    return true;
  };
}

/** Only NaN is as good as NaN, and only the same infinity as an infinity: neither may differ by anything. */
function scalarBound({ absolute, relative }: Allowed, expected: number): number {
  return Number.isFinite(expected) ? absolute + relative * Math.abs(expected) : 0;
}

function compareFloat32(got: Uint8Array, expected: Uint8Array, total: number, tally: Tally): void {
  tally.floats(
    new Float32Array(got.buffer, got.byteOffset, total),
    new Float32Array(expected.buffer, expected.byteOffset, total),
    new Int32Array(got.buffer, got.byteOffset, total),
    new Int32Array(expected.buffer, expected.byteOffset, total),
    FLOAT32_LOWEST,
    total,
    0,
  );
}

function compareFloat16(got: Uint8Array, expected: Uint8Array, total: number, tally: Tally): void {
  const gotHalves = new Uint16Array(got.buffer, got.byteOffset, total);
  const expectedHalves = new Uint16Array(expected.buffer, expected.byteOffset, total);
  const gotSigned = new Int16Array(got.buffer, got.byteOffset, total);
  const expectedSigned = new Int16Array(expected.buffer, expected.byteOffset, total);
  const size = Math.min(STRETCH, total);
  const gotValues = new Float32Array(size);
  const expectedValues = new Float32Array(size);
  const gotBits = new Int32Array(size);
  const expectedBits = new Int32Array(size);
  for (let base = 0; base < total; base += STRETCH) {
    const count = Math.min(STRETCH, total - base);
    decodeHalves(gotHalves, base, count, gotValues);
    decodeHalves(expectedHalves, base, count, expectedValues);
    gotBits.set(gotSigned.subarray(base, base + count));
    expectedBits.set(expectedSigned.subarray(base, base + count));
    tally.floats(gotValues, expectedValues, gotBits, expectedBits, FLOAT16_LOWEST, count, base);
  }
}

function compareIntegers(
  got: Uint8Array,
  expected: Uint8Array,
  dtype: DType,
  total: number,
  tally: Tally,
  ties: Int32Array | null,
): number {
  const gotIntegers = arrayOf(got, dtype).subarray(0, total);
  const wanted = arrayOf(expected, dtype).subarray(0, total);
  const tied = ties ? acceptedTies(ties, gotIntegers, wanted) : [];
  // What is accepted counts as what was expected; `expected` itself may be shared with other tests.
  const expectedIntegers = tied.length ? wanted.slice() : wanted;
  for (const position of tied) expectedIntegers[position] = gotIntegers[position] as number;
  // Doubles, so that one loop serves all integer dtypes and stays fast.
  const gotValues = new Float64Array(Math.min(STRETCH, total));
  const expectedValues = new Float64Array(Math.min(STRETCH, total));
  for (let base = 0; base < total; base += STRETCH) {
    const count = Math.min(STRETCH, total - base);
    gotValues.set(gotIntegers.subarray(base, base + count));
    expectedValues.set(expectedIntegers.subarray(base, base + count));
    tally.integers(gotValues, expectedValues, count, base);
  }
  return tied.length;
}

function valueAt(bytes: Uint8Array, dtype: DType, flat: number): number {
  const element = arrayOf(bytes, dtype)[flat] as number;
  return dtype === "float16" ? decodeHalf(element) : element;
}

function multiIndex(flat: number, shape: readonly number[]): number[] {
  const index = new Array<number>(shape.length);
  let rest = flat;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const extent = shape[axis] as number;
    index[axis] = rest % extent;
    rest = Math.floor(rest / extent);
  }
  return index;
}

export function jsonNumber(value: number): JsonNumber {
  return Number.isFinite(value) ? value : (String(value) as JsonNumber);
}

/** A test fails where an element is wrong; where none is and some are unbounded, that is no pass either. */
export function judge(outputs: readonly Comparison[]): Pick<TestVerdict, "verdict" | "message"> {
  const failed = outputs.findIndex(({ mismatched }) => mismatched > 0);
  const place = failed < 0 ? outputs.findIndex(({ unbounded }) => unbounded > 0) : failed;
  const comparison = outputs[place];
  if (!comparison) return { verdict: "pass", message: "" };
  const which = outputs.length > 1 ? `output ${place}: ` : "";
  return { verdict: failed < 0 ? "unbounded" : "fail", message: which + describeComparison(comparison) };
}

/** Seven digits tell any two f16 apart, and all but the closest f32. */
function short(value: JsonNumber): string {
  return typeof value === "number" ? String(Number(value.toPrecision(7))) : value;
}

/**
 * "3 of 6144 elements differ beyond tolerance (2 NaN); worst at [0, 1, 7]: 1.5, expected 1.25", or, where none does,
 * "12 of 6144 elements are unbounded: WGSL promises nothing for them; first at [0, 1, 7]".
 */
export function describeComparison(comparison: Comparison): string {
  const { mismatched, unbounded, total, nan, inf, first, worst, disturbed = 0 } = comparison;
  if (!mismatched) {
    const where = first ? `; first at [${first.index.join(", ")}]` : "";
    return `${unbounded} of ${total} elements are unbounded: WGSL promises nothing for them${where}`;
  }
  const strange = [nan ? `${nan} NaN` : "", inf ? `${inf} Inf` : ""].filter(Boolean).join(", ");
  const where = worst
    ? `; worst at [${worst.index.join(", ")}]: ${short(worst.got)}, expected ${short(worst.expected)}`
    : "";
  const kept = disturbed
    ? `; ${disturbed} of them the operator leaves as they were: the kernel writes where it must not`
    : "";
  return `${mismatched} of ${total} elements differ beyond tolerance${strange ? ` (${strange})` : ""}${where}${kept}`;
}
