import { describe, expect, it } from "vitest";
import { MATRICES, matrixFeatures } from "./matrices";

const config = (M: number, resultComponentType: string) => ({
  componentType: "f16",
  resultComponentType,
  M,
  N: 16,
  K: 16,
});
const infoOf = (...subgroupMatrixConfigs: unknown[]) =>
  ({ subgroupMatrixConfigs }) as unknown as GPUAdapterInfo;
const language = new Set(["subgroup_id"]);

describe("matrixFeatures", () => {
  it("has a name for each kind of product, once", () => {
    const info = infoOf(config(16, "f32"), config(16, "f16"), config(16, "f32"), config(8, "f32"));
    expect(matrixFeatures(new Set([MATRICES]), info, language)).toEqual([
      "subgroup-matrix-f16-f32-16x16x16",
      "subgroup-matrix-f16-f16-16x16x16",
      "subgroup-matrix-f16-f32-8x16x16",
    ]);
  });

  it("has none where a part of what kernels use is missing", () => {
    const info = infoOf(config(16, "f32"));
    expect(matrixFeatures(new Set(["shader-f16"]), info, language)).toEqual([]);
    expect(matrixFeatures(new Set([MATRICES]), info, new Set())).toEqual([]);
    expect(matrixFeatures(new Set([MATRICES]), info, undefined)).toEqual([]);
    expect(matrixFeatures(new Set([MATRICES]), infoOf(), language)).toEqual([]);
    expect(matrixFeatures(new Set([MATRICES]), undefined, language)).toEqual([]);
  });
});
