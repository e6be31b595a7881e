/** Kernels of images: pixels row by row, their channels together; of uint8 four to a word. */
import { MOST_ELEMENTS } from "./array_kernels";
import type { KernelText, Tensor } from "./document";
import { BORDERS } from "./messages";

const MOST_SIDE = 2 ** 15;

const MAIN = `@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group : vec3u, @builtin(local_invocation_index) lane : u32) {
  let i = group.x * 256 + lane;`;

const sizes = { height: MOST_SIDE, width: MOST_SIDE, channels: 4, h: MOST_SIDE, w: MOST_SIDE };
const grid: KernelText["grid"] = [["ceildiv", "invocations", 256], 1, 1];

/** To the even one of two that are as near, as uint8. */
const PACKED = `fn byte(value : f32) -> u32 { return u32(clamp(round(value), 0.0, 255.0)); }
fn packed(at : u32) -> u32 {
  return byte(pixel(at)) | (byte(pixel(at + 1)) << 8) | (byte(pixel(at + 2)) << 16) | (byte(pixel(at + 3)) << 24);
}
`;
const READ = { uint8: "f32((x[at / 4] >> (8 * (at % 4))) & 255)", float32: "x[at]" };

type Pixels = keyof typeof READ;

const pixels = (name: string, kind: Pixels, extent: string): Tensor => ({
  ...{ name, dtype: kind === "uint8" ? "uint32" : "float32", shape: [extent] },
});

/** Sums of weighted pixels along rows: `places` of the source, -1 outside of it, `taps` for each column of the result. */
function columns(kind: Pixels): KernelText {
  return {
    name: "columns",
    inputs: [
      pixels("x", kind, "words"),
      { name: "places", dtype: "int32", shape: ["w", "taps"] },
      { name: "weights", dtype: "float32", shape: ["w", "taps"] },
    ],
    output: { name: "between", dtype: "float32", shape: ["height", "w", "channels"] },
    sizes: { ...sizes, words: MOST_ELEMENTS, taps: MOST_SIDE },
    grid: [["ceildiv", ["mul", "w", "channels"], 256], "height", 1],
    wgsl: `fn source(at : u32) -> f32 { return ${READ[kind]}; }
${MAIN}
  if (i >= s.w * s.channels) { return; }
  let column = i / s.channels;
  let channel = i % s.channels;
  var sum = 0.0;
  for (var tap = column * s.taps; tap < (column + 1) * s.taps; tap++) {
    let place = places[tap];
    if (place >= 0) { sum += weights[tap] * source((group.y * s.width + u32(place)) * s.channels + channel); }
  }
  between[group.y * s.w * s.channels + i] = sum;
}
`,
  };
}

/** The same along columns, of what the columns have left. */
function rows(kind: Pixels): KernelText {
  return {
    name: "rows",
    inputs: [
      { name: "between", dtype: "float32", shape: ["height", "w", "channels"] },
      { name: "places", dtype: "int32", shape: ["h", "rowTaps"] },
      { name: "weights", dtype: "float32", shape: ["h", "rowTaps"] },
    ],
    output: pixels("out", kind, "invocations"),
    sizes: { ...sizes, rowTaps: MOST_SIDE, invocations: MOST_ELEMENTS },
    grid,
    wgsl: `fn pixel(at : u32) -> f32 {
  let line = s.w * s.channels;
  let row = at / line;
  var sum = 0.0;
  if (row >= s.h) { return sum; }
  for (var tap = row * s.rowTaps; tap < (row + 1) * s.rowTaps; tap++) {
    let place = places[tap];
    if (place >= 0) { sum += weights[tap] * between[u32(place) * line + at % line]; }
  }
  return sum;
}
${kind === "uint8" ? PACKED : ""}${MAIN}
  if (i < s.invocations) { out[i] = ${kind === "uint8" ? "packed(4 * i)" : "pixel(i)"}; }
}
`,
  };
}

/** Pixels of uint8 under an affine map of places: `matrix` takes a place of the result to one of the source. */
const warp: KernelText = {
  name: "warp",
  inputs: [
    pixels("x", "uint8", "words"),
    { name: "matrix", dtype: "float32", shape: [6] },
    { name: "value", dtype: "float32", shape: [4] },
  ],
  output: pixels("out", "uint8", "invocations"),
  sizes: { ...sizes, words: MOST_ELEMENTS, invocations: MOST_ELEMENTS, border: BORDERS.length },
  grid,
  wgsl: `fn inside(place : i32, extent : i32) -> i32 {
  if (place >= 0 && place < extent) { return place; }
  if (s.border == 1) { return -1; }
  if (s.border == 2 || extent == 1) { return clamp(place, 0, extent - 1); }
  let extra = select(0, 1, s.border == 5);
  let period = select(2 * (extent - extra), extent, s.border == 4);
  let rest = place - (place / period) * period;
  let at = select(rest, rest + period, rest < 0);
  return select(period - at - 1 + extra, at, at < extent);
}
fn source(column : i32, row : i32, channel : u32) -> f32 {
  let i = inside(column, i32(s.width));
  let j = inside(row, i32(s.height));
  if (i < 0 || j < 0) { return value[channel]; }
  let at = (u32(j) * s.width + u32(i)) * s.channels + channel;
  return ${READ.uint8};
}
fn pixel(at : u32) -> f32 {
  let channel = at % s.channels;
  let u = f32((at / s.channels) % s.w);
  let v = f32(at / s.channels / s.w);
  let sx = matrix[0] * u + matrix[1] * v + matrix[2];
  let sy = matrix[3] * u + matrix[4] * v + matrix[5];
  let left = floor(sx);
  let top = floor(sy);
  let px = i32(left);
  let py = i32(top);
  let upper = mix(source(px, py, channel), source(px + 1, py, channel), sx - left);
  let lower = mix(source(px, py + 1, channel), source(px + 1, py + 1, channel), sx - left);
  return mix(upper, lower, sy - top);
}
${PACKED}${MAIN}
  if (i < s.invocations) { out[i] = packed(4 * i); }
}
`,
};

export const IMAGE_KERNELS: Readonly<Record<string, readonly KernelText[]>> = {
  separable_uint8: [columns("uint8"), rows("uint8")],
  separable_float32: [columns("float32"), rows("float32")],
  warp: [warp],
};
