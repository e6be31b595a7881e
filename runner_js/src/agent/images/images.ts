/** Images of tasks: what Python's `tapml.images` calls. tapml-images.js is made of this file. */
import { filtering, type Pixels, resizing, separable, stored } from "./resample";
import { warp } from "./warp";

/** Where most time goes. */
export interface Compute {
  readonly separable: typeof separable;
  readonly warp: typeof warp;
}

export const OWN: Compute = { separable, warp };

/** All functions, by the VM itself or by another one. */
export function images(compute: Compute): object {
  return {
    ...{ mix, hsv, warp: compute.warp },
    resize: (...given: Rest<typeof resize>) => resize(compute, ...given),
    blur: (...given: Rest<typeof blur>) => blur(compute, ...given),
  };
}

type Rest<F> = F extends (first: never, ...rest: infer R) => unknown ? R : never;

function resize(
  compute: Compute,
  x: Pixels,
  dtype: string,
  height: number,
  width: number,
  channels: number,
  h: number,
  w: number,
  method: string,
): Pixels {
  const shrinks = h <= height && w <= width;
  const rows = resizing(height, h, method, shrinks);
  return compute.separable(x, dtype, width, channels, rows, resizing(width, w, method, shrinks));
}

/** `columns`, `rows`: JSON, the weights along each axis. */
function blur(
  compute: Compute,
  x: Pixels,
  dtype: string,
  height: number,
  width: number,
  channels: number,
  columns: string,
  rows: string,
  border: string,
): Pixels {
  const taps = filtering(height, JSON.parse(rows) as number[], border);
  return compute.separable(
    x,
    dtype,
    width,
    channels,
    taps,
    filtering(width, JSON.parse(columns) as number[], border),
  );
}

/** Each channel of the result is a sum of the channels, weighted, and an offset: `matrix`, JSON, a list of rows. */
function mix(x: Pixels, dtype: string, channels: number, matrix: string): Pixels {
  const rows = JSON.parse(matrix) as number[][];
  const count = x.length / channels;
  const { out, to } = stored(dtype, count * rows.length);
  for (let i = 0; i < count; i++)
    rows.forEach((row, channel) => {
      let sum = row[channels] as number;
      for (let c = 0; c < channels; c++) sum += (row[c] as number) * (x[i * channels + c] as number);
      to[i * rows.length + channel] = sum;
    });
  return out;
}

/** Red, green, blue in that order to hue, saturation, value: of uint8 hue is halves of degrees, of float32 degrees. */
function hsv(x: Pixels, dtype: string): Pixels {
  const { out, to } = stored(dtype, x.length);
  const whole = dtype === "uint8";
  for (let i = 0; i < x.length; i += 3) {
    const [r, g, b] = [x[i] as number, x[i + 1] as number, x[i + 2] as number];
    const value = Math.max(r, g, b);
    const range = value - Math.min(r, g, b);
    let hue = 0;
    if (range > 0) {
      if (value === r) hue = (60 * (g - b)) / range;
      else if (value === g) hue = 120 + (60 * (b - r)) / range;
      else hue = 240 + (60 * (r - g)) / range;
      if (hue < 0) hue += 360;
    }
    const saturation = value === 0 ? 0 : range / value;
    to[i] = whole ? Math.round(hue / 2) % 180 : hue;
    to[i + 1] = whole ? 255 * saturation : saturation;
    to[i + 2] = value;
  }
  return out;
}
