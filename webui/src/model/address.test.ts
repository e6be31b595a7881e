import { expect, it } from "vitest";
import { resolved, unknownChoices, unknownOf } from "./address";
import { suite } from "./fixture";

const nothing = { node: null, test: null, kernel: null, device: null };
const test = suite.tests[1] ?? suite.tests[0];

it("shows a test or a kernel as its node", () => {
  expect(resolved(suite, nothing)).toBeNull();
  expect(resolved(suite, { ...nothing, test: test?.id ?? "" })).toMatchObject({
    test: null,
    node: test?.node,
  });
  expect(resolved(suite, { ...nothing, kernel: "norm" })).toEqual({ kernel: null, node: "n1" });
  expect(resolved(suite, { ...nothing, kernel: "nrm", test: "n9.0" })).toBeNull();
});

it("says what is not there, and what is like it", () => {
  expect(unknownOf(suite, ["a"], { ...nothing, node: "n1", device: "a" })).toEqual([]);
  expect(unknownOf(suite, ["a"], { ...nothing, node: "n99" })).toEqual([
    { name: "node", sentence: "This suite has no node n99.", instead: null },
  ]);
  expect(unknownOf(suite, ["a"], { ...nothing, kernel: "fused_norm" })[0]).toEqual({
    name: "kernel",
    sentence: "This suite has no kernel fused_norm.",
    instead: { node: "n1", word: "norm (n1)" },
  });
  expect(unknownOf(suite, ["a"], { ...nothing, test: "n1.9" })[0]?.instead?.node).toBe("n1");
  expect(unknownOf(suite, ["a"], { ...nothing, device: "b" })).toHaveLength(1);
  // Results are on their way: nothing is known to be missing.
  expect(unknownOf(suite, null, { ...nothing, device: "b" })).toEqual([]);
});

it("says which words of the address mean nothing", () => {
  const view = { name: "view", what: "view", there: ["validation", "compare"] };
  expect(
    unknownChoices([
      { ...view, wanted: null },
      { ...view, wanted: "compare" },
    ]),
  ).toEqual([]);
  expect(unknownChoices([{ ...view, wanted: "blub" }])).toEqual([
    {
      name: "view",
      sentence: "This page has no view blub: there are validation, compare.",
      instead: null,
    },
  ]);
  const blocks = Array.from({ length: 80 }, (_, at) => `layer.${at}`);
  const found = unknownChoices([{ name: "open", what: "block", wanted: "layer.99", there: blocks }]);
  expect(found[0]?.sentence).toContain("layer.7, …");
});
