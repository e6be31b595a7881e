/** A compiled model by hand whose states grow, as those of a language model do. */
import type { CompiledKernel, CompiledModel } from "../compiled/generated/model";
import { dispatch, functionOf, modelOf, type TestModel, tensor } from "./compiled";

/** Tokens that there is room for at first, and that fit. */
export const [FIRST, CAPACITY] = [4, 13];

const TOKENS = { name: "tokens", minimum: 1, maximum: 3 };
const PLACES = { name: "places", minimum: FIRST, maximum: CAPACITY };

/** Puts tokens into each of the 3 rows of a cache, the r-th 100 times r more. */
const APPEND = `
@group(0) @binding(0) var<storage, read> ids : array<i32>;
@group(0) @binding(1) var<storage, read> positions : array<i32>;
@group(0) @binding(2) var<storage, read_write> cache : array<f32>;
@compute @workgroup_size(1)
fn main() {
  let places = i32(arrayLength(&cache)) / 3;
  for (var i = 0; i < i32(arrayLength(&ids)); i++) {
    for (var row = 0; row < 3; row++) {
      if (positions[i] < places) { cache[row * places + positions[i]] = f32(ids[i] + 100 * row); }
    }
  }
}
`;
/** The sums of the cache's rows up to the last position, and how many places each has. */
const SUM = `
@group(0) @binding(0) var<storage, read> cache : array<f32>;
@group(0) @binding(1) var<storage, read> positions : array<i32>;
@group(0) @binding(2) var<storage, read_write> logits : array<f32>;
@compute @workgroup_size(1)
fn main() {
  let places = i32(arrayLength(&cache)) / 3;
  let last = positions[arrayLength(&positions) - 1];
  for (var row = 0; row < 3; row++) {
    var sum = 0.0;
    for (var at = 0; at <= min(last, places - 1); at++) { sum += cache[row * places + at]; }
    logits[row] = sum;
  }
  logits[3] = f32(places);
}
`;

type Argument = CompiledKernel["arguments"][number];

function kernel(name: string, wgsl: number, given: Argument[], bound: number[]): CompiledKernel {
  const requires = { features: [], limits: {} };
  const bindings = bound.map((argument, binding) => {
    const access = given[argument]?.role === "output" ? ("read_write" as const) : ("read" as const);
    return { binding, access };
  });
  const entry = { name: "main", file: `${name}.wgsl`, wgsl, workgroup_size: [1, 1, 1], bindings };
  const operands = bound.map((argument) => ({ argument }));
  const launches = [{ entry_point: "main", operands, uniforms: [], grid: [1, 1, 1] }];
  const variants = [{ name: "default", requires, entry_points: [entry], launches, temporaries: [] }];
  return { kernel: name, symbols: [TOKENS, PLACES], arguments: given, variants };
}

/** Its logits are the sums of what it was given up to the last position, by rows, and the places that there are. */
export async function growing(): Promise<TestModel> {
  const cache = [3, "places", 1];
  const of = (role: Argument["role"], shape: Argument["shape"], dtype: Argument["dtype"]): Argument => {
    return { role, shape, dtype };
  };
  const ids = of("input", [1, "tokens"], "int32");
  const positions = of("input", ["tokens"], "int32");
  const append = [
    of("input", cache, "float32"),
    ids,
    positions,
    { ...of("output", cache, "float32"), overwrites: 0 },
  ];
  const sum = [of("input", cache, "float32"), positions, of("output", [1, 4], "float32")];
  const tensors = [
    tensor("input_ids", ["input", 0], [1, "tokens"], "int32"),
    tensor("positions", ["input", 1], ["tokens"], "int32"),
    tensor("last", ["input", 2], [1], "int32"),
    tensor("cache", ["state", 0], cache),
    tensor("logits", ["output", 0], [1, 4]),
  ];
  const main = functionOf(tensors, [dispatch(0, 3, 0, 1, 3), dispatch(1, 3, 1, 4)]);
  const made = await modelOf({
    functions: { main, other: main },
    symbols: [TOKENS, PLACES],
    states: [{ name: "cache", dtype: "float32", shape: cache, initial: null } as CompiledModel["states"][0]],
  });
  const facts = { prefill: "main", decode: "main", chunk: 3, capacity: CAPACITY, vocabulary: 4 };
  Object.assign(made.document, {
    wgsl: [APPEND, SUM],
    kernels: [kernel("append", 0, append, [1, 2, 3]), kernel("sum", 1, sum, [0, 1, 2])],
    generation: { ...facts, end: [], begin: null, bytes_per_token: 12, places: "places" },
  });
  return made;
}
