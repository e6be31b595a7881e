import { expect, it } from "vitest";
import type { ComparedTest, Comparison, RunSide } from "../api/generated/results";
import { changedOf, missingRuns, pairOf, summaryText } from "./ComparePane";

const side = (run: string, device: string): RunSide => ({ run, device, adapter: "", created: "", tests: 1 });
const outcome = (error: number | null, share: number | "Infinity" | null = null) => ({
  verdict: "pass" as const,
  kernel_digest: "d",
  bound_share: share,
  max_abs_error: error,
  seconds: null,
  gpu_seconds: null,
});
const test = (name: string, changes: Partial<ComparedTest>): ComparedTest => ({
  test: name,
  kernel: "k",
  change: "same",
  kernel_changed: false,
  before: outcome(1),
  after: outcome(1),
  ...changes,
});

it("begins with the last two runs on one device", () => {
  const runs = [side("c", "One 2"), side("b", "Two 1"), side("a", "One 1")];
  expect(pairOf(runs, null, null)).toEqual({ first: runs[2], second: runs[0] });
  expect(pairOf(runs, "b/Two 1", "a/One 1")).toEqual({ first: runs[1], second: runs[2] });
  expect(pairOf(runs.slice(0, 2), null, null)).toEqual({ first: runs[1], second: runs[0] });
  const tabs = [side("d", "One 1"), side("d", "One 1 (2)"), side("c", "One 1"), side("c", "One 1 (2)")];
  expect(pairOf(tabs, null, null)).toEqual({ first: tabs[2], second: tabs[0] });
  expect(pairOf(tabs, null, "d/One 1 (2)")).toEqual({ first: tabs[3], second: tabs[1] });
  expect(pairOf(tabs.slice(0, 2), null, null)).toEqual({ first: tabs[1], second: tabs[0] });
  expect(pairOf([], null, null)).toEqual({ first: undefined, second: undefined });
});

it("says which runs of the address there are not", () => {
  const runs = [side("b", "One 1"), side("a", "One 1")];
  expect(missingRuns(runs, { before: null, after: "b/One 1" })).toEqual([]);
  expect(missingRuns(runs, { before: "77", after: "b/Two 1" })).toEqual([
    { name: "before", run: "77" },
    { name: "after", run: "b/Two 1" },
  ]);
});

it("shows what changed in verdict, text or error", () => {
  const tests = [
    test("verdict", { change: "worse" }),
    test("text", { kernel_changed: true }),
    test("error", { after: outcome(2.5) }),
    test("near", { after: outcome(1.5) }),
    test("share", { before: outcome(1, 2), after: outcome(1, 354) }),
    test("same share", { before: outcome(1, 2), after: outcome(9, 3) }),
    test("no number", { before: outcome(null, "Infinity"), after: outcome(null, "Infinity") }),
    test("older run", { after: outcome(1.5, 4) }),
    test("added", { change: "added", before: null }),
  ];
  const found: Comparison = {
    before: side("a", "One 1"),
    after: side("b", "One 1"),
    summary: {
      worse: 1,
      better: 0,
      other: 0,
      added: 1,
      removed: 0,
      same: 7,
      kernels_changed: ["k"],
      seconds: [0.1, 0.2],
      gpu: true,
    },
    tests,
  };
  expect(changedOf(found).map((one) => one.test)).toEqual(["verdict", "text", "error", "share"]);
  expect(summaryText(found)).toBe(
    "9 tests: 1 worse, 1 only in the second run, 7 with the same verdict; other WGSL of k; GPU time 100 ms, then 200 ms",
  );
});
