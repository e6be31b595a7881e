import { describe, expect, it } from "vitest";
import vectors from "../../../tests/vectors/encodings.json";
import { arrayOf, decoded, decodeHalf } from "../program/dtypes";
import type { DType, TensorType } from "../protocol/messages";
import { type Allowed, compare } from "./compare";
import { errorMap } from "./error_map";

type Bytes = Uint8Array<ArrayBuffer>;

const BITS: Record<DType, number> = {
  float32: 32,
  float16: 16,
  int32: 32,
  uint32: 32,
  int8: 8,
  uint8: 8,
  bool: 8,
};
/** Bit patterns at which floats are special: zeros, denormals, largest, Inf, NaN of both signs. */
const SPECIAL: Partial<Record<DType, number[]>> = {
  float32: [
    0, 0x80000000, 1, 0x80000001, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffffffff, 0x3f800000,
  ],
  float16: [0, 0x8000, 1, 0x8001, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0xffff, 0x3c00],
};

/** The same numbers for the same seed (mulberry32). */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Elements of any bits, most of them near their expected ones. */
function pair(dtype: DType, count: number, next: () => number): [Bytes, Bytes] {
  const width = BITS[dtype];
  const make = { 32: Uint32Array, 16: Uint16Array, 8: Uint8Array }[width as 32 | 16 | 8];
  const any = () => {
    const special = SPECIAL[dtype];
    if (special && next() < 0.15) return special[Math.floor(next() * special.length)] as number;
    return Math.floor(next() * 2 ** width);
  };
  const expected = make.from(Array.from({ length: count }, any));
  const got = expected.map((bits) => {
    const kind = next();
    if (kind < 0.4) return bits;
    return kind < 0.8 ? bits + Math.floor(next() * 9) - 4 : any();
  });
  return [new Uint8Array(got.buffer), new Uint8Array(expected.buffer)];
}

function anyBound(next: () => number): number {
  const special = [0, Number.POSITIVE_INFINITY, Number.NaN, 2 ** -149, 3e38];
  if (next() < 0.3) return special[Math.floor(next() * special.length)] as number;
  return 10 ** (next() * 20 - 12);
}

/** Groups over some of the elements: of what they are and should be, and of what they are not. */
function anyTies(got: Bytes, expected: Bytes, dtype: DType, count: number, next: () => number): Int32Array {
  const make = {
    int32: Int32Array,
    uint32: Uint32Array,
    int8: Int8Array,
    uint8: Uint8Array,
    bool: Uint8Array,
  };
  const view = (bytes: Bytes) => new make[dtype as keyof typeof make](bytes.buffer);
  const rows: number[] = [];
  for (let position = 0; position < count; position++) {
    if (next() < 0.3) continue;
    const group = Math.floor(next() * 5);
    rows.push(group, 0, position, group, 1, view(expected)[position] as number);
    if (next() < 0.9) rows.push(group, 1, view(got)[position] as number);
  }
  return Int32Array.from(rows);
}

/** Groups of `rows` whose positions hold different ones of their values: those positions that differ. */
function tiedPositions(rows: Int32Array, got: number[], expected: number[]): number[] {
  const triples = Array.from({ length: rows.length / 3 }, (_, i) => [...rows.subarray(3 * i, 3 * i + 3)]);
  return [...new Set(triples.map(([group]) => group))].flatMap((group) => {
    const of = (kind: number) => triples.filter((row) => row[0] === group && row[1] === kind);
    const positions = of(0).map((row) => row[2] as number);
    const values = of(1).map((row) => row[2] as number);
    const chosen = positions.map((position) => got[position] as number);
    const right = chosen.every((one) => values.includes(one)) && new Set(chosen).size === chosen.length;
    return right ? positions.filter((position) => got[position] !== expected[position]) : [];
  });
}

/** The rule, one element after the other and without a thought to speed: what is compared with what. */
function ruled(gotBytes: Bytes, expectedBytes: Bytes, type: TensorType, allowed: Allowed) {
  const { dtype } = type;
  const isFloat = dtype.startsWith("float");
  const [got, expected] = [gotBytes, expectedBytes].map((bytes) =>
    Array.from<number, number>(arrayOf(decoded(bytes, type), dtype), (value) =>
      dtype === "float16" ? decodeHalf(value) : value,
    ),
  ) as [number[], number[]];
  const patterns = (bytes: Bytes) =>
    dtype === "float32" ? new Int32Array(bytes.buffer) : new Int16Array(bytes.buffer);
  const lowest = dtype === "float32" ? -(2 ** 31) : -(2 ** 15);
  const order = (bytes: Bytes, i: number) => {
    const pattern = patterns(bytes)[i] as number;
    return pattern < 0 ? lowest - pattern : pattern;
  };
  const { absolute, relative, bound: bounds, ties } = allowed;
  const tied = ties ? tiedPositions(ties, got, expected) : [];
  const found = {
    mismatched: 0,
    unbounded: 0,
    tied: tied.length,
    nan: 0,
    inf: 0,
    disturbed: 0,
    first: -1,
    worst: -1,
  };
  let [maxAbs, maxRel, maxUlp, near, open, most] = [0, 0, 0, 0, -1, Number.NEGATIVE_INFINITY];
  for (const [i, g] of got.entries()) {
    const e = expected[i] as number;
    const finite = Number.isFinite(g) && Number.isFinite(e);
    const bound = bounds ? (bounds[i] as number) : Number.isFinite(e) ? absolute + relative * Math.abs(e) : 0;
    const unbounded = bounds?.[i] === Number.POSITIVE_INFINITY;
    if (unbounded) found.unbounded++;
    if (unbounded && open < 0) open = i;
    if (tied.includes(i) || Object.is(g, e) || (g === e && !finite)) continue;
    const difference = finite ? Math.abs(g - e) : Number.POSITIVE_INFINITY;
    if (Number.isNaN(g)) found.nan++;
    if (Math.abs(g) === Number.POSITIVE_INFINITY && Math.abs(e) !== Number.POSITIVE_INFINITY) found.inf++;
    if (finite) {
      maxAbs = Math.max(maxAbs, difference);
      // What may be 0 has no error relative to it.
      const far = Math.abs(e) > bound;
      if (far) maxRel = Math.max(maxRel, difference / Math.abs(e));
      if (!isFloat) maxUlp = Math.max(maxUlp, difference);
      else if (far) maxUlp = Math.max(maxUlp, Math.abs(order(gotBytes, i) - order(expectedBytes, i)));
      else if (difference > 0) near++;
    }
    if (unbounded) continue;
    if (!(difference <= bound)) {
      found.mismatched++;
      if (found.first < 0) found.first = i;
    }
    const times = bounds ? difference / (bound > 0 ? bound : 2 ** -149) : difference - bound;
    const excess = finite ? times : Number.POSITIVE_INFINITY;
    if (excess > most && difference > 0) [most, found.worst] = [excess, i];
  }
  if (found.first < 0) found.first = open;
  return {
    ...found,
    max_abs_error: maxAbs,
    max_rel_error: maxRel,
    max_ulp: maxUlp,
    counted: got.length - near,
  };
}

/** What `compare` gives, as `ruled` says it: elements by their place. */
function compared(got: Bytes, expected: Bytes, type: TensorType, allowed: Allowed) {
  const { total, ulp_histogram, first, worst, ...numbers } = compare(got, expected, type, allowed);
  const counted = ulp_histogram.reduce((sum, count) => sum + count, 0);
  const place = (element: typeof first) =>
    element ? element.index.reduce((flat, at, axis) => flat * (type.shape[axis] as number) + at, 0) : -1;
  return { ...numbers, counted, first: place(first), worst: place(worst) };
}

const TOLERANCES = [
  { absolute: 0, relative: 0 },
  { absolute: 1e-3, relative: 1e-6 },
  { absolute: 2, relative: 0.5 },
  { absolute: 1e30, relative: 1e30 },
  { absolute: Number.NaN, relative: 0 },
];

describe.each(Object.keys(BITS) as DType[])("%s is compared", (dtype) => {
  it("as the rule says, whatever the bits are", () => {
    let differing = 0;
    for (let seed = 0; seed < 200; seed++) {
      const next = random(seed);
      const shape = [1 + Math.floor(next() * 3), 1 + Math.floor(next() * 4), 1 + Math.floor(next() * 9)];
      const [got, expected] = pair(
        dtype,
        shape.reduce((a, b) => a * b),
        next,
      );
      const tolerance = TOLERANCES[seed % TOLERANCES.length] as (typeof TOLERANCES)[number];
      const wanted = ruled(got, expected, { dtype, shape }, tolerance);
      expect(compared(got, expected, { dtype, shape }, tolerance), `seed ${seed}`).toEqual(wanted);
      if (wanted.mismatched) differing++;
    }
    // Or the property would hold of nothing.
    expect(differing).toBeGreaterThan(50);
  });

  it("as the rule says with a bound for each element, and with ties", () => {
    const seen = { mismatched: 0, unbounded: 0, tied: 0 };
    for (let seed = 0; seed < 300; seed++) {
      const next = random(seed + 1000);
      const shape = [1 + Math.floor(next() * 3), 1 + Math.floor(next() * 9)];
      const count = shape.reduce((a, b) => a * b);
      const [got, expected] = pair(dtype, count, next);
      const bound = seed % 3 ? Float32Array.from({ length: count }, () => anyBound(next)) : null;
      const ties = dtype.startsWith("float") ? null : anyTies(got, expected, dtype, count, next);
      const allowed: Allowed = { absolute: 1, relative: 0, bound, ties };
      const wanted = ruled(got, expected, { dtype, shape }, allowed);
      expect(compared(got, expected, { dtype, shape }, allowed), `seed ${seed}`).toEqual(wanted);
      for (const key of Object.keys(seen) as (keyof typeof seen)[]) if (wanted[key]) seen[key]++;
    }
    expect(seen.mismatched).toBeGreaterThan(50);
    expect(seen.unbounded).toBeGreaterThan(50);
    if (!dtype.startsWith("float")) expect(seen.tied).toBeGreaterThan(20);
  });

  it("as the rule says where all is equal, and where there is only one number", () => {
    const [, bytes] = pair(dtype, 64, random(7));
    expect(
      compare(bytes, bytes.slice(), { dtype, shape: [64] }, { absolute: 0, relative: 0 }).mismatched,
    ).toBe(0);
    const [got, expected] = pair(dtype, 1, random(3));
    const exact = { absolute: 0, relative: 0 };
    const wanted = ruled(got, expected, { dtype, shape: [] }, exact);
    expect(compared(got, expected, { dtype, shape: [] }, exact)).toEqual(wanted);
  });
});

it.each(vectors.stored)(
  "elements of $dtype as $encoding are compared as the rule says",
  ({ bytes, ...found }) => {
    const { dtype, shape, encoding } = found;
    const type = { dtype: dtype as DType, shape, encoding: encoding as TensorType["encoding"] & string };
    const expected = Uint8Array.from(bytes.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
    for (let at = 0; at < expected.length; at++) {
      const got = expected.slice();
      got[at] = (expected[at] as number) ^ 0x11;
      const exact = { absolute: 0, relative: 0 };
      const stored = [got, expected].map((one) => decoded(one, type)) as [Bytes, Bytes];
      const wanted = ruled(...stored, { dtype: type.dtype, shape }, exact);
      expect(compared(got, expected, type, exact)).toEqual(wanted);
    }
  },
);

it("takes a buffer that nobody wrote for wrong, in all dtypes that could hold what is expected", () => {
  const untouched = new Uint8Array(16).fill(0xff);
  const expected = new Uint8Array(Float32Array.of(0, 1, 2, 3).buffer);
  const type = { dtype: "float32" as const, shape: [4] };
  expect(compare(untouched, expected, type, { absolute: 1e9, relative: 1 })).toMatchObject({
    mismatched: 4,
    nan: 4,
  });
});

describe("the error map", () => {
  const floats = (values: number[]) => new Uint8Array(Float32Array.from(values).buffer);
  const type = (...shape: number[]) => ({ dtype: "float32" as const, shape });
  const WITHIN_ONE = { absolute: 1, relative: 0 };

  it("lies over the last two axes and shows the worst of the others", () => {
    const expected = floats(new Array(12).fill(0));
    const got = floats([0, 0, 0, 1.5, 0, 0, 0, 0, 0, 1e9, 0, Number.NaN]);
    const map = errorMap(got, expected, type(2, 2, 3), 4, WITHIN_ONE);
    expect(map).toMatchObject({ output: 4, width: 3, height: 2, step: [1, 1] });
    expect([...map.cells]).toEqual([0, 0, 0, 254, 0, 255]);
  });

  it("says how far outside an element is", () => {
    const got = [0.5, 1.0001, 10, 1000, 1e6, 1e30, Number.POSITIVE_INFINITY];
    const { cells, width, height } = errorMap(floats(got), floats(got.map(() => 0)), type(7), 0, WITHIN_ONE);
    expect([width, height]).toEqual([7, 1]);
    expect([...cells]).toEqual([0, 1, 43, 128, 254, 254, 255]);
  });

  it("draws many elements as one cell, and loses none", () => {
    const shape = [1000, 1500];
    const expected = new Float32Array(1_500_000);
    const got = expected.slice();
    got[999 * 1500 + 1499] = 5;
    const map = errorMap(
      new Uint8Array(got.buffer),
      new Uint8Array(expected.buffer),
      type(...shape),
      0,
      WITHIN_ONE,
    );
    expect(map).toMatchObject({ width: 500, height: 250, step: [4, 3] });
    expect(map.cells.filter(Boolean)).toHaveLength(1);
    expect(map.cells.at(-1)).toBeGreaterThan(0);
  });

  it("shows a scalar, and exact outputs that are wrong", () => {
    const map = errorMap(floats([2]), floats([1]), type(), 0, { absolute: 0, relative: 0 });
    expect([map.width, map.height, ...map.cells]).toEqual([1, 1, 254]);
  });

  it("knows the bound of each element, and draws nothing where there is none", () => {
    const bound = Float32Array.of(1, 10, Number.POSITIVE_INFINITY, 0);
    const map = errorMap(floats([10, 10, 10, 10]), floats([0, 0, 0, 0]), type(4), 0, {
      ...WITHIN_ONE,
      bound,
    });
    expect([...map.cells]).toEqual([43, 0, 0, 254]);
  });
});
