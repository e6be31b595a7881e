import { describe, expect, it } from "vitest";
import { DeviceFailure } from "../hal/errors";
import type { Gpu } from "../hal/gpu";
import type { Kernel, Requires, Variant } from "../protocol/messages";
import { chooseVariant } from "./kernels";

function device(features: string[], limits: Record<string, number>): Gpu {
  return { capabilities: { features, limits } } as unknown as Gpu;
}

function variant(name: string, requires: Partial<Requires>): Variant {
  return {
    name,
    requires: { features: [], limits: {}, ...requires },
    entry_points: [],
    launches: [],
    temporaries: [],
  };
}

const kernel: Kernel = {
  kernel: "softmax",
  symbols: [],
  variants: [
    variant("subgroups", { features: ["subgroups"], limits: { maxComputeInvocationsPerWorkgroup: 1024 } }),
    variant("large", { limits: { maxComputeInvocationsPerWorkgroup: 1024 } }),
    variant("small", { limits: { maxComputeInvocationsPerWorkgroup: 256 } }),
  ],
};

function refusal(kernel: Kernel, gpu: Gpu) {
  try {
    chooseVariant(kernel, gpu);
  } catch (cause) {
    if (cause instanceof DeviceFailure) return cause.report;
  }
  throw new Error("not refused");
}

describe("chooseVariant", () => {
  it.each<[string, string[], number]>([
    ["subgroups", ["subgroups"], 1024],
    ["large", [], 2048],
    ["small", ["subgroups"], 256],
    ["small", [], 1023],
  ])("takes %s, the first that fits (%j, %i invocations)", (name, features, invocations) => {
    const gpu = device(features, { maxComputeInvocationsPerWorkgroup: invocations });
    expect(chooseVariant(kernel, gpu).name).toBe(name);
  });

  it("names what the least demanding variant needs, and what is there, where none fits", () => {
    expect(refusal(kernel, device(["subgroups"], { maxComputeInvocationsPerWorkgroup: 128 }))).toEqual({
      kind: "unsupported",
      message:
        "even its least demanding variant, small, needs maxComputeInvocationsPerWorkgroup 256, this device allows 128",
      kernel: "softmax",
    });
  });

  it("names no variant of a kernel that has one", () => {
    const one = { kernel: "cast", symbols: [], variants: [variant("default", { features: ["shader-f16"] })] };
    expect(refusal(one, device([], {})).message).toBe(
      "needs the feature shader-f16, which this device lacks",
    );
  });

  it("does not check a limit that the device does not tell", () => {
    expect(chooseVariant(kernel, device([], {})).name).toBe("large");
  });
});
