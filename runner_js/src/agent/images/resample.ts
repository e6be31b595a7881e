/** Images row by row, their channels together: each element of the result is a sum of weighted elements of rows and columns. */

export type Pixels = Uint8Array | Float32Array;

/** Of each place of the result, places of the source and their weights, `taps` of each. A place of -1 is outside, and 0 there. */
export interface Taps {
  readonly taps: number;
  readonly places: Int32Array;
  readonly weights: Float64Array;
}

/** Where `place` is in an axis of that extent: as OpenCV's borders have it; -1 is outside. */
export function inside(place: number, extent: number, border: string): number {
  if (place >= 0 && place < extent) return place;
  if (border === "constant") return -1;
  if (border === "replicate" || extent === 1) return place < 0 ? 0 : extent - 1;
  if (border === "wrap") return ((place % extent) + extent) % extent;
  const shared = border === "reflect_101" ? 1 : 0;
  const period = 2 * (extent - shared);
  const at = ((place % period) + period) % period;
  return at < extent ? at : period - at - 1 + shared;
}

/** Rounded to the even one of two that are as near, and no less than 0 or more than 255. */
export function stored(dtype: string, count: number): { out: Pixels; to: Uint8ClampedArray | Float32Array } {
  if (dtype === "float32") {
    const out = new Float32Array(count);
    return { out, to: out };
  }
  const to = new Uint8ClampedArray(count);
  return { out: new Uint8Array(to.buffer), to };
}

/** `x`: (height, width, channels). Columns first, then rows. */
export function separable(
  x: Pixels,
  dtype: string,
  width: number,
  channels: number,
  rows: Taps,
  columns: Taps,
): Pixels {
  const height = x.length / (width * channels);
  const [h, w] = [rows.places.length / rows.taps, columns.places.length / columns.taps];
  const between = new Float64Array(height * w * channels);
  for (let y = 0; y < height; y++)
    for (let i = 0; i < w; i++)
      for (let tap = i * columns.taps; tap < (i + 1) * columns.taps; tap++) {
        const place = columns.places[tap] as number;
        const weight = columns.weights[tap] as number;
        if (place < 0 || weight === 0) continue;
        for (let c = 0; c < channels; c++)
          (between[(y * w + i) * channels + c] as number) +=
            weight * (x[(y * width + place) * channels + c] as number);
      }
  const { out, to } = stored(dtype, h * w * channels);
  const line = new Float64Array(w * channels);
  for (let j = 0; j < h; j++) {
    line.fill(0);
    for (let tap = j * rows.taps; tap < (j + 1) * rows.taps; tap++) {
      const place = rows.places[tap] as number;
      const weight = rows.weights[tap] as number;
      if (place < 0 || weight === 0) continue;
      for (let i = 0; i < line.length; i++)
        (line[i] as number) += weight * (between[place * line.length + i] as number);
    }
    to.set(line, j * line.length);
  }
  return out;
}

function tapsOf(count: number, taps: number, each: (i: number) => [place: number, weight: number][]): Taps {
  const places = new Int32Array(count * taps).fill(-1);
  const weights = new Float64Array(count * taps);
  for (let i = 0; i < count; i++)
    each(i).forEach(([place, weight], tap) => {
      places[i * taps + tap] = place;
      weights[i * taps + tap] = weight;
    });
  return { taps, places, weights };
}

/** From `extent` elements to `count`, as OpenCV's resize. `shrinks`: area averages, where both axes get no longer. */
export function resizing(extent: number, count: number, method: string, shrinks: boolean): Taps {
  const scale = 1 / (count / extent);
  const clamped = (place: number): number => Math.min(Math.max(place, 0), extent - 1);
  if (method === "nearest") return tapsOf(count, 1, (i) => [[clamped(Math.floor(i * scale)), 1]]);
  if (method === "area" && shrinks)
    return tapsOf(count, Math.ceil(scale) + 2, (i) => covered(i * scale, scale, extent));
  if (method === "cubic")
    return tapsOf(count, 4, (i) => {
      const at = (i + 0.5) * scale - 0.5;
      const from = Math.floor(at);
      return cubic(at - from).map((weight, tap) => [clamped(from - 1 + tap), weight]);
    });
  return tapsOf(count, 2, (i) => {
    let at = (i + 0.5) * scale - 0.5;
    let from = Math.floor(at);
    if (method === "area") {
      from = Math.floor(i * scale);
      // As float32, by which OpenCV decides on which side of a border a place lies.
      const over = Math.fround(i + 1 - (from + 1) * (count / extent));
      at = from + (over <= 0 ? 0 : over - Math.floor(over));
    }
    return [
      [clamped(from), 1 - (at - from)],
      [clamped(from + 1), at - from],
    ];
  });
}

/** Shares of the elements that lie between `from` and `from + scale`. */
function covered(from: number, scale: number, extent: number): [number, number][] {
  const to = from + scale;
  const width = Math.min(scale, extent - from);
  const last = Math.min(Math.floor(to), extent - 1);
  const first = Math.min(Math.ceil(from), last);
  const found: [number, number][] = [];
  if (first - from > 1e-3) found.push([first - 1, (first - from) / width]);
  for (let place = first; place < last; place++) found.push([place, 1 / width]);
  if (to - last > 1e-3) found.push([last, Math.min(to - last, 1, width) / width]);
  return found;
}

function cubic(x: number): number[] {
  const a = -0.75;
  const near = (t: number): number => ((a + 2) * t - (a + 3)) * t * t + 1;
  const far = (t: number): number => ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
  const [first, second, third] = [far(x + 1), near(x), near(1 - x)];
  return [first, second, third, 1 - first - second - third];
}

/** A symmetric kernel over an axis, with what the border has beyond it. */
export function filtering(extent: number, kernel: readonly number[], border: string): Taps {
  const middle = (kernel.length - 1) / 2;
  return tapsOf(extent, kernel.length, (i) =>
    kernel.map((weight, tap) => [inside(i + tap - middle, extent, border), weight]),
  );
}
