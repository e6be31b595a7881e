/** Where the nodes of the graph picture go. Pure; run in a worker (worker.ts) because large graphs take a second. */

import dagre from "@dagrejs/dagre";
import type { Graph } from "../api/types";

export interface Box {
  id: string;
  kind: "kernel" | "view" | "input" | "output";
  label: string;
  /** Top left. */
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Edge {
  from: string;
  to: string;
  path: string;
  /** Spans many ranks: drawn only for the selected node, or it would hide the rest. */
  far: boolean;
}

export interface Layout {
  boxes: Box[];
  edges: Edge[];
  width: number;
  height: number;
}

const CHARACTER = 6.7;
const MARGIN = 12;
/** Most characters of a label; the whole name is in the tooltip and the detail panel. */
export const LABEL = 26;
/**
 * Edges longer than this stay out of the layout. An attention mask is read by every layer: dagre would make a dummy
 * node for each rank it passes, which takes minutes and a picture kilometres wide.
 */
const FAR = 14;

export function layoutGraph(graph: Graph): Layout {
  const boxes = boxesOf(graph);
  const links = linksOf(graph);
  const rank = ranks(boxes, links);
  const g = new dagre.graphlib.Graph();
  g.setGraph({ rankdir: "TB", ranksep: 20, nodesep: 14, edgesep: 8, marginx: MARGIN, marginy: MARGIN });
  g.setDefaultEdgeLabel(() => ({}));
  for (const box of boxes) g.setNode(box.id, { width: box.width, height: box.height });
  const near: { from: string; to: string }[] = [];
  const far: { from: string; to: string }[] = [];
  const joined = new Set<string>();
  for (const link of links) {
    if ((rank.get(link.to) ?? 0) - (rank.get(link.from) ?? 0) <= FAR) {
      near.push(link);
      joined.add(link.from).add(link.to);
    } else far.push(link);
  }
  for (const { from, to } of near) g.setEdge(from, to);
  // A box whose every edge is far would float at the top: tie it to its nearest reader, out of sight.
  for (const link of far) {
    if (joined.has(link.from) && joined.has(link.to)) continue;
    g.setEdge(link.from, link.to, { weight: 0 });
    joined.add(link.from).add(link.to);
  }
  dagre.layout(g);
  for (const box of boxes) {
    const placed = g.node(box.id);
    box.x = placed.x - box.width / 2;
    box.y = placed.y - box.height / 2;
  }
  const at = new Map(boxes.map((box) => [box.id, box]));
  const edges: Edge[] = [
    ...near.map(({ from, to }) => ({ from, to, path: smooth(g.edge(from, to).points ?? []), far: false })),
    ...far.map(({ from, to }) => ({ from, to, path: arc(at.get(from), at.get(to)), far: true })),
  ];
  const { width = 0, height = 0 } = g.graph();
  return { boxes, edges, width, height };
}

function boxesOf(graph: Graph): Box[] {
  const names = new Map(graph.values.map((value) => [value.id, value.name || value.id]));
  const box = (id: string, kind: Box["kind"], name: string): Box => {
    const label = shorten(name);
    const height = kind === "kernel" ? 26 : 18;
    const perCharacter = kind === "kernel" ? CHARACTER : CHARACTER * 0.86;
    // Room for the verdict's glyph in front of a kernel's name.
    const width = Math.round(label.length * perCharacter + (kind === "kernel" ? 36 : 16));
    return { id, kind, label, x: 0, y: 0, width, height };
  };
  return [
    ...graph.inputs.map((id) => box(`in:${id}`, "input", names.get(id) ?? id)),
    ...graph.nodes.map((node) => box(node.id, node.kind, node.kernel)),
    ...graph.outputs.map((id, at) => box(`out:${id}`, "output", outputName(names.get(id) ?? id, id, at))),
  ];
}

function outputName(name: string, id: string, at: number): string {
  return name === id ? `output ${at}` : name;
}

function linksOf(graph: Graph): { from: string; to: string }[] {
  const source = new Map<string, string>(graph.inputs.map((id) => [id, `in:${id}`]));
  for (const node of graph.nodes) for (const id of node.outputs) source.set(id, node.id);
  const links: { from: string; to: string }[] = [];
  const add = (value: string, to: string, seen: Set<string>) => {
    const from = source.get(value);
    // Parameters have no source. A node that reads one value twice has one edge.
    if (from === undefined || from === to || seen.has(from)) return;
    seen.add(from);
    links.push({ from, to });
  };
  for (const node of graph.nodes) {
    const seen = new Set<string>();
    for (const value of node.inputs) add(value, node.id, seen);
  }
  for (const value of graph.outputs) add(value, `out:${value}`, new Set());
  return links;
}

/** Longest path from the inputs. Boxes come in topological order, outputs last. */
function ranks(boxes: readonly Box[], links: readonly { from: string; to: string }[]): Map<string, number> {
  const into = new Map<string, string[]>();
  for (const { from, to } of links) into.set(to, [...(into.get(to) ?? []), from]);
  const rank = new Map<string, number>();
  for (const { id } of boxes) {
    rank.set(id, Math.max(0, ...(into.get(id) ?? []).map((from) => (rank.get(from) ?? 0) + 1)));
  }
  return rank;
}

export function shorten(name: string, most = LABEL): string {
  if (name.length <= most) return name;
  const tail = Math.floor(most / 3);
  return `${name.slice(0, most - tail - 1)}…${name.slice(-tail)}`;
}

const round = (n: number) => Math.round(n * 10) / 10;

/** A curve through dagre's bend points. */
export function smooth(points: readonly { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  let path = `M${round(first.x)} ${round(first.y)}`;
  let last = first;
  for (const [at, point] of rest.entries()) {
    const end =
      at === rest.length - 1
        ? point
        : { x: (point.x + (rest[at + 1]?.x ?? 0)) / 2, y: (point.y + (rest[at + 1]?.y ?? 0)) / 2 };
    path +=
      at === rest.length - 1 && rest.length === 1
        ? `L${round(end.x)} ${round(end.y)}`
        : `Q${round(point.x)} ${round(point.y)} ${round(end.x)} ${round(end.y)}`;
    last = end;
  }
  return last === first ? "" : path;
}

function arc(from: Box | undefined, to: Box | undefined): string {
  if (from === undefined || to === undefined) return "";
  const [x1, y1] = [from.x + from.width, from.y + from.height / 2];
  const [x2, y2] = [to.x + to.width, to.y + to.height / 2];
  const out = Math.max(x1, x2) + 60;
  return `M${round(x1)} ${round(y1)}C${round(out)} ${round(y1)} ${round(out)} ${round(y2)} ${round(x2)} ${round(y2)}`;
}
