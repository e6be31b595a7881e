import { describe, expect, it } from "vitest";
import type { Verdict } from "../api/generated/results";
import type { JobEvent } from "../api/types";
import { device, result, suite } from "./fixture";
import {
  buildMatrix,
  cellText,
  entryNode,
  matching,
  nodeNames,
  nodeStates,
  problemNodes,
  troubled,
} from "./matrix";
import { EMPTY, type ResultsState, reduce } from "./results";
import { asState, isProblem, noCounts, total, describe as words, worst } from "./verdicts";

function running(...events: JobEvent[]): ResultsState {
  const asked = reduce(EMPTY, { type: "asked", job: "j", asked: { kernels: null, trial: false } });
  const begun = reduce(asked, { type: "job", job: "j" });
  const started: JobEvent = { type: "started", kind: "validation", total: 3 };
  return reduce(begun, {
    type: "events",
    events: [started, { type: "device", device: device("a") }, ...events],
  });
}
const verdict = (test: string, how: Verdict = "pass"): JobEvent => ({
  type: "verdict",
  device: "a",
  result: result(test, "a", how),
});
const rowOf = (state: ResultsState, kernel: string) => {
  const row = buildMatrix(suite, state, ["a"]).rows.find((candidate) => candidate.kernel === kernel);
  if (row === undefined) throw new Error(kernel);
  return row;
};

describe("cells", () => {
  it("are not run, then wait, run, and get a verdict", () => {
    expect(rowOf(EMPTY, "norm").cells.a?.state).toBe("none");
    expect(rowOf(running(), "norm").cells.a?.state).toBe("waiting");
    const compile: JobEvent = { type: "compile", device: "a", kernel: "norm", done: 0, total: 2 };
    expect(rowOf(running(compile), "norm").cells.a?.state).toBe("running");
    expect(rowOf(running(verdict("n0.s0")), "take").cells.a?.state).toBe("pass");
  });

  it("show the worst, even while others wait", () => {
    const cell = rowOf(running(verdict("n1.s0", "fail")), "norm").cells.a;
    expect(cell?.state).toBe("fail");
    expect(cell && words(cell.counts)).toBe("1 fail, 1 waiting");
  });

  it("say how many are through while they wait", () => {
    const cell = rowOf(running(verdict("n1.s0")), "norm").cells.a;
    expect(cell && cellText(cell)).toBe("1 of 2");
    const untouched = rowOf(EMPTY, "norm").cells.a;
    expect(untouched && cellText(untouched)).toBe("not run");
  });

  it("wait no more when the job has ended", () => {
    const ended = reduce(running(), {
      type: "events",
      events: [{ type: "ended", state: "cancelled", error: null }],
    });
    expect(rowOf(ended, "norm").cells.a?.state).toBe("none");
  });
});

it("treats a verdict it does not know as an error", () => {
  expect(asState("splendid")).toBe("error");
});

describe("unbounded", () => {
  it("is a problem, worse than waiting and better than a failure", () => {
    expect(asState("unbounded")).toBe("unbounded");
    expect(isProblem("unbounded")).toBe(true);
    const counts = { ...noCounts(), pass: 3, unsupported: 1, unbounded: 2 };
    expect(worst(counts)).toBe("unbounded");
    expect(worst({ ...counts, fail: 1 })).toBe("fail");
    expect(total(counts)).toBe(6);
    expect(words(counts)).toBe("2 unbounded, 1 unsupported, 3 pass");
  });

  it("is shown, opened and listed as what needs a look", () => {
    const state = running(verdict("n1.s0"), verdict("n3.s0", "unbounded"));
    const row = rowOf(state, "norm");
    expect(row.cells.a?.state).toBe("unbounded");
    expect(row.cells.a && cellText(row.cells.a)).toBe("1 unbounded");
    expect(entryNode(row)).toBe("n3");
    const matrix = buildMatrix(suite, state, ["a"]);
    expect(problemNodes(suite, matrix)).toEqual(["n3"]);
    expect(troubled(matrix.rows).map(({ kernel }) => kernel)).toEqual(["norm"]);
  });
});

it("opens the node that needs a look", () => {
  const row = rowOf(running(verdict("n1.s0"), verdict("n3.s0", "fail")), "norm");
  expect(entryNode(row)).toBe("n3");
  expect(entryNode(row, "a")).toBe("n3");
  expect(entryNode(rowOf(EMPTY, "norm"))).toBe("n1");
});

it("lists problems in the graph's order and colours nodes", () => {
  const matrix = buildMatrix(suite, running(verdict("n3.s0", "fail"), verdict("n1.s0", "fail")), ["a"]);
  expect(problemNodes(suite, matrix)).toEqual(["n1", "n3"]);
  expect(nodeStates(matrix, "a").get("n3")).toBe("fail");
  expect(nodeStates(matrix, "a").has("n2")).toBe(false);
});

it("filters by kernel, by node and by problem", () => {
  const { rows } = buildMatrix(suite, running(verdict("n1.s0", "fail")), ["a"]);
  const names = (text: string) => matching(rows, text).map((row) => row.kernel);
  expect(names("NOR")).toEqual(["norm"]);
  expect(names("embeddings")).toEqual(["take"]);
  expect(names("n3")).toEqual(["norm"]);
  expect(troubled(rows).map((row) => row.kernel)).toEqual(["norm"]);
});

it("calls a node after the parameter it uses", () => {
  expect(nodeNames(suite).get("n0")).toBe("embeddings");
  expect(nodeNames(suite).get("n1")).toBe("");
});
