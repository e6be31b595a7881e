import { describe, expect, it } from "vitest";
import type { Test } from "../protocol/messages";
import { type BatchLimits, BatchPlanner } from "./batches";

function job(id: string, input: string, floats: number, temporaries: number[] = []) {
  const type = { dtype: "float32" as const, shape: [floats] };
  const ref = { ...type, digest: input };
  const output = { ...type, digest: "o" };
  const tolerances = [{ absolute: 0, relative: 0 }];
  return {
    test: { id, kernel: "k", inputs: [ref], outputs: [output], tolerances } satisfies Test,
    kernel: { at: () => ({ temporaries }) },
  };
}

function planned(jobs: ReturnType<typeof job>[], limits: BatchLimits) {
  const planner = new BatchPlanner<ReturnType<typeof job>>(limits);
  planner.add(jobs);
  return planner;
}

function sizes(planner: BatchPlanner<ReturnType<typeof job>>): string[] {
  const found: string[] = [];
  for (let batch = planner.next(); batch; batch = planner.next())
    found.push(batch.map((j) => j.test.id).join(""));
  return found;
}

describe("BatchPlanner", () => {
  it("keeps the order and the number", () => {
    const jobs = [..."abcde"].map((id) => job(id, id, 1));
    expect(sizes(planned(jobs, { bytes: 1e6, first: 2, most: 8 }))).toEqual(["ab", "cd", "e"]);
    expect(sizes(planned([], { bytes: 1, first: 1, most: 1 }))).toEqual([]);
  });

  it("takes more when those before are through, and knows what they uploaded", () => {
    const planner = planned([job("a", "x", 10)], { bytes: 120, first: 8, most: 8 });
    expect(sizes(planner)).toEqual(["a"]);
    planner.add([job("b", "x", 10), job("c", "y", 10), job("d", "y", 10)]);
    // b: 40 bytes, for x is there; c: 80; d: 40.
    expect(sizes(planner)).toEqual(["bc", "d"]);
    expect(planner.next()).toBeNull();
  });

  it("counts outputs, temporaries and inputs that are new", () => {
    const jobs = [job("a", "x", 10), job("b", "x", 10), job("c", "y", 10), job("d", "y", 10, [40])];
    // a: 80 bytes; b: 40, for x is there; c: 80; d: 80.
    expect(sizes(planned(jobs, { bytes: 120, first: 8, most: 8 }))).toEqual(["ab", "c", "d"]);
  });

  it("counts bounds, which travel with the outputs", () => {
    const bounded = ["a", "b"].map((id) => {
      const plain = job(id, "x", 10);
      const bound = { ...plain.test.outputs[0], digest: "bound" };
      return { ...plain, test: { ...plain.test, tolerances: [{ absolute: 0, relative: 0, bound }] } };
    });
    // a: 120 bytes; b: 80.
    expect(sizes(planned(bounded as never, { bytes: 160, first: 8, most: 8 }))).toEqual(["a", "b"]);
    expect(sizes(planned(bounded as never, { bytes: 200, first: 8, most: 8 }))).toEqual(["ab"]);
  });

  it("lets a test that is larger than a batch go alone", () => {
    const jobs = [job("a", "x", 1000), job("b", "y", 1000), job("c", "z", 1)];
    expect(sizes(planned(jobs, { bytes: 100, first: 8, most: 8 }))).toEqual(["a", "b", "c"]);
  });

  it("grows while batches are quick and shrinks when they are slow", () => {
    const jobs = Array.from({ length: 100 }, (_, i) => job("x", String(i), 1));
    const planner = planned(jobs, { bytes: 1e6, first: 4, most: 20 });
    const next = () => planner.next()?.length;
    expect(next()).toBe(4);
    planner.took(0.1, 4);
    expect(next()).toBe(16);
    planner.took(0.1, 16);
    expect(next()).toBe(20);
    planner.took(0.5, 20);
    expect(next()).toBe(20);
    planner.took(4, 20);
    expect(next()).toBe(5);
    planner.took(60, 5);
    expect(next()).toBe(1);
  });
});
