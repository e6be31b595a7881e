import { expect, it } from "vitest";
import type { HeatMap, WrongOutput } from "../api/generated/results";
import { axesText, cellText, excess, range, runs, shade } from "./heatmap";

/** As locating/heatmap.py makes it from |error| / bound. */
const value = (times: number) => 0.25 + (0.75 * Math.log10(times)) / 6;

const map: HeatMap = {
  rows: 2,
  columns: 3,
  legend: {},
  row_extent: 2,
  column_extent: 4,
  values: [
    [0, value(45), value(45)],
    [1, null, 0],
  ],
};

const output: WrongOutput = {
  output: 0,
  shape: [1, 12, 3, 11],
  dtype: "float32",
  total: 396,
  mismatched: 9,
  unbounded: 0,
  nan: 4,
  inf: 0,
  max_abs_error: 1,
  max_excess: "Infinity",
  bound: { min: 0, median: 0, max: 0, reasons: [] },
  first: null,
  worst: null,
  heatmap: map,
};

it("turns the server's scale back into times of the bound", () => {
  expect(excess(value(45))).toBeCloseTo(45);
  expect(excess(0.25)).toBe(1);
});

it("says no more digits than it has", () => {
  const cell = (times: number): WrongOutput => ({
    ...output,
    shape: [1],
    heatmap: { rows: 1, columns: 1, legend: {}, row_extent: 1, column_extent: 1, values: [[value(times)]] },
  });
  const said = [1.26, 45.4, 255_859].map((times) => cellText(cell(times), 0, 0));
  expect(said).toEqual([
    "[0]: 1.3 times the bound",
    "[0]: 45 times the bound",
    "[0]: 260,000 times the bound",
  ]);
});

it("has a shade for each range, and one for what has no number", () => {
  expect([0, 0.25, value(10), value(11), value(999), value(2e3), value(9e5), 1].map(shade)).toEqual([
    0, 1, 1, 2, 2, 3, 3, 4,
  ]);
});

it("draws cells of one shade side by side as one, what is unbounded by itself, and nothing for those within the bound", () => {
  expect(runs(map)).toEqual([
    { row: 0, column: 1, length: 2, shade: 2 },
    { row: 1, column: 0, length: 1, shade: 4 },
    { row: 1, column: 1, length: 1, shade: 5 },
  ]);
});

it("tells which indices a cell spans: the last one may be cut off", () => {
  expect(range(0, 4, 11)).toEqual([0, 3]);
  expect(range(2, 4, 11)).toEqual([8, 10]);
  expect(cellText(output, 0, 2)).toBe("[0, any, 0 to 1, 8 to 10]: the worst is 45 times the bound");
  expect(cellText(output, 1, 0)).toBe(
    "[0, any, 2, 0 to 3]: the worst is a million times the bound or more, infinite or NaN",
  );
  expect(cellText(output, 0, 0)).toBe("[0, any, 0 to 1, 0 to 3]: within the bound");
  expect(cellText(output, 1, 1)).toContain("unbounded");
});

it("speaks of one element where a cell is one", () => {
  const row: WrongOutput = {
    ...output,
    shape: [3],
    heatmap: {
      rows: 1,
      columns: 3,
      legend: {},
      row_extent: 1,
      column_extent: 1,
      values: [[0, value(45), 0]],
    },
  };
  expect(cellText(row, 0, 1)).toBe("[1]: 45 times the bound");
  expect(axesText(row)).toBe("along its axis, a cell for each element");
});

it("says what the axes are and what a cell is the worst of", () => {
  expect(axesText(output)).toBe(
    "by axis 2 (down) and axis 3 (across), its last two; a cell shows the worst of 2 × 4 elements and of the 12 places along the axes before",
  );
});
