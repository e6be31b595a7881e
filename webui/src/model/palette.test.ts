import { expect, it } from "vitest";
import { suite } from "./fixture";
import { type Entry, findEntries, suiteEntries } from "./palette";

it("finds nodes, kernels and tests by words in any order", () => {
  const went: string[] = [];
  const entries = suiteEntries(suite, (node) => went.push(node));
  const kinds = (text: string) => findEntries(entries, text).map(({ kind, name }) => `${kind} ${name}`);
  expect(kinds("take")[0]).toBe("kernel take");
  expect(kinds("kernel norm")).toEqual(["kernel norm"]);
  expect(kinds("no such thing")).toEqual([]);
  for (const entry of findEntries(entries, "kernel norm")) entry.run();
  expect(went).toEqual(["n1"]);
  expect(findEntries(entries, "kernel take")[0]?.note).toBe("1 node");
});

it("tells hits in the name before hits beside it", () => {
  const entry = (name: string): Entry => ({
    kind: "node",
    name,
    note: "fused_matmul_add2 · 1 × 16 × 384",
    run: () => undefined,
  });
  const entries = [0, 1, 3, 13].map((layer) => entry(`n${layer}2 layer.${layer}.attention.self.query`));
  expect(findEntries(entries, "layer 3 query").map(({ name }) => name)[0]).toContain("layer.3.");
  expect(findEntries(entries, "layer 3 query")).toHaveLength(4);
});

it("tells what begins with the text first, and not all of ten thousand", () => {
  const entries = Array.from({ length: 10_000 }, (_, at): Entry => {
    return { kind: "node", name: `n${at}`, note: "", run: () => undefined };
  });
  expect(findEntries(entries, "n7")[0]?.name).toBe("n7");
  expect(findEntries(entries, "n")).toHaveLength(50);
});
