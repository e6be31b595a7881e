import { describe, expect, it } from "vitest";
import { chooseVariant as chooseInRunner } from "../src/engine/kernels";
import type { Gpu } from "../src/hal/gpu";
import { unmetRequirement as unmetInRunner } from "../src/hal/requirements";
import { chooseVariant, unmetRequirement } from "./device.js";
import type { Bundle, Requires } from "./types";

const LIMITS = { maxBufferSize: 1 << 28, subgroupMinSize: 8, maxComputeInvocationsPerWorkgroup: 256 };

const REQUIRES: Requires[] = [
  { features: [], limits: {} },
  { features: ["shader-f16"], limits: {} },
  { features: ["subgroups", "shader-f16"], limits: { maxBufferSize: 1 } },
  { features: [], limits: { maxBufferSize: 1 << 28 } },
  { features: [], limits: { maxBufferSize: (1 << 28) + 1 } },
  { features: [], limits: { subgroupMinSize: 32 } },
  { features: [], limits: { subgroupMinSize: 8 } },
  { features: [], limits: { subgroupMinSize: 4 } },
  { features: [], limits: { maxOfTomorrow: 5, minOfTomorrow: 5 } },
  { features: [], limits: { maxComputeInvocationsPerWorkgroup: 1024 } },
];
const FEATURES = [[], ["shader-f16"], ["shader-f16", "subgroups"]];

function bundle(...requires: Requires[]): Bundle {
  const variants = requires.map((needs, i) => {
    return { name: `v${i}`, requires: needs, entry_points: [], launches: [], temporaries: [] };
  });
  return { kernel: "k", symbols: [], variants, unsupported: null };
}

describe("what a kernel requires", () => {
  it.each(REQUIRES)("is judged as the runner does: %j", (requires) => {
    for (const features of FEATURES) {
      const here = unmetRequirement(requires, features, LIMITS);
      expect(here === null).toBe(unmetInRunner(requires, features, LIMITS) === null);
      // Byte counts are shown as they are here.
      if (!("maxBufferSize" in requires.limits)) expect(here).toBe(unmetInRunner(requires, features, LIMITS));
    }
  });

  it("leads to the variant that the runner takes, or to the same sentence", () => {
    let refused = 0;
    for (const features of FEATURES) {
      const gpu = { capabilities: { features, limits: LIMITS } } as unknown as Gpu;
      for (const first of REQUIRES) {
        for (const second of REQUIRES) {
          const kernel = bundle(first, second);
          const chosen = (choose: () => { name: string }) => {
            try {
              return choose().name;
            } catch (cause) {
              refused++;
              return (cause as Error).message.replace(/maxBufferSize .*?(;|$)/, "maxBufferSize");
            }
          };
          const wanted = chosen(() => chooseInRunner(kernel as never, gpu));
          expect(chosen(() => chooseVariant(kernel, features, LIMITS))).toBe(wanted);
        }
      }
    }
    expect(refused).toBeGreaterThan(50);
  });

  it("says why there is no variant at all", () => {
    const kernel = { ...bundle(), unsupported: "TVM has no WGSL for top_k" };
    expect(() => chooseVariant(kernel, [], {})).toThrow("TVM has no WGSL for top_k");
  });
});
