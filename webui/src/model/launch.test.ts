import { expect, it } from "vitest";
import type { KernelBundle } from "../api/types";
import { extents, held, limitText, variantOf } from "./launch";

const variant = (name: string, invocations: number, file: string) => ({
  name,
  requires: {
    features: invocations > 256 ? ["shader-f16"] : [],
    limits: { maxComputeInvocationsPerWorkgroup: invocations, minStorageBufferOffsetAlignment: 64 },
  },
  entry_points: [
    {
      name: "k",
      file,
      workgroup_size: [invocations, 1, 1],
      bindings: [
        { binding: 0, access: "read_write", name: "x_ptr", type: "array<f32>" },
        { binding: 1, access: "uniform", name: "podArgs", type: "PODArgs" },
      ],
    },
  ],
  launches: [
    { entry_point: "k", operands: [{ argument: 1 }], uniforms: [], grid: [["ceildiv", "n", 64], 2, 1] },
  ],
  temporaries: [1024],
});
const bundle: KernelBundle = {
  arguments: [{ role: "input" }, { role: "output" }],
  variants: [variant("1024", 1024, "k@1024.wgsl"), variant("256", 256, "k.wgsl")],
};

it("says what each binding holds", () => {
  for (const variant of bundle.variants)
    for (const entry of variant.entry_points) expect(held(bundle, variant, entry)).toEqual(["output 0", ""]);
  const [variant] = bundle.variants;
  const launches = [{ entry_point: "k", operands: [{ temporary: 0 }], grid: [1, 1, 1] }];
  const entry = variant?.entry_points[0];
  if (!variant || !entry) throw new Error("the bundle has no variant");
  expect(held(bundle, { ...variant, launches }, entry)).toEqual(["temporary 0", ""]);
  const textures = [{ dimension: "2d", format: "rgba32float", size: [16, "n", 1] }];
  const bound = [{ entry_point: "k", operands: [{ texture: 0 }], grid: [1, 1, 1] }];
  expect(held(bundle, { ...variant, launches: bound, textures }, entry)).toEqual([
    "texture 0, 2d rgba32float 16 × n × 1",
    "",
  ]);
  const inPlace: KernelBundle = {
    ...bundle,
    arguments: [{ role: "input" }, { role: "output", overwrites: 0 }],
  };
  expect(held(inPlace, variant, entry)).toEqual(["output 0, begun as input 0", ""]);
});

it("writes sizes as expressions", () => {
  expect(extents(bundle.variants[0]?.launches[0]?.grid ?? [])).toBe("ceildiv(n, 64) × 2 × 1");
});

it("says whether a limit is a least or a most", () => {
  expect(limitText("maxComputeInvocationsPerWorkgroup", 1024)).toBe("≥ 1,024");
  expect(limitText("minStorageBufferOffsetAlignment", 64)).toBe("≤ 64");
});

it("finds the variant of a file, or the least demanding", () => {
  expect(variantOf(bundle, "k@1024.wgsl").name).toBe("1024");
  expect(variantOf(bundle, undefined).name).toBe("256");
  expect(variantOf(bundle, "other.wgsl").name).toBe("256");
  expect(variantOf({ arguments: [], variants: [] }, "k.wgsl").launches).toEqual([]);
});
