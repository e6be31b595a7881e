/** Guesses of a smaller model. */
import type { DecoderModel } from "./api";
import type { Row } from "./calls";
import { Computation } from "./computation";
import type { Draft } from "./drafts";
import { GenerationError } from "./error";
import { factsOf } from "./options";
import { chooser, chosen } from "./sampling";

/** The most likely tokens, as far as the model has room, up to one that ends a text. */
export function byModel(model: DecoderModel): Draft {
  const { capacity, chunk, end, next } = factsOf(model);
  const choose = chooser({ greedy: true });
  const text = new Computation(model, true);

  const nextOf = async (on: Computation, most: number, signal: AbortSignal | undefined) => {
    const asked = {
      signal,
      speculation: undefined,
      chosen: typeof next === "string",
      drawing: null,
      end: most,
    };
    const row: Row | null = await on.next(asked);
    if (row === null) return null;
    const position = on.tokens.length;
    try {
      return typeof row === "number" ? chosen(row, position) : choose(row, [], position);
    } catch (cause) {
      if (!(cause instanceof GenerationError)) throw cause;
      throw new GenerationError(cause.kind, `the draft ${model.name}: ${cause.sentence}`, cause.fix);
    }
  };

  /** Tokens behind those of a text, the first of which may be known. */
  const guessed = async (
    on: Computation,
    first: number | null,
    count: number,
    signal: AbortSignal | undefined,
  ) => {
    const guesses: number[] = [];
    const most = on.tokens.length + count;
    for (let known = first; guesses.length < count; known = null) {
      const id = known ?? (await nextOf(on, most, signal));
      if (id === null) break;
      guesses.push(id);
      on.push(id);
      if (end.includes(id)) break;
    }
    return guesses;
  };

  return async (tokens, wanted, signal) => {
    // The last guess needs no place.
    const count = Math.min(wanted, capacity + 1 - tokens.length);
    if (count < 1) return [];
    await text.settled();
    text.become(tokens);
    text.begin();
    if (chunk > 1 || count === 1 || !model.fork) return guessed(text, null, count, signal);
    // Of a recurrence nothing can be taken back: guesses are made by a copy.
    const first = await nextOf(text, tokens.length + 1, signal);
    if (first === null) return [];
    const { forked, computation } = await text.fork();
    try {
      return await guessed(computation, first, count, signal);
    } finally {
      await computation.settled();
      forked.dispose();
    }
  };
}
