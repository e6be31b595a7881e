/** Guesses of what follows a text. backend/tapml/generation/drafts.py has the same n-grams. */
import type { DecoderModel } from "./api";
import { factsOf } from "./options";

/** At most `count` tokens that may follow. */
export type Draft = (
  tokens: readonly number[],
  count: number,
  signal: AbortSignal | undefined,
) => Promise<readonly number[]> | readonly number[];

/** Guesses behind tokens, and what became of them. */
export interface Speculating {
  draft(tokens: readonly number[], signal: AbortSignal | undefined): Promise<readonly number[]>;
  readonly done: { steps: number; drafted: number; accepted: number };
}

/** At most `most` at a time, each of which takes a place of the model's, and none that ends a text. */
export function speculating(model: DecoderModel, guess: Draft, most: number): Speculating {
  const { capacity, end } = factsOf(model);
  return {
    done: { steps: 0, drafted: 0, accepted: 0 },
    draft: async (tokens, signal) => {
      const room = Math.min(most, capacity - tokens.length);
      const found = room > 0 ? await guess(tokens, room, signal) : [];
      const over = found.findIndex((id) => end.includes(id));
      return over < 0 ? found : found.slice(0, over);
    },
  };
}

/** Tokens of which the end of a text is looked for before it: the longer ones first. */
const [LONGEST, SHORTEST] = [3, 2];

/** What stood, where the last tokens stood before, behind them; of several places the last. A repetition goes on repeating. */
export function ngrams(tokens: readonly number[], count: number): readonly number[] {
  for (let length = LONGEST; length >= SHORTEST; length--) {
    const end = tokens.length - length;
    for (let at = end - 1; at >= 0; at--) {
      if (!same(tokens, at, end, length)) continue;
      const period = end - at;
      const found: number[] = [];
      while (found.length < count)
        found.push(tokens[at + length + found.length] ?? (found[found.length - period] as number));
      return found;
    }
  }
  return [];
}

function same(tokens: readonly number[], a: number, b: number, length: number): boolean {
  for (let i = 0; i < length; i++) if (tokens[a + i] !== tokens[b + i]) return false;
  return true;
}
