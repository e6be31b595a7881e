/** Where the boxes of the graph picture go. Pure; run in a worker (worker.ts), so that the page stays usable. */

import dagre from "@dagrejs/dagre";
import { bandStarts, type Link, ranks } from "./bands";
import type { Item, Outline, ValueLink } from "./outline";
import { arc, descend, type Point, pathOf } from "./paths";

export interface Box {
  id: string;
  kind: Item["kind"];
  title: string;
  note: string;
  /** Said after both: they are what is seen, and may be cut off. */
  name: string;
  /** The nodes of the graph that it stands for. */
  nodes: readonly string[];
  /** Top left. */
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Around a block that is open. */
export interface Frame {
  id: string;
  title: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Edge extends Link {
  path: string;
  /** Spans many ranks: drawn only for the selected node, or it would hide the rest. */
  far: boolean;
  /** "float32 16 × 64", and where that stands. */
  type: string;
  x: number;
  y: number;
  /** What it covers of the height. */
  top: number;
  bottom: number;
}

export interface Layout {
  /** In the order of calls. */
  boxes: Box[];
  frames: Frame[];
  edges: Edge[];
  width: number;
  height: number;
}

/** Of the 12 px monospace of titles, and the 10.5 px of notes. */
const CHARACTER = 7.3;
const SMALL = 6.4;
const MARGIN = 14;
const BETWEEN_RANKS = 30;
/** Around what is in a frame; above it stands its title. */
const PADDING = 12;
/** From a folded block to the inputs and outputs beside it. */
const BESIDE = 18;
const TITLE = 24;
/** Most characters of a line; the whole name is in the detail panel. */
export const LABEL = 34;
/**
 * Links over more ranks than this stay out of the layout. An attention mask is read by every layer: dagre would make
 * a dummy node for each rank it passes, and a picture kilometres wide.
 */
const FAR = 14;
/** Of a value with more readers than this only the links to the nearest of them are in the layout, for the same reason. */
const READERS = 4;

interface Placed {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Points of a link, by what it is drawn with. */
interface Drawn extends ValueLink {
  points: Point[];
  far: boolean;
}

export function layoutOutline({ items, links }: Outline): Layout {
  const ownerOf = new Map<string, string>();
  for (const item of items) for (const inner of item.inside ?? []) ownerOf.set(inner.id, item.id);
  const outerOf = (id: string) => ownerOf.get(id) ?? id;

  const beside = endsBeside(items, links);
  const rooms = new Map(items.map((item) => [item.id, room(item, links, outerOf)]));
  const isBeside = new Set([...beside.values()].flatMap(({ left, right }) => [left?.id, right?.id]));
  const sizes = items
    .filter((item) => !isBeside.has(item.id))
    .map((item) => {
      const inner = rooms.get(item.id) ?? null;
      const size = sizeOf(item, inner);
      const side = besideWidth(beside.get(item.id));
      return { id: item.id, ...size, width: size.width + 2 * side, ...(inner && { deep: inner.deep }) };
    });
  const outer = placed(sizes, joined(links, outerOf));

  const boxes: Box[] = [];
  const frames: Frame[] = [];
  const drawn: Drawn[] = [];
  const at = new Map<string, Placed>();
  for (const item of items) {
    const whole = outer.at.get(item.id);
    if (whole === undefined) continue;
    const sides = beside.get(item.id);
    const side = besideWidth(sides);
    const place = { ...whole, x: whole.x + side, width: whole.width - 2 * side };
    at.set(item.id, place);
    for (const [end, sign] of [[sides?.left, -1] as const, [sides?.right, 1] as const]) {
      if (end === undefined) continue;
      const { width, height } = sizeOf(end, null);
      const x = sign < 0 ? place.x - BESIDE - width : place.x + place.width + BESIDE;
      const own = { x, y: place.y + (place.height - height) / 2, width, height };
      boxes.push(box(end, own));
      drawn.push(straight(end.id, own, item.id, place, sign));
    }
    const inner = rooms.get(item.id) ?? null;
    if (inner === null) {
      boxes.push(box(item, place));
      continue;
    }
    const { id, title } = item;
    frames.push({ id, title, ...place });
    const move = { x: place.x + PADDING, y: place.y + TITLE };
    for (const child of item.inside ?? []) {
      const own = inner.at.get(child.id);
      if (own === undefined) continue;
      const moved = { ...own, x: own.x + move.x, y: own.y + move.y };
      at.set(child.id, moved);
      boxes.push(box(child, moved));
    }
    for (const [port, own] of inner.at)
      if (isPort(port)) at.set(`${id} ${port}`, { ...own, x: own.x + move.x, y: own.y + move.y });
    for (const edge of inner.edges) {
      const points = edge.points.map((point) => ({ x: point.x + move.x, y: point.y + move.y }));
      drawn.push({ ...edge, points });
    }
  }
  drawn.push(...between(links, outerOf, outer, at));
  return { ...moved(boxes, frames, drawn), ...extent(outer) };
}

interface Beside {
  left?: Item;
  right?: Item;
}

/** Inputs and outputs of one folded block stand beside it, for blocks to stand one below the other. */
function endsBeside(items: readonly Item[], links: readonly Link[]): Map<string, Beside> {
  const folded = new Set(
    items.filter(({ kind, inside }) => isFold(kind) && inside === null).map(({ id }) => id),
  );
  const partners = new Map<string, string[]>();
  for (const { from, to } of links) {
    if (from.startsWith("in:")) partners.set(from, [...(partners.get(from) ?? []), to]);
    if (to.startsWith("out:")) partners.set(to, [...(partners.get(to) ?? []), from]);
  }
  const found = new Map<string, Beside>();
  for (const item of items) {
    const [partner, other] = partners.get(item.id) ?? [];
    if (partner === undefined || other !== undefined || !folded.has(partner)) continue;
    const side = item.kind === "input" ? "left" : "right";
    // One on each side: others stand above and below.
    found.set(partner, { [side]: item, ...found.get(partner) });
  }
  return found;
}

function isFold(kind: Item["kind"]): boolean {
  return kind === "group" || kind === "block";
}

/** The same on both sides: links come to the middle. */
function besideWidth(beside: Beside | undefined): number {
  const widths = [beside?.left, beside?.right].map((end) => (end ? sizeOf(end, null).width + BESIDE : 0));
  return largest(widths);
}

function straight(end: string, own: Placed, item: string, place: Placed, sign: 1 | -1): Drawn {
  const y = place.y + place.height / 2;
  const points = [
    { x: sign < 0 ? own.x + own.width : place.x + place.width, y },
    { x: sign < 0 ? place.x : own.x, y },
  ];
  const ends = sign < 0 ? { from: end, to: item } : { from: item, to: end };
  return { ...ends, type: "", points, far: false };
}

/** Links between outer items, by dagre's points where both ends are boxes, else from port to port. */
function between(
  links: readonly ValueLink[],
  outerOf: (id: string) => string,
  outer: Positions,
  at: ReadonlyMap<string, Placed>,
): Drawn[] {
  const routed = new Map(outer.edges.map((edge) => [`${edge.from} ${edge.to}`, edge]));
  const seen = new Set<string>();
  const found: Drawn[] = [];
  for (const link of links) {
    const [from, to] = [outerOf(link.from), outerOf(link.to)];
    if (from === to) continue;
    const route = routed.get(`${from} ${to}`);
    const far = route === undefined || route.far;
    const start = from === link.from ? from : `${from} ${port("out", link.from)}`;
    const end = to === link.to ? to : `${to} ${port("in", link.from)}`;
    const [above, below] = [at.get(start), at.get(end)];
    if (above === undefined || below === undefined) continue;
    // What leaves a frame, or enters one, at one port is drawn once up to there; told of every node that it touches.
    const known = seen.has(`${start} ${end}`) && start !== from;
    seen.add(`${start} ${end}`);
    const straight = start === from && end === to && !far && route.points.length > 0;
    const points = straight ? route.points : far ? arc(above, below) : descend(above, below);
    if (!known || end === to) found.push({ ...link, points, far });
  }
  return found;
}

type Port = `in ${string}` | `out ${string}`;

function port(way: "in" | "out", id: string): Port {
  return `${way} ${id}`;
}

function isPort(id: string): id is Port {
  return id.startsWith("in ") || id.startsWith("out ");
}

interface Positions {
  at: Map<string, Placed>;
  edges: Drawn[];
  /** Ranks, one below the other. */
  deep: number;
}

/** What is in a frame, by itself. What comes from outside and goes there has a port at the frame's edge. */
function room(item: Item, links: readonly ValueLink[], outerOf: (id: string) => string): Positions | null {
  if (item.inside === null) return null;
  const sizes = item.inside.map((inner) => ({ id: inner.id, ...sizeOf(inner, null) }));
  const own: ValueLink[] = [];
  const ports = new Map<string, ValueLink>();
  for (const link of links) {
    const [from, to] = [outerOf(link.from) === item.id, outerOf(link.to) === item.id];
    if (from && to) own.push(link);
    else if (to) ports.set(`${port("in", link.from)} ${link.to}`, { ...link, from: port("in", link.from) });
    else if (from) ports.set(port("out", link.from), { ...link, to: port("out", link.from) });
  }
  const entering = new Set([...ports.values()].flatMap(({ from, to }) => [from, to]).filter(isPort));
  const none = { width: 1, height: 1 };
  const all = [
    ...[...entering].filter((id) => id.startsWith("in ")).map((id) => ({ id, ...none })),
    ...sizes,
    ...[...entering].filter((id) => id.startsWith("out ")).map((id) => ({ id, ...none })),
  ];
  return placed(all, [...own, ...ports.values()]);
}

/** Links between outer items, each once. */
function joined(links: readonly ValueLink[], outerOf: (id: string) => string): ValueLink[] {
  const found = new Map<string, ValueLink>();
  for (const link of links) {
    const [from, to] = [outerOf(link.from), outerOf(link.to)];
    if (from !== to && !found.has(`${from} ${to}`)) found.set(`${from} ${to}`, { ...link, from, to });
  }
  return [...found.values()];
}

/** `deep`: of an open block how many ranks stand in it. */
type Sized = { id: string; width: number; height: number; deep?: number };

/** Positions from 0, 0 on. `sizes` come in topological order. */
function placed(sizes: readonly Sized[], links: readonly ValueLink[]): Positions {
  const known = new Set(sizes.map(({ id }) => id));
  const valid = links.filter(({ from, to }) => known.has(from) && known.has(to));
  const rank = ranks(
    sizes.map(({ id }) => id),
    valid,
  );
  const rankOf = (id: string) => rank.get(id) ?? 0;
  const isFar = farLinks(sizes, valid);
  const near = valid.filter((link) => !isFar(link));
  const starts = bandStarts(rank, near);
  const bandOf = (id: string) => starts.findLastIndex((start) => start <= rankOf(id));
  const bands = starts.map(() => ({ sizes: [] as Sized[], links: [] as ValueLink[] }));
  for (const size of sizes) bands[bandOf(size.id)]?.sizes.push(size);
  const crossing: ValueLink[] = [];
  for (const link of near) {
    const band = bandOf(link.from);
    if (band === bandOf(link.to)) bands[band]?.links.push(link);
    else crossing.push(link);
  }
  const at = new Map<string, Placed>();
  const edges: Drawn[] = [];
  let y = 0;
  for (const band of bands) {
    const drawn = layoutBand(band.sizes, band.links);
    const dx = alignment(crossing, at, drawn.at);
    for (const [id, place] of drawn.at) at.set(id, { ...place, x: place.x + dx, y: place.y + y });
    for (const edge of drawn.edges) {
      const points = edge.points.map((point) => ({ x: point.x + dx, y: point.y + y }));
      edges.push({ ...edge, points });
    }
    y += drawn.height + BETWEEN_RANKS;
  }
  for (const link of crossing) {
    const [from, to] = [at.get(link.from), at.get(link.to)];
    if (from && to) edges.push({ ...link, points: descend(from, to), far: false });
  }
  for (const link of valid.filter(isFar)) {
    const [from, to] = [at.get(link.from), at.get(link.to)];
    if (from && to) edges.push({ ...link, points: arc(from, to), far: true });
  }
  // Bands drift apart sideways.
  const left = Math.min(0, ...[...at.values()].map((place) => place.x));
  for (const [id, place] of at) at.set(id, { ...place, x: place.x - left });
  for (const edge of edges) for (const point of edge.points) point.x -= left;
  return { at, edges, deep: 1 + largest([...rank.values()]) };
}

/** Which links stay out of the layout, by ranks that count what stands in open blocks. */
function farLinks(sizes: readonly Sized[], links: readonly Link[]): (link: Link) => boolean {
  const into = new Map<string, Link[]>();
  for (const link of links) into.set(link.to, [...(into.get(link.to) ?? []), link]);
  const deep = new Map(sizes.map((size) => [size.id, size.deep ?? 1]));
  const below = new Map<string, number>();
  for (const { id } of sizes) {
    const above = (into.get(id) ?? []).map(({ from }) => (below.get(from) ?? 0) + (deep.get(from) ?? 1));
    below.set(id, largest(above));
  }
  // What reads nothing stands above its first reader, wherever that is.
  const span = ({ from, to }: Link) => (below.get(to) ?? 0) - (below.get(from) ?? 0) - (deep.get(from) ?? 1);
  const nearest = new Map<string, number>();
  const readers = new Map<string, number>();
  for (const link of links) {
    nearest.set(link.from, Math.min(nearest.get(link.from) ?? Infinity, span(link)));
    readers.set(link.from, (readers.get(link.from) ?? 0) + 1);
  }
  return (link) => {
    const further = span(link) - (nearest.get(link.from) ?? 0);
    const reads = (readers.get(link.from) ?? 0) > READERS;
    const given = !into.has(link.from);
    return further > 0 && reads ? true : (given ? further : span(link)) >= FAR;
  };
}

function layoutBand(sizes: readonly Sized[], links: readonly ValueLink[]) {
  const g = new dagre.graphlib.Graph();
  g.setGraph({ rankdir: "TB", ranksep: BETWEEN_RANKS, nodesep: 14, edgesep: 8 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const { id, width, height } of sizes) g.setNode(id, { width, height });
  // What is handed from call to call runs straight down, and inputs and outputs stand beside it.
  for (const { from, to } of links) g.setEdge(from, to, { weight: isEnd(from) || isEnd(to) ? 1 : 4 });
  dagre.layout(g);
  const at = new Map<string, Placed>();
  for (const { id, width, height } of sizes) {
    const node = g.node(id);
    at.set(id, { x: node.x - width / 2, y: node.y - height / 2, width, height });
  }
  const edges = links.map((link): Drawn => {
    const points: Point[] = g.edge(link.from, link.to).points ?? [];
    return { ...link, points: points.map(({ x, y }) => ({ x, y })), far: false };
  });
  return { at, edges, height: g.graph().height ?? 0 };
}

function isEnd(id: string): boolean {
  return id.startsWith("in:") || id.startsWith("out:") || isPort(id);
}

/** How far a band moves sideways so that, on average, what comes from above arrives straight. */
function alignment(
  crossing: readonly Link[],
  above: ReadonlyMap<string, Placed>,
  band: ReadonlyMap<string, Placed>,
): number {
  const shifts: number[] = [];
  for (const { from, to } of crossing) {
    const [source, target] = [above.get(from), band.get(to)];
    if (source === undefined || target === undefined) continue;
    shifts.push(source.x + source.width / 2 - target.x - target.width / 2);
  }
  return shifts.length === 0 ? 0 : Math.round(shifts.reduce((sum, shift) => sum + shift, 0) / shifts.length);
}

function sizeOf(item: Item, inner: Positions | null): { width: number; height: number } {
  if (inner !== null) {
    const { width, height } = extent(inner);
    const title = 60 + shorten(item.title).length * CHARACTER;
    return {
      width: Math.max(title, width - 2 * MARGIN + 2 * PADDING),
      height: height - 2 * MARGIN + TITLE + PADDING,
    };
  }
  const ends = item.kind === "input" || item.kind === "output";
  const title =
    (shorten(item.title).length + (isFold(item.kind) ? 2 : 0)) *
    (ends || item.kind === "view" ? SMALL : CHARACTER);
  const note = shortNote(item.note).length * SMALL;
  // Room for the verdict's glyph in front of the lines.
  const before = ends || item.kind === "view" ? 16 : 36;
  const height = item.kind === "view" || item.note === "" ? 22 : ends ? 32 : 38;
  return { width: Math.round(Math.max(title, item.kind === "view" ? 0 : note) + before), height };
}

function box(item: Item, place: Placed): Box {
  const { id, kind, nodes } = item;
  const [title, note] = [shorten(item.title), shortNote(item.note)];
  const whole = [item.title, item.note].filter((text) => text !== title && text !== note);
  return { id, kind, title, note, name: [item.name, ...whole].join(", "), nodes, ...place };
}

function extent({ at, edges }: Positions): { width: number; height: number } {
  const right = [...at.values()].map(({ x, width }) => x + width);
  const low = [...at.values()].map(({ y, height }) => y + height);
  const bends = edges.filter((edge) => !edge.far).flatMap((edge) => edge.points.map(({ x }) => x));
  return { width: largest([...right, ...bends]) + 2 * MARGIN, height: largest(low) + 2 * MARGIN };
}

/** Without an argument for each: there may be a hundred thousand. */
function largest(numbers: readonly number[]): number {
  return numbers.reduce((most, number) => Math.max(most, number), 0);
}

/** Everything by the margin to the right and down, and links as paths. */
function moved(boxes: readonly Box[], frames: readonly Frame[], drawn: readonly Drawn[]) {
  const by = <T extends Point>(part: T): T => ({ ...part, x: part.x + MARGIN, y: part.y + MARGIN });
  const edges = drawn.map(({ from, to, type, far, points }): Edge => {
    const own = points.map(by);
    const ys = own.map((point) => point.y);
    const [start, next] = [own[0] ?? { x: 0, y: 0 }, own[1] ?? { x: 0, y: 0 }];
    return {
      from,
      to,
      type,
      far,
      path: pathOf(own, far),
      x: (start.x + next.x) / 2,
      y: (start.y + next.y) / 2,
      top: Math.min(...ys),
      bottom: Math.max(...ys),
    };
  });
  return { boxes: boxes.map(by), frames: frames.map(by), edges };
}

export function shorten(name: string, most = LABEL): string {
  if (name.length <= most) return name;
  const tail = Math.floor(most / 3);
  return `${name.slice(0, most - tail - 1)}…${name.slice(-tail)}`;
}

/** "fused_strided_sl…add · 1 × 16 × 384": the name is shortened, never the shape behind it. */
export function shortNote(note: string): string {
  const at = note.lastIndexOf(SEPARATOR);
  if (at < 0) return shorten(note);
  const shape = note.slice(at);
  return shorten(note.slice(0, at), Math.max(LEAST_NAME, LABEL - shape.length)) + shape;
}

/** Between a kernel's name and the shape of what it gives. */
export const SEPARATOR = " · ";
const LEAST_NAME = 9;
