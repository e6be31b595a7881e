/** What each call of a batch is of. The twin of backend/tapml/generation/batch.py. */
import { Pool } from "./blocks";

/** A text in a batch. */
export class Line {
  blocks: number[] = [];
  /** How many of its tokens the states have, in its blocks; one more than there are while a call chooses the last. */
  computed = 0;
  /** Blocks that are full, and known. */
  full = 0;

  constructor(readonly tokens: number[]) {}

  /** Tokens that are to be computed yet. */
  get pending(): number {
    return this.tokens.length - this.computed;
  }
}

/** Tokens of a text in a call: they stand from `position` on. */
export interface Part {
  readonly line: Line;
  readonly position: number;
  readonly count: number;
  /** The call gives what follows its last token. */
  readonly wanted: boolean;
}

/**
 * Texts come in the order in which they were added: where blocks run out the last ones wait, lose theirs, and are computed again
 * when there is room.
 */
export class Schedule {
  #pool: Pool;
  readonly #lines: Line[] = [];
  /** Tokens that were there already, of a text that begins alike. */
  reused = 0;

  constructor(
    private readonly count: number,
    private readonly size: number,
    private readonly chunk: number,
  ) {
    this.#pool = new Pool(count, size);
  }

  get lines(): readonly Line[] {
    return this.#lines;
  }

  add(line: Line): void {
    this.#lines.push(line);
  }

  /** A text is over. */
  end(line: Line): void {
    this.#drop(line);
    this.#lines.splice(this.#lines.indexOf(line), 1);
  }

  /** The states hold nothing of these texts any more. */
  forget(): void {
    this.#pool = new Pool(this.count, this.size);
    for (const line of this.#lines) Object.assign(line, { blocks: [], computed: 0, full: 0 });
  }

  /** The next call, as if it had been made. */
  plan(): Part[] {
    const found: Part[] = [];
    let room = this.chunk;
    const single = this.#lines.filter(({ pending }) => pending <= 1);
    // A token of each text that is being written, then of prompts what there is room for.
    for (const line of [...single, ...this.#lines.filter((each) => !single.includes(each))]) {
      if (!line.blocks.length) {
        // What follows the last token is computed of it.
        line.blocks = this.#pool.shared(line.tokens.slice(0, -1));
        line.full = line.blocks.length;
        line.computed = line.full * this.size;
        this.reused += line.computed;
      }
      const wanted = Math.min(line.pending, room);
      const end = this.#room(line, line.computed + wanted, (other) =>
        found.some((part) => part.line === other),
      );
      const [position, count] = [line.computed, end - line.computed];
      if (count < 1) continue;
      line.computed = end;
      // What is appended in a call is seen in the same call.
      this.known(line);
      found.push({ line, position, count, wanted: end === line.tokens.length });
      room -= count;
    }
    return found;
  }

  /** The call behind one of a token each, which chooses theirs; null where there is no room without another's. */
  following(parts: readonly Part[]): Part[] | null {
    const lines = parts.map(({ line }) => line);
    const roomy = lines.every((line) => this.#room(line, line.computed + 1, () => true) > line.computed);
    if (!roomy) return null;
    return lines.map((line) => ({ line, position: line.computed++, count: 1, wanted: true }));
  }

  /** Blocks that became full are of use for texts that begin alike. */
  known(line: Line): void {
    const tokens = Math.min(line.computed, line.tokens.length);
    const full = Math.floor(tokens / this.size);
    if (full === line.full) return;
    line.full = full;
    this.#pool.fill(line.blocks, line.tokens.slice(0, tokens));
  }

  /** Up to where there is room, `end` at most; other texts lose theirs but for those in the same `call`. */
  #room(line: Line, end: number, call: (other: Line) => boolean): number {
    while (line.blocks.length * this.size < end) {
      let block = this.#pool.take();
      for (const other of this.#lines.slice(this.#lines.indexOf(line) + 1).reverse()) {
        if (block !== null) break;
        if (!other.blocks.length || call(other)) continue;
        this.#drop(other);
        block = this.#pool.take();
      }
      if (block === null) break;
      line.blocks.push(block);
    }
    return Math.min(end, line.blocks.length * this.size);
  }

  #drop(line: Line): void {
    this.#pool.release(line.blocks);
    Object.assign(line, { blocks: [], computed: 0, full: 0 });
  }
}
