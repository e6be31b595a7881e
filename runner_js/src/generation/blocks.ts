/**
 * Which blocks of a model's states texts have (docs/generation.md). The twin of backend/tapml/generation/blocks.py.
 *
 * A block that is full is known by what stands in it and before it: a text that begins alike has it, too, and computes nothing
 * of it. One that no text has any more is kept until another needs its place, the least recently used one first.
 */
const ROOT = 0;

export class Pool {
  /** Blocks with nothing in them; the last is taken first. */
  readonly #free: number[];
  readonly #users = new Map<number, number>();
  /** Blocks that are known and that no text has, in the order of their last use. */
  readonly #idle = new Set<number>();
  /** By the node before it and its tokens that of a full block. No node has the number of another, ever. */
  readonly #nodes = new Map<string, number>();
  /** By block its key and its node. */
  readonly #known = new Map<number, { key: string; node: number }>();
  /** By node. */
  readonly #blocks = new Map<number, number>();
  #last = ROOT;

  constructor(
    count: number,
    /** Places of a block. */
    readonly size: number,
  ) {
    this.#free = Array.from({ length: count }, (_, at) => count - 1 - at);
  }

  /** The blocks that are known of the beginning of a text, which has them from now on. */
  shared(tokens: readonly number[]): number[] {
    const found: number[] = [];
    let node = ROOT;
    for (let end = this.size; end <= tokens.length; end += this.size) {
      const following = this.#nodes.get(keyOf(node, tokens.slice(end - this.size, end)));
      if (following === undefined) break;
      node = following;
      const block = this.#blocks.get(node) as number;
      this.#idle.delete(block);
      this.#users.set(block, (this.#users.get(block) ?? 0) + 1);
      found.push(block);
    }
    return found;
  }

  /** A block for a text, with nothing in it; null where texts have all. */
  take(): number | null {
    let block = this.#free.pop();
    if (block === undefined) {
      [block] = this.#idle;
      if (block === undefined) return null;
      this.#idle.delete(block);
      this.#forget(block);
    }
    this.#users.set(block, 1);
    return block;
  }

  /** The blocks of a text, of which as many are full as `tokens` fill: they are known from now on. */
  fill(blocks: readonly number[], tokens: readonly number[]): void {
    let node = ROOT;
    for (let place = 0; (place + 1) * this.size <= tokens.length; place++) {
      const key = keyOf(node, tokens.slice(place * this.size, (place + 1) * this.size));
      let following = this.#nodes.get(key);
      if (following === undefined) {
        const block = blocks[place] as number;
        // Of the same tokens, behind a block that was forgotten.
        if (this.#known.has(block)) this.#forget(block);
        following = ++this.#last;
        this.#nodes.set(key, following);
        this.#known.set(block, { key, node: following });
        this.#blocks.set(following, block);
      }
      node = following;
    }
  }

  /** A text has them no more. The last ones are the first to be forgotten: without them the others are of use. */
  release(blocks: readonly number[]): void {
    for (const block of [...blocks].reverse()) {
      const users = (this.#users.get(block) as number) - 1;
      this.#users.set(block, users);
      if (users) continue;
      if (this.#known.has(block)) this.#idle.add(block);
      else this.#free.push(block);
    }
  }

  #forget(block: number): void {
    const { key, node } = this.#known.get(block) as { key: string; node: number };
    this.#known.delete(block);
    this.#nodes.delete(key);
    this.#blocks.delete(node);
  }
}

function keyOf(node: number, tokens: readonly number[]): string {
  return `${node}:${tokens.join(",")}`;
}
