/** What Ctrl-K finds: nodes, kernels, tests, devices and what can be done. */

import type { SuiteDetail } from "../api/types";
import { count } from "./format";
import { nodeNames } from "./node-names";

export interface Entry {
  kind: "action" | "kernel" | "node" | "test" | "device";
  /** What is searched and shown. */
  name: string;
  /** Beside it: a node's kernel, a test's step. */
  note: string;
  run: () => void;
}

/** Most that are listed. */
const MOST = 50;

export function suiteEntries(suite: SuiteDetail, select: (node: string) => void): Entry[] {
  const names = nodeNames(suite.graph);
  const entry = (kind: Entry["kind"], name: string, note: string, node: string): Entry => ({
    kind,
    name,
    note,
    run: () => select(node),
  });
  const first = new Map([...suite.graph.nodes].reverse().map((node) => [node.kernel, node.id]));
  return [
    ...suite.kernels.flatMap(({ kernel, nodes }) => {
      const node = first.get(kernel);
      return node === undefined ? [] : [entry("kernel", kernel, count(nodes, "node"), node)];
    }),
    ...suite.graph.nodes.map((node) => {
      const { title, shape } = names.get(node.id) ?? { title: node.kernel, shape: "" };
      const own = title === node.kernel ? node.id : `${node.id} ${title}`;
      return entry("node", own, [node.kernel, shape].filter(Boolean).join(" · "), node.id);
    }),
    ...suite.tests.map((test) => entry("test", test.id, `${test.kernel}, step ${test.step}`, test.node)),
  ];
}

/**
 * Entries in which every word is: those that begin with the first word before others, and those whose names have more of
 * the words, as words of their own first ("3" is layer.3's, and not that of 1 × 384). At most so many.
 */
export function findEntries(entries: readonly Entry[], text: string, most = MOST): Entry[] {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const found = entries.filter((entry) => {
    const told = `${entry.kind} ${entry.name} ${entry.note}`.toLowerCase();
    return words.every((word) => told.includes(word));
  });
  const ranked = found.map((entry) => ({ entry, rank: rankOf(entry.name.toLowerCase(), words) }));
  return ranked
    .sort((a, b) => b.rank - a.rank)
    .slice(0, most)
    .map(({ entry }) => entry);
}

function rankOf(name: string, words: readonly string[]): number {
  const parts = new Set(name.split(/[^a-z0-9]+/));
  const within = words.reduce((sum, word) => sum + (parts.has(word) ? 2 : name.includes(word) ? 1 : 0), 0);
  return 2 * within + Number(name.startsWith(words[0] ?? ""));
}
