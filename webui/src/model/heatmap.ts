/** An output's error as a picture: which cells, in which of a few shades, and what each of them says. */

import type { HeatMap, WrongOutput } from "../api/generated/results";
import { grouped, number } from "./format";

/** The server's scale (locating/heatmap.py): 0.25 is the bound itself, 1 is 10^6 times the bound and beyond. */
const AT_BOUND = 0.25;
const DECADES = 6;

/** Shades, in their order: each is darker than the one before (on a dark page, lighter), whatever eyes see. */
export const SHADES = [
  "within the bound",
  "up to 10 times the bound",
  "up to 1000 times",
  "up to a million times",
  "beyond, infinite or NaN",
] as const;

/** The shade of cells where none is outside and some are unbounded. */
export const UNBOUNDED_SHADE = SHADES.length;

/** How many times the bound. */
export function excess(value: number): number {
  return 10 ** (((value - AT_BOUND) / (1 - AT_BOUND)) * DECADES);
}

export function shade(value: number): number {
  if (value < AT_BOUND) return 0;
  if (value >= 1) return 4;
  // Values come rounded to three digits.
  const times = Math.log10(excess(value)) - 0.01;
  return times <= 1 ? 1 : times <= 3 ? 2 : 3;
}

export interface Run {
  row: number;
  column: number;
  length: number;
  shade: number;
}

/** Cells side by side of one shade are drawn as one; those within the bound are the ground. */
export function runs(map: HeatMap): Run[] {
  const found: Run[] = [];
  for (const [row, values] of map.values.entries()) {
    let last: Run | null = null;
    for (const [column, value] of values.entries()) {
      const now = value === null ? UNBOUNDED_SHADE : shade(value);
      if (last !== null && last.shade === now) last.length += 1;
      else {
        last = { row, column, length: 1, shade: now };
        if (now > 0) found.push(last);
      }
    }
  }
  return found;
}

/** First and last index along an axis that a cell spans. */
export function range(cell: number, extent: number, size: number): [number, number] {
  return [cell * extent, Math.min(size, (cell + 1) * extent) - 1];
}

/** "[0, any, 3, 6 to 11]: 45 times the bound" */
export function cellText(output: WrongOutput, row: number, column: number): string {
  const { shape, heatmap } = output;
  const leading = shape.slice(0, -2).map((size) => (size === 1 ? "0" : "any"));
  const last = shape.slice(-2).map((size, axis, axes) => {
    const across = axis === axes.length - 1;
    const [from, to] = across
      ? range(column, heatmap.column_extent, size)
      : range(row, heatmap.row_extent, size);
    return from === to ? String(from) : `${from} to ${to}`;
  });
  const value = heatmap.values[row]?.[column] ?? null;
  const many = heatmap.row_extent * heatmap.column_extent > 1 || leading.includes("any");
  return `[${[...leading, ...last].join(", ")}]: ${many && value !== null && value >= AT_BOUND ? "the worst is " : ""}${saying(value)}`;
}

function saying(value: number | null): string {
  if (value === null) return "unbounded: WGSL promises nothing here";
  if (value < AT_BOUND) return "within the bound";
  if (value >= 1) return "a million times the bound or more, infinite or NaN";
  return `${about(excess(value))} times the bound`;
}

/** Two digits: more of them the server's scale does not carry. */
function about(times: number): string {
  if (times < 10) return number(times, 2);
  const unit = 10 ** (Math.floor(Math.log10(times)) - 1);
  return grouped(Math.round(times / unit) * unit);
}

/** What rows, columns and cells are: "rows: axis 1, columns: axis 2; a cell is the worst of 6 elements". */
export function axesText(output: WrongOutput): string {
  const { shape, heatmap } = output;
  const rank = shape.length;
  const axes =
    rank < 2
      ? "along its axis"
      : `by axis ${rank - 2} (down) and axis ${rank - 1} (across)${rank === 2 ? "" : ", its last two"}`;
  const cells = heatmap.row_extent * heatmap.column_extent;
  const leading = shape.slice(0, -2).reduce((product, size) => product * size, 1);
  const of = [cells > 1 ? `${heatmap.row_extent} × ${heatmap.column_extent} elements` : ""];
  if (leading > 1) of.push(`the ${leading} places along the axes before`);
  const worst = of.filter(Boolean).join(" and of ");
  return worst === "" ? `${axes}, a cell for each element` : `${axes}; a cell shows the worst of ${worst}`;
}
