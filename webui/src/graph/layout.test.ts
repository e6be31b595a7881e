import { describe, expect, it } from "vitest";
import type { Graph, GraphNode } from "../api/types";
import { suite } from "../model/fixture";
import { BAND, bandStarts, type Link, ranks } from "./bands";
import { layoutGraph, shorten } from "./layout";

/** A chain, every tenth node of which also reads the input. */
function chain(length: number): Graph {
  const nodes: GraphNode[] = Array.from({ length }, (_, at) => ({
    id: `n${at}`,
    kind: "kernel",
    kernel: "add",
    inputs: at === 0 ? ["v-1"] : at % 10 === 0 ? [`v${at - 1}`, "v-1"] : [`v${at - 1}`],
    outputs: [`v${at}`],
  }));
  return { values: [], nodes, inputs: ["v-1"], outputs: [`v${length - 1}`] };
}

describe("layoutGraph", () => {
  it("places every node, input and output; parameters are not drawn", () => {
    const { boxes, edges } = layoutGraph(suite.graph);
    expect(boxes.map((box) => box.id)).toEqual(["in:ids", "n0", "n1", "n2", "n3", "out:0:d"]);
    expect(edges).toHaveLength(5);
    expect(edges.every((edge) => /^M[-\d.]+ [-\d.]+[QLC]/.test(edge.path))).toBe(true);
  });

  it("puts readers below what they read, inside the picture, nothing on top of another", () => {
    const { boxes, edges, width, height } = layoutGraph(chain(60));
    const at = new Map(boxes.map((box) => [box.id, box]));
    for (const { from, to } of edges) expect(at.get(to)?.y).toBeGreaterThan(at.get(from)?.y ?? Infinity);
    for (const box of boxes) {
      expect(box.x).toBeGreaterThanOrEqual(0);
      expect(box.x + box.width).toBeLessThanOrEqual(width);
      expect(box.y + box.height).toBeLessThanOrEqual(height);
    }
    const sorted = [...boxes].sort((a, b) => a.y - b.y);
    for (const [i, box] of sorted.entries()) {
      const next = sorted[i + 1];
      if (next !== undefined && next.y < box.y + box.height) {
        expect(next.x >= box.x + box.width || box.x >= next.x + next.width).toBe(true);
      }
    }
  });

  it("keeps far edges out of the way", () => {
    const far = layoutGraph(chain(60)).edges.filter((edge) => edge.far);
    expect(far.map((edge) => edge.to)).toEqual(["n20", "n30", "n40", "n50"]);
  });

  it("manages 1500 nodes", { timeout: 30_000 }, () => {
    const { boxes } = layoutGraph(chain(1500));
    expect(boxes).toHaveLength(1502);
  });
});

describe("bands", () => {
  it("cut where the fewest links cross", () => {
    const ids = Array.from({ length: 12 }, (_, at) => String(at));
    const links: Link[] = ids.slice(1).map((to, at) => ({ from: String(at), to }));
    // A skip over 4..6: the cut before 5 or 6 would sever it too.
    links.push({ from: "4", to: "6" });
    const rank = ranks(ids, links);
    const starts = bandStarts(rank, links, 6);
    expect(starts[0]).toBe(0);
    expect([5, 6]).not.toContain(starts[1]);
  });

  it("are one for a small graph", () => {
    expect(bandStarts(new Map([["a", 0]]), [], BAND)).toEqual([0]);
    expect(bandStarts(new Map(), [], BAND)).toEqual([0]);
  });

  it("put a source just above its first reader", () => {
    const links = [
      { from: "a", to: "b" },
      { from: "b", to: "c" },
      { from: "k", to: "c" },
    ];
    expect(ranks(["a", "k", "b", "c"], links).get("k")).toBe(1);
  });
});

it("shortens in the middle: the ends of kernel names differ", () => {
  expect(shorten("fused_matmul1_multiply_add1_softmax")).toMatch(/^fused_matmul1.*….*softmax$/);
  expect(shorten("take")).toBe("take");
});
