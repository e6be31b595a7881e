/** What a viewer shows of a test: each output as expected, as got and by what they differ, each input. */

import type { Compared } from "./elements";
import { error, exact } from "./format";
import { shareText, timesBound } from "./headline";
import { elementText, indexOf, type Tensor, valuesOf } from "./tensor";
import { type Workgroups, workgroupText } from "./workgroups";

export interface Layer {
  id: string;
  name: string;
  shape: readonly number[];
  values: Float64Array;
  /** One element in words. */
  text: (flat: number) => string;
  /** Of elements that may be wrong: how many times the bound, 0 of right ones. Null where nothing was compared. */
  times: Float64Array | null;
  /** Shows `times` itself: in shades of error, not of size. */
  shades: boolean;
}

export function layerOf(id: string, name: string, tensor: Tensor): Layer {
  const values = valuesOf(tensor);
  return {
    id,
    name,
    shape: tensor.shape,
    values,
    text: elementText(tensor, values),
    times: null,
    shades: false,
  };
}

/** One output beside what was expected, in five layers of one shape. */
export function comparedLayers(found: Compared): Layer[] {
  const { shape, times } = found;
  const difference = found.got.map((value, flat) => Math.abs(value - (found.expected[flat] ?? 0)));
  const made = (id: string, name: string, values: Float64Array, text: (value: number) => string): Layer => ({
    id,
    name,
    shape,
    values,
    text: (flat) => text(values[flat] ?? 0),
    times,
    shades: id === "error",
  });
  return [
    made("error", "error over bound", times, (value) => (value === 0 ? "within" : shareText(value))),
    made("difference", "difference", difference, error),
    made("expected", "expected", found.expected, exact),
    made("got", "got", found.got, exact),
    made("bound", "bound", found.bound, error),
  ];
}

/** What there is to say of one element of an output. */
export function comparedText(found: Compared, workgroups: Workgroups | null, flat: number): string {
  const [expected, got] = [found.expected[flat] ?? 0, found.got[flat] ?? 0];
  const times = found.times[flat] ?? 0;
  return [
    `[${indexOf(found.shape, flat).join(", ")}]: expected ${exact(expected)}`,
    `got ${exact(got)}`,
    `difference ${error(Math.abs(got - expected))}`,
    `bound ${error(found.bound[flat] ?? 0)}`,
    ...(times > 0 ? [timesBound(times)] : []),
    ...(workgroups ? [workgroupText(workgroups, flat)] : []),
  ].join(", ");
}

/** What a layer holds, over all its elements. */
export interface Summary {
  /** Of what is finite; both 0 where nothing is. */
  least: number;
  most: number;
  nan: number;
  infinite: number;
}

export function summaryOf(values: Float64Array): Summary {
  const found = { least: Infinity, most: -Infinity, nan: 0, infinite: 0 };
  for (const value of values) {
    if (Number.isNaN(value)) found.nan += 1;
    else if (!Number.isFinite(value)) found.infinite += 1;
    else {
      if (value < found.least) found.least = value;
      if (value > found.most) found.most = value;
    }
  }
  return found.least <= found.most ? found : { ...found, least: 0, most: 0 };
}

/** The next element behind one, round to the first again, of which this holds; null where it holds of none. */
export function nextOf(values: Float64Array, flat: number, holds: (value: number) => boolean): number | null {
  for (let step = 1; step <= values.length; step += 1) {
    const at = (flat + step) % values.length;
    if (holds(values[at] ?? 0)) return at;
  }
  return null;
}

/** The element that is to be seen first: the one with the largest error, or the first. */
export function worstOf({ times }: Pick<Layer, "times">): number {
  let best = 0;
  for (let flat = 1; flat < (times?.length ?? 0); flat += 1)
    if ((times?.[flat] ?? 0) > (times?.[best] ?? 0)) best = flat;
  return best;
}

export interface Histogram {
  /** One more than counts. */
  edges: number[];
  counts: number[];
}

const BINS = 40;

/** Of what is finite. Integers of few values have a bin each. */
export function histogramOf(values: Float64Array, { least, most }: Summary): Histogram {
  const whole = most - least < BINS && Number.isInteger(least) && values.every((value) => !(value % 1));
  const bins = most === least ? 1 : whole ? most - least + 1 : BINS;
  const width = most === least ? 1 : whole ? 1 : (most - least) / bins;
  const counts = new Array<number>(bins).fill(0);
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    const bin = Math.min(bins - 1, Math.floor((value - least) / width));
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return { edges: Array.from({ length: bins + 1 }, (_, bin) => least + bin * width), counts };
}

/** Null for what is no number. */
export function binOf({ edges, counts }: Histogram, value: number): number | null {
  if (!Number.isFinite(value)) return null;
  const [least = 0, second = 1] = edges;
  return Math.max(0, Math.min(counts.length - 1, Math.floor((value - least) / (second - least))));
}
