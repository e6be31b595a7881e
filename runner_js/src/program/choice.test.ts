import { describe, expect, it } from "vitest";
import vectors from "../../../tests/vectors/choices.json";
import type { AdapterInfo, Requires } from "../protocol/messages";
import { deviceClasses } from "./device_class";
import { bestFitting } from "./requirements";

type Given = [name: string, requires: Partial<Requires>, expected: Record<string, number> | null];
interface Vectors {
  classes: [AdapterInfo, string[]][];
  choices: { why: string; device: string; variants: Given[]; best: string | null }[];
  devices: Record<string, AdapterInfo>;
}

// Python gives the same (tests/kernels/test_choice.py).
const { classes, choices, devices } = vectors as unknown as Vectors;

describe("deviceClasses", () => {
  it.each(classes)("%j", (adapter, expected) => {
    expect(deviceClasses(adapter)).toEqual(expected);
  });
});

describe("bestFitting", () => {
  it.each(choices)("$why", ({ device, variants, best }) => {
    const adapter = devices[device] as AdapterInfo;
    const given = variants.map(([name, requires, expected]) => {
      return { name, requires: { features: [], limits: {}, ...requires }, expected };
    });
    const limits = { maxComputeWorkgroupStorageSize: 16384 };
    expect(bestFitting(given, { adapter, features: [], limits }).variant?.name ?? null).toBe(best);
  });
});
