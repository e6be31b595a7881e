import { describe, expect, it } from "vitest";
import { foldDispatch as foldInRunner, uniformOf as uniformInRunner } from "../src/hal/executable";
import type { Gpu } from "../src/hal/gpu";
import { unmetRequirement as unmetInRunner } from "../src/hal/requirements";
import { chooseVariant as chooseInRunner } from "../src/runner/kernels";
import { chooseVariant, unmetRequirement } from "./device.js";
import { foldDispatch, uniformOf } from "./kernel.js";
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
  return { kernel: "k", variants, unsupported: null };
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

it("folds dispatches as the runner does", () => {
  const extents = [0, 1, 2, 7, 65535, 65536, 131071, 1_000_003];
  for (const x of extents) {
    for (const rest of [
      [1, 1],
      [7, 3],
      [65536, 1],
      [1, 65535],
    ]) {
      for (const most of [1, 256, 65535]) {
        const dispatch = [x, ...rest];
        expect(foldDispatch(dispatch, most), `${dispatch} of ${most}`).toEqual(foldInRunner(dispatch, most));
      }
    }
  }
});

it("makes the uniform that the runner makes", () => {
  const info = {
    name: "k",
    arg_types: ["handle", "float32", "int32", "handle", "uint32"],
    launch_param_tags: [],
  };
  const operands = [
    { argument: 0 },
    { scalar: 0.1, dtype: "float32" },
    { scalar: -7, dtype: "int32" },
    { argument: 1 },
    { scalar: 4_000_000_000, dtype: "uint32" },
  ];
  const launch = {
    entry_point: "k",
    arguments: operands,
    dispatch: [70_000, 2, 1],
    workgroup_size: [64, 1, 1],
  };
  expect(uniformOf(info, launch)).toEqual(new Uint8Array(uniformInRunner(info, launch)));
  const none = { ...launch, arguments: [{ argument: 0 }] };
  expect([...uniformOf({ ...info, arg_types: ["handle"] }, none)]).toEqual([0x70, 0x11, 1, 0]);
});
