/** Every element of an output beside what was expected: which are wrong, and where they lie. */

import { type Allowed, compare } from "../../../runner_js/src/compare/compare";
import type { DType } from "../../../runner_js/src/protocol/messages";
import { count } from "./format";
import { planeOf, type Tensor, valuesOf } from "./tensor";

export interface Compared {
  shape: number[];
  expected: Float64Array;
  got: Float64Array;
  /** What each may differ by. */
  bound: Float64Array;
  /** Of the wrong ones how many times the bound, 0 of all others. */
  times: Float64Array;
  wrong: number;
}

/** By the very rule that devices judge by. Both are of a dtype that devices have. */
export function compared(got: Tensor, expected: Tensor, allowed: Allowed): Compared {
  const values = valuesOf(expected);
  const times = new Float64Array(values.length);
  const outside = (index: number, difference: number, bound: number) => {
    times[index] = bound > 0 ? difference / bound : Infinity;
  };
  const type = { dtype: expected.dtype as DType, shape: expected.shape };
  const { mismatched } = compare(got.bytes, expected.bytes, type, allowed, { outside });
  const bound = allowed.bound
    ? Float64Array.from(allowed.bound)
    : values.map((value) => allowed.absolute + allowed.relative * Math.abs(value));
  return { shape: expected.shape, expected: values, got: valuesOf(got), bound, times, wrong: mismatched };
}

/** The shade of an element, as in a heat map of the server's (heatmap.ts). */
export function shadeOf(times: number): number {
  if (times === 0) return 0;
  if (times <= 10) return 1;
  if (times <= 1000) return 2;
  return times <= 1e6 ? 3 : 4;
}

interface Touched {
  rows: boolean[];
  columns: boolean[];
}

export function touched({ shape, times }: Compared): Touched {
  const { rows, columns } = planeOf(shape);
  const found = {
    rows: new Array<boolean>(rows).fill(false),
    columns: new Array<boolean>(columns).fill(false),
  };
  for (const [flat, over] of times.entries()) {
    if (over === 0) continue;
    found.columns[flat % columns] = true;
    found.rows[Math.floor(flat / columns) % rows] = true;
  }
  return found;
}

/** "columns 96 to 127", "every 4th row from 3 to 15" */
export function linesText(
  hit: readonly number[],
  all: number,
  [one, many]: readonly [string, string],
): string {
  const [first = 0, second = 0] = hit;
  const step = second - first;
  const last = hit.at(-1) ?? 0;
  if (hit.length === 1) return `${one} ${first}`;
  if (hit.length === last - first + 1) return `${many} ${first} to ${last}`;
  if (hit.length > 2 && hit.every((at, place) => at === first + place * step))
    return `every ${ordinal(step)} ${one} from ${first} to ${last}`;
  return hit.length <= 4 ? `${many} ${hit.join(", ")}` : `${count(hit.length, one, many)} of ${all}`;
}

function ordinal(number: number): string {
  const ends: Record<number, string> = { 1: "st", 2: "nd", 3: "rd" };
  const teens = number % 100 > 10 && number % 100 < 14;
  return `${number}${(teens ? undefined : ends[number % 10]) ?? "th"}`;
}
