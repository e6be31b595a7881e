import { describe, expect, it } from "vitest";
import { DeviceFailure } from "../hal/errors";
import type { EntryPoint, Launch, Variant } from "../protocol/messages";
import { checkLaunches } from "./launch";

const entryPoint: EntryPoint = {
  name: "matmul_kernel",
  file: "matmul.wgsl",
  code: "",
  bindings: [
    { binding: 0, access: "read_write" },
    { binding: 1, access: "read" },
    { binding: 2, access: "read" },
    { binding: 3, access: "uniform" },
  ],
};
const launch: Launch = {
  entry_point: "matmul_kernel",
  operands: [{ argument: 2 }, { argument: 0 }, { temporary: 0 }],
  uniforms: [{ name: "n", dtype: "int32", value: 7 }],
  grid: [10, 20, 1],
};
const variant: Variant = {
  name: "default",
  requires: { features: [], limits: {} },
  entry_points: [entryPoint],
  launches: [launch],
  temporaries: [64],
};
const bound = (...numbers: number[]): Partial<Variant> => {
  const bindings = entryPoint.bindings.map((one, i) => ({ ...one, binding: numbers[i] ?? i }));
  return { entry_points: [{ ...entryPoint, bindings }] };
};

describe("checkLaunches", () => {
  it("accepts what fits", () => {
    expect(() => checkLaunches("matmul", variant)).not.toThrow();
  });

  it.each([
    ["1001 entry points, more than 1000", { entry_points: Array(1001).fill(entryPoint) }],
    ["10001 launches, more than 10000", { launches: Array(10_001).fill(launch) }],
    ["1001 temporaries, more than 1000", { temporaries: Array(1001).fill(4) }],
  ])("refuses %s", (what, change) => {
    expect(() => checkLaunches("matmul", { ...variant, ...change })).toThrow(`kernel matmul has ${what}`);
  });

  it("accepts a variant that launches nothing", () => {
    expect(() => checkLaunches("matmul", { ...variant, launches: [] })).not.toThrow();
  });

  it.each<[string, Partial<Launch>, Partial<Variant>]>([
    ["has no entry point nope", { entry_point: "nope" }, {}],
    ["takes 3 operands at matmul_kernel, the launch gives 2", { operands: launch.operands.slice(1) }, {}],
    ["has 1 uniform at matmul_kernel, the launch gives 0", { uniforms: [] }, {}],
    ["has two bindings of a number, or two uniforms, at matmul_kernel", {}, bound(0, 1, 1)],
    ["is launched with temporary 0 of 0", {}, { temporaries: [] }],
    [
      "has a depth of 2 for its texture 0, which is 2d: make it 1, or 2d-array",
      {},
      { textures: [{ dimension: "2d", format: "r32float", size: [4, 4, 2] }] },
    ],
  ])("refuses one that %s", (message, wrongLaunch, wrongVariant) => {
    const launches = [launch, { ...launch, ...wrongLaunch }];
    let cause: unknown;
    try {
      checkLaunches("matmul", { ...variant, ...wrongVariant, launches });
    } catch (thrown) {
      cause = thrown;
    }
    expect(cause).toBeInstanceOf(DeviceFailure);
    expect((cause as DeviceFailure).report).toEqual({
      kind: "protocol",
      message: `kernel matmul ${message}`,
      kernel: "matmul",
    });
  });
});
