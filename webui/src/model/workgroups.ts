/** Whose work the elements of an output are, as a device measured it (backend/tapml/locating/workgroups.py). */

import { type Compared, linesText, touched } from "./elements";

export interface Workgroups {
  /** Of the launch that writes the output, along x, y, z. */
  grid: readonly number[];
  /** Of each element the number of its workgroup, x + width * (y + height * z), or one of the two below. */
  numbers: Uint32Array;
}

/** No workgroup was seen to write the element. */
const NOBODY = 0xffffffff;
/** More than one writes it. */
const SEVERAL = 0xfffffffe;

const AXES = ["x", "y", "z"] as const;

/** Along x, y, z. */
function placeOf(number: number, [width = 1, height = 1]: readonly number[]): number[] {
  const row = Math.floor(number / width);
  return [number % width, row % height, Math.floor(row / height)];
}

/** "workgroup x = 1, y = 3", along the axes that have several. */
export function workgroupText({ grid, numbers }: Workgroups, flat: number): string {
  const number = numbers[flat] ?? NOBODY;
  if (number === SEVERAL) return "written by several workgroups";
  if (number === NOBODY) return "written by no workgroup, as far as is known";
  const place = placeOf(number, grid);
  const said = AXES.flatMap((axis, at) => ((grid[at] ?? 1) > 1 ? [`${axis} = ${place[at]}`] : []));
  return said.length > 0 ? `workgroup ${said.join(", ")}` : "the one workgroup";
}

/** "Wrong elements are only in columns 96 to 127: workgroup y = 3." Without workgroups none is named. */
export function whereText(found: Compared, workgroups: Workgroups | null): string {
  if (found.wrong === 0) return "No element is outside its bound in this run.";
  const where = touched(found);
  const names = { rows: ["row", "rows"], columns: ["column", "columns"] } as const;
  const parts = (["columns", "rows"] as const).flatMap((along) => {
    const lines = where[along];
    const hit = lines.flatMap((is, at) => (is ? [at] : []));
    return hit.length === lines.length ? [] : [linesText(hit, lines.length, names[along])];
  });
  const whose = workgroups === null ? null : workOf(found, workgroups);
  if (parts.length > 0)
    return `Wrong elements are only in ${parts.join(" of ")}${whose === null ? "" : `: ${whose}`}.`;
  const everywhere = "There are wrong elements in every row and every column";
  return whose === null ? `${everywhere}.` : `${everywhere}, but only in the work of ${whose}.`;
}

/** The workgroups that computed the wrong elements; null where these are all that there are, or one is not known. */
function workOf({ times }: Compared, { grid, numbers }: Workgroups): string | null {
  const all = new Set<number>();
  const hit = new Set<number>();
  for (const [flat, number] of numbers.entries()) {
    if (number < SEVERAL) all.add(number);
    if ((times[flat] ?? 0) === 0) continue;
    if (number >= SEVERAL) return null;
    hit.add(number);
  }
  if (hit.size === 0 || hit.size === all.size) return null;
  const within = numbers.every((number, flat) => !hit.has(number) || (times[flat] ?? 0) > 0);
  return `${named(hit, all, grid)}${within ? "" : ", in part"}`;
}

/** "workgroup y = 3", "workgroups x = 0 to 3 of y = 1": the axes along which not all are hit; else how many there are. */
function named(hit: ReadonlySet<number>, all: ReadonlySet<number>, grid: readonly number[]): string {
  const along = (of: ReadonlySet<number>) =>
    AXES.map((_, axis) => new Set([...of].map((number) => placeOf(number, grid)[axis] ?? 0)));
  const [own, every] = [along(hit), along(all)];
  const inside = (number: number) => placeOf(number, grid).every((at, axis) => own[axis]?.has(at));
  const among = [...all].filter(inside).length;
  const said = AXES.flatMap((axis, at) => {
    const lines = [...(own[at] ?? [])].sort((a, b) => a - b);
    return lines.length === every[at]?.size ? [] : [`${axis} ${rangesText(lines)}`];
  });
  if (among === hit.size && said.length > 0 && said.every((part) => part.length < 40))
    return `workgroup${hit.size > 1 ? "s" : ""} ${said.join(", ")}`;
  return `${hit.size} of ${all.size} workgroups`;
}

/** "= 3", "= 3 to 5", "= 1, 4" */
function rangesText(hit: readonly number[]): string {
  const [first = 0] = hit;
  const last = hit.at(-1) ?? 0;
  if (hit.length === 1) return `= ${first}`;
  return hit.length === last - first + 1 ? `= ${first} to ${last}` : `= ${hit.join(", ")}`;
}

/** Lines between workgroups, in cells of a picture of `down` x `across` cells. Two cells belong together by `number`. */
export interface Lines {
  /** Between a row and the one above it, from a column on. */
  horizontal: { row: number; from: number; to: number }[];
  /** Between a column and the one to its left, from a row on. */
  vertical: { column: number; from: number; to: number }[];
}

/**
 * Null where lines would cover the picture: `edge` is the pixels of a cell's side, and workgroups have on average to be
 * four of them wide.
 */
export function linesBetween(
  down: number,
  across: number,
  edge: number,
  number: (row: number, column: number) => number,
): Lines | null {
  const lines: Lines = { horizontal: [], vertical: [] };
  let length = 0;
  const most = (down * across * edge) / 2;
  // The lines that are being drawn on: above this cell, and to the left of each column.
  const left: (Lines["vertical"][number] | null)[] = new Array(across).fill(null);
  for (let row = 0; row < down; row += 1) {
    let above: Lines["horizontal"][number] | null = null;
    for (let column = 0; column < across; column += 1) {
      const own = number(row, column);
      if (row > 0 && number(row - 1, column) !== own) {
        length += 1;
        if (above === null) {
          above = { row, from: column, to: column };
          lines.horizontal.push(above);
        }
        above.to = column + 1;
      } else above = null;
      if (column > 0 && number(row, column - 1) !== own) {
        length += 1;
        let run = left[column] ?? null;
        if (run === null) {
          run = { column, from: row, to: row };
          left[column] = run;
          lines.vertical.push(run);
        }
        run.to = row + 1;
      } else left[column] = null;
      if (length > most) return null;
    }
  }
  return lines;
}
