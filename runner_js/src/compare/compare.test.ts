import { describe, expect, it } from "vitest";
import type { DType } from "../protocol/messages";
import { type Allowed, compare, describeComparison } from "./compare";
import { ULP_BUCKETS } from "./tally";

const EXACT: Allowed = { absolute: 0, relative: 0 };

function bytes(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

function floats(got: number[], expected: number[], tolerance: Allowed = EXACT, shape = [got.length]) {
  return compare(
    bytes(Float32Array.from(got)),
    bytes(Float32Array.from(expected)),
    { dtype: "float32", shape },
    tolerance,
  );
}

/** Bit patterns. */
function halves(got: number[], expected: number[], tolerance: Allowed = EXACT) {
  const type = { dtype: "float16" as const, shape: [got.length] };
  return compare(bytes(Uint16Array.from(got)), bytes(Uint16Array.from(expected)), type, tolerance);
}

function sum(histogram: number[]): number {
  return histogram.reduce((a, b) => a + b, 0);
}

describe("compare float32", () => {
  it("passes what is equal", () => {
    const result = floats([1, -2, 3.5], [1, -2, 3.5]);
    expect(result).toMatchObject({
      total: 3,
      mismatched: 0,
      nan: 0,
      inf: 0,
      max_abs_error: 0,
      max_rel_error: 0,
      max_ulp: 0,
      first: null,
      worst: null,
    });
    expect(result.ulp_histogram).toHaveLength(ULP_BUCKETS);
    expect(result.ulp_histogram[0]).toBe(3);
  });

  it("allows absolute + relative * abs(expected), the bound included", () => {
    expect(floats([1.5], [1], { absolute: 0.5, relative: 0 }).mismatched).toBe(0);
    expect(floats([1.5], [1], { absolute: 0.25, relative: 0.25 }).mismatched).toBe(0);
    expect(floats([1.5], [1], { absolute: 0.25, relative: 0.2 }).mismatched).toBe(1);
    expect(floats([-150], [-100], { absolute: 0, relative: 0.5 }).mismatched).toBe(0);
    expect(floats([-151], [-100], { absolute: 0, relative: 0.5 }).mismatched).toBe(1);
  });

  it("never lets NaN pass", () => {
    const generous = { absolute: 1e30, relative: 1e30 };
    const result = floats([Number.NaN, 1], [1, 1], generous);
    expect(result).toMatchObject({ mismatched: 1, nan: 1, inf: 0, max_abs_error: 0 });
    expect(result.first).toEqual({ index: [0], expected: 1, got: "NaN", bound: 2e30 });
    expect(result.worst).toEqual(result.first);
    expect(result.ulp_histogram[ULP_BUCKETS - 1]).toBe(1);
    expect(floats([1], [Number.NaN], generous)).toMatchObject({ mismatched: 1, nan: 0 });
    expect(floats([1], [1.5], { absolute: Number.NaN, relative: 0 }).mismatched).toBe(1);
  });

  it("sees 0xFF bytes, the filling of a buffer nobody wrote, as NaN", () => {
    const untouched = new Uint8Array(8).fill(0xff);
    const type = { dtype: "float32" as const, shape: [2] };
    expect(
      compare(untouched, bytes(Float32Array.of(0, 1)), type, { absolute: 1e9, relative: 1 }),
    ).toMatchObject({
      mismatched: 2,
      nan: 2,
    });
  });

  it("takes NaN for NaN, of any payload and sign", () => {
    const got = bytes(Uint32Array.of(0xffffffff, 0x7fc00000));
    const expected = bytes(Uint32Array.of(0x7fc00000, 0x7fc00000));
    const result = compare(got, expected, { dtype: "float32", shape: [2] }, EXACT);
    expect(result).toMatchObject({ mismatched: 0, nan: 0, max_ulp: 0, worst: null });
    expect(result.ulp_histogram[0]).toBe(2);
  });

  it("wants Inf where Inf is expected, of the same sign", () => {
    const inf = Number.POSITIVE_INFINITY;
    const generous = { absolute: 1e30, relative: 1e30 };
    expect(floats([inf, -inf], [inf, -inf], generous).mismatched).toBe(0);
    expect(floats([-inf], [inf], generous)).toMatchObject({ mismatched: 1, inf: 0 });
    expect(floats([3.4e38], [inf], generous)).toMatchObject({ mismatched: 1, inf: 0, max_abs_error: 0 });
    expect(floats([inf], [3.4e38], generous)).toMatchObject({ mismatched: 1, inf: 1 });
    expect(floats([inf], [Number.NaN], generous)).toMatchObject({ mismatched: 1, inf: 1 });
  });

  it("takes -0 for 0", () => {
    const result = floats([-0, 0], [0, -0]);
    expect(result).toMatchObject({ mismatched: 0, max_ulp: 0, max_abs_error: 0 });
    expect(result.ulp_histogram[0]).toBe(2);
  });

  it("counts the distance through zero and in denormals", () => {
    const denormal = 2 ** -149;
    const result = floats([denormal, -denormal, 3 * denormal], [0, denormal, denormal]);
    expect(result).toMatchObject({ mismatched: 3, max_ulp: 2 });
    // From 0 itself there is none.
    expect(result.ulp_histogram.slice(0, 3)).toEqual([0, 0, 2]);
    expect(result.max_abs_error).toBe(2 * denormal);
  });

  it("sorts distances into powers of two", () => {
    const one = 0x3f800000;
    const distances = [0, 1, 2, 3, 4, 5, 8, 9, 16, 17];
    const got = bytes(Int32Array.from(distances, (d) => one + d));
    const expected = bytes(new Int32Array(distances.length).fill(one));
    const result = compare(got, expected, { dtype: "float32", shape: [distances.length] }, EXACT);
    expect(result.ulp_histogram.slice(0, 7)).toEqual([1, 1, 1, 2, 2, 2, 1]);
    expect(result.max_ulp).toBe(17);
  });

  it("counts every element once, whatever it is", () => {
    const inf = Number.POSITIVE_INFINITY;
    const strange = [0, -0, 1, -1, inf, -inf, Number.NaN, 2 ** -149, -(2 ** -149), 3.4028234663852886e38];
    const got = strange.flatMap((g) => strange.map(() => g));
    const expected = strange.flatMap(() => strange);
    const result = floats(got, expected, EXACT);
    // But those that differ from a 0 by a number: 0 and -0 against five each.
    expect(sum(result.ulp_histogram)).toBe(100 - 10);
    // What must not pass: a NaN on one side (18), Inf against anything else but itself (2 * 2 * 7 + 2).
    expect(floats(got, expected, { absolute: 1e39, relative: 1e3 }).mismatched).toBe(18 + 30);
    expect(result.max_ulp).toBe(0x7f7fffff + 0x3f800000);
    expect(JSON.parse(JSON.stringify(result))).toEqual(result);
  });

  it("gives no relative error and no ULP where the expected value may be 0", () => {
    const result = floats([1e-7, 1, 5, 4], [-1e-7, 0.25, 4, 4], { absolute: 0.5, relative: 0 });
    expect(result.max_rel_error).toBe(0.25);
    expect(result.max_abs_error).toBe(1);
    // From 4 to 5: a quarter of the values between powers of two.
    expect(result.max_ulp).toBe(2 ** 21);
    expect(sum(result.ulp_histogram)).toBe(2);
    const own = floats([1e-7, 5], [-1e-7, 4], { ...EXACT, bound: Float32Array.of(1e-6, 1e-6) });
    expect(own).toMatchObject({ mismatched: 1, max_rel_error: 0.25, max_ulp: 2 ** 21 });
  });

  it("names the first and the worst mismatch by index", () => {
    const expected = [0, 0, 0, 0, 0, 0];
    const result = floats([0, 0.5, 1, 0, 9, 1], expected, { absolute: 0.75, relative: 0 }, [2, 3]);
    expect(result.first).toEqual({ index: [0, 2], expected: 0, got: 1, bound: 0.75 });
    expect(result.worst).toEqual({ index: [1, 1], expected: 0, got: 9, bound: 0.75 });
    expect(describeComparison(result)).toBe(
      "3 of 6 elements differ beyond tolerance; worst at [1, 1]: 9, expected 0",
    );
  });

  it("calls a mismatch worse than a larger error that is allowed", () => {
    const result = floats([1010, 1.5], [1000, 1], { absolute: 0, relative: 0.1 });
    expect(result).toMatchObject({ mismatched: 1, max_abs_error: 10 });
    expect(result.worst?.index).toEqual([1]);
  });

  it("shows where it differed most when all passed", () => {
    expect(floats([1, 2.25, 3.125], [1, 2, 3], { absolute: 1, relative: 0 }).worst?.index).toEqual([1]);
  });

  it("calls NaN worse than any number", () => {
    expect(floats([1e30, Number.NaN, 2e30], [0, 0, 0]).worst).toEqual({
      index: [1],
      expected: 0,
      got: "NaN",
      bound: 0,
    });
  });

  it("compares nothing in an empty tensor", () => {
    const result = floats([], [], EXACT, [0, 4]);
    expect(result).toMatchObject({ total: 0, mismatched: 0, first: null, worst: null });
  });

  it("has an empty index for a scalar", () => {
    expect(floats([1], [2], EXACT, []).first).toEqual({ index: [], expected: 2, got: 1, bound: 0 });
  });

  it("reads from inside a larger buffer and ignores what follows", () => {
    const buffer = Float32Array.of(7, 1, 2, 99).buffer;
    const got = new Uint8Array(buffer, 4, 12);
    expect(
      compare(got, bytes(Float32Array.of(1, 2)), { dtype: "float32", shape: [2] }, EXACT).mismatched,
    ).toBe(0);
  });

  it("counts and finds elements all over a large output", () => {
    const [rows, columns] = [1000, 1000];
    const expected = Float32Array.from({ length: rows * columns }, (_, i) => Math.sin(i));
    const got = expected.slice();
    got[columns + 2] = 3;
    got[rows * columns - 1] = 5;
    const type = { dtype: "float32" as const, shape: [rows, columns] };
    const result = compare(bytes(got), bytes(expected), type, { absolute: 1e-6, relative: 1e-6 });
    expect(result).toMatchObject({ total: rows * columns, mismatched: 2 });
    expect(result.first?.index).toEqual([1, 2]);
    expect(result.worst).toMatchObject({ index: [rows - 1, columns - 1], got: 5 });
    expect(sum(result.ulp_histogram)).toBe(rows * columns);
    expect(result.ulp_histogram[0]).toBe(rows * columns - 2);
  });
});

describe("compare float16", () => {
  it("decodes before it compares", () => {
    const result = halves([0x3c01, 0xc000], [0x3c00, 0xc000], { absolute: 0, relative: 2 ** -10 });
    expect(result).toMatchObject({ mismatched: 0, max_abs_error: 2 ** -10, max_ulp: 1 });
    expect(result.worst).toEqual({ index: [0], expected: 1, got: 1 + 2 ** -10, bound: 2 ** -10 });
  });

  it("knows NaN, Inf, -0 and denormals", () => {
    const generous = { absolute: 1e6, relative: 10 };
    expect(halves([0xffff], [0x3c00], generous)).toMatchObject({ mismatched: 1, nan: 1 });
    expect(halves([0xffff], [0x7e00], generous)).toMatchObject({ mismatched: 0, nan: 0 });
    expect(halves([0x7c00], [0x7bff], generous)).toMatchObject({ mismatched: 1, inf: 1, max_ulp: 0 });
    expect(halves([0x7c00], [0x7c00], generous).mismatched).toBe(0);
    expect(halves([0x7c00], [0xfc00], generous).mismatched).toBe(1);
    expect(halves([0x8000], [0x0000])).toMatchObject({ mismatched: 0, max_ulp: 0 });
    expect(halves([0x8001], [0x0001])).toMatchObject({ mismatched: 1, max_ulp: 2 });
  });

  it("keeps its place over many stretches", () => {
    const count = 100_000;
    const expected = new Uint16Array(count).fill(0x3c00);
    const got = expected.slice();
    got[99_000] = 0x4000;
    const result = compare(bytes(got), bytes(expected), { dtype: "float16", shape: [100, 1000] }, EXACT);
    expect(result).toMatchObject({ total: count, mismatched: 1 });
    expect(result.first).toEqual({ index: [99, 0], expected: 1, got: 2, bound: 0 });
    expect(sum(result.ulp_histogram)).toBe(count);
  });
});

describe("compare integers", () => {
  const cases: [DType, ArrayBufferView, ArrayBufferView, number][] = [
    ["int32", Int32Array.of(-(2 ** 31), 5), Int32Array.of(2 ** 31 - 1, 5), 2 ** 32 - 1],
    ["uint32", Uint32Array.of(2 ** 32 - 1, 5), Uint32Array.of(0, 5), 2 ** 32 - 1],
    ["int8", Int8Array.of(-128, 5), Int8Array.of(127, 5), 255],
    ["uint8", Uint8Array.of(255, 5), Uint8Array.of(0, 5), 255],
  ];
  it.each(cases)("%s from end to end", (dtype, got, expected, difference) => {
    const result = compare(bytes(got), bytes(expected), { dtype, shape: [2] }, EXACT);
    expect(result).toMatchObject({
      total: 2,
      mismatched: 1,
      max_abs_error: difference,
      max_ulp: difference,
      nan: 0,
    });
    expect(sum(result.ulp_histogram)).toBe(2);
    expect(result.ulp_histogram[0]).toBe(1);
  });

  it("allows a tolerance", () => {
    const type = { dtype: "int32" as const, shape: [3] };
    const result = compare(bytes(Int32Array.of(1, 12, -9)), bytes(Int32Array.of(0, 10, -10)), type, {
      absolute: 1,
      relative: 0,
    });
    expect(result).toMatchObject({ mismatched: 1, max_abs_error: 2 });
    expect(result.first).toEqual({ index: [1], expected: 10, got: 12, bound: 1 });
  });

  it("sees untouched int8 as -1", () => {
    const type = { dtype: "int8" as const, shape: [1] };
    expect(compare(Uint8Array.of(255), Uint8Array.of(0), type, EXACT).first?.got).toBe(-1);
  });
});

describe("compare with a bound for each element", () => {
  const inf = Number.POSITIVE_INFINITY;
  const bounded = (got: number[], expected: number[], bound: number[]) =>
    // The numbers are only a summary: were they looked at, nothing would ever be wrong.
    floats(got, expected, { absolute: 1e30, relative: 1, bound: Float32Array.from(bound) });

  it("holds each element against its own, in double arithmetic", () => {
    const result = bounded([1.5, 1.5, 3], [1, 1, 2], [0.5, 0.25, 1]);
    expect(result).toMatchObject({ mismatched: 1, unbounded: 0, tied: 0, max_abs_error: 1 });
    expect(result.first).toEqual({ index: [1], expected: 1, got: 1.5, bound: 0.25 });
    // As a float32 the difference would be 2^25, which is allowed.
    expect(bounded([2 ** 25 + 4], [3], [2 ** 25]).mismatched).toBe(1);
    expect(bounded([2 ** 25 + 4], [4], [2 ** 25]).mismatched).toBe(0);
  });

  it("calls the element worst that exceeds its own bound most, inside or outside", () => {
    expect(bounded([10, 2, 1], [0, 0, 0], [9, 1, 1]).worst).toEqual({
      index: [1],
      expected: 0,
      got: 2,
      bound: 1,
    });
    expect(bounded([1, 1], [0, 0], [2, 1.5])).toMatchObject({ mismatched: 0, worst: { index: [1] } });
    // Beside a bound of 0 all others are small, and a larger difference is worse.
    expect(bounded([100, 1, 2], [0, 0, 0], [1, 0, 0]).worst?.index).toEqual([2]);
    expect(bounded([1, Number.NaN, 2], [0, 0, 0], [0, 1, 0]).worst?.index).toEqual([1]);
  });

  it("counts the unbounded ones and never calls them wrong, whatever their value", () => {
    const result = bounded([1, Number.NaN, inf, 4, 0], [1, 2, 3, 9, 0], [inf, inf, inf, inf, 0]);
    expect(result).toMatchObject({ total: 5, mismatched: 0, unbounded: 4, nan: 1, inf: 1, worst: null });
    expect(result.first).toEqual({ index: [0], expected: 1, got: 1, bound: "Infinity" });
    expect(describeComparison(result)).toBe(
      "4 of 5 elements are unbounded: WGSL promises nothing for them; first at [0]",
    );
    const mixed = bounded([9, 9], [0, 0], [inf, 1]);
    expect(mixed).toMatchObject({
      mismatched: 1,
      unbounded: 1,
      first: { index: [1] },
      worst: { index: [1] },
    });
    expect(describeComparison(mixed)).toBe(
      "1 of 2 elements differ beyond tolerance; worst at [1]: 9, expected 0",
    );
  });

  it("wants NaN for NaN and the same infinity for an infinity, however large the bound is", () => {
    const huge = [3e38, 3e38];
    expect(bounded([Number.NaN, -inf], [Number.NaN, -inf], huge).mismatched).toBe(0);
    expect(bounded([1, inf], [Number.NaN, -inf], huge)).toMatchObject({ mismatched: 2, nan: 0 });
    expect(bounded([Number.NaN, inf], [1, 3e38], huge)).toMatchObject({ mismatched: 2, nan: 1, inf: 1 });
  });

  it("lets nothing pass a bound that is no number or negative", () => {
    expect(bounded([1.5, 1.5], [1, 1], [Number.NaN, -1]).mismatched).toBe(2);
  });

  it("holds float16 against float32 bounds, over many stretches", () => {
    const count = 70_000;
    const bound = new Float32Array(count).fill(2 ** -10);
    [bound[65_000], bound[66_000], bound[69_999]] = [2 ** -11, inf, 0];
    const result = compare(
      bytes(new Uint16Array(count).fill(0x3c01)),
      bytes(new Uint16Array(count).fill(0x3c00)),
      { dtype: "float16", shape: [count] },
      { ...EXACT, bound },
    );
    expect(result).toMatchObject({ mismatched: 2, unbounded: 1, max_ulp: 1 });
    expect(result.first).toEqual({ index: [65_000], expected: 1, got: 1 + 2 ** -10, bound: 2 ** -11 });
    expect(result.worst).toEqual({ index: [69_999], expected: 1, got: 1 + 2 ** -10, bound: 0 });
  });

  it("holds integers against theirs", () => {
    const result = compare(
      bytes(Int32Array.of(5, 5, 5)),
      bytes(Int32Array.of(4, 4, 4)),
      { dtype: "int32", shape: [3] },
      { ...EXACT, bound: Float32Array.of(1, 0.5, inf) },
    );
    expect(result).toMatchObject({ mismatched: 1, unbounded: 1, first: { index: [1], bound: 0.5 } });
  });

  it("gives the same numbers beside the verdict as without bounds", () => {
    const got = Array.from({ length: 1000 }, (_, i) => (i % 7 ? i : i * 1.0001));
    const expected = got.map((_, i) => i);
    const { max_abs_error, max_rel_error, max_ulp, ulp_histogram } = floats(got, expected);
    expect(bounded(got, expected, new Array(1000).fill(1))).toMatchObject({
      ...{ max_abs_error, max_rel_error, max_ulp, ulp_histogram, mismatched: 0 },
    });
  });
});

describe("compare with ties", () => {
  /** Group 4: elements 0 and 1, which may be 7, 8 or 9. Group 5: element 3, which may be 1 or 2. */
  const TIES = Int32Array.of(
    ...[4, 0, 0, 4, 0, 1, 4, 1, 7, 4, 1, 8, 4, 1, 9],
    ...[5, 1, 1, 5, 0, 3, 5, 1, 2],
  );
  const EXPECTED = [7, 8, 50, 1];
  const indices = (got: number[], dtype: "int32" | "uint32" = "int32") => {
    const make = dtype === "int32" ? Int32Array : Uint32Array;
    const type = { dtype, shape: [2, 2] };
    return compare(bytes(make.from(got)), bytes(make.from(EXPECTED)), type, { ...EXACT, ties: TIES });
  };

  it("lets an operator choose among equals", () => {
    expect(indices(EXPECTED)).toMatchObject({ mismatched: 0, tied: 0 });
    expect(indices([8, 7, 50, 1])).toMatchObject({ mismatched: 0, tied: 2, max_abs_error: 0, worst: null });
    expect(indices([7, 9, 50, 2], "uint32")).toMatchObject({ mismatched: 0, tied: 2, first: null });
  });

  it("wants no value twice, and none that is not of the group", () => {
    const twice = indices([8, 8, 50, 2]);
    expect(twice).toMatchObject({ mismatched: 1, tied: 1 });
    expect(twice.first).toEqual({ index: [0, 0], expected: 7, got: 8, bound: 0 });
    // The whole group fails, and those that differ are wrong.
    expect(indices([9, 1, 50, 1])).toMatchObject({ mismatched: 2, tied: 0 });
  });

  it("holds elements of no group against the expected ones", () => {
    expect(indices([7, 8, 7, 1])).toMatchObject({ mismatched: 1, tied: 0, first: { index: [1, 0] } });
  });

  it("leaves the expected bytes as they were, for other tests have them too", () => {
    const expected = Int32Array.from(EXPECTED);
    const got = bytes(Int32Array.of(8, 7, 50, 1));
    compare(got, bytes(expected), { dtype: "int32", shape: [4] }, { ...EXACT, ties: TIES });
    expect([...expected]).toEqual(EXPECTED);
  });
});
