import { describe, expect, it } from "vitest";
import type { EntryPointInfo, Launch } from "../protocol/messages";
import { foldDispatch, uniformOf, writeAccess } from "./executable";

const info: EntryPointInfo = {
  name: "matmul_kernel",
  arg_types: ["handle", "int32", "handle", "float32", "handle", "uint32"],
  launch_param_tags: ["threadIdx.x", "blockIdx.y", "blockIdx.x", "paramWriteAccess:[1,0,0]"],
};

describe("writeAccess", () => {
  it("reads which buffers are written", () => {
    expect(writeAccess(info)).toEqual([true, false, false]);
  });

  it("takes buffers without the tag for read only", () => {
    expect(writeAccess({ ...info, launch_param_tags: ["blockIdx.x"] })).toEqual([]);
    expect(writeAccess({ ...info, launch_param_tags: ["paramWriteAccess:1"] })).toEqual([]);
  });
});

describe("uniformOf", () => {
  const launch = (dispatch: number[], ...scalars: [number, number, number] | []): Launch => ({
    entry_point: "matmul_kernel",
    arguments: scalars.length
      ? [
          { argument: 0 },
          { scalar: scalars[0], dtype: "int32" },
          { argument: 1 },
          { scalar: scalars[1], dtype: "float32" },
          { temporary: 0 },
          { scalar: scalars[2], dtype: "uint32" },
        ]
      : [{ argument: 0 }],
    dispatch,
    workgroup_size: [64, 1, 1],
  });

  it("holds the scalars in order and as their types say, then the workgroups along x", () => {
    const view = new DataView(uniformOf(info, launch([100_000, 1, 1], -7, 1.5, 4_000_000_000)));
    expect(view.byteLength).toBe(16);
    expect(view.getInt32(0, true)).toBe(-7);
    expect(view.getFloat32(4, true)).toBe(1.5);
    expect(view.getUint32(8, true)).toBe(4_000_000_000);
    expect(view.getUint32(12, true)).toBe(100_000);
  });

  it("holds the workgroups alone where there are no scalars", () => {
    expect([...new Uint32Array(uniformOf(info, launch([5, 6, 7])))]).toEqual([5]);
  });
});

describe("foldDispatch", () => {
  it.each([
    [
      [65_535, 2, 3],
      [65_535, 2, 3],
    ],
    [
      [65_536, 2, 3],
      [32_768, 2, 6],
    ],
    [
      [100_001, 1, 1],
      [50_001, 1, 2],
    ],
    [
      [1_000_000, 1, 1],
      [62_500, 1, 16],
    ],
    [
      [0, 1, 1],
      [0, 1, 1],
    ],
  ])("folds %j to %j", (dispatch, folded) => {
    expect(foldDispatch(dispatch, 65_535)).toEqual(folded);
  });

  it("leaves out no workgroup", () => {
    for (const x of [65_537, 131_071, 200_003, 16_777_215]) {
      const [foldedX, y, z] = foldDispatch([x, 1, 1], 65_535) ?? [0, 0, 0];
      expect(foldedX * y * z).toBeGreaterThanOrEqual(x);
    }
  });

  it("gives nothing where it never fits", () => {
    expect(foldDispatch([1, 65_536, 1], 65_535)).toBeNull();
    expect(foldDispatch([1, 1, 65_536], 65_535)).toBeNull();
    expect(foldDispatch([10, 1, 3], 4)).toBeNull();
  });
});
