import { describe, expect, it } from "vitest";
import type { JobEvent } from "../api/types";
import { device, result, suite } from "./fixture";
import { buildMatrix, cellText, entryNode, filterRows, nodeNames, nodeStates, problemNodes } from "./matrix";
import { EMPTY, type ResultsState, reduce } from "./results";
import { asState, describe as words } from "./verdicts";

function running(...events: JobEvent[]): ResultsState {
  const asked = reduce(EMPTY, { type: "asked", job: "j", kernels: null });
  const begun = reduce(asked, { type: "job", job: "j" });
  const started: JobEvent = { type: "started", kind: "validation", total: 3 };
  return reduce(begun, {
    type: "events",
    events: [started, { type: "device", device: device("a") }, ...events],
  });
}
const verdict = (test: string, how: "pass" | "fail" = "pass"): JobEvent => ({
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
    expect(cell && cellText(cell)).toBe("1/2");
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
  const names = (text: string, problems = false) =>
    filterRows(rows, { text, problems }).map((row) => row.kernel);
  expect(names("NOR")).toEqual(["norm"]);
  expect(names("embeddings")).toEqual(["take"]);
  expect(names("n3")).toEqual(["norm"]);
  expect(names("", true)).toEqual(["norm"]);
});

it("calls a node after the parameter it uses", () => {
  expect(nodeNames(suite).get("n0")).toBe("embeddings.weight");
  expect(nodeNames(suite).get("n1")).toBe("");
});
