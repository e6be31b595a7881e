import { ANY, ANY_NUMBER, isId } from "./event";

const MOST_IDS = 32;

/** A place in the trie of triggers: what was matched so far of all that begin alike. */
export class Node {
  readonly children = new Map<string, Node>();
  /** Its children `*` and `**`, which any event may go on with. */
  any: Node | null = null;
  gap: Node | null = null;
  /** The triggers that end here, by name. */
  readonly ends = new Set<string>();

  constructor(
    readonly parent: Node | null,
    /** An id, `*` or `**`. */
    readonly id: string,
    readonly number: number,
  ) {}

  /** Whether events can lead on from it, without a `**` between. */
  get leads(): boolean {
    return this.children.size > (this.gap === null ? 0 : 1);
  }
}

/** Sequences of ids by their beginnings. */
export class Trie {
  private made = 0;
  readonly root = new Node(null, "", this.made++);
  /** How many nodes have an id. */
  private readonly ids = new Map<string, number>();

  /** All ids that nodes have, but for wildcards. */
  *known(): Iterable<string> {
    for (const id of this.ids.keys()) if (id !== ANY && id !== ANY_NUMBER) yield id;
  }

  at(path: readonly unknown[]): Node | undefined {
    let node: Node | undefined = this.root;
    for (const id of path) node = node?.children.get(String(id));
    return node;
  }

  add(ids: readonly string[], name: string): void {
    let node = this.root;
    for (const id of ids) {
      let child = node.children.get(id);
      if (child === undefined) {
        child = new Node(node, id, this.made++);
        this.ids.set(id, (this.ids.get(id) ?? 0) + 1);
        node.children.set(id, child);
        if (id === ANY) node.any = child;
        if (id === ANY_NUMBER) node.gap = child;
      }
      node = child;
    }
    node.ends.add(name);
  }

  /** The nodes that are gone by that. */
  remove(ids: readonly string[], name: string): ReadonlySet<Node> {
    let leaf = this.at(ids) as Node;
    leaf.ends.delete(name);
    const gone = new Set<Node>();
    while (leaf.parent !== null && leaf.ends.size === 0 && leaf.children.size === 0) {
      const { parent, id }: Node = leaf;
      parent.children.delete(id);
      if (id === ANY) parent.any = null;
      if (id === ANY_NUMBER) parent.gap = null;
      const left = (this.ids.get(id) as number) - 1;
      if (left === 0) this.ids.delete(id);
      else this.ids.set(id, left);
      gone.add(leaf);
      leaf = parent;
    }
    return gone;
  }
}

/** The same with `**` behind the `*` beside it, and one of each: what follows a `**` is an id, but at the end. */
export function ordered(sequence: readonly string[]): string[] {
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

/** Throws RangeError for a sequence that is no trigger. */
export function check(name: string, sequence: readonly string[]): void {
  const trigger = `the trigger ${name}`;
  if (sequence.length === 0 || sequence.length > MOST_IDS)
    throw new RangeError(`${trigger} has ${sequence.length} ids: give 1 to ${MOST_IDS}`);
  const wrong = sequence.find((id) => !isId(id) && id !== ANY && id !== ANY_NUMBER);
  if (wrong !== undefined)
    throw new RangeError(`${trigger} has the id ${JSON.stringify(wrong)}: give 1 to 128 characters, * or **`);
  if (sequence[0] === ANY_NUMBER || sequence.at(-1) === ANY_NUMBER)
    throw new RangeError(`${trigger} begins or ends with **, which would be any time: leave it out`);
}
