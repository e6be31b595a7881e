import { describe, expect, it } from "vitest";
import { compared } from "./elements";
import { floats } from "./fixture";
import {
  binOf,
  comparedLayers,
  comparedText,
  histogramOf,
  layerOf,
  nextOf,
  summaryOf,
  worstOf,
} from "./layers";
import { type Tensor, tensorOf } from "./tensor";

const tensor = (dtype: string, shape: number[], data: ArrayBufferView): Tensor => {
  const found = tensorOf(data.buffer as ArrayBuffer, { dtype, shape });
  if (found === null) throw new Error(dtype);
  return found;
};

describe("layers", () => {
  it("write elements of every dtype as they are", () => {
    const texts = (one: Tensor) => {
      const { values, text } = layerOf("x", "x", one);
      return Array.from(values, (_, flat) => text(flat));
    };
    expect(texts(floats([3], (flat) => [0.1, Number.NaN, -Infinity][flat] ?? 0))).toEqual([
      "0.100000001",
      "NaN",
      "\u2212\u221e",
    ]);
    expect(texts(tensor("float16", [2], new Uint16Array([0x3c00, 0x7c00])))).toEqual(["1", "\u221e"]);
    expect(texts(tensor("bool", [2], new Uint8Array([0, 1])))).toEqual(["false", "true"]);
    expect(texts(tensor("int8", [2], new Int8Array([-128, 7])))).toEqual(["-128", "7"]);
    expect(texts(tensor("uint32", [1], new Uint32Array([7])))).toEqual(["7"]);
    // Beyond what numbers of JavaScript tell apart.
    expect(texts(tensor("int64", [2], new BigInt64Array([2n ** 53n + 1n, -1n])))).toEqual([
      "9007199254740993",
      "-1",
    ]);
    expect(texts(tensor("float64", [1], new Float64Array([0.5])))).toEqual(["0.5"]);
    expect(texts(floats([0, 3], () => 0))).toEqual([]);
    expect(texts(floats([], () => 2))).toEqual(["2"]);
  });

  it("say of an element what there is to say, and begin with the worst", () => {
    const found = compared(
      floats([2, 2], (flat) => [1, 2, 1, 5][flat] ?? 0),
      floats([2, 2], () => 1),
      { absolute: 0.5, relative: 0 },
    );
    const [error, ...others] = comparedLayers(found);
    expect([error, ...others].map((layer) => layer?.id)).toEqual([
      "error",
      "difference",
      "expected",
      "got",
      "bound",
    ]);
    expect(error && worstOf(error)).toBe(3);
    expect(error?.text(0)).toBe("within");
    expect(error?.text(3)).toBe("8 \u00d7");
    const workgroups = { grid: [2, 1, 1], numbers: new Uint32Array([0, 0, 1, 1]) };
    expect(comparedText(found, workgroups, 3)).toBe(
      "[1, 1]: expected 1, got 5, difference 4, bound 0.5, 8 \u00d7 its bound, workgroup x = 1",
    );
    expect(comparedText(found, null, 0)).toBe("[0, 0]: expected 1, got 1, difference 0, bound 0.5");
  });
});

describe("histograms", () => {
  const of = (...values: number[]) => Float64Array.from(values);
  it("hold all that is finite, and know where an element is", () => {
    const values = of(0, 0.25, 1, 10, Number.NaN, Infinity, -Infinity);
    const summary = summaryOf(values);
    expect(summary).toEqual({ least: 0, most: 10, nan: 1, infinite: 2 });
    const histogram = histogramOf(values, summary);
    expect(histogram.counts.length).toBe(40);
    expect(histogram.counts.reduce((sum, count) => sum + count, 0)).toBe(4);
    expect([...values].map((value) => binOf(histogram, value))).toEqual([0, 1, 4, 39, null, null, null]);
    for (const value of [0, 0.25, 1, 10]) expect(histogram.counts[binOf(histogram, value) ?? -1]).toBe(1);
  });

  it("give few integers a bin each, and one value one", () => {
    const few = of(3, 3, 5);
    expect(histogramOf(few, summaryOf(few)).counts).toEqual([2, 0, 1]);
    const same = of(0.5, 0.5);
    expect(histogramOf(same, summaryOf(same)).counts).toEqual([2]);
    expect(summaryOf(of(Number.NaN))).toEqual({ least: 0, most: 0, nan: 1, infinite: 0 });
  });

  it("lead from one element to the next, round to the first", () => {
    const values = of(1, 5, 1, 5);
    const five = (value: number) => value === 5;
    expect([0, 1, 3].map((flat) => nextOf(values, flat, five))).toEqual([1, 3, 1]);
    expect(nextOf(values, 0, Number.isNaN)).toBeNull();
  });
});
