import type { DecoderModel, Generated, GenerateOptions, Piece, Reason, TextTokenizer } from "./api";
import { GenerationError } from "./error";
import { checkGenerate, checkTokenizer, factsOf, promptTokens } from "./options";
import { chooser } from "./sampling";
import { StopText, TextStream } from "./stream";

/** By model, the work that is done with its states: who fills them does so without another between. */
const TURNS = new WeakMap<object, Promise<unknown>>();

/**
 * A text that a model writes, kept as tokens: it can be gone on with after an abort, and a prompt that begins as the text
 * does computes only the rest. Several may share a model; each computes its tokens again where another took the states, or
 * the device was lost.
 */
export class Writer {
  #model: DecoderModel;
  #tokenizer: TextTokenizer | null;
  #tokens: number[] = [];
  #seen = new Set<number>();
  /** How many of the tokens the model's states have, while these are of that version. */
  #written = 0;
  #version = -1;
  #stream: TextStream | null = null;
  #busy = false;

  /**
   * Without a tokenizer tokens have no text. Throws a GenerationError where the model is no language model, or the tokenizer
   * is not its own.
   */
  constructor(model: DecoderModel, tokenizer: TextTokenizer | null) {
    checkTokenizer(model, tokenizer);
    this.#model = model;
    this.#tokenizer = tokenizer;
  }

  /** Of the prompt and what was written. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }

  /** Writes a prompt's continuation, or goes on with what there is. Rejects with a GenerationError, or as the model's calls do. */
  async *generate(options: GenerateOptions = {}): AsyncGenerator<Piece, Generated, undefined> {
    if (this.#busy)
      throw new GenerationError("input", "the writer is writing", "end that first, or make another writer");
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
    this.#begin(options);
    const { tokens = Number.POSITIVE_INFINITY, stop = [], signal } = options;
    const stops = new StopText(stop);
    const ends = this.#ends(options.stopIds ?? []);
    const stream = this.#stream as TextStream;
    const begun = performance.now();
    let first = begun;
    const done: Omit<Generated, "reason"> = {
      ids: [],
      text: "",
      promptTokens: this.#tokens.length,
      reusedTokens: this.#current(),
      prefillSeconds: 0,
      decodeSeconds: 0,
    };
    for (let reason: Reason | null = null; ; ) {
      const logits = reason ? null : await this.#next(signal);
      if (!done.ids.length) first = performance.now();
      if (!logits) {
        done.text += stops.rest();
        done.prefillSeconds = (first - begun) / 1000;
        done.decodeSeconds = (performance.now() - first) / 1000;
        return { ...done, reason: reason ?? "abort" };
      }
      const position = this.#tokens.length;
      const id = choose(logits, this.#seen, position);
      this.#tokens.push(id);
      this.#seen.add(id);
      done.ids.push(id);
      reason = ends.get(id) ?? null;
      let text = "";
      if (!reason) {
        const found = stops.push(stream.push(id));
        text = found.text;
        if (found.stopped) reason = "stop";
        else if (done.ids.length >= tokens) reason = "length";
        else if (position >= factsOf(this.#model).capacity) reason = "capacity";
      }
      if (reason) text += stops.rest();
      done.text += text;
      yield { id, text, position };
    }
  }

  /** The tokens to go on from. Throws where there are none, or more than fit. */
  #begin(options: GenerateOptions): void {
    const { capacity } = factsOf(this.#model);
    if (options.prompt === undefined && options.promptIds === undefined) {
      if (!this.#tokens.length)
        throw new GenerationError("input", "there is nothing to go on with", "give a prompt or promptIds");
      if (this.#tokens.length > capacity)
        throw new GenerationError(
          "input",
          `the text has ${this.#tokens.length} tokens, and ${this.#model.name} has room for ${capacity}`,
          "give a shorter prompt, or build the model with a larger --capacity",
        );
      return;
    }
    const ids = promptTokens(this.#model, this.#tokenizer, options);
    const parts = ids.findIndex((id, at) => id !== this.#tokens[at]);
    this.#written = Math.min(this.#written, parts < 0 ? ids.length : parts);
    this.#tokens = [...ids];
    this.#seen = new Set(ids);
    this.#stream = new TextStream(this.#tokenizer, ids);
  }

  /** Tokens that end a text, and why. */
  #ends(stopIds: readonly number[]): ReadonlyMap<number, Reason> {
    const ends = factsOf(this.#model).end.map((id) => [id, "end"] as const);
    return new Map<number, Reason>([...ends, ...stopIds.map((id) => [id, "stop"] as const)]);
  }

  /** How many tokens need not be computed again. The last one is, for its logits. */
  #current(): number {
    if (this.#version !== this.#model.stateVersion) this.#written = 0;
    return Math.min(this.#written, this.#tokens.length - 1);
  }

  /** The logits behind the last token; null after an abort. */
  async #next(signal: AbortSignal | undefined): Promise<Float32Array | null> {
    if (signal?.aborted) return null;
    const before = TURNS.get(this.#model);
    const turn = (async () => {
      await before?.catch(() => {});
      return this.#computed(signal);
    })();
    TURNS.set(this.#model, turn);
    try {
      return await turn;
    } catch (cause) {
      if (signal?.aborted) return null;
      throw cause;
    }
  }

  /** The states are made anew, once, where they are lost with the device or undefined. */
  async #computed(signal: AbortSignal | undefined): Promise<Float32Array> {
    try {
      return await this.#write(signal);
    } catch (cause) {
      const kind = (cause as { kind?: unknown } | null)?.kind;
      if (signal?.aborted || (kind !== "device-lost" && kind !== "state")) throw cause;
      await (kind === "state" ? this.#model.reset() : this.#model.reload({ signal }));
      return this.#write(signal);
    }
  }

  async #write(signal: AbortSignal | undefined): Promise<Float32Array> {
    const model = this.#model;
    const { chunk, prefill, decode } = factsOf(model);
    const tokens = this.#tokens;
    for (;;) {
      const begin = this.#current();
      const part = tokens.slice(begin, begin + chunk);
      const name = part.length > 1 ? prefill : decode;
      const positions = Int32Array.from(part, (_, at) => begin + at);
      const call = model.functions[name]?.run(
        {
          input_ids: { data: Int32Array.from(part), shape: [1, part.length] },
          positions: { data: positions, shape: [part.length] },
          last: { data: Int32Array.of(part.length - 1), shape: [1] },
        },
        { signal },
      );
      this.#version = model.stateVersion;
      const { logits } = (await call) ?? {};
      this.#written = begin + part.length;
      if (this.#written < tokens.length) continue;
      if (!(logits instanceof Float32Array))
        throw new GenerationError("model", `${model.name} gave no logits`, "build the model again");
      return logits;
    }
  }
}
