/** What boxes of the graph stand for, as a colour and in words. */

import { type Counts, describe, isProblem, noCounts, type State, WORD, worst } from "../model/verdicts";
import type { Box } from "./layout";
import type { NodeStates, View } from "./types";

/** Of nodes for which there are other words than their state's: what an offload did with them. */
export type NodeWords = ReadonlyMap<string, string>;

/** The worst of what a box stands for. */
export function stateOf(box: Box, states: NodeStates): State {
  return box.nodes.length === 1 ? (states.get(box.nodes[0] ?? "") ?? "none") : worst(countsOf(box, states));
}

/** Graph and legend say the same. */
export function nodeWord(node: string, state: State, view: View, words: NodeWords): string {
  return (state === "stale" ? undefined : words.get(node)) ?? stateWord(state, view);
}

/** "moved"; of a folded box "2 stayed: operator fail, 10 moved". */
export function boxWords(box: Box, states: NodeStates, view: View, words: NodeWords): string {
  const [first = ""] = box.nodes;
  if (box.nodes.length === 1) return nodeWord(first, states.get(first) ?? "none", view, words);
  if (view !== "offload") return describe(countsOf(box, states));
  const counts = new Map<string, number>();
  for (const node of box.nodes) {
    const state = states.get(node);
    if (state === undefined) continue;
    const word = nodeWord(node, state, view, words);
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return [...counts].map(([word, count]) => `${count} ${word}`).join(", ");
}

/** Views have no state. */
function countsOf(box: Box, states: NodeStates): Counts {
  const counts = noCounts();
  for (const node of box.nodes) {
    const state = states.get(node);
    if (state !== undefined) counts[state] += 1;
  }
  return counts;
}

function stateWord(state: State, view: View): string {
  if (view !== "offload") return WORD[state];
  if (state === "pass") return "moved";
  if (isProblem(state) || state === "unsupported") return "stayed";
  if (state === "stale") return WORD.stale;
  return state === "waiting" || state === "running" ? "waiting" : "not moved";
}
