/** Tensors as numbers: out of a safetensors file or a blob, and planes of them to be looked at. */

import { BYTES_PER_ELEMENT, decoded, decodeHalf, elementsOf } from "../../../runner_js/src/program/dtypes";
import type { DType, TensorType } from "../../../runner_js/src/protocol/messages";
import { exact } from "./format";

/** What only machines have, no device. */
type HostDType = "float64" | "int64" | "uint64" | "int16" | "uint16";

export interface Tensor {
  shape: number[];
  dtype: DType | HostDType;
  /** Element by element, as the dtype says. */
  bytes: Uint8Array<ArrayBuffer>;
}

const HOST_BYTES: Record<HostDType, number> = { float64: 8, int64: 8, uint64: 8, int16: 2, uint16: 2 };

const NAMES: Record<string, DType> = {
  F32: "float32",
  F16: "float16",
  I32: "int32",
  U32: "uint32",
  I8: "int8",
  U8: "uint8",
  BOOL: "bool",
};

/** By name, of a safetensors file that this server made. Throws what is wrong with another one. */
export function readTensors(file: ArrayBuffer): Map<string, Tensor> {
  const length = Number(new DataView(file).getBigUint64(0, true));
  const header: Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }> =
    JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length)));
  const found = new Map<string, Tensor>();
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const dtype = NAMES[entry.dtype];
    if (dtype === undefined) throw new Error(`${name} is of ${entry.dtype}, which this page cannot show.`);
    const [from, to] = entry.data_offsets;
    // A copy, for elements to be aligned.
    const bytes = new Uint8Array(file.slice(8 + length + from, 8 + length + to));
    found.set(name, { shape: entry.shape, dtype, bytes });
  }
  return found;
}

/** The text of tapml's that a safetensors file carries; empty where it has none. */
export function textOf(file: ArrayBuffer): string {
  const length = Number(new DataView(file).getBigUint64(0, true));
  const { __metadata__ } = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length)));
  return String(__metadata__?.tapml ?? "");
}

/** What a blob holds. Null for other dtypes, and where the blob is of another size. */
export function tensorOf(
  blob: ArrayBuffer,
  type: { dtype: string; shape: readonly number[]; encoding?: unknown },
): Tensor | null {
  const shape = [...type.shape];
  const host = (Object.keys(HOST_BYTES) as HostDType[]).find((known) => known === type.dtype);
  if (host !== undefined) {
    const fits = blob.byteLength === elementsOf(shape) * HOST_BYTES[host] && !type.encoding;
    return fits ? { shape, dtype: host, bytes: new Uint8Array(blob) } : null;
  }
  const dtype = Object.values(NAMES).find((known) => known === type.dtype);
  if (dtype === undefined) return null;
  const bytes = decoded(new Uint8Array(blob), { ...type, dtype } as TensorType) as Uint8Array<ArrayBuffer>;
  return bytes.byteLength === elementsOf(shape) * BYTES_PER_ELEMENT[dtype] ? { shape, dtype, bytes } : null;
}

/** As numbers: of integers beyond 2^53 the nearest ones. */
export function valuesOf({ dtype, bytes }: Tensor): Float64Array {
  const { buffer } = bytes;
  switch (dtype) {
    case "float32":
      return Float64Array.from(new Float32Array(buffer));
    case "float16":
      return Float64Array.from(new Uint16Array(buffer), decodeHalf);
    case "int32":
      return Float64Array.from(new Int32Array(buffer));
    case "uint32":
      return Float64Array.from(new Uint32Array(buffer));
    case "int8":
      return Float64Array.from(new Int8Array(buffer));
    case "float64":
      return new Float64Array(buffer);
    case "int64":
      return Float64Array.from(new BigInt64Array(buffer), Number);
    case "uint64":
      return Float64Array.from(new BigUint64Array(buffer), Number);
    case "int16":
      return Float64Array.from(new Int16Array(buffer));
    case "uint16":
      return Float64Array.from(new Uint16Array(buffer));
    default:
      return Float64Array.from(bytes);
  }
}

/** How one element is written, exactly. */
export function elementText({ dtype, bytes }: Tensor, values: Float64Array): (flat: number) => string {
  if (dtype === "bool") return (flat) => (values[flat] ? "true" : "false");
  if (dtype !== "int64" && dtype !== "uint64") return (flat) => exact(values[flat] ?? 0);
  const whole = dtype === "int64" ? new BigInt64Array(bytes.buffer) : new BigUint64Array(bytes.buffer);
  return (flat) => String(whole[flat]);
}

/** Rows and columns of the last two axes, and the places along the axes before. */
export interface Plane {
  rows: number;
  columns: number;
  leading: number[];
}

export function planeOf(shape: readonly number[]): Plane {
  return { rows: shape.at(-2) ?? 1, columns: shape.at(-1) ?? 1, leading: shape.slice(0, -2) };
}

/** Of the first element of a plane. */
export function planeStart({ rows, columns, leading }: Plane, at: readonly number[]): number {
  const place = leading.reduce((sum, extent, axis) => sum * extent + (at[axis] ?? 0), 0);
  return place * rows * columns;
}

/** The places along the leading axes of the plane that an element lies in. */
export function leadingOf({ rows, columns, leading }: Plane, flat: number): number[] {
  return indexOf(leading, Math.floor(flat / (rows * columns)));
}

/** "[0, 3, 97]" as numbers. */
export function indexOf(shape: readonly number[], flat: number): number[] {
  let rest = flat;
  return [...shape]
    .reverse()
    .map((extent) => {
      const at = rest % extent;
      rest = Math.floor(rest / extent);
      return at;
    })
    .reverse();
}

/** Of the element that an address names ("0.3.97"); null for what is none of this shape. */
export function flatOf(shape: readonly number[], text: string | null): number | null {
  const parts = text === null || text === "" ? [] : text.split(".");
  if (parts.length !== shape.length || parts.length === 0) return null;
  let flat = 0;
  for (const [axis, extent] of shape.entries()) {
    const part = parts[axis] ?? "";
    if (!/^\d+$/.test(part) || Number(part) >= extent) return null;
    flat = flat * extent + Number(part);
  }
  return flat;
}

/** What a picture shows: a part of a plane, from a row and a column on, `scale` pixels for an element (also below 1). */
export interface Sight {
  row: number;
  column: number;
  scale: number;
}

/** All of a plane, as large as fits; small ones are not blown up. */
export function whole({ rows, columns }: Plane, width: number, height: number): Sight {
  return { row: 0, column: 0, scale: Math.min(24, width / columns, height / rows) };
}

/** Pixels of an element along columns (x) and rows (y): a plane that is long and thin is not drawn as a hair. */
export function pixelsOf({ rows, columns }: Plane, scale: number): { x: number; y: number } {
  return {
    x: Math.max(scale, Math.min(24, THINNEST.width / columns)),
    y: Math.max(scale, Math.min(24, THINNEST.height / rows)),
  };
}

const THINNEST = { width: 160, height: 60 };

/** Zoom about a point of the picture (in pixels), within the plane. */
export function zoomed(
  sight: Sight,
  factor: number,
  at: { x: number; y: number },
  plane: Plane,
  size: { width: number; height: number },
): Sight {
  const least = whole(plane, size.width, size.height).scale;
  const scale = Math.min(48, Math.max(least, sight.scale * factor));
  const [before, after] = [pixelsOf(plane, sight.scale), pixelsOf(plane, scale)];
  const row = sight.row + at.y / before.y - at.y / after.y;
  const column = sight.column + at.x / before.x - at.x / after.x;
  return kept({ row, column, scale }, plane, size);
}

/** Nothing beyond the plane is looked at. */
export function kept(sight: Sight, plane: Plane, size: { width: number; height: number }): Sight {
  const within = (at: number, extent: number, seen: number) =>
    Math.min(Math.max(0, at), Math.max(0, extent - seen));
  const { x, y } = pixelsOf(plane, sight.scale);
  return {
    scale: sight.scale,
    row: within(sight.row, plane.rows, size.height / y),
    column: within(sight.column, plane.columns, size.width / x),
  };
}

/** Squares of elements of a plane, each with the one that stands for it where a pixel holds many. */
export interface Blocks {
  across: number;
  shown: Uint32Array;
  weights: Float64Array;
  start: number;
}

const BLOCK = 8;

/** Among them the one farthest from 0; what is no number before all. */
function heavier(weights: Float64Array, one: number, other: number): boolean {
  const [a, b] = [Math.abs(weights[one] ?? 0), Math.abs(weights[other] ?? 0)];
  return a > b || (Number.isNaN(a) && !Number.isNaN(b));
}

export function blocksOf(weights: Float64Array, { rows, columns }: Plane, start: number): Blocks {
  const across = Math.ceil(columns / BLOCK);
  const shown = new Uint32Array(across * Math.ceil(rows / BLOCK)).fill(0xffffffff);
  for (let row = 0; row < rows; row += 1) {
    const line = Math.floor(row / BLOCK) * across;
    const from = start + row * columns;
    for (let column = 0; column < columns; column += 1) {
      const block = line + (column >> 3);
      const known = shown[block] ?? 0xffffffff;
      if (known === 0xffffffff || heavier(weights, from + column, known)) shown[block] = from + column;
    }
  }
  return { across, shown, weights, start };
}

/** The elements that a picture shows: `down` x `across` cells of `high` x `wide` elements, from an element on. */
export interface Sampled {
  top: number;
  left: number;
  high: number;
  wide: number;
  down: number;
  across: number;
  /** Of each cell the element that stands for it. */
  shown: Uint32Array;
}

export function sampled(
  blocks: Blocks,
  plane: Plane,
  sight: Sight,
  size: { width: number; height: number },
): Sampled {
  const { rows, columns } = plane;
  const { x: acrossPixels, y: downPixels } = pixelsOf(plane, sight.scale);
  const needed = [downPixels, acrossPixels].map((pixels) => Math.max(1, Math.ceil(1 / pixels - 1e-6)));
  // Many elements are looked at by whole blocks.
  const unit = needed.every((elements) => elements >= BLOCK) ? BLOCK : 1;
  const [high = 1, wide = 1] = needed.map((elements) => Math.ceil(elements / unit) * unit);
  const [top = 0, left = 0] = [sight.row, sight.column].map((at) => Math.floor(at / unit) * unit);
  const bottom = Math.min(rows, Math.ceil(sight.row + size.height / downPixels));
  const right = Math.min(columns, Math.ceil(sight.column + size.width / acrossPixels));
  const down = Math.max(0, Math.ceil((bottom - top) / high));
  const across = Math.max(0, Math.ceil((right - left) / wide));
  const shown = new Uint32Array(down * across);
  const element = (row: number, column: number) =>
    unit === 1
      ? blocks.start + row * columns + column
      : (blocks.shown[(row / unit) * blocks.across + column / unit] ?? 0);
  for (let y = 0; y < down; y += 1) {
    const last = Math.min(bottom, top + (y + 1) * high);
    for (let x = 0; x < across; x += 1) {
      const end = Math.min(right, left + (x + 1) * wide);
      let best = element(top + y * high, left + x * wide);
      for (let row = top + y * high; row < last; row += unit) {
        for (let column = left + x * wide; column < end; column += unit) {
          const other = element(row, column);
          if (other !== best && heavier(blocks.weights, other, best)) best = other;
        }
      }
      shown[y * across + x] = best;
    }
  }
  return { top, left, high, wide, down, across, shown };
}
