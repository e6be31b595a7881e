import { expect, it } from "vitest";
import type { State } from "../model/verdicts";
import { boxWords, nodeWord } from "./box-states";
import type { Box } from "./layout";

const box = (...nodes: string[]) => ({ nodes }) as unknown as Box;
const states = new Map<string, State>([
  ["n0", "pass"],
  ["n1", "fail"],
  ["n2", "pass"],
  ["n3", "stale"],
]);
const words = new Map([
  ["n0", "moved"],
  ["n1", "put back"],
  ["n2", "moved"],
  ["n3", "moved"],
]);

it("says of a node what the legend says", () => {
  expect(boxWords(box("n1"), states, "offload", words)).toBe("put back");
  expect(nodeWord("n1", "fail", "offload", words)).toBe("put back");
  expect(boxWords(box("n1"), states, "validation", new Map())).toBe("fail");
});

it("counts what a folded box stands for by the same words, but for views, which have none", () => {
  const folded = box("n0", "n1", "n2", "n3", "view");
  expect(boxWords(folded, states, "offload", words)).toBe("2 moved, 1 put back, 1 for older WGSL");
  expect(boxWords(folded, states, "validation", new Map())).toBe("1 fail, 2 pass, 1 for older WGSL");
});
