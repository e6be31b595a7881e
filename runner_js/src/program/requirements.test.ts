import { describe, expect, it } from "vitest";
import { unmetRequirement } from "./requirements";

const LIMITS = { maxComputeInvocationsPerWorkgroup: 256, minStorageBufferOffsetAlignment: 256 };

describe("unmetRequirement", () => {
  it("is null when all is there", () => {
    const requires = { features: ["shader-f16"], limits: { maxComputeInvocationsPerWorkgroup: 256 } };
    expect(unmetRequirement(requires, ["shader-f16", "subgroups"], LIMITS)).toBeNull();
    expect(unmetRequirement({ features: [], limits: {} }, [], {})).toBeNull();
  });

  it("names the limit and what the device allows", () => {
    const requires = { features: [], limits: { maxComputeInvocationsPerWorkgroup: 1024 } };
    expect(unmetRequirement(requires, [], LIMITS)).toBe(
      "needs maxComputeInvocationsPerWorkgroup 1024, this device allows 256",
    );
  });

  it("names the feature, and everything that is missing", () => {
    const requires = { features: ["shader-f16"], limits: { maxComputeInvocationsPerWorkgroup: 512 } };
    expect(unmetRequirement(requires, [], LIMITS)).toBe(
      "needs the feature shader-f16, which this device lacks; " +
        "needs maxComputeInvocationsPerWorkgroup 512, this device allows 256",
    );
  });

  it("tells bytes for people", () => {
    const requires = (bytes: number) => ({ features: [], limits: { maxStorageBufferBindingSize: bytes } });
    const limits = { maxStorageBufferBindingSize: 2 ** 27 };
    expect(unmetRequirement(requires(160 * 2 ** 20), [], limits)).toBe(
      "needs maxStorageBufferBindingSize 167.8 MB, this device allows 134.2 MB",
    );
    expect(unmetRequirement(requires(2 ** 27 + 4), [], limits)).toBe(
      "needs maxStorageBufferBindingSize 134217732 bytes, this device allows 134217728 bytes",
    );
  });

  it("knows that an alignment is better smaller", () => {
    const limits = (least: number) => ({
      features: [],
      limits: { minStorageBufferOffsetAlignment: least },
    });
    expect(unmetRequirement(limits(256), [], LIMITS)).toBeNull();
    expect(unmetRequirement(limits(32), [], LIMITS)).toContain("minStorageBufferOffsetAlignment 32");
  });

  it("knows that a kernel may count on subgroups of one size", () => {
    const requires = { features: [], limits: { subgroupMinSize: 32, subgroupMaxSize: 32 } };
    const sizes = (least: number, most: number) => ({ subgroupMinSize: least, subgroupMaxSize: most });
    expect(unmetRequirement(requires, [], sizes(32, 32))).toBeNull();
    expect(unmetRequirement(requires, [], sizes(32, 64))).toContain(
      "subgroupMaxSize 32, this device allows 64",
    );
    expect(unmetRequirement(requires, [], sizes(16, 32))).toContain(
      "subgroupMinSize 32, this device allows 16",
    );
  });

  it("leaves a limit that the browser does not know to the error scopes", () => {
    expect(unmetRequirement({ features: [], limits: { maxSomethingNew: 1 } }, [], LIMITS)).toBeNull();
  });
});
