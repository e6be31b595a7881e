/** Launches of compiled models that read nothing but weights. */
import { describe, expect, it } from "vitest";
import type { CompiledKernel, CompiledVariant, Expression } from "../compiled/generated/model";
import { functionOf, modelOf, N, range, type TestModel, tensor } from "../testing/compiled";
import { Models } from "../testing/models";
import type { Model } from "./api";

const models = new Models();
const COUNT = 64;
const BYTES = 4 * COUNT;
const X = range(COUNT);
const Y = Float32Array.from(X, (x, i) => x + 10 * i);

interface Given {
  name?: string;
  /** Workgroups of the launch that packs are said by a size. */
  sized?: boolean;
  /** Times the bytes of the weight that the temporary has. */
  times?: number;
  /** The second launch writes what it read, too. */
  spoils?: boolean;
  /** The weight is of words, of which each may be several integers. */
  words?: boolean;
  /** Of the second function. */
  weight?: number;
}

/**
 * Two functions, y = x + 10 w, by two launches: one writes 10 w to a temporary, the other adds it. Between these of the
 * first function another kernel writes where the temporary lies.
 */
async function packing({
  name = "little",
  sized = false,
  times = 1,
  spoils = false,
  words = false,
  weight = 0,
}: Given = {}): Promise<TestModel> {
  const [symbols, sizes] = sized ? [[N], { n: 1 }] : [[], {}];
  const of = (w: number) => {
    const shape = [COUNT];
    const tensors = [
      tensor("x", ["input", 0], shape),
      tensor("w", ["weights", w, 0], shape, words ? "uint32" : "float32"),
      tensor("packed", ["arena", 0, 0], [times * COUNT], "uint32"),
      tensor("y", ["output", 0], shape),
    ];
    const code = [
      { op: "dispatch" as const, kernel: 0, operands: [0, 1, 3], temporaries: [2], sizes },
      { op: "fill" as const, tensor: 2, value: 0 },
    ];
    return functionOf(tensors, code, [times * BYTES]);
  };
  const weights = [range(COUNT), range(COUNT)];
  const sum = { name: "sum", inputs: 2, body: "p0[i] + p1[i]", shape: [COUNT], symbols };
  const functions = { main: of(0), again: of(weight) };
  const served = await modelOf({ kernels: [sum], functions, weights, symbols: [], name });
  const [kernel] = served.document.kernels as [CompiledKernel];
  const [variant] = kernel.variants as [CompiledVariant];
  const [entry] = variant.entry_points as [CompiledVariant["entry_points"][number]];
  const [, argument] = kernel.arguments;
  if (argument && words) argument.dtype = "uint32";
  const wgsl = served.document.wgsl;
  const first = wgsl.length;
  wgsl.push(`
@group(0) @binding(0) var<storage, read> w : array<f32>;
@group(0) @binding(1) var<storage, read_write> packed : array<f32>;
@compute @workgroup_size(${COUNT}) fn pack(@builtin(local_invocation_id) id : vec3<u32>) {
  packed[id.x] = 10.0 * w[id.x];
}`);
  wgsl.push(`
@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var<storage, ${spoils ? "read_write" : "read"}> packed : array<f32>;
@group(0) @binding(2) var<storage, read_write> y : array<f32>;
@compute @workgroup_size(${COUNT}) fn add(@builtin(local_invocation_id) id : vec3<u32>) {
  y[id.x] = x[id.x] + packed[id.x];
  ${spoils ? "packed[id.x] = -1.0;" : ""}
}`);
  const at = (binding: number, written: boolean) => ({
    binding,
    access: written ? ("read_write" as const) : ("read" as const),
  });
  const texts = [
    { name: "pack", bindings: [at(0, false), at(1, true)] },
    { name: "add", bindings: [at(0, false), at(1, spoils), at(2, true)] },
  ];
  variant.entry_points = texts.map((text, i) => ({
    ...{ ...entry, ...text },
    ...{ wgsl: first + i, workgroup_size: [COUNT, 1, 1] },
  }));
  variant.temporaries = [times * BYTES];
  const launched = { uniforms: [], grid: [1, 1, 1] as [Expression, Expression, Expression] };
  variant.launches = [
    {
      ...launched,
      grid: [sized ? "n" : 1, 1, 1],
      entry_point: "pack",
      operands: [{ argument: 1 }, { temporary: 0 }],
    },
    { ...launched, entry_point: "add", operands: [{ argument: 0 }, { temporary: 0 }, { argument: 2 }] },
  ];
  return served;
}

/** Names of the launches of a call of each function. */
async function launches(model: Model): Promise<number[][]> {
  const found: number[][] = [];
  for (const fn of Object.values(model.functions)) {
    const { outputs, dispatches } = await fn.profile({ x: X });
    expect(outputs.y).toEqual(Y);
    found.push(dispatches.map(({ launch }) => launch));
  }
  return found;
}

describe("A launch that reads nothing but weights", () => {
  it("runs once, and what it wrote is kept, for all who ask for the same", async () => {
    const model = await models.open(await packing());
    const plain = await models.open(await packing({ spoils: true }));
    expect(await launches(model)).toEqual([[1], [1]]);
    expect(await launches(plain)).toEqual([
      [0, 1],
      [0, 1],
    ]);
    expect(model.memory.other).toBe(plain.memory.other + BYTES);
    for (let call = 0; call < 3; call++) expect((await model.functions.main?.run({ x: X }))?.y).toEqual(Y);
    const sized = await models.open(await packing({ sized: true }));
    expect(await launches(sized)).toEqual(await launches(plain));
    const unpacking = await models.open(await packing({ times: 2 }));
    expect(await launches(unpacking)).toEqual(await launches(plain));
    const turning = await models.open(await packing({ words: true }));
    expect(await launches(turning)).toEqual(await launches(plain));
    const other = await models.open(await packing({ weight: 1 }));
    expect(await launches(other)).toEqual([[1], [1]]);
    expect(other.memory.other).toBe(plain.memory.other + 2 * BYTES);
  });

  it("is computed anew when its model comes back, and is no hindrance to others", async () => {
    const least = 4 * BYTES;
    const one = await models.open(await packing({ name: "one" }), { memory: least });
    const both = await launches(one);
    const other = await models.open(await packing({ name: "other" }), { memory: least });
    expect(await launches(other)).toEqual(both);
    expect(one.memory.total).toBe(0);
    expect(await launches(one)).toEqual(both);
    expect(both).toEqual([[1], [1]]);
    models.keep(await models.open(await packing(), { memory: Number.POSITIVE_INFINITY }));
  });

  it("runs at each call where the budget has no room for what it writes", async () => {
    const model = await models.open(await packing(), { memory: 3 * BYTES });
    expect(await launches(model)).toEqual([
      [0, 1],
      [0, 1],
    ]);
    await models.open(await packing(), { memory: Number.POSITIVE_INFINITY });
  });

  it("is captured with the others", async () => {
    const model = await models.open(await packing());
    const { operators } = await model.capture({ function: "main", inputs: { x: X } });
    expect(operators.map(({ kernel, bytes }) => [kernel, bytes])).toEqual([["sum", 3 * BYTES]]);
    expect(await launches(model)).toEqual([[1], [1]]);
  });
});
