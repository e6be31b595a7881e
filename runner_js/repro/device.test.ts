import { describe, expect, it } from "vitest";
import { chooseVariant, Failure } from "./device.js";
import type { Bundle, Requires } from "./types";

function bundle(...requires: Requires[]): Bundle {
  const variants = requires.map((needs, i) => {
    return { name: `v${i}`, requires: needs, entry_points: [], launches: [], temporaries: [] };
  });
  return { kernel: "k", symbols: [], variants, unsupported: null };
}

function refusal(kernel: Bundle): Failure {
  try {
    chooseVariant(kernel, [], { maxBufferSize: 1 << 28 });
  } catch (cause) {
    if (cause instanceof Failure) return cause;
  }
  throw new Error("not refused");
}

describe("the variant that is run", () => {
  it("is the first that the device can run", () => {
    const kernel = bundle({ features: ["shader-f16"], limits: {} }, { features: [], limits: {} });
    expect(chooseVariant(kernel, ["shader-f16"], {}).name).toBe("v0");
    expect(chooseVariant(kernel, [], {}).name).toBe("v1");
  });

  it("is none where the device lacks something, which is said", () => {
    const { message, report } = refusal(bundle({ features: [], limits: { maxBufferSize: (1 << 28) + 1 } }));
    expect(report.kind).toBe("unsupported");
    expect(message).toBe("needs maxBufferSize 268435457 bytes, this device allows 268435456 bytes");
  });

  it("is none of a kernel without WGSL, and that says why", () => {
    expect(refusal({ ...bundle(), unsupported: "TVM has no WGSL for top_k" }).message).toBe(
      "TVM has no WGSL for top_k",
    );
    expect(refusal(bundle()).message).toBe("the kernel has no variant");
  });
});
