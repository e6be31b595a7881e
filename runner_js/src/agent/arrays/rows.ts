/** What is computed of whole rows: reductions, sums so far, orders. */
import { type Elements, made } from "./types";

type Reduction = (x: Elements, from: number, to: number) => number;

/** Pairwise: the error grows with the logarithm of the count. */
function sum(x: Elements, from: number, to: number): number {
  if (to - from > 128) {
    const middle = from + Math.floor((to - from) / 2);
    return sum(x, from, middle) + sum(x, middle, to);
  }
  let total = 0;
  for (let i = from; i < to; i++) total += x[i] as number;
  return total;
}

function best(better: (a: number, b: number) => boolean): Reduction {
  return (x, from, to) => {
    let at = from;
    for (let i = from; i < to; i++) {
      const value = x[i] as number;
      if (Number.isNaN(value)) return i - from;
      if (better(value, x[at] as number)) at = i;
    }
    return at - from;
  };
}
const largest = best((a, b) => a > b);
const smallest = best((a, b) => a < b);

function squares(x: Elements, from: number, to: number): number {
  const mean = sum(x, from, to) / (to - from);
  const found = new Float64Array(to - from);
  for (let i = from; i < to; i++) found[i - from] = ((x[i] as number) - mean) ** 2;
  return sum(found, 0, found.length);
}

const REDUCTIONS: Record<string, Reduction> = {
  ...{ sum, squares, argmax: largest, argmin: smallest },
  max: (x, from, to) => x[from + largest(x, from, to)] as number,
  min: (x, from, to) => x[from + smallest(x, from, to)] as number,
  prod: (x, from, to) => {
    let product = 1;
    for (let i = from; i < to; i++) product *= x[i] as number;
    return product;
  },
  any: (x, from, to) => {
    for (let i = from; i < to; i++) if (x[i] !== 0) return 1;
    return 0;
  },
  all: (x, from, to) => {
    for (let i = from; i < to; i++) if (x[i] === 0) return 0;
    return 1;
  },
};

/** Of each of `count` rows one value. Throws where an integer does not hold it. */
export function reduce(name: string, x: Elements, count: number, dtype: string): Elements {
  const out = made(dtype, count);
  const length = count === 0 ? 0 : x.length / count;
  const one = REDUCTIONS[name] as Reduction;
  const whole = dtype.includes("int") && (name === "sum" || name === "prod");
  for (let i = 0; i < count; i++) {
    const value = one(x, i * length, (i + 1) * length);
    out[i] = value;
    if (whole && out[i] !== value)
      throw new RangeError(`${name} is ${value}, which ${dtype} does not hold: give dtype`);
  }
  return out;
}

/** What each row comes to so far: its `sum`, or its `prod`. */
export function cumulate(name: string, x: Elements, count: number, dtype: string): Elements {
  const out = made(dtype, x.length);
  const length = count === 0 ? 0 : x.length / count;
  for (let i = 0; i < count; i++) {
    let total = name === "sum" ? 0 : 1;
    for (let k = i * length; k < (i + 1) * length; k++) {
      if (name === "sum") total += x[k] as number;
      else total *= x[k] as number;
      out[k] = total;
      if (dtype.includes("int") && out[k] !== total)
        throw new RangeError(`${name} is ${total}, which ${dtype} does not hold: give dtype`);
    }
  }
  return out;
}

/** Each row in order, NaN behind all. */
export function sort(x: Elements, count: number, descending: boolean): Elements {
  const out = x.slice();
  const length = count === 0 ? 0 : x.length / count;
  for (let i = 0; i < count; i++) {
    const row = out.subarray(i * length, (i + 1) * length);
    row.sort();
    if (descending) row.reverse();
  }
  return out;
}

/** Places within each row; what is equal stays in its order. */
export function argsort(x: Elements, count: number, descending: boolean): Elements {
  const out = new Int32Array(x.length);
  const length = count === 0 ? 0 : x.length / count;
  const sign = descending ? -1 : 1;
  for (let i = 0; i < count; i++) {
    const row = x.subarray(i * length, (i + 1) * length);
    const places = out.subarray(i * length, (i + 1) * length);
    for (let k = 0; k < length; k++) places[k] = k;
    places.sort((a, b) => sign * compared(row[a] as number, row[b] as number));
  }
  return out;
}

function compared(a: number, b: number): number {
  if (a < b) return -1;
  if (a > b) return 1;
  return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
}

/** Where each of `values` would go in `sorted`. */
export function searchsorted(sorted: Elements, values: Elements, right: boolean): Elements {
  const out = new Int32Array(values.length);
  for (let i = 0; i < values.length; i++) {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const order = compared(sorted[middle] as number, values[i] as number);
      if (order < 0 || (right && order === 0)) low = middle + 1;
      else high = middle;
    }
    out[i] = low;
  }
  return out;
}
