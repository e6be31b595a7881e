/** Where the nodes of the graph picture go. Pure; run in a worker (worker.ts), so that the page stays usable. */

import dagre from "@dagrejs/dagre";
import type { Graph } from "../api/types";
import { bandStarts, type Link, ranks } from "./bands";
import { arc, descend, smooth } from "./paths";

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

export interface Edge extends Link {
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

/** Of the 12 px monospace the labels are set in. */
const CHARACTER = 7.3;
const MARGIN = 14;
const BETWEEN_RANKS = 20;
/** Most characters of a label; the whole name is in the tooltip and the detail panel. */
export const LABEL = 26;
/**
 * Links over more ranks than this stay out of the layout. An attention mask is read by every layer: dagre would make
 * a dummy node for each rank it passes, and a picture kilometres wide.
 */
const FAR = 14;

export function layoutGraph(graph: Graph): Layout {
  const boxes = boxesOf(graph);
  const links = linksOf(graph);
  const rank = ranks(
    boxes.map((box) => box.id),
    links,
  );
  const at = (id: string) => rank.get(id) ?? 0;
  const near = links.filter((link) => at(link.to) - at(link.from) <= FAR);
  const far = links.filter((link) => at(link.to) - at(link.from) > FAR);
  const starts = bandStarts(rank, near);
  const bandOf = (id: string) => starts.findLastIndex((start) => start <= at(id));
  const bands = starts.map(() => ({ boxes: [] as Box[], links: [] as Link[] }));
  for (const box of boxes) bands[bandOf(box.id)]?.boxes.push(box);
  const crossing: Link[] = [];
  for (const link of near) {
    const band = bandOf(link.from);
    if (band === bandOf(link.to)) bands[band]?.links.push(link);
    else crossing.push(link);
  }

  const byId = new Map(boxes.map((box) => [box.id, box]));
  const edges: Edge[] = [];
  const placed = new Set<string>();
  let y = MARGIN;
  for (const band of bands) {
    const drawn = layoutBand(band.boxes, band.links);
    const dx = alignment(crossing, byId, placed, new Set(band.boxes.map((box) => box.id)));
    for (const box of band.boxes) {
      box.x += dx;
      box.y += y;
      placed.add(box.id);
    }
    for (const { from, to, points } of drawn.edges) {
      const moved = points.map((point) => ({ x: point.x + dx, y: point.y + y }));
      edges.push({ from, to, path: smooth(moved), far: false });
    }
    y += drawn.height + BETWEEN_RANKS;
  }
  for (const { from, to } of crossing) {
    edges.push({ from, to, path: descend(byId.get(from), byId.get(to)), far: false });
  }
  for (const { from, to } of far)
    edges.push({ from, to, path: arc(byId.get(from), byId.get(to)), far: true });
  const left = Math.min(...boxes.map((box) => box.x)) - MARGIN;
  const right = Math.max(...boxes.map((box) => box.x + box.width)) + MARGIN;
  shift(boxes, edges, left);
  return { boxes, edges, width: right - left, height: y + MARGIN - BETWEEN_RANKS };
}

/** Bands drift apart sideways; the picture starts at x = 0. Paths are text, hence boxes and paths move together here. */
function shift(boxes: Box[], edges: Edge[], left: number): void {
  for (const box of boxes) box.x -= left;
  for (const edge of edges) {
    edge.path = edge.path.replace(
      /(-?[\d.]+) (-?[\d.]+)/g,
      (_, x: string, y: string) => `${Number(x) - left} ${y}`,
    );
  }
}

function layoutBand(boxes: readonly Box[], links: readonly Link[]) {
  const g = new dagre.graphlib.Graph();
  g.setGraph({ rankdir: "TB", ranksep: BETWEEN_RANKS, nodesep: 14, edgesep: 8 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const box of boxes) g.setNode(box.id, { width: box.width, height: box.height });
  for (const { from, to } of links) g.setEdge(from, to);
  dagre.layout(g);
  for (const box of boxes) {
    const node = g.node(box.id);
    box.x = node.x - box.width / 2;
    box.y = node.y - box.height / 2;
  }
  const edges = links.map(({ from, to }) => {
    const points: { x: number; y: number }[] = g.edge(from, to).points ?? [];
    return { from, to, points };
  });
  return { edges, height: g.graph().height ?? 0 };
}

/** How far a band moves sideways so that, on average, what comes from above arrives straight. */
function alignment(
  crossing: readonly Link[],
  boxes: ReadonlyMap<string, Box>,
  placed: ReadonlySet<string>,
  band: ReadonlySet<string>,
): number {
  const shifts: number[] = [];
  for (const { from, to } of crossing) {
    const [above, below] = [boxes.get(from), boxes.get(to)];
    if (above === undefined || below === undefined || !placed.has(from) || !band.has(to)) continue;
    shifts.push(above.x + above.width / 2 - below.x - below.width / 2);
  }
  return shifts.length === 0 ? 0 : Math.round(shifts.reduce((sum, shift) => sum + shift, 0) / shifts.length);
}

function boxesOf(graph: Graph): Box[] {
  const names = new Map(graph.values.map((value) => [value.id, value.name || value.id]));
  const box = (id: string, kind: Box["kind"], name: string): Box => {
    const label = shorten(name);
    const height = kind === "kernel" ? 26 : 18;
    const perCharacter = kind === "kernel" ? CHARACTER : CHARACTER * 0.88;
    // Room for the verdict's glyph in front of a kernel's name.
    const width = Math.round(label.length * perCharacter + (kind === "kernel" ? 34 : 16));
    return { id, kind, label, x: 0, y: 0, width, height };
  };
  return [
    ...graph.inputs.map((id) => box(`in:${id}`, "input", names.get(id) ?? id)),
    ...graph.nodes.map((node) => box(node.id, node.kind, node.kernel)),
    ...graph.outputs.map((id, at) => {
      const name = names.get(id) ?? id;
      return box(`out:${at}:${id}`, "output", name === id ? `output ${at}` : name);
    }),
  ];
}

function linksOf(graph: Graph): Link[] {
  const source = new Map<string, string>(graph.inputs.map((id) => [id, `in:${id}`]));
  for (const node of graph.nodes) for (const id of node.outputs) source.set(id, node.id);
  const links: Link[] = [];
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
  for (const [at, value] of graph.outputs.entries()) add(value, `out:${at}:${value}`, new Set());
  return links;
}

export function shorten(name: string, most = LABEL): string {
  if (name.length <= most) return name;
  const tail = Math.floor(most / 3);
  return `${name.slice(0, most - tail - 1)}…${name.slice(-tail)}`;
}
