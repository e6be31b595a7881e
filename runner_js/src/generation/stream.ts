/** Text of tokens as they come: only what no later token can change. backend/tapml/generation/stream.py is the same. */
import type { TextTokenizer } from "./api";

/** Tokens before it that say how the first is written: a decoder takes the space off a text's first word. */
const CONTEXT = 16;
const INCOMPLETE = "\ufffd";
const BYTE = /^<0x[0-9A-Fa-f]{2}>$/;

/** The texts of tokens, whole characters only. */
export class TextStream {
  #tokenizer: TextTokenizer | null;
  /** Tokens whose text is certain, with which those behind them are decoded. */
  #before: readonly number[];
  #pending: number[] = [];
  /** Characters of the pending tokens' text that were given. */
  #given = 0;

  /** `context`: what stands before. */
  constructor(tokenizer: TextTokenizer | null, context: readonly number[]) {
    this.#tokenizer = tokenizer;
    this.#before = context.slice(-CONTEXT);
  }

  /** Another one, of the same text. */
  copy(): TextStream {
    const copied = new TextStream(this.#tokenizer, this.#before);
    copied.#before = this.#before;
    copied.#pending = [...this.#pending];
    copied.#given = this.#given;
    return copied;
  }

  /** What became certain with a token. */
  push(id: number): string {
    const tokenizer = this.#tokenizer;
    if (!tokenizer) return "";
    this.#pending.push(id);
    // Bytes of a character are one only where all that follow one another are right.
    if (BYTE.test(tokenizer.token(id) ?? "")) return "";
    const before = whole(tokenizer.decode(this.#before));
    const text = tokenizer.decode([...this.#before, ...this.#pending]).slice(before.length);
    const certain = whole(text);
    const found = certain.slice(this.#given);
    this.#given = Math.max(this.#given, certain.length);
    if (certain === text) {
      const alone = tokenizer.decode(this.#pending);
      this.#before = alone ? this.#pending : [...this.#before, ...this.#pending];
      this.#pending = [];
      this.#given = 0;
    }
    return found;
  }
}

/** A text without the character at its end that may be the first bytes of another. */
function whole(text: string): string {
  return text.endsWith(INCOMPLETE) ? text.slice(0, -1) : text;
}

/** Gives a text up to the first of some texts, and keeps back what may be the beginning of one. */
export class StopText {
  #stops: readonly string[];
  #kept = "";

  constructor(stops: readonly string[]) {
    this.#stops = stops;
  }

  /** What can be given, and whether a stop text stands behind it. */
  push(text: string): { text: string; stopped: boolean } {
    const all = this.#kept + text;
    const found = this.#stops.map((stop) => all.indexOf(stop)).filter((at) => at >= 0);
    if (found.length) {
      this.#kept = "";
      return { text: all.slice(0, Math.min(...found)), stopped: true };
    }
    const keep = Math.max(0, ...this.#stops.map((stop) => begun(all, stop)));
    this.#kept = all.slice(all.length - keep);
    return { text: all.slice(0, all.length - keep), stopped: false };
  }

  /** What was kept back: no stop text came of it. */
  rest(): string {
    const rest = this.#kept;
    this.#kept = "";
    return rest;
  }
}

/** How many characters of `stop` stand at the end of a text, not all of them. */
function begun(text: string, stop: string): number {
  for (let count = Math.min(stop.length - 1, text.length); count > 0; count--)
    if (text.endsWith(stop.slice(0, count))) return count;
  return 0;
}
