import { expect, it } from "vitest";
import { offloadStep as step, suite } from "./fixture";
import { offloadNodeStates } from "./offload";
import { changedSince, editedNow, editedText, olderSteps } from "./older";

const now = (digest: string | null, edited = false) => ({ digest, edited });

it("tells kernels that are others by now, and those that are damaged", () => {
  const ran = { take: "t1", norm: "n1", gone: "g1", none: "" };
  expect([...changedSince(ran, { take: now("t1"), norm: now("n1"), none: now("") })]).toEqual([]);
  expect([...changedSince(ran, { take: now("t2"), norm: now(null) })]).toEqual(["take", "norm"]);
  // A document of an earlier version does not say what ran.
  expect([...changedSince({}, { take: now("t2") })]).toEqual([]);
});

it("takes back what the model gave from the first move on that is of an older text", () => {
  const stayed = { kept: false, model_metric: null, operator_verdict: "fail" as const };
  const steps = [step("a", []), step("b", []), step("c", []), step("d", [], stayed), step("e", [])];
  expect(olderSteps(steps, new Set())).toEqual([false, false, false, false, false]);
  expect(olderSteps(steps, new Set(["b"]))).toEqual([false, true, true, false, true]);
  // One that stayed where it was changes no figure but its own.
  expect(olderSteps(steps, new Set(["d"]))).toEqual([false, false, false, true, false]);
});

it("colours no node of the graph for a text that is gone", () => {
  const steps = [step("take", ["n0"]), step("norm", ["n1", "n3"])];
  const run = { created: null, steps, total: 2, final: null, tolerance: null, digests: {} };
  const colours = (changed: string[]) => [...offloadNodeStates(suite, run, new Set(changed)).values()];
  expect(colours([])).toEqual(["pass", "pass", "pass"]);
  expect(colours(["norm"])).toEqual(["pass", "stale", "stale"]);
  expect(colours(["take"])).toEqual(["stale", "stale", "stale"]);
});

it("names what was edited", () => {
  expect(editedText(new Set(["a"]))).toBe("a was changed since");
  expect(editedText(new Set(["a", "b", "c"]))).toBe("a, b and c were changed since");
  expect(editedText(new Set(["a", "b", "c", "d", "e"]))).toBe("a, b, c and 2 more were changed since");
});

it("follows edits and their undoing", () => {
  expect(editedNow(["a"], { b: now("1", true) })).toEqual(["a", "b"]);
  expect(editedNow(["a", "b"], { a: now("1", false), c: now("2", false) })).toEqual(["b"]);
  expect(editedNow(["a"], { a: now(null, true) })).toEqual(["a"]);
});
