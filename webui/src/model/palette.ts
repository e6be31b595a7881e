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

/** Entries in which every word is, those that begin with the first word before others; at most so many. */
export function findEntries(entries: readonly Entry[], text: string, most = MOST): Entry[] {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const found = entries.filter((entry) => {
    const told = `${entry.kind} ${entry.name} ${entry.note}`.toLowerCase();
    return words.every((word) => told.includes(word));
  });
  const begins = (entry: Entry) => Number(entry.name.toLowerCase().startsWith(words[0] ?? ""));
  return found.sort((a, b) => begins(b) - begins(a)).slice(0, most);
}
