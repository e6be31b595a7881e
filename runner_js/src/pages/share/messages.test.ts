import { describe, expect, it } from "vitest";
import type { Repro } from "../../../repro/types";
import { isCall } from "../../protocol/generated/check";
import { kernelMessage, testMessage, withResult } from "./messages";

const SHA = { first: "a".repeat(64), second: "b".repeat(64), input: "c".repeat(64), output: "d".repeat(64) };

function entry(name: string, file: string) {
  const bindings = [
    { binding: 0, access: "read_write", name: "y_ptr", type: "array<f32>" },
    { binding: 1, access: "read", name: "x_ptr", type: "array<f32>" },
  ];
  // As kernels/NAME.json has it: more than a device is told.
  return { name, file, generated_sha256: null, workgroup_size: [64, 1, 1], bindings };
}

function variant(name: string, file: string) {
  return {
    name,
    requires: { features: ["shader-f16"], limits: { maxBufferSize: 4 } },
    entry_points: [entry("k", file)],
    launches: [
      {
        entry_point: "k",
        operands: [{ argument: 1 }, { argument: 0 }],
        uniforms: [],
        grid: [["ceildiv", "n", 64], 1, 1],
      },
    ],
    temporaries: [16],
  };
}

const repro = {
  test: { id: "n1.s0", node: "n1", kernel: "softmax", step: 0, sizes: { n: 6 } },
  inputs: [{ name: "x", digest: SHA.input, dtype: "float32", shape: [2, 3] }],
  outputs: [
    {
      name: "y",
      digest: SHA.output,
      dtype: "float16",
      shape: [6],
      tolerance: { absolute: 1, relative: 2, reasons: ["r"] },
    },
  ],
  kernel: {
    kernel: "softmax",
    symbols: [{ name: "n", minimum: 1, maximum: 4096 }],
    arguments: [{}, { overwrites: 0 }],
    variants: [variant("f16", "softmax@f16.wgsl"), variant("256", "softmax.wgsl")],
    unsupported: null,
  },
  files: [
    { name: "softmax.wgsl", sha256: SHA.second, edited: false, text: "" },
    { name: "softmax@f16.wgsl", sha256: SHA.first, edited: true, text: "" },
  ],
} as unknown as Repro;

describe("a shared test", () => {
  it("is a call that any runner takes", () => {
    const params = { kernels: [kernelMessage(repro)], tests: [testMessage(repro)] };
    const call = { call: "1", method: "validate", hang_seconds: 30, params };
    expect([isCall(call), isCall.errors]).toEqual([true, null]);
  });

  it("names each variant's WGSL by its digest, and keeps their order", () => {
    const { variants } = kernelMessage(repro);
    expect(variants.map(({ name, entry_points }) => [name, entry_points[0]?.code])).toEqual([
      ["f16", SHA.first],
      ["256", SHA.second],
    ]);
    expect(variants[0]).toMatchObject({ requires: { features: ["shader-f16"] }, temporaries: [16] });
  });

  it("keeps the tolerance's bounds", () => {
    expect(testMessage(repro).tolerances).toEqual([{ absolute: 1, relative: 2, bound: null, ties: null }]);
    const bound = { digest: "e".repeat(64), dtype: "float32", shape: [6] };
    const [output] = repro.outputs as [Repro["outputs"][number]];
    const tolerance = { ...output.tolerance, bound } as Repro["outputs"][number]["tolerance"];
    const bounded = { ...repro, outputs: [{ ...output, tolerance }] };
    expect(testMessage(bounded).tolerances).toEqual([{ absolute: 1, relative: 2, bound, ties: null }]);
    expect(testMessage(repro).outputs).toEqual([
      { digest: SHA.output, dtype: "float16", shape: [6], encoding: null },
    ]);
  });

  it("is refused where it does not hold a file that it names", () => {
    expect(() => kernelMessage({ ...repro, files: repro.files.slice(1) })).toThrow("softmax.wgsl");
  });
});

it("puts a result below an issue, and no text of it can end the fence", () => {
  const text = withResult("# Issue\n\n", "softmax\n````\n# not a heading");
  expect(text).toBe("# Issue\n\n## Tried again\n\n`````text\nsoftmax\n````\n# not a heading\n`````\n");
  expect(withResult("i", "plain")).toContain("```text\nplain\n```\n");
});
