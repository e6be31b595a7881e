/** What an address asks for that a suite does not have: somebody mistyped it, or the suite was carved again. */

import type { SuiteDetail } from "../api/types";

export interface Unknown {
  /** The part of the query that asks for it. */
  name: string;
  sentence: string;
  /** What there is instead. */
  instead: { node: string; word: string } | null;
}

/** `test` and `kernel` name a node by something else. */
export interface Asked {
  node: string | null;
  test: string | null;
  kernel: string | null;
  device: string | null;
}

/** The query that shows what `test` or `kernel` asks for, in the place of them; null where neither is there. */
export function resolved(suite: SuiteDetail, asked: Asked): Record<string, string | null> | null {
  const test = suite.tests.find(({ id }) => id === asked.test);
  if (test !== undefined)
    return { test: null, node: test.node, step: test.step === 0 ? null : String(test.step) };
  const node = suite.graph.nodes.find(({ kind, kernel }) => kind === "kernel" && kernel === asked.kernel);
  return node === undefined ? null : { kernel: null, node: node.id };
}

/** A part of the address that is one of a few words. */
export interface Choice {
  name: string;
  /** In words: "view". */
  what: string;
  wanted: string | null;
  there: readonly string[];
}

export function unknownChoices(choices: readonly Choice[]): Unknown[] {
  return choices.flatMap(({ name, what, wanted, there }) => {
    if (wanted === null || there.includes(wanted)) return [];
    const known = there.length > 0 ? `: there ${there.length > 1 ? "are" : "is"} ${named(there)}` : "";
    return [{ name, sentence: `This page has no ${what} ${wanted}${known}.`, instead: null }];
  });
}

function named(names: readonly string[]): string {
  const shown = names.slice(0, MOST_NAMED).join(", ");
  return names.length > MOST_NAMED ? `${shown}, …` : shown;
}

const MOST_NAMED = 8;

/** `devices`: those with results; null while they are not known. */
export function unknownOf(suite: SuiteDetail, devices: readonly string[] | null, asked: Asked): Unknown[] {
  const { nodes } = suite.graph;
  const found: Unknown[] = [];
  const missing = (name: keyof Asked, what: string, there: readonly string[]) => {
    const wanted = asked[name];
    if (wanted === null || there.includes(wanted)) return;
    found.push({ name, sentence: `This suite has no ${what} ${wanted}.`, instead: nearest(wanted) });
  };
  /** Ids of tests begin with their node's, and a kernel of another carving often has a longer name. */
  const nearest = (wanted: string) => {
    const like = wanted.toLowerCase();
    const node = nodes.find(
      ({ id, kernel, kind }) =>
        kind === "kernel" &&
        (like.startsWith(`${id.toLowerCase()}.`) ||
          kernel.toLowerCase() === like ||
          (like.length > 2 && (kernel.toLowerCase().includes(like) || like.includes(kernel.toLowerCase())))),
    );
    return node === undefined ? null : { node: node.id, word: `${node.kernel} (${node.id})` };
  };
  missing(
    "node",
    "node",
    nodes.map(({ id }) => id),
  );
  missing(
    "test",
    "test",
    suite.tests.map(({ id }) => id),
  );
  missing(
    "kernel",
    "kernel",
    suite.kernels.map(({ kernel }) => kernel),
  );
  if (devices !== null && asked.device !== null && !devices.includes(asked.device)) {
    const sentence = `There are no results of a device ${asked.device} here.`;
    found.push({ name: "device", sentence, instead: null });
  }
  return found;
}
