import { isId } from "./event";

/** Any one event. */
export const ANY = "*";

/** Any number of events, none among them. */
export const ANY_NUMBER = "**";

const MOST_IDS = 32;

/** Both ids of an event: an id of a trigger means the one or the other. */
export interface Ids {
  readonly id: string;
  readonly page: string;
}

/** A place in the trie: what was matched so far of all triggers that begin alike. */
class Node {
  readonly children = new Map<string, Node>();
  /** Its children `*` and `**`, which are looked for with every event. */
  any: Node | null = null;
  gap: Node | null = null;
  /** The triggers that end here, by name. */
  readonly ends = new Set<string>();
  /** The event that reached it last: a list has it once. */
  reached = 0;

  constructor(
    readonly parent: Node | null,
    /** An id, `*` or `**`. */
    readonly id: string,
  ) {}
}

/**
 * Which triggers an event completes. A trigger is a sequence of ids of events or pages, `*` for any one event and
 * `**` for any number; it fires with each event that completes such a sequence of events, one after the other.
 *
 * Triggers are a trie, as in Walle (OSDI 2022): beginnings that are alike are one path of start and middle nodes, and
 * where a trigger is complete is an end node. The static pending list is what may begin with any event (the root's
 * children), the dynamic one what the event before has reached. A `**` that was reached waits until it is removed, so
 * what may follow one is found by id: an event costs what it matches, and not what there is.
 */
export class Triggers {
  private readonly root = new Node(null, "");
  private readonly sequences = new Map<string, readonly string[]>();
  /** How many nodes have an id: an event that none has is looked for nowhere. */
  private readonly ids = new Map<string, number>();
  private pending: Node[] = [];
  /** Every `**` that was reached, and what may follow one, by id. */
  private gaps = new Set<Node>();
  private readonly waiting = new Map<string, Set<Node>>();
  /** The `**` that this event reached: they wait from the next one on. */
  private readonly opened: Node[] = [];
  private event = 0;

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
    let node = this.root;
    for (const id of ids) {
      const child = node.children.get(id) ?? new Node(node, id);
      if (!node.children.has(id)) {
        this.ids.set(id, (this.ids.get(id) ?? 0) + 1);
        node.children.set(id, child);
        if (id === ANY) node.any = child;
        if (id === ANY_NUMBER) node.gap = child;
        if (this.gaps.has(node)) this.waitFor(child);
      }
      node = child;
    }
    node.ends.add(name);
    this.sequences.set(name, ids);
  }

  /** Whether there was one. */
  remove(name: string): boolean {
    let leaf = this.at(this.sequences.get(name) ?? []);
    if (!this.sequences.delete(name) || leaf === undefined) return false;
    leaf.ends.delete(name);
    const gone = new Set<Node>();
    while (leaf.parent !== null && leaf.ends.size === 0 && leaf.children.size === 0) {
      const { parent, id }: Node = leaf;
      parent.children.delete(id);
      if (id === ANY) parent.any = null;
      if (id === ANY_NUMBER) parent.gap = null;
      this.ids.set(id, (this.ids.get(id) ?? 1) - 1);
      if (this.ids.get(id) === 0) this.ids.delete(id);
      gone.add(leaf);
      leaf = parent;
    }
    this.wait([...this.pending, ...this.gaps].filter((node) => !gone.has(node)));
    return true;
  }

  /** The names of the triggers that this event completes, sorted. */
  next({ id, page }: Ids): readonly string[] {
    const before = this.pending;
    const fired: string[] = [];
    const byId = this.ids.has(id) && !isWildcard(id);
    const byPage = page !== id && this.ids.has(page) && !isWildcard(page);
    this.event += 1;
    this.pending = [];
    this.step(this.root, byId ? id : null, byPage ? page : null, fired);
    for (const node of before) this.step(node, byId ? id : null, byPage ? page : null, fired);
    if (this.gaps.size > 0) {
      if (byId) this.followed(id, fired);
      if (byPage) this.followed(page, fired);
      this.followed(ANY, fired);
    }
    if (this.opened.length > 0) for (const gap of this.opened.splice(0)) this.open(gap);
    return fired.length > 1 ? fired.sort() : fired;
  }

  /** What is pending, as the sequences that were matched so far. */
  snapshot(): string[][] {
    return [...this.pending, ...this.gaps].map((node) => {
      const path: string[] = [];
      for (let one: Node | null = node; one?.parent; one = one.parent) path.unshift(one.id);
      return path;
    });
  }

  /** Goes on from a snapshot; what no trigger of now begins with is left out, and what is no snapshot is none. */
  restore(snapshot: unknown): void {
    const found = new Set<Node>();
    for (const path of Array.isArray(snapshot) ? snapshot : []) {
      const node = Array.isArray(path) && path.length > 0 ? this.at(path) : undefined;
      if (node !== undefined) found.add(node);
    }
    this.wait([...found]);
  }

  private at(path: readonly unknown[]): Node | undefined {
    let node: Node | undefined = this.root;
    for (const id of path) node = node?.children.get(String(id));
    return node;
  }

  private step(node: Node, id: string | null, page: string | null, fired: string[]): void {
    const byId = id === null ? undefined : node.children.get(id);
    if (byId !== undefined) this.reach(byId, fired);
    const byPage = page === null ? undefined : node.children.get(page);
    if (byPage !== undefined) this.reach(byPage, fired);
    if (node.any !== null) this.reach(node.any, fired);
  }

  private reach(node: Node, fired: string[]): void {
    if (node.reached === this.event) return;
    node.reached = this.event;
    for (const name of node.ends) fired.push(name);
    if (node.children.size > (node.gap === null ? 0 : 1)) this.pending.push(node);
    if (node.gap !== null && !this.gaps.has(node.gap)) this.opened.push(node.gap);
  }

  private followed(id: string, fired: string[]): void {
    const nodes = this.waiting.get(id);
    if (nodes !== undefined) for (const node of nodes) this.reach(node, fired);
  }

  private open(gap: Node): void {
    if (this.gaps.has(gap)) return;
    this.gaps.add(gap);
    for (const child of gap.children.values()) this.waitFor(child);
  }

  private waitFor(child: Node): void {
    const nodes = this.waiting.get(child.id);
    if (nodes === undefined) this.waiting.set(child.id, new Set([child]));
    else nodes.add(child);
  }

  /** For these, and no others. */
  private wait(nodes: readonly Node[]): void {
    this.pending = nodes.filter((node) => node.id !== ANY_NUMBER && node.children.size > 0);
    this.gaps = new Set();
    this.waiting.clear();
    for (const node of nodes) if (node.id === ANY_NUMBER) this.open(node);
  }
}

/** The same with `**` behind the `*` beside it, and one of each: what follows a `**` is an id, but at the end. */
function ordered(sequence: readonly string[]): string[] {
  const ids: string[] = [];
  let gap = false;
  for (const [at, id] of sequence.entries()) {
    if (id === ANY_NUMBER) gap = true;
    else {
      if (gap && (id !== ANY || at === sequence.length - 1)) {
        ids.push(ANY_NUMBER);
        gap = false;
      }
      ids.push(id);
    }
  }
  return ids;
}

function isWildcard(id: string): boolean {
  return id === ANY || id === ANY_NUMBER;
}

function check(name: string, sequence: readonly string[]): void {
  const trigger = `the trigger ${name}`;
  if (sequence.length === 0 || sequence.length > MOST_IDS)
    throw new RangeError(`${trigger} has ${sequence.length} ids: give 1 to ${MOST_IDS}`);
  const wrong = sequence.find((id) => !isId(id) && !isWildcard(id));
  if (wrong !== undefined)
    throw new RangeError(`${trigger} has the id ${JSON.stringify(wrong)}: give 1 to 128 characters, * or **`);
  if (sequence[0] === ANY_NUMBER || sequence.at(-1) === ANY_NUMBER)
    throw new RangeError(`${trigger} begins or ends with **, which would be any time: leave it out`);
}
