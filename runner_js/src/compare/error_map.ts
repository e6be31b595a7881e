import type { TensorType } from "../protocol/messages";
import { type Allowed, compare } from "./compare";

/** Where an output is wrong, over its last two axes: for each cell 0 inside the tolerance, 1..254 outside, 255 NaN or Inf. */
export interface ErrorMap {
  output: number;
  width: number;
  height: number;
  /** Elements that one cell stands for, down and across. */
  step: [number, number];
  cells: Uint8Array;
}

/** The map of output number `output`: a cell shows the worst of its elements, also over all other axes. */
export function errorMap(
  got: Uint8Array,
  expected: Uint8Array,
  type: TensorType,
  output: number,
  allowed: Allowed,
): ErrorMap {
  const [columns = 1, rows = 1] = type.shape.toReversed();
  const step: [number, number] = [Math.ceil(rows / 256), Math.ceil(columns / 512)];
  const [height, width] = [Math.ceil(rows / step[0]), Math.ceil(columns / step[1])];
  const cells = new Uint8Array(width * height);
  const outside = (i: number, difference: number, bound: number) => {
    const row = Math.floor((Math.floor(i / columns) % rows) / step[0]);
    const cell = row * width + Math.floor((i % columns) / step[1]);
    // 1 just outside, 254 from a million times the tolerance on.
    const times = bound > 0 ? difference / bound : 1e6;
    const level = Math.min(254, Math.round(1 + (253 / 6) * Math.log10(Math.max(1, times))));
    cells[cell] = Math.max(cells[cell] ?? 0, difference < Number.POSITIVE_INFINITY ? level : 255);
  };
  compare(got, expected, type, allowed, { outside });
  return { output, width, height, step, cells };
}
