import type { Tolerance } from "../protocol/messages";

/** ULP distance 0, 1, 2, 3-4, 5-8, ... up to 2^32, and NaN on one side. The same length for every dtype. */
export const ULP_BUCKETS = 35;

/** What an excess is counted in where a bound is 0: the least float32, so that any difference ranks above all others. */
const LEAST = 2 ** -149;

/** Is told of an element that is wrong by its flat index, what it differs by (Infinity with NaN or Inf) and might differ by. */
export type Outside = (index: number, difference: number, bound: number) => void;

/**
 * Running totals of one comparison. Values come in stretches, `base` being the flat index of the first;
 * the loops allocate nothing, for an output may have many millions of elements.
 */
export class Tally {
  mismatched = 0;
  nan = 0;
  inf = 0;
  maxAbs = 0;
  maxRel = 0;
  maxUlp = 0;
  readonly histogram = new Float64Array(ULP_BUCKETS);
  /** Flat indices, -1 when there is none. */
  first = -1;
  /** Of the bounded elements that differ at all, the one with the largest excess over the tolerance. */
  worst = -1;
  unbounded = 0;
  private firstUnbounded = -1;
  private worstExcess = Number.NEGATIVE_INFINITY;

  /** `bounds`: for each element, instead of the tolerance's numbers. `outside` is told of each mismatched element. */
  constructor(
    private readonly tolerance: Pick<Tolerance, "absolute" | "relative">,
    private readonly bounds: Float32Array | null = null,
    private readonly outside?: Outside | undefined,
  ) {
    for (let i = 0; bounds && i < bounds.length; i++) {
      if (bounds[i] !== Number.POSITIVE_INFINITY) continue;
      this.unbounded++;
      if (this.firstUnbounded < 0) this.firstUnbounded = i;
    }
  }

  /** What is worth showing first: the first mismatched element, else the first unbounded one. */
  get notable(): number {
    return this.first < 0 ? this.firstUnbounded : this.first;
  }

  /**
   * `lowest` is the bit pattern of -0 as a signed integer: -2^31 for float32, -2^15 for float16.
   * Negative patterns p become lowest - p, so that integers are ordered as the floats are and -0 meets 0.
   */
  floats(
    got: Float32Array,
    expected: Float32Array,
    gotBits: Int32Array,
    expectedBits: Int32Array,
    lowest: number,
    count: number,
    base: number,
  ): void {
    const { histogram, bounds } = this;
    const { absolute, relative } = this.tolerance;
    let equal = 0;
    let { maxAbs, maxRel, maxUlp, worst, worstExcess } = this;
    for (let i = 0; i < count; i++) {
      const gotPattern = gotBits[i] as number;
      const expectedPattern = expectedBits[i] as number;
      if (gotPattern === expectedPattern) {
        // Bit-equal, NaN included.
        equal++;
        continue;
      }
      const g = got[i] as number;
      const e = expected[i] as number;
      let difference = Math.abs(g - e);
      let bound = bounds ? (bounds[base + i] as number) : 0;
      // g - e is finite exactly when both are: these are float32 values in double arithmetic.
      if (difference < Number.POSITIVE_INFINITY) {
        if (difference > maxAbs) maxAbs = difference;
        const magnitude = Math.abs(e);
        if (!bounds) bound = absolute + relative * magnitude;
        // What may be 0 has no error that is relative to it, and is any number of representable values away.
        if (magnitude > bound) {
          const a = gotPattern < 0 ? lowest - gotPattern : gotPattern;
          const b = expectedPattern < 0 ? lowest - expectedPattern : expectedPattern;
          const ulp = Math.abs(a - b);
          const bucket = ulp === 0 ? 0 : 33 - Math.clz32(ulp - 1);
          histogram[bucket] = (histogram[bucket] as number) + 1;
          if (ulp > maxUlp) maxUlp = ulp;
          if (difference > maxRel * magnitude) maxRel = difference / magnitude;
        } else if (difference === 0) equal++;
      } else {
        if (!this.nonFinite(g, e, gotPattern, expectedPattern, lowest)) continue;
        difference = Number.POSITIVE_INFINITY;
      }
      // Nothing is said of an unbounded one.
      if (bound === Number.POSITIVE_INFINITY) continue;
      // Written so that a bound that is no number lets nothing pass.
      if (!(difference <= bound)) this.mismatch(base + i, difference, bound);
      const excess = bounds ? difference / (bound > 0 ? bound : LEAST) : difference - bound;
      if (excess > worstExcess && difference > 0) {
        worstExcess = excess;
        worst = base + i;
      }
    }
    histogram[0] = (histogram[0] as number) + equal;
    this.maxAbs = maxAbs;
    this.maxRel = maxRel;
    this.maxUlp = maxUlp;
    this.worst = worst;
    this.worstExcess = worstExcess;
  }

  /** Integers, as doubles: every 32-bit value and every difference of two is exact. */
  integers(got: Float64Array, expected: Float64Array, count: number, base: number): void {
    const { histogram, bounds } = this;
    const { absolute, relative } = this.tolerance;
    for (let i = 0; i < count; i++) {
      const e = expected[i] as number;
      const difference = Math.abs((got[i] as number) - e);
      const bucket = difference === 0 ? 0 : 33 - Math.clz32(difference - 1);
      histogram[bucket] = (histogram[bucket] as number) + 1;
      if (difference === 0) continue;
      if (difference > this.maxAbs) this.maxAbs = difference;
      const magnitude = Math.abs(e);
      const bound = bounds ? (bounds[base + i] as number) : absolute + relative * magnitude;
      if (magnitude > bound && difference > this.maxRel * magnitude) this.maxRel = difference / magnitude;
      if (bound === Number.POSITIVE_INFINITY) continue;
      if (!(difference <= bound)) this.mismatch(base + i, difference, bound);
      const excess = bounds ? difference / (bound > 0 ? bound : LEAST) : difference - bound;
      if (excess > this.worstExcess) {
        this.worstExcess = excess;
        this.worst = base + i;
      }
    }
    this.maxUlp = this.maxAbs;
  }

  private mismatch(index: number, difference: number, bound: number): void {
    this.mismatched++;
    if (this.first < 0) this.first = index;
    this.outside?.(index, difference, bound);
  }

  /** At least one side is NaN or Inf, and the bits differ. True where the answers differ. */
  private nonFinite(
    g: number,
    e: number,
    gotPattern: number,
    expectedPattern: number,
    lowest: number,
  ): boolean {
    const gotNan = Number.isNaN(g);
    const expectedNan = Number.isNaN(e);
    let bucket = ULP_BUCKETS - 1;
    if (gotNan && expectedNan) {
      // Two NaNs of other payloads are the same answer.
      bucket = 0;
    } else if (!gotNan && !expectedNan) {
      const a = gotPattern < 0 ? lowest - gotPattern : gotPattern;
      const b = expectedPattern < 0 ? lowest - expectedPattern : expectedPattern;
      bucket = 33 - Math.clz32(Math.abs(a - b) - 1);
    }
    this.histogram[bucket] = (this.histogram[bucket] as number) + 1;
    if (gotNan && expectedNan) return false;
    if (gotNan) this.nan++;
    if (Math.abs(g) === Number.POSITIVE_INFINITY && Math.abs(e) !== Number.POSITIVE_INFINITY) this.inf++;
    return true;
  }
}
