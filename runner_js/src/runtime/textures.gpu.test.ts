/** Kernels of compiled models that have textures between their launches. */
import { describe, expect, it } from "vitest";
import type { CompiledKernel, CompiledVariant } from "../compiled/generated/model";
import { functionOf, modelOf, type TestModel, tensor } from "../testing/compiled";
import { fault, Models } from "../testing/models";

const models = new Models();
const X = Float32Array.from([1, 2, 3, 4]);

/** y = x + 1, by two launches: one writes x to a texture of `width` texels, the other reads it there. */
async function throughATexture(width: number): Promise<TestModel> {
  const tensors = [tensor("x", ["input", 0]), tensor("y", ["output", 0])];
  const code = [{ op: "dispatch" as const, kernel: 0, operands: [0, 1], temporaries: [] }];
  const texts = [{ name: "plus", inputs: 1, body: "p0[i] + 1.0" }];
  const served = await modelOf({ kernels: texts, functions: { main: functionOf(tensors, code) } });
  const [kernel] = served.document.kernels as [CompiledKernel];
  const [variant] = kernel.variants as [CompiledVariant];
  const [entry] = variant.entry_points as [CompiledVariant["entry_points"][number]];
  const wgsl = served.document.wgsl;
  wgsl.push(`
@group(0) @binding(0) var<storage, read> x : array<f32>;
@group(0) @binding(1) var t : texture_storage_2d<r32float, write>;
@compute @workgroup_size(1) fn pack(@builtin(global_invocation_id) id : vec3<u32>) {
  textureStore(t, vec2(id.x, 0), vec4(x[id.x]));
}`);
  wgsl.push(`
@group(0) @binding(0) var t : texture_2d<f32>;
@group(0) @binding(1) var<storage, read_write> y : array<f32>;
@compute @workgroup_size(1) fn read(@builtin(global_invocation_id) id : vec3<u32>) {
  y[id.x] = textureLoad(t, vec2(id.x, 0), 0).x + 1.0;
}`);
  const texture = { dimension: "2d" as const, numbers: "f32" as const };
  variant.textures = [{ dimension: "2d", format: "r32float", size: [width, 1, 1] }];
  variant.entry_points = [
    {
      ...entry,
      name: "pack",
      wgsl: wgsl.length - 2,
      workgroup_size: [1, 1, 1],
      bindings: [
        { binding: 0, access: "read" },
        { binding: 1, access: "write", texture: { ...texture, format: "r32float" } },
      ],
    },
    {
      ...entry,
      name: "read",
      wgsl: wgsl.length - 1,
      workgroup_size: [1, 1, 1],
      bindings: [
        { binding: 0, access: "read", texture },
        { binding: 1, access: "read_write" },
      ],
    },
  ];
  const [one] = variant.launches as [CompiledVariant["launches"][number]];
  const launched = { ...one, uniforms: [], grid: ["n", 1, 1] };
  variant.launches = [
    { ...launched, entry_point: "pack", operands: [{ argument: 0 }, { texture: 0 }] },
    { ...launched, entry_point: "read", operands: [{ texture: 0 }, { argument: 1 }] },
  ];
  return served;
}

describe("A kernel with a texture", () => {
  it("runs, call after call, and its memory is the model's", async () => {
    const model = await models.open(await throughATexture(64));
    const before = model.memory.other;
    expect((await model.run({ x: X })).y).toEqual(Float32Array.from([2, 3, 4, 5]));
    expect((await model.run({ x: X.map((one) => 10 * one) })).y).toEqual(Float32Array.from([11, 21, 31, 41]));
    expect((await model.run({ x: X.slice(2) })).y).toEqual(Float32Array.from([4, 5]));
    expect(model.memory.other).toBeGreaterThanOrEqual(before + 4 * 64);
    model.dispose();
    expect(model.memory.other).toBe(0);
  });

  it("says what is wrong where the device has no such texture", async () => {
    const model = await models.open(await throughATexture(32_768));
    const { maxTextureDimension2D: most } = models.here.gpu.device.limits;
    expect(await fault(model.run({ x: X }))).toBe(
      `unsupported: kernel plus (variant default) needs a texture of [32768,1,1] texels, this device allows maxTextureDimension2D ${most}: call it with smaller sizes, or use another GPU`,
    );
  });
});
