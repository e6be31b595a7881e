/** Images under a map of places: each pixel of the result is looked for in the source. */
import { inside, type Pixels, stored } from "./resample";

/** `matrix`: JSON, nine numbers that take a place of the result to one of the source. `value`: JSON, beyond a constant border. */
export function warp(
  x: Pixels,
  dtype: string,
  width: number,
  channels: number,
  h: number,
  w: number,
  matrix: string,
  border: string,
  value: string,
): Pixels {
  const [a, b, c, d, e, f, g, k, l] = JSON.parse(matrix) as [
    ...[number, number, number, number, number, number],
    ...[number, number, number],
  ];
  const outside = JSON.parse(value) as number[];
  const height = x.length / (width * channels);
  const { out, to } = stored(dtype, h * w * channels);
  const pixel = (px: number, py: number, channel: number): number => {
    const [i, j] = [inside(px, width, border), inside(py, height, border)];
    return i < 0 || j < 0
      ? (outside[channel] as number)
      : (x[(j * width + i) * channels + channel] as number);
  };
  for (let v = 0; v < h; v++)
    for (let u = 0; u < w; u++) {
      const depth = g * u + k * v + l;
      const inverse = depth === 0 ? 0 : 1 / depth;
      const sx = (a * u + b * v + c) * inverse;
      const sy = (d * u + e * v + f) * inverse;
      const [px, py] = [Math.floor(sx), Math.floor(sy)];
      const [ax, ay] = [sx - px, sy - py];
      const at = (v * w + u) * channels;
      if (px >= 0 && py >= 0 && px + 1 < width && py + 1 < height) {
        const first = (py * width + px) * channels;
        for (let channel = 0; channel < channels; channel++) {
          const place = first + channel;
          const below = place + width * channels;
          const upper = (1 - ax) * (x[place] as number) + ax * (x[place + channels] as number);
          const lower = (1 - ax) * (x[below] as number) + ax * (x[below + channels] as number);
          to[at + channel] = (1 - ay) * upper + ay * lower;
        }
        continue;
      }
      for (let channel = 0; channel < channels; channel++) {
        const upper = (1 - ax) * pixel(px, py, channel) + ax * pixel(px + 1, py, channel);
        const lower = (1 - ax) * pixel(px, py + 1, channel) + ax * pixel(px + 1, py + 1, channel);
        to[at + channel] = (1 - ay) * upper + ay * lower;
      }
    }
  return out;
}
