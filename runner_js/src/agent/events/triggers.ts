import { ANY_NUMBER } from "./event";
import { Moves, merged, type NodeSet } from "./pending";
import { check, type Node, ordered, Trie } from "./trie";

export { ANY, ANY_NUMBER } from "./event";

/** Both ids of an event: an id of a trigger means the one or the other. */
export interface Ids {
  readonly id: string;
  readonly page: string;
}

const NONE: readonly string[] = Object.freeze([]);

/**
 * Which triggers an event completes. A trigger is a sequence of ids of events or pages, `*` for any one event and
 * `**` for any number; it fires with each event that completes such a sequence of events, one after the other.
 *
 * Triggers are a trie, as in Walle (OSDI 2022): beginnings that are alike are one path of start and middle nodes, and
 * where a trigger is complete is an end node. The static pending list is what may begin with any event: the root's
 * children, and those of each `**` that was reached, for it waits until it is removed. The dynamic one is what the event
 * before has reached. Both are kept as sets of nodes by how many events ago they began, the static one by 0, and where an
 * event leads from a set is worked out once: however many triggers begin alike, or at the same time, they are one step.
 * A node is in one set at most, for only its parent leads to it.
 */
export class Triggers {
  private readonly trie = new Trie();
  private readonly sequences = new Map<string, readonly string[]>();
  /** What has been worked out; null where the triggers are others now. */
  private worked: Moves | null = null;
  /** Of these the first `count`; and what is overwritten with the next event. */
  private pending: NodeSet[] = [];
  private spare: NodeSet[] = [];
  private count = 0;
  /** Every `**` that was reached. */
  private gaps = new Set<Node>();
  /** What is pending where nothing is worked out. */
  private restored: readonly Node[] = [];
  /** The `**` that an event reached, and the triggers that it completed. */
  private readonly opened: Node[] = [];
  private fired = NONE;
  /** The page of the event before: pages seldom change. */
  private page: string | null = null;
  private pageSymbol = 0;

  /** `remembered`: how many nodes, moves and names are remembered at most: 500,000 if nothing is said, some 5 MB. */
  constructor(private readonly remembered?: number) {}

  /** How many there are. */
  get size(): number {
    return this.sequences.size;
  }

  /** `name` is the task's, or the task's and the trigger's. Throws RangeError for a name that is taken and for a sequence that is none. */
  add(name: string, sequence: readonly string[]): void {
    if (this.sequences.has(name))
      throw new RangeError(`the trigger ${name} is there already: remove it first`);
    check(name, sequence);
    const ids = ordered(sequence);
    this.trie.add(ids, name);
    this.sequences.set(name, ids);
    this.wait(this.waiting());
  }

  /** Whether there was one. */
  remove(name: string): boolean {
    const ids = this.sequences.get(name);
    if (ids === undefined) return false;
    this.sequences.delete(name);
    const gone = this.trie.remove(ids, name);
    this.wait(this.waiting().filter((node) => !gone.has(node)));
    return true;
  }

  /** The names of the triggers that this event completes, sorted. The list must not be changed. */
  next({ id, page }: Ids): readonly string[] {
    const moves = this.worked ?? this.begin();
    moves.events += 1;
    if (page !== this.page) {
      this.page = page;
      this.pageSymbol = moves.symbols.get(page) ?? 0;
    }
    const symbol = moves.symbols.get(id) ?? 0;
    const [before, count] = [this.pending, this.count];
    this.pending = this.spare;
    this.spare = before;
    this.count = 0;
    this.fired = NONE;
    const pageSymbol = page === id ? 0 : this.pageSymbol;
    for (let at = -1; at < count; at++) {
      const from = at < 0 ? moves.source : (before[at] as NodeSet);
      let set = from.known === null ? from.always : from.known[symbol];
      if (set === undefined) set = moves.move(from, symbol, id);
      if (set !== null) this.reach(set);
      if (pageSymbol === 0) continue;
      set = from.page === pageSymbol ? from.pageLeads : moves.movePage(from, pageSymbol, page);
      if (set !== null) this.reach(set);
    }
    if (this.opened.length > 0) this.open(moves);
    return this.fired;
  }

  /** What is pending, as the sequences that were matched so far. */
  snapshot(): string[][] {
    return this.waiting().map((node) => {
      const path: string[] = [];
      for (let one: Node | null = node; one?.parent; one = one.parent) path.unshift(one.id);
      return path;
    });
  }

  /** Goes on from a snapshot; what no trigger of now begins with is left out, and what is no snapshot is none. */
  restore(snapshot: unknown): void {
    const found = new Set<Node>();
    for (const path of Array.isArray(snapshot) ? snapshot : []) {
      const node = Array.isArray(path) && path.length > 0 ? this.trie.at(path) : undefined;
      if (node !== undefined) found.add(node);
    }
    this.wait([...found]);
  }

  private reach(set: NodeSet): void {
    if (set.leads) this.pending[this.count++] = set;
    if (set.quiet) return;
    if (set.fires.length > 0) this.fired = this.fired === NONE ? set.fires : merged(this.fired, set.fires);
    if (set.opens === null) return;
    this.opened.push(...set.opens);
    set.opens = null;
  }

  /** What follows a `**` may begin with each event, from the next one on. */
  private open(moves: Moves): void {
    for (const gap of this.opened.splice(0)) {
      if (this.gaps.has(gap)) continue;
      this.gaps.add(gap);
      moves.begin(gap);
    }
  }

  /** All that is pending, `**` among it. */
  private waiting(): Node[] {
    return [
      ...this.restored,
      ...this.pending.slice(0, this.count).flatMap(({ leading }) => leading),
      ...this.gaps,
    ];
  }

  /** For these, and no others. */
  private wait(nodes: readonly Node[]): void {
    this.gaps = new Set(nodes.filter(({ id }) => id === ANY_NUMBER));
    this.restored = nodes.filter((node) => node.id !== ANY_NUMBER && node.leads);
    this.count = 0;
    this.worked = null;
  }

  private begin(): Moves {
    const symbols = new Map<string, number>();
    for (const id of this.trie.known()) symbols.set(id, symbols.size + 1);
    const moves = new Moves(symbols, [this.trie.root, ...this.gaps], this.remembered);
    const pending = moves.set(this.restored);
    // Of what was there before nothing is complete now, and each `**` waits already.
    this.pending = pending === null ? [] : [pending];
    this.count = this.pending.length;
    this.restored = [];
    this.page = null;
    this.worked = moves;
    return moves;
  }
}
