/** Blocks that repeat, one after the other, in the order of calls: a model's layers. Found by structure, named by weights. */

import type { Graph } from "../api/types";
import type { NodeName } from "../model/node-names";

export interface Block {
  /** "g0/3" */
  id: string;
  /** "layers.3"; "block 4 of 18" where weights have no numbers. */
  label: string;
  nodes: string[];
}

/** The same calls of kernels, several times. */
export interface Group {
  /** "g0" */
  id: string;
  /** "layers 0 to 17" */
  label: string;
  blocks: Block[];
}

/** A fold of fewer nodes hides more than it saves. */
const LEAST_BLOCK = 4;
const LEAST_SAVED = 12;

interface Repeat {
  from: number;
  period: number;
  times: number;
}

export function findGroups(graph: Graph, names: ReadonlyMap<string, NodeName>): Group[] {
  const kinds = new Map<string, number>();
  const sequence = graph.nodes.map((node) => {
    const sign = `${node.kind} ${node.kernel}`;
    const known = kinds.get(sign) ?? kinds.size;
    kinds.set(sign, known);
    return known;
  });
  const cut = crossings(graph);
  const place = (at: number) => [...(names.get(graph.nodes[at]?.id ?? "")?.places.values() ?? [])][0];
  return repeats(sequence, (repeat, to) => turned(sequence, repeat, to, cut, place)).map((repeat, at) =>
    named(`g${at}`, repeat, graph, names),
  );
}

/** Longest first, then what is left on both sides of it; in the order of the sequence. */
export function repeats(
  sequence: readonly number[],
  turn: (repeat: Repeat, to: number) => Repeat = (repeat) => repeat,
  from = 0,
  to = sequence.length,
): Repeat[] {
  const found = longest(sequence, from, to);
  if (found === null) return [];
  const best = turn(found, to);
  const end = best.from + best.period * best.times;
  return [...repeats(sequence, turn, from, best.from), best, ...repeats(sequence, turn, end, to)];
}

/** The repeat that covers most; of those that cover the same, the one with the smallest block. */
function longest(sequence: readonly number[], from: number, to: number): Repeat | null {
  let best: Repeat | null = null;
  let covered = 0;
  for (let period = LEAST_BLOCK; 2 * period <= to - from; period += 1) {
    let same = 0;
    for (let at = from; at + period <= to; at += 1) {
      if (at + period < to && sequence[at] === sequence[at + period]) {
        same += 1;
        continue;
      }
      const times = Math.floor(same / period) + 1;
      if (times > 1 && times * period > covered && (times - 1) * period >= LEAST_SAVED) {
        const begins = at - same;
        if (new Set(sequence.slice(begins, begins + period)).size > 1) {
          best = { from: begins, period, times };
          covered = times * period;
        }
      }
      same = 0;
    }
  }
  return best;
}

/** At each place of the order of calls: values that are made before it and read from it on. */
function crossings(graph: Graph): number[] {
  const made = new Map<string, number>();
  const last = new Map<string, number>();
  for (const [at, node] of graph.nodes.entries()) {
    for (const id of node.inputs) if (made.has(id)) last.set(id, at);
    for (const id of node.outputs) made.set(id, at);
  }
  const change = new Array<number>(graph.nodes.length + 1).fill(0);
  for (const [id, at] of last) {
    const from = (made.get(id) ?? 0) + 1;
    change[from] = (change[from] ?? 0) + 1;
    change[at + 1] = (change[at + 1] ?? 0) - 1;
  }
  let open = 0;
  return change.map((by) => {
    open += by;
    return open;
  });
}

/**
 * A repeat may begin at several places. Blocks begin where weights' numbers change, and where the fewest values are
 * handed on: at a residual stream, not amid attention.
 */
function turned(
  sequence: readonly number[],
  { from, period, times }: Repeat,
  to: number,
  cut: readonly number[],
  place: (at: number) => number | undefined,
): Repeat {
  let spare = 0;
  const end = from + period * times;
  while (end + spare < to && sequence[from + spare] === sequence[end + spare]) spare += 1;
  let best = from;
  let least = Infinity;
  for (let begin = from; begin <= from + Math.min(spare, period - 1); begin += 1) {
    const mixed = new Set(
      Array.from({ length: period }, (_, at) => place(begin + at)).filter((number) => number !== undefined),
    ).size;
    const cost = 1000 * mixed + (cut[begin] ?? 0);
    if (cost < least) [best, least] = [begin, cost];
  }
  return { from: best, period, times };
}

function named(id: string, repeat: Repeat, graph: Graph, names: ReadonlyMap<string, NodeName>): Group {
  const { from, period, times } = repeat;
  const parts = Array.from({ length: times }, (_, block) =>
    graph.nodes.slice(from + block * period, from + (block + 1) * period).map((node) => node.id),
  );
  const numbers = parts.map((nodes) => numbersOf(nodes, names));
  const word = numbers[0]?.word;
  const counted =
    word !== undefined &&
    numbers.every((found, at) => found.word === word && found.first > (numbers[at - 1]?.last ?? -1));
  const first = numbers[0]?.first ?? 0;
  const last = numbers.at(-1)?.last ?? 0;
  return {
    id,
    label: counted ? `${word} ${first} to ${last}` : `${times} times the same ${period} calls`,
    blocks: parts.map((nodes, at) => {
      const own = numbers[at];
      const range = own && (own.first === own.last ? `${own.first}` : `${own.first} to ${own.last}`);
      return {
        id: `${id}/${at}`,
        label: counted ? `${word}.${range}` : `block ${at + 1} of ${times}`,
        nodes,
      };
    }),
  };
}

/** The numbers in the names of a block's weights: which layers it is. */
function numbersOf(nodes: readonly string[], names: ReadonlyMap<string, NodeName>) {
  const found = nodes.flatMap((node) => [...(names.get(node)?.places ?? [])]);
  const words = new Set(found.map(([word]) => word));
  const numbers = found.map(([, number]) => number);
  const word = words.size === 1 ? [...words][0]?.split(".").at(-1) : undefined;
  return { word, first: Math.min(...numbers), last: Math.max(...numbers) };
}
