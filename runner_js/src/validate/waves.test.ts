import { describe, expect, it } from "vitest";
import type { Kernel, Test } from "../protocol/messages";
import { Waves } from "./waves";

const kernels = (names: string): Kernel[] =>
  [...names].map((kernel) => ({ kernel, symbols: [], variants: [] }));
const tests = (names: string): Test[] =>
  [...names].map((kernel, i) => ({ id: `${kernel}${i}`, kernel, inputs: [], outputs: [], tolerances: [] }));

/** Each wave's kernels and tests, where compiling takes so many seconds a kernel. */
function waves(planner: Waves, seconds: number): [string, string][] {
  const found: [string, string][] = [];
  for (let wave = planner.next(); wave; wave = planner.next()) {
    const names = wave.kernels.map(({ kernel }) => kernel);
    found.push([names.join(""), wave.tests.map(({ id }) => id).join(" ")]);
    planner.took(seconds * names.length, names.length);
  }
  return found;
}

describe("Waves", () => {
  it("takes kernels in the order of their tests, each with all its tests in order", () => {
    expect(waves(new Waves(kernels("abcd"), tests("dbadc")), 1)).toEqual([
      ["db", "d0 b1 d3"],
      ["ac", "a2 c4"],
    ]);
  });

  it("leaves out no kernel and no test, and brings none twice", () => {
    const planner = new Waves(kernels("xyza".repeat(2)), tests("ab"));
    expect(planner.total).toBe(4);
    expect(planner.without.map(({ id }) => id)).toEqual(["b1"]);
    expect(waves(planner, 1)).toEqual([
      ["ax", "a0"],
      ["yz", ""],
    ]);
  });

  it("is small where compiling is slow, and takes all where it is quick", () => {
    const sizes = (seconds: number) => {
      const names = Array.from({ length: 60 }, (_, i) => String.fromCharCode(200 + i)).join("");
      return waves(new Waves(kernels(names), []), seconds).map(([wave]) => wave.length);
    };
    expect(sizes(0.5)).toEqual([2, 3, ...Array(18).fill(3), 1]);
    expect(sizes(5).every((size) => size === 2)).toBe(true);
    expect(sizes(0.001)).toEqual([2, 8, 32, 18]);
  });
});
