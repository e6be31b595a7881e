import { describe, expect, it } from "vitest";
import type { Kernel, Launch } from "../protocol/messages";
import { checkLaunches, encodeLaunch, launchExtents, writeAccess, writtenArguments } from "./launch";

const info = {
  name: "matmul_kernel",
  arg_types: ["handle", "int32", "handle", "handle"],
  launch_param_tags: ["threadIdx.x", "blockIdx.y", "blockIdx.x", "paramWriteAccess:[1,0,0]"],
};
const kernel: Kernel = {
  kernel: "matmul",
  entry_points: [{ name: "matmul_kernel", file: "matmul.wgsl", code: "", info }],
  requires: { features: [], limits: {} },
};
const launch: Launch = {
  entry_point: "matmul_kernel",
  arguments: [{ argument: 2 }, { scalar: 7, dtype: "int32" }, { argument: 0 }, { temporary: 0 }],
  dispatch: [10, 20, 1],
  workgroup_size: [64, 1, 1],
};

describe("launches", () => {
  it("reads which buffers are written", () => {
    expect(writeAccess(info)).toEqual([true, false, false]);
    expect([...writtenArguments(kernel, [launch])]).toEqual([2]);
  });

  it("orders extents by the tags", () => {
    expect(launchExtents(info, launch)).toEqual([64, 20, 10]);
  });

  it("passes arguments in the entry point's order, then extents", () => {
    const seen: number[][] = [];
    encodeLaunch((...args) => seen.push(args), info, launch, [100, 101, 102], [200]);
    expect(seen).toEqual([[102, 7, 100, 200, 64, 20, 10]]);
  });

  it("accepts what fits", () => {
    expect(() => checkLaunches(kernel, [launch], 3, 1)).not.toThrow();
  });

  it.each<[string, Launch, number, number]>([
    ["has no entry point nope", { ...launch, entry_point: "nope" }, 3, 1],
    ["takes 4 arguments", { ...launch, arguments: launch.arguments.slice(1) }, 3, 1],
    ["wants int32 as argument 1", { ...launch, arguments: Array(4).fill({ argument: 0 }) }, 3, 1],
    ["is launched with argument 2 of 2", launch, 2, 1],
    ["is launched with temporary 0 of 0", launch, 3, 0],
    ["has no blockIdx.z at matmul_kernel, the launch gives it 4", { ...launch, dispatch: [1, 1, 4] }, 3, 1],
  ])("refuses one that %s", (message, wrong, argumentCount, temporaryCount) => {
    expect(() => checkLaunches(kernel, [wrong], argumentCount, temporaryCount)).toThrow(
      `kernel matmul ${message}`,
    );
  });
});
