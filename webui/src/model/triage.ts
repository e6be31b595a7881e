/** The matrix as it is looked through: by what it is inGroups, how it is sorted, and the figures that it is sorted by. */

import type { SuiteDetail } from "../api/types";
import { shareOf } from "./headline";
import { type Cell, emptyCells, isOutdated, type KernelRow, type NodeRow, settle } from "./matrix";
import type { ResultsState } from "./results";
import { isProblem, ORDER, worst } from "./verdicts";

export const GROUPS = ["kernel", "block", "kind"] as const;
export type Group = (typeof GROUPS)[number];

/** "failures": those first, else the model's order. The figures are of one device, the largest first. */
export const SORTS = ["failures", "name", "bound", "gpu"] as const;
export type Sort = (typeof SORTS)[number];

/** Of one node, or of all of a row, on one device. */
export interface Figures {
  /** What the worst element takes of what it may differ by; null where nothing was compared. */
  bound: number | null;
  /** Seconds on the GPU of all carved calls; null without timestamps. */
  gpu: number | null;
}

const NONE: Figures = { bound: null, gpu: null };

/** A line of the matrix that opens to its nodes. */
export interface Row {
  /** The kernel's name, the block's, or the kind's. */
  name: string;
  /** Those of its nodes; one where it is inGroups by kernel. */
  kernels: KernelRow[];
  nodes: NodeRow[];
  cells: Record<string, Cell>;
  figures: Figures;
}

/** By node, on one device. */
export function figuresOf(
  suite: SuiteDetail,
  results: ResultsState,
  device: string | null,
): Map<string, Figures> {
  const found = new Map<string, Figures>();
  const verdicts = results.verdicts[device ?? ""] ?? {};
  for (const { id, node, kernel } of suite.tests) {
    const result = verdicts[id];
    if (result === undefined || isOutdated(results, device ?? "", kernel)) continue;
    found.set(node, both(found.get(node), { bound: shareOf(result), gpu: result.seconds.gpu ?? null }));
  }
  return found;
}

function both(a: Figures = NONE, b: Figures = NONE): Figures {
  return {
    bound: a.bound === null || b.bound === null ? (a.bound ?? b.bound) : Math.max(a.bound, b.bound),
    gpu: a.gpu === null || b.gpu === null ? (a.gpu ?? b.gpu) : a.gpu + b.gpu,
  };
}

/** "fused_matmul2_add" -> "fused_matmul_add": kernels of one kind differ in shapes, which compilers number. */
export function kindOf(kernel: string): string {
  return kernel.replace(/_?\d+(?=_|$)/g, "");
}

export const OUTSIDE = "outside of blocks";

/** Rows of the matrix under other heads. `blocks`: the block of each node that is in one. */
export function inGroups(
  rows: readonly KernelRow[],
  group: Group,
  blocks: ReadonlyMap<string, string>,
  figures: ReadonlyMap<string, Figures>,
  order: ReadonlyMap<string, number>,
): Row[] {
  const headOf = (row: KernelRow, node: string) =>
    group === "kernel" ? row.kernel : group === "kind" ? kindOf(row.kernel) : (blocks.get(node) ?? OUTSIDE);
  const found = new Map<string, Row>();
  for (const row of rows) {
    // Kernels that no node calls stand by themselves.
    const nodes = row.nodes.length > 0 || group === "block" ? row.nodes : [null];
    for (const node of nodes) {
      const name = headOf(row, node?.node ?? "");
      const head = found.get(name) ?? {
        name,
        kernels: [],
        nodes: [],
        cells: emptyCells(Object.keys(row.cells)),
        figures: NONE,
      };
      found.set(name, head);
      if (head.kernels.at(-1) !== row) head.kernels.push(row);
      if (node === null) continue;
      head.nodes.push(node);
      head.figures = both(head.figures, figures.get(node.node));
      for (const [device, cell] of Object.entries(node.cells)) add(head.cells[device], cell);
    }
  }
  const place = (node: NodeRow) => order.get(node.node) ?? 0;
  for (const row of found.values()) {
    settle(row.cells);
    if (group !== "kernel") row.nodes.sort((a, b) => place(a) - place(b));
  }
  const heads = [...found.values()];
  const first = (row: Row) => (row.nodes[0] === undefined ? Number.POSITIVE_INFINITY : place(row.nodes[0]));
  return group === "block" ? heads.sort((a, b) => first(a) - first(b)) : heads;
}

function add(to: Cell | undefined, cell: Cell): void {
  if (to === undefined) return;
  for (const state of ORDER) {
    to.counts[state] += cell.counts[state];
    to.former[state] += cell.former[state];
  }
}

/** What is alike stays in the order that it came in. */
export function sorted(rows: readonly Row[], sort: Sort): Row[] {
  const by = (value: (row: Row) => number) => [...rows].sort((a, b) => value(a) - value(b));
  switch (sort) {
    case "failures":
      return by((row) => Math.min(...Object.values(row.cells).map(urgency), CALM));
    case "name":
      return [...rows].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
    case "bound":
      return by((row) => -(row.figures.bound ?? -1));
    case "gpu":
      return by((row) => -(row.figures.gpu ?? -1));
  }
}

const CALM = ORDER.length;

function urgency({ state, former }: Cell): number {
  if (isProblem(state)) return ORDER.indexOf(state);
  // What failed and is being mended stays near where it was.
  const was = state === "stale" ? worst(former) : state;
  return isProblem(was) ? CALM - 0.5 : CALM;
}

/** Each figure of them together: what the share of one is of. */
export function whole(figures: ReadonlyMap<string, Figures>): Figures {
  return [...figures.values()].reduce(both, NONE);
}
