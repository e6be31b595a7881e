import { expect, it } from "vitest";
import { offloadStep as step, suite } from "./fixture";
import { fate, metricText, notMoved, offloadNodeStates, offloadNodeWords, runUntil } from "./offload";
import type { OffloadRun } from "./results";

const nan = { step: 0, cosine: null, max_abs_error: null, choices: [] };
const putBack = step("norm", ["n1", "n3"], { kept: false, model_metric: nan });
const stayed = step("take", ["n0"], { kept: false, model_metric: null, operator_verdict: "fail" });
const run: OffloadRun = {
  created: null,
  steps: [stayed, putBack],
  total: 2,
  final: null,
  tolerance: null,
  digests: {},
};

it("tells what was put back from what was never moved, whatever their colour", () => {
  expect([stayed, putBack, step("x", [], {})].map(fate)).toEqual(["stayed", "put back", "moved"]);
  expect(Object.fromEntries(offloadNodeWords(run))).toEqual({
    n0: "stayed: operator fail",
    n1: "put back",
    n3: "put back",
  });
});

it("has a dash only where nothing was compared", () => {
  expect(metricText(stayed.model_metric)).toEqual({ cosine: "-", error: "-" });
  expect(metricText(putBack.model_metric)).toEqual({ cosine: "NaN", error: "not finite" });
});

it("goes back to any move", () => {
  const after = (tried: number | null) => Object.fromEntries(offloadNodeStates(suite, runUntil(run, tried)));
  expect(after(0)).toEqual({ n0: "waiting", n1: "waiting", n3: "waiting" });
  expect(after(1)).toEqual({ n0: "fail", n1: "waiting", n3: "waiting" });
  expect(after(null)).toEqual(after(7));
});

it("says that the whole model ran with what did not move", () => {
  const metric = { step: 0, cosine: 1, max_abs_error: 0, choices: [] };
  const ended = (verdict: "pass" | "fail", model_metric: typeof metric | null): OffloadRun => ({
    ...run,
    final: {
      verdict,
      mode: "compiled",
      model_metric,
      seconds: {},
      message: "",
      kept_on_reference: ["take", "norm"],
    },
  });
  expect(notMoved(ended("pass", metric))).toMatch(/the output does not show it$/);
  expect(notMoved(ended("fail", metric))).toBe("Not moved in the steps below, but run here");
  expect(notMoved(ended("fail", null))).toBe("On the reference");
});
