/** Operators x devices: what each cell of the matrix shows, from the suite's tests and the results so far. */

import type { GraphNode, SuiteDetail, TestRef } from "../api/types";
import { nodeNames as graphNames } from "./node-names";
import { inRange, type JobState, type ResultsState } from "./results";
import { asState, type Counts, isProblem, noCounts, type State, total, WORD, worst } from "./verdicts";

export interface Cell {
  state: State;
  counts: Counts;
  /** Of the tests that are stale: what they were. */
  former: Counts;
}

export interface NodeRow {
  node: string;
  kernel: string;
  name: string;
  cells: Record<string, Cell>;
}

export interface KernelRow {
  kernel: string;
  edited: boolean;
  unsupported: string | null;
  nodes: NodeRow[];
  tests: number;
  cells: Record<string, Cell>;
}

export interface Matrix {
  rows: KernelRow[];
  totals: Record<string, Counts>;
}

/** The state of one test on one device. */
export function testState(results: ResultsState, device: string, test: TestRef): State {
  const result = results.verdicts[device]?.[test.id];
  if (result !== undefined)
    return isOutdated(results, device, test.kernel) ? "stale" : asState(result.verdict);
  const job = results.job;
  if (!awaited(job, device, test.kernel)) return "none";
  return job?.compiling[device]?.kernel === test.kernel ? "running" : "waiting";
}

/** Whether what a device said of a kernel is of an earlier text of it. */
export function isOutdated(results: ResultsState, device: string, kernel: string): boolean {
  return results.outdated[device]?.includes(kernel) ?? false;
}

function awaited(job: JobState | null, device: string, kernel: string): boolean {
  if (job?.state !== "running" || job.kind === "offload" || job.trial || !job.devices.includes(device))
    return false;
  // A job of unknown range on a device without any result: show that something is coming.
  return job.kernels === undefined ? true : inRange(job, kernel);
}

export function buildMatrix(suite: SuiteDetail, results: ResultsState, devices: readonly string[]): Matrix {
  const byKernel = new Map<string, TestRef[]>();
  for (const test of suite.tests) {
    const tests = byKernel.get(test.kernel);
    if (tests === undefined) byKernel.set(test.kernel, [test]);
    else tests.push(test);
  }
  const names = nodeNames(suite);
  const totals = Object.fromEntries(devices.map((device) => [device, noCounts()]));
  const rows = suite.kernels.map((kernel): KernelRow => {
    const tests = byKernel.get(kernel.kernel) ?? [];
    const nodes = new Map<string, NodeRow>();
    const cells = emptyCells(devices);
    for (const test of tests) {
      let row = nodes.get(test.node);
      if (row === undefined) {
        row = {
          node: test.node,
          kernel: kernel.kernel,
          name: names.get(test.node) ?? "",
          cells: emptyCells(devices),
        };
        nodes.set(test.node, row);
      }
      for (const device of devices) {
        const state = testState(results, device, test);
        for (const counts of [row.cells[device]?.counts, cells[device]?.counts, totals[device]]) {
          if (counts !== undefined) counts[state] += 1;
        }
        const was = state === "stale" ? results.verdicts[device]?.[test.id] : undefined;
        for (const cell of was === undefined ? [] : [row.cells[device], cells[device]]) {
          if (cell !== undefined && was !== undefined) cell.former[asState(was.verdict)] += 1;
        }
      }
    }
    for (const row of nodes.values()) settle(row.cells);
    settle(cells);
    return {
      kernel: kernel.kernel,
      edited: results.kernels[kernel.kernel]?.edited ?? kernel.edited,
      unsupported: kernel.unsupported,
      nodes: [...nodes.values()],
      tests: tests.length,
      cells,
    };
  });
  return { rows, totals };
}

export function emptyCells(devices: readonly string[]): Record<string, Cell> {
  return Object.fromEntries(
    devices.map((device) => [device, { state: "none", counts: noCounts(), former: noCounts() }]),
  );
}

/** The state of each cell by its counts. */
export function settle(cells: Record<string, Cell>): void {
  for (const cell of Object.values(cells)) cell.state = worst(cell.counts);
}

/** The state of every node on one device: the colours of the graph. */
export function nodeStates(matrix: Matrix, device: string): Map<string, State> {
  const states = new Map<string, State>();
  for (const row of matrix.rows) {
    for (const node of row.nodes) states.set(node.node, node.cells[device]?.state ?? "none");
  }
  return states;
}

/** What a person would call a node: the parameter it uses tells where in the model it is. */
export function nodeNames(suite: SuiteDetail): ReadonlyMap<string, string> {
  const known = NAMES.get(suite);
  if (known !== undefined) return known;
  const values = new Map(suite.graph.values.map((value) => [value.id, value]));
  const titles = graphNames(suite.graph);
  const label = (node: GraphNode): string => {
    // As the graph has it.
    const title = titles.get(node.id)?.title ?? node.kernel;
    if (title !== node.kernel) return title;
    // Intermediate values have the compiler's names (lv33): better than nothing only.
    return node.outputs.map((id) => values.get(id)?.name ?? "").find((name) => name !== "") ?? "";
  };
  const names = new Map(suite.graph.nodes.map((node) => [node.id, label(node)]));
  NAMES.set(suite, names);
  return names;
}

/** A thousand names, which the details ask for each time that they are drawn. */
const NAMES = new WeakMap<SuiteDetail, ReadonlyMap<string, string>>();

/** Rows with the text in their kernel's or one of their nodes' names. */
export function matching(rows: readonly KernelRow[], text: string): KernelRow[] {
  const wanted = text.trim().toLowerCase();
  return rows.filter((row) => {
    if (wanted === "" || row.kernel.toLowerCase().includes(wanted)) return true;
    return row.nodes.some((node) => node.node === wanted || node.name.toLowerCase().includes(wanted));
  });
}

/** Rows that need a look on some device. */
export function troubled<T extends Pick<KernelRow, "cells">>(rows: readonly T[]): T[] {
  const wants = (state: State) => isProblem(state) || state === "unsupported" || state === "stale";
  return rows.filter((row) => Object.values(row.cells).some((cell) => wants(cell.state)));
}

/** The few words in a cell: "5 pass", "12 fail" of however many; while it runs, how many are through. */
export function cellText({ state, counts, former }: Cell): string {
  const all = total(counts);
  if (state === "stale") return `was ${WORD[worst(former)]}`;
  if (all === 1 || state === "none") return WORD[state];
  const unfinished = counts.waiting + counts.running;
  if (state === "waiting" || state === "running") return `${all - unfinished} of ${all}`;
  return `${counts[state]} ${WORD[state]}`;
}

/** The node to open for a whole row: what needs a look first, on this device if one is given. */
export function entryNode(row: Pick<KernelRow, "cells" | "nodes">, device?: string): string | undefined {
  const wanted = device === undefined ? undefined : row.cells[device]?.state;
  const found = row.nodes.find((node) =>
    wanted === undefined
      ? Object.values(node.cells).some((cell) => isProblem(cell.state))
      : node.cells[device ?? ""]?.state === wanted,
  );
  return (found ?? row.nodes[0])?.node;
}

/** Nodes with a fail or error on any device, in the order of the graph. */
export function problemNodes(suite: SuiteDetail, matrix: Matrix): string[] {
  const bad = new Set<string>();
  for (const row of matrix.rows) {
    for (const node of row.nodes) {
      if (Object.values(node.cells).some((cell) => isProblem(cell.state))) bad.add(node.node);
    }
  }
  return suite.graph.nodes.map((node) => node.id).filter((id) => bad.has(id));
}
