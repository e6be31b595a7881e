import { expect, it } from "vitest";
import { launchFacts, variantOf } from "./launch";

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
const bundle = {
  arguments: [{ role: "input" }, { role: "output" }],
  variants: [variant("1024", 1024, "k@1024.wgsl"), variant("256", 256, "k.wgsl")],
};

it("reads every variant's bindings, launches and requirements", () => {
  const [first, last] = launchFacts(bundle);
  expect(first).toMatchObject({
    variant: "1024",
    entryPoints: [{ name: "k", file: "k@1024.wgsl", workgroupSize: "1024 × 1 × 1" }],
    launches: [{ entryPoint: "k", workgroups: "ceildiv(n, 64) × 2 × 1", workgroupSize: "1024 × 1 × 1" }],
    temporaries: 1,
    features: ["shader-f16"],
  });
  expect(last).toMatchObject({ variant: "256", features: [] });
  expect(first?.entryPoints[0]?.bindings.map(({ access, holds }) => [access, holds])).toEqual([
    ["read_write", "output 0"],
    ["uniform", ""],
  ]);
});

it("says whether a limit is a least or a most", () => {
  const [, last] = launchFacts(bundle);
  expect(last?.limits.map(({ bound }) => bound)).toEqual(["≥ 256", "≤ 64"]);
});

it("finds the variant of a file, or the least demanding", () => {
  const variants = launchFacts(bundle);
  expect(variantOf(variants, "k@1024.wgsl")?.variant).toBe("1024");
  expect(variantOf(variants, undefined)?.variant).toBe("256");
  expect(variantOf(variants, "other.wgsl")?.variant).toBe("256");
  expect(variantOf([], "k.wgsl").launches).toEqual([]);
});

it.each([
  null,
  undefined,
  7,
  "text",
  [],
  {},
  { variants: 3, arguments: {} },
  { variants: [null, { entry_points: [null], launches: [1], requires: [] }] },
])("survives %j", (odd) => expect(() => variantOf(launchFacts(odd), "k.wgsl")).not.toThrow());
