import { describe, expect, it } from "vitest";
import type { Graph, GraphNode, Value } from "../api/types";
import { suite } from "../model/fixture";
import { BAND, bandStarts, type Link, ranks } from "./bands";
import { boxAt, visible, windowOf } from "./culling";
import { layoutOutline, shorten, shortNote } from "./layout";
import { everything, foldable, openAtFirst, outline } from "./outline";
import { step } from "./steps";

/** As the page shows it: folded where it is large. */
function layoutGraph(graph: Graph, open: "all" | "none" | "first" = "first") {
  const found = foldable(graph);
  const ids = { all: new Set(everything(found.groups)), none: new Set<string>(), first: openAtFirst(found) };
  return layoutOutline(outline(found, ids[open]));
}

/** A chain of kernels that do not repeat, every tenth node of which also reads the input. */
function chain(length: number): Graph {
  const nodes: GraphNode[] = Array.from({ length }, (_, at) => ({
    id: `n${at}`,
    kind: "kernel",
    kernel: `add${at}`,
    inputs: at === 0 ? ["v-1"] : at % 10 === 0 ? [`v${at - 1}`, "v-1"] : [`v${at - 1}`],
    outputs: [`v${at}`],
  }));
  return { values: [], nodes, inputs: ["v-1"], outputs: [`v${length - 1}`] };
}

/** A decoder: each layer reads a cache of its own and a mask that all read, and adds to what it got. */
function layers(count: number): Graph {
  const values: Value[] = [];
  const value = (id: string, kind: Value["kind"], name = "") => {
    values.push({ id, name, dtype: "float32", shape: [8, 64], kind });
    return id;
  };
  const nodes: GraphNode[] = [];
  const call = (kernel: string, inputs: string[]) => {
    const id = `n${nodes.length}`;
    nodes.push({ id, kind: "kernel", kernel, inputs, outputs: [value(`${id}o`, "intermediate")] });
    return `${id}o`;
  };
  const inputs = [value("ids", "input", "ids"), value("mask", "input", "mask")];
  let last = call("take", ["ids", value("e", "parameter", "model.embed.weight")]);
  for (let layer = 0; layer < count; layer += 1) {
    const weight = (name: string) =>
      value(`${layer}${name}`, "parameter", `model.layers.${layer}.${name}.weight.T`);
    inputs.push(value(`cache${layer}`, "input", `cache${layer}`));
    const norm = call("norm", [last, weight("norm")]);
    const [q, k] = [call("matmul", [norm, weight("q")]), call("matmul", [norm, weight("k")])];
    const attention = call("attention", [q, k, `cache${layer}`, "mask"]);
    last = call("add", [last, call("matmul", [attention, weight("o")])]);
  }
  const logits = call("matmul1", [last, value("head", "parameter", "lm_head.weight")]);
  return { values, nodes, inputs, outputs: [logits] };
}

function apart(boxes: readonly { x: number; y: number; width: number; height: number }[]): void {
  const sorted = [...boxes].sort((a, b) => a.y - b.y);
  for (const [at, box] of sorted.entries()) {
    for (const next of sorted.slice(at + 1)) {
      if (next.y >= box.y + box.height) break;
      expect(next.x >= box.x + box.width || box.x >= next.x + next.width).toBe(true);
    }
  }
}

describe("layoutOutline", () => {
  it("places every node, input and output; parameters are not drawn", () => {
    const { boxes, edges } = layoutGraph(suite.graph);
    expect(boxes.map((box) => box.id)).toEqual(["in:ids", "n0", "n1", "n2", "n3", "out:d"]);
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
    apart(boxes);
  });

  it("keeps far edges out of the way", () => {
    const far = layoutGraph(chain(60)).edges.filter((edge) => edge.far);
    expect(far.map((edge) => edge.to)).toEqual(["n10", "n20", "n30", "n40", "n50"]);
  });

  it("manages 1500 nodes", { timeout: 120_000 }, () => {
    const { boxes } = layoutGraph(chain(1500));
    expect(boxes).toHaveLength(1502);
  });

  it("stands folded blocks one below the other, with their inputs beside them", () => {
    const found = foldable(layers(30));
    const { boxes } = layoutOutline(outline(found, new Set(["g0"])));
    const blocks = boxes.filter((box) => box.kind === "block");
    expect(blocks).toHaveLength(30);
    const middles = blocks.map((box) => box.x + box.width / 2);
    expect(Math.max(...middles) - Math.min(...middles)).toBeLessThan(60);
    apart(boxes);
  });

  it("frames open blocks around their nodes", () => {
    const { boxes, frames, edges } = layoutGraph(layers(30), "all");
    expect(frames).toHaveLength(30);
    expect(boxes.filter((box) => box.kind === "kernel")).toHaveLength(182);
    const inside = frames[3];
    const q = boxes.find((box) => box.name === "n20, layers.3.q");
    expect(q).toMatchObject({ title: "q", note: "matmul · 8 × 64" });
    expect(q?.y).toBeGreaterThan(inside?.y ?? Infinity);
    expect((q?.y ?? 0) + (q?.height ?? 0)).toBeLessThan((inside?.y ?? 0) + (inside?.height ?? 0));
    expect(edges.find((edge) => edge.to === "n20")?.type).toBe("float32 8 × 64");
    apart(boxes);
    apart(frames);
  });
});

describe("folding", () => {
  it("finds a model's layers by what they call, and names them by their weights", () => {
    const { groups } = foldable(layers(80));
    expect(groups.map((group) => group.label)).toEqual(["layers 0 to 79"]);
    expect(groups[0]?.blocks[40]).toMatchObject({ id: "g0/40", label: "layers.40" });
    expect(groups[0]?.blocks[40]?.nodes).toEqual(["n241", "n242", "n243", "n244", "n245", "n246"]);
  });

  it("finds them without names, too", () => {
    const graph = layers(12);
    const { groups } = foldable({ ...graph, values: graph.values.map((value) => ({ ...value, name: "" })) });
    expect(groups[0]?.label).toBe("12 times the same 6 calls");
  });

  it("finds nothing where nothing repeats", () => {
    expect(foldable(chain(200)).groups).toEqual([]);
    expect(foldable(suite.graph).groups).toEqual([]);
  });

  it("shows large graphs folded, what many layers read once", () => {
    const { boxes } = layoutGraph(layers(80));
    const titles = boxes.map((box) => box.title).sort();
    expect(titles).toEqual(
      ["ids", "mask", "cache0 and 79 more", "embed", "layers 0 to 79", "lm_head", "output"].sort(),
    );
    expect(boxes.find((box) => box.kind === "group")?.note).toBe("× 80, 6 calls each");
  });
});

describe("what is seen", () => {
  it("is drawn, and nothing else of a large layout", () => {
    const layout = layoutGraph(layers(30), "all");
    const window = windowOf(layout, { x: 0, y: -5000, scale: 1 }, { width: 600, height: 500 });
    const { boxes, frames } = visible(layout, window);
    expect(boxes.length).toBeGreaterThan(3);
    expect(boxes.length).toBeLessThan(60);
    expect(frames.length).toBeGreaterThan(0);
    for (const box of boxes) expect(box.y + box.height > 4400 && box.y < 6200).toBe(true);
    // A small movement draws nothing anew.
    expect(windowOf(layout, { x: 0, y: -5001, scale: 1 }, { width: 600, height: 500 })).toEqual(window);
    // Nor does any where all of it is seen.
    const pane = { width: 600, height: 500 };
    const far = windowOf(layout, { x: 90, y: 9, scale: 0.02 }, pane);
    expect(windowOf(layout, { x: 200, y: 40, scale: 0.015 }, pane)).toEqual(far);
    expect(visible(layout, far).boxes).toHaveLength(layout.boxes.length);
    const [box] = boxes;
    expect(box && boxAt(layout, box.x + 3, box.y + 3)?.id).toBe(box?.id);
  });

  it("is all of a small one", () => {
    const layout = layoutGraph(suite.graph);
    expect(
      visible(layout, windowOf(layout, { x: 0, y: -5000, scale: 1 }, { width: 6, height: 5 })).boxes,
    ).toBe(layout.boxes);
  });

  it("is stepped through by arrow keys", () => {
    const layout = layoutGraph(suite.graph);
    expect(step(layout, null, "ArrowDown")).toBe("n0");
    expect(step(layout, "n1", "ArrowDown")).toBe("n2");
    expect(step(layout, "n1", "ArrowUp")).toBe("n0");
    expect(step(layout, "n3", "ArrowRight")).toBeNull();
    expect(step(layout, "n1", "x")).toBeNull();
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

it("shortens the kernel beside a shape, and not the shape", () => {
  expect(shortNote("fused_strided_slice_add1_layer_norm · 1 × 16 × 384")).toMatch(
    /^fused.*….* · 1 × 16 × 384$/,
  );
  expect(shortNote("take · 1 × 16")).toBe("take · 1 × 16");
  expect(shortNote("1 × 12 × 16 × 16")).toBe("1 × 12 × 16 × 16");
  expect(shortNote("fused_matmul_add · 1 × 12 × 100000 × 100000 × 100000")).toMatch(
    /^fuse.*….* · 1 × 12 × 100000/,
  );
});
