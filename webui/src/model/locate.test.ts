import { describe, expect, it } from "vitest";
import type {
  LocateDocument,
  MissingBarrier,
  ModelCheck,
  Suspect,
  Suspicious,
} from "../api/generated/results";
import { device, suite } from "./fixture";
import {
  accusation,
  determinism,
  growthPoints,
  locateMarks,
  locateNodeStates,
  MINIMAL,
  RACING,
  SUSPICIOUS,
  steepest,
  timesRounding,
  verdictSentence,
} from "./locate";

const suspect: Suspect = {
  kernel: "norm",
  nodes: ["n3"],
  passing_nodes: ["n1"],
  names: {},
  verdict: "fail",
  tests: { failed: 1, total: 2 },
  score: 0.9,
  reason: "wrong only at the end",
  edited: true,
  findings: [],
  deterministic: true,
  runs: 3,
  differing: 0,
  test: "n3.s0",
  outputs: [],
};

const model: ModelCheck = {
  verdict: "fail",
  metric: null,
  tolerance: { cosine: 0.999, max_abs_error: 1e-6, reasons: [] },
  growth: [
    { node: "n0", kernel: "take", error: 0, relative: 0, local: 0, amplification: null },
    { node: "n1", kernel: "norm", error: 4e-6, relative: 1, local: 1e-6, amplification: 4 },
    { node: "n3", kernel: "norm", error: "NaN", relative: "NaN", local: null, amplification: "Infinity" },
  ],
  minimal_nodes: ["n1"],
  model_runs: 5,
  text: "",
};

function document(
  changes: Partial<LocateDocument> = {},
  verdict?: "clean" | "compound" | "unknown",
): LocateDocument {
  return {
    format: "tapml.locate/1",
    suite: "s",
    suite_name: "s",
    synthetic: false,
    doubts: [],
    created: "2026-11-21",
    interrupted: false,
    edited_kernels: [],
    kernel_digests: { take: "t1", norm: "n1" },
    devices: [device("a")],
    runs: 3,
    summary: {
      faulty_kernels: verdict ? [] : ["norm"],
      verdict: verdict ?? "faulty",
      tests: 3,
      seconds: 1,
      parts: {},
      suspicious_kernels: [],
      unbounded_kernels: [],
      racing_kernels: [],
    },
    kernels: verdict ? [] : [suspect],
    suspicious: [],
    missing_barriers: [],
    positions: null,
    model: null,
    ...changes,
  };
}

describe("the graph", () => {
  it("shows failing and passing nodes of a suspect, and what was tested beside it", () => {
    expect([...locateNodeStates(suite, document())]).toEqual([
      ["n0", "pass"],
      ["n1", "pass"],
      ["n3", "fail"],
    ]);
  });

  it("does not call right what was not run", () => {
    expect(locateNodeStates(suite, document({ interrupted: true })).get("n0")).toBe("none");
    const part = document();
    part.summary.tests = 2;
    expect(locateNodeStates(suite, part).get("n0")).toBe("none");
  });

  it("is grey where the kernel is another one by now", () => {
    const changed = new Set(["norm"]);
    expect([...locateNodeStates(suite, document(), changed)]).toEqual([
      ["n0", "pass"],
      ["n1", "stale"],
      ["n3", "stale"],
    ]);
    expect([...locateMarks(document(), changed)]).toEqual([
      ["n3", { label: "1", word: "suspect 1, for older WGSL" }],
    ]);
    const part = document({ interrupted: true, kernels: [] });
    expect(locateNodeStates(suite, part, changed).get("n1")).toBe("none");
  });

  it("marks suspects by rank, not what could not run", () => {
    const unsupported: Suspect = { ...suspect, kernel: "take", nodes: ["n0"], verdict: "unsupported" };
    const marks = locateMarks(document({ kernels: [suspect, unsupported] }));
    expect([...marks]).toEqual([["n3", { label: "1", word: "suspect 1" }]]);
  });

  it("marks what is suspicious, and says how far beyond rounding it is", () => {
    const found: Suspicious = {
      kernel: "take",
      nodes: ["n0", "n3"],
      test: "n0.s0",
      output: 0,
      times: 22.46,
      share: 0.52,
      simulated_share: 0.046,
      text: "",
      edited: true,
    };
    const marks = locateMarks(document({ suspicious: [found] }));
    expect(marks.get("n0")).toEqual({ label: SUSPICIOUS, word: "suspicious" });
    expect(marks.get("n3")?.label).toBe("1");
    expect(timesRounding(found)).toBe("22 × what rounding explains");
    expect(timesRounding({ ...found, times: 4.04 })).toBe("4.0 × what rounding explains");
    expect(verdictSentence(document({ suspicious: [found] }, "clean"), "firefox")).toBe(
      "No faulty kernel on firefox, but 1 suspicious kernel: rounding does not explain the errors.",
    );
  });

  it("marks edited kernels that pass without a barrier", () => {
    const found: MissingBarrier = {
      kernel: "norm",
      nodes: ["n1"],
      file: "norm.wgsl",
      variable: "red",
      written: 5,
      read: 9,
      text: "",
    };
    const passing = document({ missing_barriers: [found] }, "clean");
    passing.summary.racing_kernels = ["norm"];
    expect(locateMarks(passing).get("n1")?.label).toBe(RACING);
    expect(verdictSentence(passing, "firefox")).toBe(
      "No faulty kernel on firefox, but 1 edited kernel with a barrier missing: a race that it does not show.",
    );
  });

  it("knows which nodes are accused", () => {
    expect(accusation(document(), "n3")?.reason).toBe("wrong only at the end");
    expect(accusation(document(), "n1")).toBeUndefined();
    expect(accusation(undefined, "n3")).toBeUndefined();
  });

  it("marks the nodes of a compound error", () => {
    expect(locateMarks(document({ model }, "compound")).get("n1")?.label).toBe(MINIMAL);
    expect(locateMarks(document({ model: { ...model, minimal_nodes: null } }, "compound")).size).toBe(0);
  });
});

describe("the sentence", () => {
  it("is friendly where nothing is wrong", () => {
    const whole = { ...model, verdict: "pass" as const };
    expect(verdictSentence(document({ model: whole }, "clean"), "firefox")).toBe(
      "All is well on firefox: all 3 tests pass, and so does the whole model.",
    );
    expect(verdictSentence(document({}, "clean"), "firefox")).toContain("The whole model was not run.");
  });

  it("never says that all is well after an interrupted search, or where kernels could not run", () => {
    expect(verdictSentence(document({ interrupted: true }, "unknown"), "a")).toContain("interrupted");
    const kernels: Suspect[] = [{ ...suspect, verdict: "unsupported" }];
    expect(verdictSentence(document({ kernels }, "clean"), "a")).toBe(
      "No faulty kernel on a, but 1 kernel could not run there.",
    );
  });

  it("counts the accused", () => {
    expect(verdictSentence(document(), "a")).toBe("1 faulty kernel on a.");
    const mixed = document();
    mixed.summary.unbounded_kernels = ["take", "tanh"];
    expect(verdictSentence(mixed, "a")).toBe("1 faulty kernel and 2 unbounded kernels on a.");
    mixed.summary.faulty_kernels = [];
    mixed.summary.verdict = "unbounded";
    expect(verdictSentence(mixed, "a")).toBe("2 unbounded kernels on a.");
    expect(verdictSentence(document({}, "compound"), "a")).toContain("compound");
  });
});

it("says whether a failure is the same each time", () => {
  expect(determinism(suspect)).toBe("3 runs, identical");
  expect(determinism({ ...suspect, deterministic: false, differing: 12 })).toBe(
    "12 elements differ from run to run: a race",
  );
  expect(determinism({ ...suspect, deterministic: false })).toBe("differs from run to run: a race");
  expect(determinism({ ...suspect, deterministic: null, runs: 0 })).toBe("not run again");
});

it("reads the growth of errors, with what is no number apart", () => {
  const points = growthPoints(model.growth, ["n1"]);
  expect(points.map((point) => [point.error, point.minimal])).toEqual([
    [0, false],
    [4e-6, true],
    [null, false],
  ]);
  expect(steepest(points, 8).map((point) => point.node)).toEqual(["n1"]);
});
