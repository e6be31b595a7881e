/** Elements from one place to another. */
import { type DType, ELEMENTS, type Elements, made, rows } from "./types";

export function full(dtype: string, count: number, value: number): Elements {
  return made(dtype, count).fill(value);
}

/** Of bytes of the same elements; they are copied. */
export function fromBytes(dtype: string, bytes: Uint8Array): Elements {
  return new ELEMENTS[dtype as DType](bytes.slice().buffer);
}

export function bytes(x: Elements): Uint8Array {
  return new Uint8Array(x.buffer, x.byteOffset, x.byteLength);
}

/** `start`, `start + step`, ... */
export function ramp(dtype: string, count: number, start: number, step: number): Elements {
  const out = made(dtype, count);
  for (let i = 0; i < count; i++) out[i] = start + i * step;
  return out;
}

/** To bool: whether it is not 0. To integers as C does: towards 0, and modulo their size. */
export function cast(x: Elements, dtype: string): Elements {
  const out = made(dtype, x.length);
  if (dtype === "bool") for (let i = 0; i < x.length; i++) out[i] = x[i] !== 0 ? 1 : 0;
  else out.set(x);
  return out;
}

/** The elements that a walk from `at` finds, row by row. */
export function strided(x: Elements, dtype: string, at: number, shape: string, strides: string): Elements {
  const extents = JSON.parse(shape) as number[];
  const steps = JSON.parse(strides) as number[];
  const out = made(
    dtype,
    extents.reduce((product, extent) => product * extent, 1),
  );
  const [count, step] = [extents.at(-1) as number, steps.at(-1) as number];
  let o = 0;
  rows(extents, [{ data: x, at, strides: steps }], ([from]) => {
    for (let n = 0, i = from as number; n < count; n++, i += step) out[o++] = x[i] as number;
  });
  return out;
}

/** `y` goes where a walk through `x` leads; strides of `y` are 0 along an axis that is broadcast. */
export function assign(
  x: Elements,
  at: number,
  shape: string,
  strides: string,
  y: Elements,
  others: string,
): void {
  const extents = JSON.parse(shape) as number[];
  const walks = [
    { data: x, at, strides: JSON.parse(strides) as number[] },
    { data: y, at: 0, strides: JSON.parse(others) as number[] },
  ] as const;
  const count = extents.at(-1) as number;
  const [step, other] = [walks[0].strides.at(-1) as number, walks[1].strides.at(-1) as number];
  rows(extents, walks, ([to, from]) => {
    for (let n = 0, i = to as number, k = from as number; n < count; n++, i += step, k += other)
      x[i] = y[k] as number;
  });
}

/** `x` as (outer, extent, inner): along its second axis those at `places`, which count from the end below 0. */
export function take(x: Elements, dtype: string, extent: number, inner: number, places: Elements): Elements {
  const outer = extent * inner === 0 ? 0 : x.length / (extent * inner);
  const found = Array.from(places, (place) => {
    if (place >= extent || place < -extent) throw new RangeError(`there is no ${place} among ${extent}`);
    return place < 0 ? place + extent : place;
  });
  const out = made(dtype, outer * found.length * inner);
  let o = 0;
  for (let a = 0; a < outer; a++)
    for (const place of found) {
      const from = (a * extent + place) * inner;
      out.set(x.subarray(from, from + inner), o);
      o += inner;
    }
  return out;
}

/** Places of what is not 0. */
export function nonzero(x: Elements): Elements {
  let count = 0;
  for (let i = 0; i < x.length; i++) if (x[i] !== 0) count++;
  const out = new Int32Array(count);
  for (let i = 0, o = 0; i < x.length; i++) if (x[i] !== 0) out[o++] = i;
  return out;
}

/** `y`, over again, goes to `places` of `x`. */
export function put(x: Elements, places: Elements, y: Elements): void {
  for (let i = 0; i < places.length; i++) x[places[i] as number] = y[i % y.length] as number;
}
