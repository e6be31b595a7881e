import { expect, it } from "vitest";
import { logScale, ulpBars, ulpLabels } from "./charts";

it("labels the ULP bins as the contract counts them", () => {
  expect(ulpLabels(8)).toEqual(["0", "1", "2", "≤4", "≤8", "≤16", "≤32", "NaN"]);
  expect(ulpLabels(1)).toEqual(["0"]);
  expect(ulpLabels(30).slice(11, 13)).toEqual(["≤1k", "≤2k"]);
});

it("drops empty bins after the last filled one, but not the NaN one", () => {
  const bars = ulpBars([700, 20, 0, 1, 0, 0, 0, 2]);
  expect(bars.map((bar) => [bar.label, bar.count])).toEqual([
    ["0", 700],
    ["1", 20],
    ["2", 0],
    ["≤4", 1],
    ["NaN", 2],
  ]);
  expect(ulpBars([700, 20, 0, 0, 0]).map((bar) => bar.label)).toEqual(["0", "1", "2"]);
});

it("draws a lone element so that it can be seen", () => {
  expect(ulpBars([1_000_000, 1, 0, 0])[1]?.height).toBeGreaterThanOrEqual(0.04);
  expect(ulpBars([1_000_000, 1, 0, 0])[2]?.height).toBe(0);
});

it("scales by decades", () => {
  const scale = logScale([2e-7, 4e-4]);
  expect(scale.position(1e-7)).toBeCloseTo(0);
  expect(scale.position(1e-3)).toBeCloseTo(1);
  expect(scale.position(1e-5)).toBeCloseTo(0.5);
  expect(scale.position(0)).toBe(0);
  expect(scale.ticks).toEqual([-7, -6, -5, -4, -3]);
});

it("puts an exact zero below the smallest error", () => {
  const scale = logScale([1.2e-7, 4e-4, 0]);
  expect(scale.position(0)).toBe(0);
  expect(scale.position(1.2e-7)).toBeGreaterThan(0.2);
});

it("has a scale for a single value and for none", () => {
  expect(logScale([1e-3]).ticks.length).toBeGreaterThan(1);
  expect(logScale([]).position(1)).toBe(1);
});
