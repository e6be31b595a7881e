import type {
  DecoderModel,
  Generated,
  GenerateOptions,
  Piece,
  Reason,
  Speculation,
  TextTokenizer,
} from "./api";
import {
  type Given,
  type Ids,
  logitsOf,
  type Outputs,
  type Row,
  type Rows,
  run,
  type Signal,
  tokenOf,
  tokensOf,
} from "./calls";
import { type Draft, ngrams, type Speculating, speculating } from "./drafts";
import { GenerationError } from "./error";
import { Gate } from "./gate";
import { checkGenerate, checkTokenizer, factsOf, promptTokens } from "./options";
import { canRestore, forkOf, restored } from "./recovery";
import { chooser, chosen, isPlainlyGreedy } from "./sampling";
import { StopText, TextStream } from "./stream";

/**
 * Calls that are submitted before the token of the one in front of them is known: each is given its token on the device, so
 * that this need not wait for the page. Where a text ends their work is lost.
 */
const AHEAD = 1;

/** By model, the work that is done with its states: who fills them does so without another between. */
const TURNS = new WeakMap<object, Promise<unknown>>();
/** All writers': their states may be in each other's way. */
const GATE = new Gate();

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
  /** What follows the last token and the guesses behind it: one row more than there are of these. */
  #ahead: { guesses: readonly number[]; rows: Rows; used: number } | null = null;
  /** Calls that choose tokens themselves and are under way: the first has as many tokens in its states as there are. */
  #calls: Call[] = [];
  /** Tokens that the states had already when the first call was made. */
  #reused = 0;
  #busy = false;
  /** What an encoder left: inputs of every call. */
  #given: Given | null = null;
  /** Gives back the states that are its own. */
  #dispose: (() => void) | null = null;
  /** It guesses for another, inside of what that one does. */
  #drafts = false;

  /**
   * Without a tokenizer tokens have no text. Throws a GenerationError where the model is no language model, or the tokenizer
   * is not its own.
   */
  constructor(model: DecoderModel, tokenizer: TextTokenizer | null) {
    checkTokenizer(model, tokenizer);
    this.#model = model;
    this.#tokenizer = tokenizer;
  }

  /** Tokens that the model has room for. */
  get capacity(): number {
    return factsOf(this.#model).capacity;
  }

  /** Of the prompt and what was written. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }

  /**
   * Another writer, of the same text, with a sequence of its own: what was computed is copied on the device, and both go on
   * by themselves. Rejects with a GenerationError while this one writes, and where the model cannot be forked.
   */
  async fork(): Promise<Writer> {
    const model = this.#model;
    if (this.#busy)
      throw new GenerationError("input", "the writer is writing", "end that first, or fork it before");
    this.#busy = true;
    try {
      await this.#settled();
      const [forked, held] = await this.#turn(async () => {
        const found = await forkOf(model);
        // What was copied is of use only where it is this text's.
        return [found, this.#version === model.stateVersion] as const;
      });
      const writer = new Writer(forked, this.#tokenizer);
      writer.#dispose = () => forked.dispose();
      writer.#tokens = [...this.#tokens];
      writer.#seen = new Set(this.#seen);
      writer.#stream = this.#stream?.copy() ?? null;
      writer.#given = this.#given;
      writer.#written = held ? this.#written : 0;
      writer.#version = forked.stateVersion;
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
    this.#ahead = null;
    const choose = chooser(options);
    await this.#settled();
    this.#begin(options);
    const { tokens = Number.POSITIVE_INFINITY, stop = [], signal } = options;
    const stops = new StopText(stop);
    const ends = this.#ends(options.stopIds ?? []);
    const stream = this.#stream as TextStream;
    const speculation = options.speculate && this.#speculation(options.speculate);
    const asked: Asked = {
      signal,
      speculation,
      chosen: isPlainlyGreedy(options) && typeof factsOf(this.#model).next === "string",
      end: this.#tokens.length + tokens,
    };
    this.#reused = this.#current();
    const begun = performance.now();
    let first = begun;
    const done: Omit<Generated, "reason"> = {
      ids: [],
      text: "",
      promptTokens: this.#tokens.length,
      reusedTokens: this.#reused,
      speculated: speculation?.done ?? null,
      prefillSeconds: 0,
      decodeSeconds: 0,
    };
    for (let reason: Reason | null = null; ; ) {
      const row: Row | null = reason ? null : await this.#next(asked);
      if (!done.ids.length) {
        first = performance.now();
        done.reusedTokens = this.#reused;
      }
      if (row === null) {
        done.text += stops.rest();
        done.prefillSeconds = (first - begun) / 1000;
        done.decodeSeconds = (performance.now() - first) / 1000;
        return { ...done, reason: reason ?? "abort" };
      }
      const position = this.#tokens.length;
      const id: number = typeof row === "number" ? chosen(row, position) : choose(row, this.#seen, position);
      this.#tokens.push(id);
      this.#seen.add(id);
      done.ids.push(id);
      const guessed = this.#expected === id;
      if (guessed && speculation) speculation.done.accepted++;
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
      yield { id, text, position, guessed };
    }
  }

  /** The tokens to go on from. Throws where there are none, or more than fit. */
  #begin(options: GenerateOptions): void {
    const { capacity, given: needed = [] } = factsOf(this.#model);
    if (options.given && options.given !== this.#given) {
      // What the states hold is of another source.
      this.#given = options.given;
      this.#written = 0;
      this.#calls = [];
    }
    if (needed.length && !this.#given)
      throw new GenerationError(
        "input",
        `${this.#model.name} attends to what its encoder leaves`,
        "give the encoder's outputs as `given`",
      );
    if (options.prompt === undefined && options.promptIds === undefined && !options.given) {
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
    if (parts >= 0 || ids.length !== this.#tokens.length) this.#calls = [];
    this.#takeBack(parts < 0 ? ids.length : parts);
    this.#tokens = [...ids];
    this.#seen = new Set(ids);
    this.#stream = new TextStream(this.#tokenizer, ids);
  }

  static #drafting(model: DecoderModel): Writer {
    const writer = new Writer(model, null);
    writer.#drafts = true;
    return writer;
  }

  #speculation({ draft, tokens }: Speculation): Speculating {
    return speculating(this.#model, draft === "ngram" ? ngrams : byModel(Writer.#drafting(draft)), tokens);
  }

  /** The guess for the next token; none where there are no more. */
  get #expected(): number | undefined {
    return this.#ahead?.guesses[this.#ahead.used];
  }

  /** What follows the last token, where it was guessed and that is known; what is known of others is forgotten. */
  #guessed(): Row | null {
    const ahead = this.#ahead;
    const right = ahead && this.#tokens.at(-1) === ahead.guesses[ahead.used];
    if (!right || this.#version !== this.#model.stateVersion) {
      this.#ahead = null;
      return null;
    }
    this.#written = this.#tokens.length;
    ahead.used++;
    return ahead.rows(ahead.used);
  }

  /** Tokens that end a text, and why. */
  #ends(stopIds: readonly number[]): ReadonlyMap<number, Reason> {
    const ends = factsOf(this.#model).end.map((id) => [id, "end"] as const);
    return new Map<number, Reason>([...ends, ...stopIds.map((id) => [id, "stop"] as const)]);
  }

  /** How many tokens need not be computed again. The last one is, for its logits. */
  #current(): number {
    if (this.#version !== this.#model.stateVersion) this.#written = 0;
    this.#takeBack(this.#tokens.length - 1);
    return this.#written;
  }

  /** So that the states have the first `most` tokens at most. A recurrence, which takes single tokens, begins anew. */
  #takeBack(most: number): void {
    if (this.#written > most) this.#written = this.#recurs ? 0 : most;
  }

  get #recurs(): boolean {
    return factsOf(this.#model).chunk === 1;
  }

  /** What follows the last token; null after an abort. */
  async #next(asked: Asked): Promise<Row | null> {
    const { signal, speculation } = asked;
    if (signal?.aborted) return null;
    const right = speculation ? this.#guessed() : null;
    if (right !== null) return right;
    if (speculation && this.#written) speculation.done.steps++;
    try {
      return await this.#computed(asked);
    } catch (cause) {
      if (signal?.aborted) return null;
      throw cause;
    }
  }

  /** What is done with the states, behind what others do with them. */
  #turn<T>(work: () => Promise<T>): Promise<T> {
    const before = TURNS.get(this.#model);
    const turn = (async () => {
      await before?.catch(() => {});
      return work();
    })();
    TURNS.set(this.#model, turn);
    return turn;
  }

  /** The states are made anew, once, where they are lost with the device or undefined. */
  async #computed(asked: Asked): Promise<Row> {
    const write = () => this.#turn(async () => (await this.#underWay(asked)) ?? this.#write(asked));
    const again = (cause: unknown) =>
      this.#turn(async () => {
        await restored(this.#model, cause, asked.signal);
        return this.#write(asked);
      });
    try {
      return await (this.#drafts ? write() : GATE.beside(write));
    } catch (cause) {
      if (!canRestore(cause, asked.signal)) throw cause;
      return this.#drafts ? again(cause) : GATE.alone(() => again(cause));
    }
  }

  async #write(asked: Asked): Promise<Row> {
    const model = this.#model;
    const { signal, speculation } = asked;
    const { chunk, prefill, decode, verify, next } = factsOf(model);
    const tokens = this.#tokens;
    this.#calls = [];
    this.#reused = this.#current();
    for (;;) {
      const begin = this.#current();
      const known = tokens.slice(begin, begin + chunk);
      const guesses = known.length === 1 ? ((await speculation?.draft(tokens, signal)) ?? []) : [];
      const part = [...known, ...guesses];
      const name = guesses.length ? (verify as string) : part.length > 1 ? prefill : decode;
      const behind = begin + known.length;
      const rows = guesses.length + 1;
      const unread = typeof next === "string" && (asked.chosen || behind < tokens.length);
      const call = this.#run(name, part, begin, rows, unread, signal);
      if (unread && behind === tokens.length && rows === 1) {
        this.#calls = [{ behind, token: call.then((found) => tokenOf(model, found)) }];
        return this.#taken(asked);
      }
      const found = await call;
      this.#written = behind;
      if (behind < tokens.length) continue;
      const all = unread ? tokensOf(model, found, rows) : logitsOf(model, found, rows);
      if (speculation && guesses.length) {
        this.#ahead = { guesses, rows: all, used: 0 };
        speculation.done.drafted += guesses.length;
      }
      return all(0);
    }
  }

  /** A call with tokens that stand from `begin` on, whose logits stay on the device if they are `unread`. */
  #run(
    name: string,
    ids: Ids,
    begin: number,
    rows: number,
    unread: boolean,
    signal: Signal,
  ): Promise<Outputs> {
    const call = run(this.#model, name, ids, begin, rows, unread, signal, this.#given ?? {});
    this.#version = this.#model.stateVersion;
    // Of a call that fails nobody knows whether it was made: a recurrence would see its token twice.
    if (this.#recurs) this.#written = 0;
    return call;
  }

  /** What the first of the calls under way chose; null where none is of use. */
  async #underWay(asked: Asked): Promise<Row | null> {
    const [first] = this.#calls;
    if (!asked.chosen || asked.speculation || first?.behind !== this.#tokens.length) {
      this.#calls = [];
      return null;
    }
    try {
      const token = await this.#taken(asked);
      this.#reused = first.behind;
      return token;
    } catch (cause) {
      if (asked.signal?.aborted) throw cause;
      // Whatever was wrong: a call that does not hang on the one before says so, or goes well.
      return null;
    }
  }

  /** What the first of the calls under way chose, with others behind it. */
  async #taken(asked: Asked): Promise<number> {
    this.#follow(asked);
    const [{ behind, token }] = this.#calls as [Call, ...Call[]];
    try {
      const found = await token;
      this.#calls.shift();
      // States of a recurrence are of that many tokens only while no other call follows.
      if (!this.#recurs || !this.#calls.length) this.#written = behind;
      return found;
    } catch (cause) {
      this.#calls = [];
      throw cause;
    }
  }

  /** Calls with tokens that are on the device yet, as far as they are wanted and fit. */
  #follow({ end, signal, speculation }: Asked): void {
    const { capacity, decode, next } = factsOf(this.#model);
    while (this.#calls.length <= AHEAD && !speculation && this.#version === this.#model.stateVersion) {
      const at = this.#calls.at(-1)?.behind as number;
      if (at + 1 >= end || at >= capacity) return;
      const call = this.#run(decode, { output: next as string }, at, 1, true, signal);
      const token = call.then((found) => tokenOf(this.#model, found));
      token.catch(() => {});
      this.#calls.push({ behind: at + 1, token });
    }
  }

  /** Calls under way are over: what the states hold is known. */
  async #settled(): Promise<void> {
    const version = this.#version;
    const calls = this.#calls;
    const ends = await Promise.allSettled(calls.map(({ token }) => token));
    const last = calls.at(-1);
    if (!last || version !== this.#model.stateVersion) return;
    if (ends.every(({ status }) => status === "fulfilled") && last.behind <= this.#tokens.length)
      this.#written = last.behind;
    else this.#calls = [];
  }
}

/** A call that is under way, the tokens that the states have then, and the one that it chooses. */
interface Call {
  readonly behind: number;
  readonly token: Promise<number>;
}

interface Asked {
  readonly signal: Signal;
  readonly speculation: Speculating | undefined;
  /** The model's own choice is what is asked for: no logits are read. */
  readonly chosen: boolean;
  /** Tokens of the text at most. */
  readonly end: number;
}

/** What a model would choose, as far as it has room. */
function byModel(writer: Writer): Draft {
  return async (promptIds, tokens, signal) => {
    if (promptIds.length > writer.capacity) return [];
    const ids: number[] = [];
    for await (const { id } of writer.generate({ promptIds, tokens, greedy: true, signal })) ids.push(id);
    return ids;
  };
}
