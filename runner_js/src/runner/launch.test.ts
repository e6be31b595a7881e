import { describe, expect, it } from "vitest";
import { DeviceFailure } from "../hal/errors";
import type { Launch, Variant } from "../protocol/messages";
import { checkLaunches } from "./launch";

const info = {
  name: "matmul_kernel",
  arg_types: ["handle", "int32", "handle", "handle"],
  launch_param_tags: ["threadIdx.x", "blockIdx.y", "blockIdx.x", "paramWriteAccess:[1,0,0]"],
};
const launch: Launch = {
  entry_point: "matmul_kernel",
  arguments: [{ argument: 2 }, { scalar: 7, dtype: "int32" }, { argument: 0 }, { temporary: 0 }],
  dispatch: [10, 20, 1],
  workgroup_size: [64, 1, 1],
};
const variant: Variant = {
  name: "default",
  requires: { features: [], limits: {} },
  entry_points: [{ name: "matmul_kernel", file: "matmul.wgsl", code: "", info }],
  launches: [launch],
  temporaries: [64],
};

describe("checkLaunches", () => {
  it("accepts what fits", () => {
    expect(() => checkLaunches("matmul", variant)).not.toThrow();
  });

  it.each([
    ["1001 entry points, more than 1000", { entry_points: Array(1001).fill(variant.entry_points[0]) }],
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
    ["takes 4 arguments at matmul_kernel, the launch gives 3", { arguments: launch.arguments.slice(1) }, {}],
    [
      "wants int32 as argument 1 of matmul_kernel",
      { arguments: [{ argument: 0 }, { argument: 1 }, { argument: 2 }, { argument: 3 }] },
      {},
    ],
    [
      "wants handle as argument 0 of matmul_kernel",
      { arguments: [{ scalar: 1, dtype: "int32" }, ...launch.arguments.slice(1)] },
      {},
    ],
    ["is launched with temporary 0 of 0", {}, { temporaries: [] }],
    ["has no blockIdx.z at matmul_kernel, the launch gives it 4", { dispatch: [1, 1, 4] }, {}],
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
