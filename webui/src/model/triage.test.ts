import { describe, expect, it } from "vitest";
import type { TestResult, Verdict } from "../api/generated/results";
import { device, result, suite } from "./fixture";
import { buildMatrix } from "./matrix";
import { EMPTY, type ResultsState } from "./results";
import { figuresOf, type Group, inGroups, kindOf, OUTSIDE, sorted, whole } from "./triage";

/** By test: its verdict, the worst element's share of its bound, and microseconds on the GPU. */
function known(tests: Record<string, [Verdict, number, number?]>): ResultsState {
  const verdicts = Object.entries(tests).map(([id, [verdict, share, gpu]]): [string, TestResult] => [
    id,
    {
      ...result(id, "a", verdict),
      worst: { output: 0, index: [0], expected: 1, got: 1 + share, bound: 1 },
      seconds: gpu === undefined ? { run: 9 } : { run: 9, gpu: gpu * 1e-6 },
    },
  ]);
  return { ...EMPTY, devices: [device("a")], verdicts: { a: Object.fromEntries(verdicts) } };
}

const order = new Map(suite.graph.nodes.map(({ id }, at) => [id, at]));

function rows(state: ResultsState, group: Group = "kernel", blocks = new Map<string, string>()) {
  return inGroups(buildMatrix(suite, state, ["a"]).rows, group, blocks, figuresOf(suite, state, "a"), order);
}

describe("figures", () => {
  it("are the largest share of a bound and all time on the GPU", () => {
    const state = known({
      "n1.s0": ["pass", 0.25, 10],
      "n3.s0": ["fail", 4, 20],
      "n0.s0": ["pass", 0.5, 10],
    });
    const [take, norm] = rows(state);
    expect(norm?.figures).toEqual({ bound: 4, gpu: expect.closeTo(30e-6) });
    expect(take?.figures.bound).toBe(0.5);
    expect(whole(figuresOf(suite, state, "a"))).toEqual({ bound: 4, gpu: expect.closeTo(40e-6) });
  });

  it("are none without timestamps, without results and of an older text", () => {
    const state = known({ "n1.s0": ["pass", 0.25] });
    expect(rows(state).map(({ figures }) => figures)).toEqual([
      { bound: null, gpu: null },
      { bound: 0.25, gpu: null },
    ]);
    const outdated = { ...state, outdated: { a: ["norm"] } };
    expect(figuresOf(suite, outdated, "a").size).toBe(0);
    expect(figuresOf(suite, state, null).size).toBe(0);
  });
});

it("puts failures first, else keeps the model's order, and sorts by what is asked for", () => {
  const state = known({ "n0.s0": ["pass", 0.9, 50], "n1.s0": ["pass", 0.1, 5], "n3.s0": ["fail", 4, 5] });
  const names = (...asked: Parameters<typeof sorted>) => sorted(...asked).map(({ name }) => name);
  expect(names(rows(EMPTY), "failures")).toEqual(["take", "norm"]);
  expect(names(rows(state), "failures")).toEqual(["norm", "take"]);
  // While what failed is being mended its row stays where one looks for it.
  const edited = rows(state).map((row) => {
    const cells = Object.entries(row.cells).map(([device, cell]) => {
      return [device, row.name === "norm" ? { ...cell, state: "stale" as const, former: cell.counts } : cell];
    });
    return { ...row, cells: Object.fromEntries(cells) };
  });
  expect(names(edited, "failures")).toEqual(["norm", "take"]);
  expect(names(rows(state), "name")).toEqual(["norm", "take"]);
  expect(names(rows(state), "bound")).toEqual(["norm", "take"]);
  expect(names(rows(state), "gpu")).toEqual(["take", "norm"]);
});

it("groups by block and by kind, with cells and figures of what is in them", () => {
  const state = known({ "n0.s0": ["pass", 0.9, 50], "n1.s0": ["pass", 0.1, 5], "n3.s0": ["fail", 4, 5] });
  const found = rows(
    state,
    "block",
    new Map([
      ["n3", "layer.1"],
      ["n1", "layer.0"],
    ]),
  );
  expect(found.map(({ name, nodes }) => [name, nodes.map(({ node }) => node)])).toEqual([
    [OUTSIDE, ["n0"]],
    ["layer.0", ["n1"]],
    ["layer.1", ["n3"]],
  ]);
  expect(found[2]?.cells.a).toMatchObject({ state: "fail", counts: { fail: 1, pass: 0 } });
  expect(found[1]?.figures.bound).toBeCloseTo(0.1);
  expect(["fused_matmul2_add", "matmul", "matmul10", "conv2d3", "take_2"].map(kindOf)).toEqual([
    "fused_matmul_add",
    "matmul",
    "matmul",
    "conv2d",
    "take",
  ]);
});
