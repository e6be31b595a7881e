import type { Node } from "./trie";

/** How much is remembered at most: nodes of sets, moves and names, some 5 MB. */
const MOST = 500_000;
/** Fewer events than this to a move that was worked out: remembering does not pay. */
const PAYS = 4;
/** For so many events nothing is remembered then. */
const REST = 50_000;

/** Nodes that are pending together, and where events lead from there. */
export class NodeSet {
  /**
   * Where an event leads by an id that nodes go on with; null: that has not been worked out. None where nothing is
   * remembered.
   */
  byId: Map<number, NodeSet | null> | null = null;
  /** By any other event: null is nowhere. */
  otherwise: NodeSet | null | undefined;
  /** The same where nodes go on with no id, once it is known: any event leads there. */
  always: NodeSet | null | undefined;
  /** All of these by the number of the id, as far as they are known. */
  known: (NodeSet | null | undefined)[] | null = null;
  /** How often it was not in there. */
  missed = 0;
  /** Where the page of an event leads, by the number of its id. */
  byPage: Map<number, NodeSet | null> | null = null;
  /** The page that was asked for last, and where it leads: pages seldom change. */
  page = 0;
  pageLeads: NodeSet | null = null;
  /** Whether events lead on from it, and whether nothing is complete and no `**` begins to wait. */
  readonly leads: boolean;
  readonly quiet: boolean;
  /** The triggers that are complete here, sorted. */
  readonly fires: readonly string[];
  /** The `**` that are reached with it, until they wait. */
  opens: Node[] | null;

  /** Of `nodes` those that events lead on from. */
  readonly leading: Node[];

  /** `nodes` are all that were reached. */
  constructor(nodes: readonly Node[]) {
    this.leading = nodes.filter((node) => node.leads);
    this.fires = Object.freeze(nodes.flatMap(({ ends }) => [...ends]).sort());
    const gaps = nodes.flatMap(({ gap }) => gap ?? []);
    this.opens = gaps.length > 0 ? gaps : null;
    this.quiet = this.fires.length === 0 && gaps.length === 0;
    this.leads = this.leading.length > 0;
  }
}

/**
 * Where events lead from sets of nodes: a deterministic automaton that is made as it is used. What is remembered is
 * bounded; what does not fit is forgotten, all of it, and where most moves are new ones (sets may be as many as there are
 * sequences of events) it rests, so that it costs little where it does not help.
 */
export class Moves {
  /** How many there were. */
  events = 0;
  private readonly sets = new Map<string, NodeSet>();
  private weight = 0;
  private made = 0;
  /** The event with which all was forgotten last, and that up to which it rests. */
  private since = 0;
  private rests = 0;

  /** What may begin with any event: the nodes of the static pending list. Moves from it are remembered even where it rests. */
  readonly source: NodeSet;

  constructor(
    /** A number for each id that nodes have, from 1. */
    readonly symbols: ReadonlyMap<string, number>,
    nodes: readonly Node[],
    private readonly most = MOST,
  ) {
    this.source = new NodeSet(nodes);
    this.forget(this.source);
  }

  /** The set of these: all that were reached. Null for none. */
  set(nodes: readonly Node[]): NodeSet | null {
    if (nodes.length === 0) return null;
    if (this.events < this.rests) return new NodeSet(nodes);
    const key = nodes.map(({ number }) => number).join();
    let set = this.sets.get(key);
    if (set === undefined) {
      set = new NodeSet(nodes);
      this.sets.set(key, set);
      this.forget(set);
      this.weight += 8 + nodes.length + set.fires.length + (set.byId?.size ?? 0);
    }
    return set;
  }

  /** Moves from `set` are worked out anew, and remembered. */
  private forget(set: NodeSet): void {
    set.byId = new Map();
    set.byPage = null;
    set.page = 0;
    set.otherwise = undefined;
    set.known = null;
    set.missed = 0;
    for (const node of set.leading) this.goesOn(set.byId, node);
  }

  /** This node is one of the source, too. */
  begin(node: Node): void {
    const { source } = this;
    source.leading.push(node);
    if (node.any !== null) this.forget(source);
    else if (source.byId !== null) this.goesOn(source.byId, node);
    source.known = null;
    source.byPage = null;
    source.page = 0;
  }

  private goesOn(byId: Map<number, NodeSet | null>, { children }: Node): void {
    for (const id of children.keys()) {
      const symbol = this.symbols.get(id);
      if (symbol !== undefined) byId.set(symbol, null);
    }
  }

  /** Where an event leads from `set` by its id, whose number is `symbol`: 0 where no node has it. */
  move(set: NodeSet, symbol: number, id: string): NodeSet | null {
    if (set.byId === null) {
      if (this.events < this.rests) return this.set(reached(set, id));
      this.forget(set);
    }
    const byId = set.byId as Map<number, NodeSet | null>;
    let found = symbol > 0 ? byId.get(symbol) : undefined;
    if (found === null) {
      found = this.worked(reached(set, id));
      byId.set(symbol, found);
    } else if (found === undefined) {
      if (set.otherwise === undefined) set.otherwise = this.worked(reached(set, null));
      found = set.otherwise;
      if (byId.size === 0 && set !== this.source) {
        set.always = found;
        return found;
      }
    }
    if (set.known !== null) set.known[symbol] = found;
    else if (++set.missed * 4 > this.symbols.size) {
      set.known = new Array(this.symbols.size + 1).fill(undefined);
      this.weight += this.symbols.size;
    }
    return found;
  }

  /** Where it leads by its page besides, which is not its id; `symbol` is above 0. */
  movePage(set: NodeSet, symbol: number, page: string): NodeSet | null {
    if (set.byId === null) return this.set(reachedByPage(set, page));
    let found = set.byPage?.get(symbol);
    if (found === undefined) {
      found = this.worked(reachedByPage(set, page));
      set.byPage ??= new Map();
      set.byPage.set(symbol, found);
    }
    set.page = symbol;
    set.pageLeads = found;
    return found;
  }

  private worked(nodes: readonly Node[]): NodeSet | null {
    if (this.weight > this.most) this.clear();
    this.made += 1;
    this.weight += 1;
    return this.set(nodes);
  }

  /** What is pending now goes on with what it has, and is forgotten with it. */
  private clear(): void {
    if (this.events - this.since < PAYS * this.made) this.rests = this.events + REST;
    this.since = this.events;
    this.made = 0;
    this.weight = 0;
    this.sets.clear();
    this.forget(this.source);
  }
}

/** All that an event leads to from the nodes of `set`; null for an id that none of them goes on with. */
function reached({ leading }: NodeSet, id: string | null): Node[] {
  const found: Node[] = [];
  for (const { children, any } of leading) {
    const child = id === null ? undefined : children.get(id);
    if (child !== undefined) found.push(child);
    if (any !== null) found.push(any);
  }
  return found;
}

function reachedByPage({ leading }: NodeSet, page: string): Node[] {
  return leading.flatMap(({ children }) => children.get(page) ?? []);
}

/** Two lists in order as one. */
export function merged(one: readonly string[], other: readonly string[]): string[] {
  const all: string[] = [];
  let [i, k] = [0, 0];
  while (i < one.length && k < other.length)
    all.push(((one[i] as string) < (other[k] as string) ? one[i++] : other[k++]) as string);
  while (i < one.length) all.push(one[i++] as string);
  while (k < other.length) all.push(other[k++] as string);
  return all;
}
