/** What of the graph is shown: nodes, repeated blocks folded to one box or opened, and the links between all that. */

import type { Graph } from "../api/types";
import { type NodeName, nodeNames, shapeText, titleOf } from "../model/node-names";
import type { Link } from "./bands";
import { findGroups, type Group } from "./blocks";

export interface Item {
  id: string;
  kind: "kernel" | "view" | "input" | "output" | "group" | "block";
  title: string;
  /** Below the title: the kernel and the shape, or what is folded. */
  note: string;
  /** Said after both: the id, and the whole name where the title is a part of it. */
  name: string;
  /** The nodes of the graph that it stands for. */
  nodes: readonly string[];
  /** Of a block that is open. */
  inside: Item[] | null;
}

export interface ValueLink extends Link {
  /** "float32 16 × 64" */
  type: string;
}

export interface Outline {
  /** In the order of calls. */
  items: Item[];
  /** Between innermost items. */
  links: ValueLink[];
}

/** A graph as it came, and what folds in it. */
export interface Foldable {
  graph: Graph;
  names: ReadonlyMap<string, NodeName>;
  groups: Group[];
}

/** Graphs of so many nodes are shown whole: nothing is gained by folding them. */
const SHOWN_WHOLE = 150;
/** More inputs or outputs than these stand in one box: of one node, of a folded block. */
const BUNDLE = { node: 3, block: 1 };

export function foldable(graph: Graph): Foldable {
  const names = nodeNames(graph);
  return { graph, names, groups: findGroups(graph, names) };
}

/** Ids of groups and blocks that are open when the page opens. */
export function openAtFirst({ graph, groups }: Foldable): ReadonlySet<string> {
  return new Set(graph.nodes.length <= SHOWN_WHOLE ? everything(groups) : []);
}

export function everything(groups: readonly Group[]): string[] {
  return groups.flatMap((group) => [group.id, ...group.blocks.map((block) => block.id)]);
}

/** What has to be open for a node to be seen. */
export function around(groups: readonly Group[], node: string): string[] {
  for (const group of groups)
    for (const block of group.blocks) if (block.nodes.includes(node)) return [group.id, block.id];
  return [];
}

export function outline(found: Foldable, open: ReadonlySet<string>): Outline {
  const { graph, names, groups } = found;
  const blockOf = new Map<string, { group: Group; at: number }>();
  for (const group of groups)
    for (const [at, block] of group.blocks.entries())
      for (const node of block.nodes) blockOf.set(node, { group, at });
  const items: Item[] = [];
  /** Node -> the innermost item that shows it. */
  const shownBy = new Map<string, string>();
  for (const node of graph.nodes) {
    const name = names.get(node.id) ?? { title: node.kernel, shape: "" };
    const own = blockOf.get(node.id);
    const block = own?.group.blocks[own.at];
    const whole = own === undefined || block === undefined;
    const prefix = whole ? "" : `${block.label}.`;
    const title = name.title.startsWith(prefix) ? name.title.slice(prefix.length) : name.title;
    const note = [title === node.kernel ? "" : node.kernel, name.shape].filter(Boolean).join(" · ");
    const item: Item = {
      id: node.id,
      kind: node.kind,
      title,
      note,
      name: title === name.title ? node.id : `${node.id}, ${name.title}`,
      nodes: [node.id],
      inside: null,
    };
    if (whole) items.push(item);
    else if (!open.has(own.group.id)) {
      shownBy.set(node.id, own.group.id);
      if (own.at > 0 || block.nodes[0] !== node.id) continue;
      items.push(groupItem(own.group));
      continue;
    } else {
      if (block.nodes[0] === node.id) items.push(blockItem(block, open));
      const last = items.at(-1);
      if (last?.inside === null) {
        shownBy.set(node.id, block.id);
        continue;
      }
      last?.inside?.push(item);
    }
    shownBy.set(node.id, node.id);
  }
  const links = linksOf(graph, shownBy);
  return withEnds(graph, items, links, shownBy);
}

function groupItem(group: Group): Item {
  const nodes = group.blocks.flatMap((block) => block.nodes);
  const note = `× ${group.blocks.length}, ${group.blocks[0]?.nodes.length ?? 0} calls each`;
  return {
    id: group.id,
    kind: "group",
    title: group.label,
    note,
    name: "folded blocks",
    nodes,
    inside: null,
  };
}

function blockItem(block: Group["blocks"][number], open: ReadonlySet<string>): Item {
  const note = `${block.nodes.length} calls`;
  const inside = open.has(block.id) ? [] : null;
  const { id, label: title, nodes } = block;
  return { id, kind: "block", title, note, name: "folded block", nodes, inside };
}

/** Of each value one link from where it is made to each that reads it; none within one item. */
function linksOf(graph: Graph, shownBy: ReadonlyMap<string, string>): ValueLink[] {
  const source = new Map<string, string>();
  for (const node of graph.nodes)
    for (const id of node.outputs) source.set(id, shownBy.get(node.id) ?? node.id);
  const types = new Map(graph.values.map((value) => [value.id, `${value.dtype} ${shapeText(value.shape)}`]));
  const links = new Map<string, ValueLink>();
  for (const node of graph.nodes) {
    const to = shownBy.get(node.id) ?? node.id;
    for (const value of node.inputs) {
      const from = source.get(value);
      // Parameters have no source. What reads several values of one item has one link to it.
      if (from === undefined || from === to || links.has(`${from} ${to}`)) continue;
      links.set(`${from} ${to}`, { from, to, type: types.get(value) ?? "" });
    }
  }
  return [...links.values()];
}

/** Inputs above all else and outputs below; where many of them belong to one item, as one box. */
function withEnds(
  graph: Graph,
  items: Item[],
  links: ValueLink[],
  shownBy: ReadonlyMap<string, string>,
): Outline {
  const values = new Map(graph.values.map((value) => [value.id, value]));
  const named = (id: string) => titleOf(values.get(id)?.name || id);
  const type = (id: string) => {
    const value = values.get(id);
    return value === undefined ? "" : `${value.dtype} ${shapeText(value.shape)}`;
  };
  const readers = new Map<string, Set<string>>();
  const makers = new Map<string, string>();
  const calls = new Map<string, number>();
  for (const node of graph.nodes) {
    const item = shownBy.get(node.id) ?? node.id;
    for (const id of new Set(node.inputs)) calls.set(id, (calls.get(id) ?? 0) + 1);
    for (const id of node.inputs) readers.set(id, (readers.get(id) ?? new Set()).add(item));
    for (const id of node.outputs) makers.set(id, item);
  }
  const box = (kind: "input" | "output", id: string, ids: readonly string[]): Item => {
    const name = named(ids[0] ?? "");
    const first = kind === "output" && name === ids[0] ? "output" : name;
    const title = ids.length > 1 ? `${first} and ${ids.length - 1} more` : first;
    return { id, kind, title, note: type(ids[0] ?? ""), name: "", nodes: [], inside: null };
  };
  const folded = new Set(items.filter((item) => item.nodes.length > 1).map((item) => item.id));
  const ends = (kind: "input" | "output", ids: readonly string[], partners: (id: string) => string[]) => {
    const made: Item[] = [];
    const bundles = new Map<string, string[]>();
    for (const id of ids) {
      const key = partners(id).sort().join(" ");
      // What many calls read, such as a mask, stands by itself.
      const own = (calls.get(id) ?? 0) > 1 ? `${key}|${id}` : `${key}|`;
      bundles.set(own, [...(bundles.get(own) ?? []), id]);
    }
    for (const [own, members] of bundles) {
      const key = own.slice(0, own.indexOf("|"));
      const most = folded.has(key) ? BUNDLE.block : BUNDLE.node;
      const parts = members.length > most && key !== "" ? [members] : members.map((id) => [id]);
      for (const part of parts) {
        const id = `${kind === "input" ? "in" : "out"}:${part[0] ?? ""}`;
        made.push(box(kind, id, part));
        for (const partner of key.split(" ").filter(Boolean)) {
          const ends = kind === "input" ? { from: id, to: partner } : { from: partner, to: id };
          links.push({ ...ends, type: type(part[0] ?? "") });
        }
      }
    }
    return made;
  };
  /** What belongs to one open block only stands in it. */
  const blockOf = new Map(items.flatMap((item) => (item.inside ?? []).map((inner) => [inner.id, item])));
  const settled = (end: Item, place: "front" | "back") => {
    const partners = links.flatMap(({ from, to }) => (from === end.id ? [to] : to === end.id ? [from] : []));
    const blocks = new Set(partners.map((partner) => blockOf.get(partner)));
    const [block] = blocks;
    if (blocks.size !== 1 || !block?.inside) return true;
    if (place === "front") block.inside.unshift(end);
    else block.inside.push(end);
    return false;
  };
  const inputs = ends("input", graph.inputs, (id) => [...(readers.get(id) ?? [])]);
  const given = new Set(graph.inputs);
  const outputs = ends("output", [...new Set(graph.outputs)], (id) => {
    const maker = makers.get(id) ?? (given.has(id) ? `in:${id}` : undefined);
    return maker === undefined ? [] : [maker];
  });
  const above = inputs.filter((end) => settled(end, "front"));
  return { items: [...above, ...items, ...outputs.filter((end) => settled(end, "back"))], links };
}

/** Nodes in whose id, kernel or name the text is, in the order of calls. */
export function matching({ graph, names }: Foldable, text: string): string[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return [];
  return graph.nodes
    .filter((node) =>
      [node.id, node.kernel, names.get(node.id)?.title ?? ""].some((part) =>
        part.toLowerCase().includes(wanted),
      ),
    )
    .map((node) => node.id);
}
