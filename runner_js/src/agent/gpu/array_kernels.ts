/** Kernels of arrays. Numbers are finite: the VM's side sends no others. */
import type { Expression, KernelText, Tensor } from "./document";
import { PART } from "./messages";

export const MOST_ELEMENTS = 2 ** 25;
const MOST_EXTENT = 2 ** 16 - 1;
const MOST_SIDE = 2 ** 21;

type DataType = Tensor["dtype"];
const T = { float32: "f32", int32: "i32", uint32: "u32" };

const MAIN = `@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group : vec3u, @builtin(local_invocation_index) lane : u32) {`;

const flat = (name: string, dtype: DataType, extent: Expression): Tensor => ({
  ...{ name, dtype, shape: [extent] },
});

/** Products of (n, k) and (k, m) matrices, whose places are pairs in `starts`: 64 x 64 elements a workgroup. */
export function matmul(dtype: DataType): KernelText {
  const t = T[dtype];
  const rows = [0, 1, 2, 3];
  return {
    name: "matmul",
    inputs: [flat("x", dtype, "xs"), flat("y", dtype, "ys"), flat("starts", "uint32", ["mul", 2, "pairs"])],
    output: flat("out", dtype, "size"),
    sizes: {
      ...{ xs: MOST_ELEMENTS, ys: MOST_ELEMENTS, size: MOST_ELEMENTS, pairs: MOST_EXTENT },
      ...{ n: MOST_SIDE, k: MOST_ELEMENTS, m: MOST_SIDE },
    },
    grid: [["ceildiv", "m", 64], ["ceildiv", "n", 64], "pairs"],
    wgsl: `var<workgroup> left : array<vec4<${t}>, 256>;
var<workgroup> right : array<vec4<${t}>, 256>;
fn a(row : u32, at : u32, start : u32) -> ${t} {
  if (row < s.n && at < s.k) { return x[start + row * s.k + at]; }
  return ${t}(0);
}
fn b(at : u32, column : u32, start : u32) -> ${t} {
  if (at < s.k && column < s.m) { return y[start + at * s.m + column]; }
  return ${t}(0);
}
${MAIN}
  let first = starts[2 * group.z];
  let second = starts[2 * group.z + 1];
  let row = group.y * 64 + (lane / 16) * 4;
  let column = group.x * 64 + (lane % 16) * 4;
  // What this invocation reads of both tiles: four rows of one column of the left, four columns of one row of the right.
  let depth = lane / 16;
  let leftRow = group.y * 64 + (lane % 16) * 4;
${rows.map((i) => `  var sum${i} = vec4<${t}>();`).join("\n")}
  for (var at = 0u; at < s.k; at += 16) {
    let k = at + depth;
    left[lane] = vec4<${t}>(${rows.map((i) => `a(leftRow + ${i}, k, first)`).join(", ")});
    right[lane] = vec4<${t}>(${rows.map((i) => `b(k, column + ${i}, second)`).join(", ")});
    workgroupBarrier();
    for (var i = 0u; i < 16; i++) {
      let four = left[i * 16 + lane / 16];
      let other = right[i * 16 + lane % 16];
${rows.map((i) => `      sum${i} += four[${i}] * other;`).join("\n")}
    }
    workgroupBarrier();
  }
  let start = group.z * s.n * s.m;
  for (var j = 0u; j < 4; j++) {
    if (column + j >= s.m) { break; }
${rows.map((i) => `    if (row + ${i} < s.n) { out[start + (row + ${i}) * s.m + column + j] = sum${i}[j]; }`).join("\n")}
  }
}
`,
  };
}

function elements(name: string, inputs: readonly string[], body: string): KernelText {
  return {
    name,
    inputs: inputs.map((input) => flat(input, "float32", "n")),
    output: flat("out", "float32", "n"),
    sizes: { n: MOST_ELEMENTS },
    grid: [["ceildiv", "n", 1024], 1, 1],
    wgsl: `${name === "tanh" ? TANH : ""}${MAIN}
  for (var j = 0u; j < 4; j++) {
    let i = group.x * 1024 + j * 256 + lane;
    if (i < s.n) { out[i] = ${body}; }
  }
}
`,
  };
}

const ONE: Record<string, string> = {
  ...{ exp: "exp(x[i])", log: "log(x[i])", log2: "log2(x[i])", sqrt: "sqrt(x[i])" },
  tanh: "hyperbolic(x[i])",
};
/** exp of what is not positive does not overflow; near 0, where 1 - exp would lose digits, a series. */
const TANH = `fn hyperbolic(x : f32) -> f32 {
  let square = x * x;
  let small = exp(-2 * abs(x));
  let series = x * (1 + square * (-1.0 / 3 + square * (2.0 / 15 + square * (-17.0 / 315 + square * 62.0 / 2835))));
  return select(sign(x) * (1 - small) / (1 + small), series, abs(x) < 0.3);
}
`;
const TWO: Record<string, string> = {
  ...{ add: "x[i] + y[i]", subtract: "x[i] - y[i]", multiply: "x[i] * y[i]", divide: "x[i] / y[i]" },
};

function reduction(name: string, zero: string, joined: (a: string, b: string) => string): KernelText {
  return {
    name,
    inputs: [flat("x", "float32", "xs")],
    output: { name: "out", dtype: "float32", shape: ["count", ["ceildiv", "length", PART]] },
    sizes: { xs: MOST_ELEMENTS, count: MOST_EXTENT, length: MOST_ELEMENTS },
    grid: [["ceildiv", "length", PART], "count", 1],
    wgsl: `var<workgroup> found : array<f32, 256>;
${MAIN}
  let begin = group.y * s.length;
  let end = min(s.length, (group.x + 1) * ${PART});
  var own = ${zero};
  for (var i = group.x * ${PART} + lane; i < end; i += 256) { own = ${joined("own", "x[begin + i]")}; }
  found[lane] = own;
  for (var half = 128u; half > 0; half /= 2) {
    workgroupBarrier();
    if (lane < half) { found[lane] = ${joined("found[lane]", "found[lane + half]")}; }
  }
  if (lane == 0) { out[group.y * ((s.length + ${PART - 1}) / ${PART}) + group.x] = found[0]; }
}
`,
  };
}

/** Models, by name; each is one function, of its name. */
export const ARRAY_KERNELS: Readonly<Record<string, readonly KernelText[]>> = {
  ...{
    matmul_float32: [matmul("float32")],
    matmul_int32: [matmul("int32")],
    matmul_uint32: [matmul("uint32")],
  },
  ...Object.fromEntries(Object.entries(ONE).map(([name, body]) => [name, [elements(name, ["x"], body)]])),
  ...Object.fromEntries(
    Object.entries(TWO).map(([name, body]) => [name, [elements(name, ["x", "y"], body)]]),
  ),
  sum: [reduction("sum", "0.0", (a, b) => `${a} + ${b}`)],
  max: [reduction("max", "-3.4028234e38", (a, b) => `max(${a}, ${b})`)],
  min: [reduction("min", "3.4028234e38", (a, b) => `min(${a}, ${b})`)],
};
