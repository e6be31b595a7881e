import type {
  DecoderModel,
  Generated,
  GenerateOptions,
  Piece,
  Reason,
  Speculation,
  TextTokenizer,
} from "./api";
import type { Row } from "./calls";
import { Computation, type Wanted } from "./computation";
import { byModel } from "./draft_model";
import { type Draft, ngrams, type Speculating, speculating } from "./drafts";
import { drawingOf } from "./draw";
import { refused } from "./error";
import { checkGenerate, checkTokenizer, endsOf, factsOf, promptTokens } from "./options";
import { chooser, chosen, isPlainlyGreedy } from "./sampling";
import { StopText, TextStream } from "./stream";
import { type Growing, taken } from "./taken";

/**
 * A text that a model writes, kept as tokens: it can be gone on with after an abort, and a prompt that begins as the text
 * does computes only the rest. Several may share a model; each computes its tokens again where another took the states, or
 * the device was lost.
 */
export class Writer {
  #model: DecoderModel;
  #tokenizer: TextTokenizer | null;
  #text: Computation;
  #seen = new Set<number>();
  #stream: TextStream | null = null;
  #busy = false;
  /** The model that guessed last: its states have what it has seen. */
  #draft: { model: DecoderModel; guess: Draft } | null = null;
  /** Gives back the states that are its own. */
  #dispose: (() => void) | null = null;

  /**
   * Without a tokenizer tokens have no text. Throws a GenerationError where the model is no language model, or the tokenizer
   * is not its own.
   */
  constructor(model: DecoderModel, tokenizer: TextTokenizer | null) {
    checkTokenizer(model, tokenizer);
    this.#model = model;
    this.#tokenizer = tokenizer;
    this.#text = new Computation(model, false);
  }

  /** Tokens that the model has room for. */
  get capacity(): number {
    return factsOf(this.#model).capacity;
  }

  /** Of the prompt and what was written. */
  get tokens(): readonly number[] {
    return this.#text.tokens;
  }

  /**
   * Another writer, of the same text, with a sequence of its own: what was computed is copied on the device, and both go on
   * by themselves. Rejects with a GenerationError while this one writes, and where the model cannot be forked.
   */
  async fork(): Promise<Writer> {
    if (this.#busy) throw refused("the writer is writing", "end that first, or fork it before");
    this.#busy = true;
    try {
      await this.#text.settled();
      const { forked, computation } = await this.#text.fork();
      const writer = new Writer(forked, this.#tokenizer);
      writer.#dispose = () => forked.dispose();
      writer.#text = computation;
      writer.#seen = new Set(this.#seen);
      writer.#stream = this.#stream?.copy() ?? null;
      return writer;
    } finally {
      this.#busy = false;
    }
  }

  /** Gives back the sequence that `fork` made for it; a model that it was given is not its own. */
  dispose(): void {
    this.#dispose?.();
  }

  /** Writes a prompt's continuation, or goes on with what there is. Rejects with a GenerationError, or as the model's calls do. */
  async *generate(options: GenerateOptions = {}): AsyncGenerator<Piece, Generated, undefined> {
    if (this.#busy) throw refused("the writer is writing", "end that first, or make another writer");
    this.#busy = true;
    try {
      return yield* this.#generate(options);
    } finally {
      this.#busy = false;
    }
  }

  async *#generate(options: GenerateOptions): AsyncGenerator<Piece, Generated, undefined> {
    checkGenerate(this.#model, options);
    const choose = chooser(options);
    const computed = this.#text;
    await computed.settled();
    this.#begin(options);
    const { tokens = Number.POSITIVE_INFINITY, stop = [], signal } = options;
    const stops = new StopText(stop);
    const ends = endsOf(this.#model, options.stopIds);
    const speculation = options.speculate && this.#speculation(options.speculate);
    const facts = factsOf(this.#model);
    const greedily = isPlainlyGreedy(options) && typeof facts.next === "string";
    const drawing = greedily || speculation ? null : drawingOf(facts, options, this.#seen);
    const end = computed.tokens.length + tokens;
    const asked: Wanted = { signal, speculation, chosen: greedily, drawing, end };
    computed.begin();
    const begun = performance.now();
    let first = begun;
    const done: Omit<Generated, "reason"> = {
      ids: [],
      text: "",
      promptTokens: computed.tokens.length,
      reusedTokens: computed.reused,
      speculated: speculation?.done ?? null,
      prefillSeconds: 0,
      decodeSeconds: 0,
    };
    const { capacity } = facts;
    const growing: Growing = {
      done,
      stream: this.#stream as TextStream,
      stops,
      ends,
      most: tokens,
      capacity,
    };
    for (let reason: Reason | null = null; ; ) {
      const row: Row | null = reason ? null : await computed.next(asked);
      if (!done.ids.length) {
        first = performance.now();
        done.reusedTokens = computed.reused;
      }
      if (row === null) {
        done.text += stops.rest();
        done.prefillSeconds = (first - begun) / 1000;
        done.decodeSeconds = (performance.now() - first) / 1000;
        return { ...done, reason: reason ?? "abort" };
      }
      const position = computed.tokens.length;
      const id: number = typeof row === "number" ? chosen(row, position) : choose(row, this.#seen, position);
      computed.push(id);
      this.#seen.add(id);
      const guessed = computed.expected === id;
      if (guessed && speculation) speculation.done.accepted++;
      const found = taken(growing, id, position);
      reason = found.reason;
      yield { id, text: found.text, position, guessed };
    }
  }

  /** The tokens to go on from. Throws where there are none, or more than fit. */
  #begin(options: GenerateOptions): void {
    const { capacity, given: needed = [] } = factsOf(this.#model);
    if (options.given) this.#text.give(options.given);
    if (needed.length && !this.#text.given)
      throw refused(
        `${this.#model.name} attends to what its encoder leaves`,
        "give the encoder's outputs as `given`",
      );
    if (options.prompt === undefined && options.promptIds === undefined && !options.given) {
      const held = this.#text.tokens.length;
      if (!held) throw refused("there is nothing to go on with", "give a prompt or promptIds");
      if (held > capacity)
        throw refused(
          `the text has ${held} tokens, and ${this.#model.name} has room for ${capacity}`,
          "give a shorter prompt, or build the model with a larger --capacity",
        );
      return;
    }
    const ids = promptTokens(this.#model, this.#tokenizer, options);
    this.#text.become(ids);
    this.#seen = new Set(ids);
    this.#stream = new TextStream(this.#tokenizer, ids);
  }

  #speculation({ draft, tokens }: Speculation): Speculating {
    if (draft === "ngram") return speculating(this.#model, ngrams, tokens);
    if (this.#draft?.model !== draft) this.#draft = { model: draft, guess: byModel(draft) };
    return speculating(this.#model, this.#draft.guess, tokens);
  }
}
