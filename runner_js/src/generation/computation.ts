/** The tokens of a text, and what a model computes of them: which of them its states hold, and the calls that are under way. */
import type { DecoderModel, DecoderSequence } from "./api";
import {
  type Given,
  type Ids,
  logitsOf,
  type Outputs,
  type Row,
  type Rows,
  run,
  runDraw,
  type Signal,
  tokenOf,
  tokensOf,
} from "./calls";
import type { Speculating } from "./drafts";
import type { Drawing } from "./draw";
import { factsOf } from "./options";
import { type Pace, paceOf } from "./pace";
import { canRestore, forkOf, restored } from "./recovery";
import { GATE, turnOf } from "./turns";

export class Computation {
  readonly #model: DecoderModel;
  /** It guesses for another, inside of what that one does. */
  readonly #drafts: boolean;
  #tokens: number[] = [];
  /** How many of the tokens the model's states have, while these are of that version. */
  #written = 0;
  #version = -1;
  /** What follows the last token and the guesses behind it: one row more than there are of these. */
  #ahead: { guesses: readonly number[]; rows: Rows; used: number } | null = null;
  /** Calls that choose tokens themselves and are under way: the first has as many tokens in its states as there are. */
  #calls: Call[] = [];
  readonly #pace: Pace;
  /** Tokens that the states had already when the first call was made. */
  #reused = 0;
  /** What an encoder left: inputs of every call. */
  #given: Given | null = null;

  constructor(model: DecoderModel, drafts: boolean) {
    this.#model = model;
    this.#drafts = drafts;
    this.#pace = paceOf(model);
  }

  get tokens(): readonly number[] {
    return this.#tokens;
  }

  get given(): Given | null {
    return this.#given;
  }

  get reused(): number {
    return this.#reused;
  }

  /** The guess for the next token; none where there are no more. */
  get expected(): number | undefined {
    return this.#ahead?.guesses[this.#ahead.used];
  }

  push(id: number): void {
    this.#tokens.push(id);
  }

  /** Calls under way are over, and what the states hold is known. Guesses of before are forgotten. */
  async settled(): Promise<void> {
    this.#ahead = null;
    const version = this.#version;
    const calls = this.#calls;
    const ends = await Promise.allSettled(calls.map(({ token }) => token));
    const [first, last] = [calls[0], calls.at(-1)];
    if (!first || !last || version !== this.#model.stateVersion) return;
    const well = ends.every(({ status }) => status === "fulfilled") && first.behind <= this.#tokens.length;
    if (!well) this.#calls = [];
    // A recurrence has the tokens of all calls: of use to who goes on with what these chose.
    else if (!this.#recurs || last.behind <= this.#tokens.length)
      this.#written = Math.min(last.behind, this.#tokens.length);
  }

  /** What an encoder left, of which there may be another now. */
  give(given: Given): void {
    if (given === this.#given) return;
    // What the states hold is of another source.
    this.#given = given;
    this.#written = 0;
    this.#calls = [];
  }

  /** The text is another one: what it begins with as this one does need not be computed again. */
  become(ids: readonly number[]): void {
    const parts = ids.findIndex((id, at) => id !== this.#tokens[at]);
    if (parts >= 0 || ids.length !== this.#tokens.length) this.#calls = [];
    this.#takeBack(parts < 0 ? ids.length : parts);
    this.#tokens = [...ids];
  }

  /** What follows the tokens is asked for from here on. */
  begin(): void {
    this.#reused = this.#current();
  }

  /** Another one of the same text, with states that are copied on the device. */
  async fork(): Promise<{ forked: DecoderSequence; computation: Computation }> {
    const model = this.#model;
    const [forked, held] = await this.#turn(async () => {
      const found = await forkOf(model);
      // What was copied is of use only where it is this text's.
      return [found, this.#version === model.stateVersion] as const;
    });
    const computation = new Computation(forked, this.#drafts);
    computation.#tokens = [...this.#tokens];
    computation.#given = this.#given;
    computation.#written = held ? this.#written : 0;
    computation.#version = forked.stateVersion;
    return { forked, computation };
  }

  /** What follows the last token; null after an abort. */
  async next(asked: Wanted): Promise<Row | null> {
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

  /** What is done with the states, behind what others do with them. */
  #turn<T>(work: () => Promise<T>): Promise<T> {
    return turnOf(this.#model, work);
  }

  /** The states are made anew, once, where they are lost with the device or undefined. */
  async #computed(asked: Wanted): Promise<Row> {
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

  async #write(asked: Wanted): Promise<Row> {
    const model = this.#model;
    const { signal, speculation } = asked;
    const { chunk, prefill, decode, verify, next } = factsOf(model);
    const tokens = this.#tokens;
    this.#calls = [];
    this.begin();
    for (;;) {
      const begin = this.#current();
      const known = tokens.slice(begin, begin + chunk);
      const guesses = known.length === 1 ? ((await speculation?.draft(tokens, signal)) ?? []) : [];
      const part = [...known, ...guesses];
      const name = guesses.length ? (verify as string) : part.length > 1 ? prefill : decode;
      const behind = begin + known.length;
      const rows = guesses.length + 1;
      const last = behind === tokens.length;
      const unread = typeof next === "string" && (asked.chosen || !last || asked.drawing?.worthwhile());
      if (unread && last && rows === 1) {
        this.#submit(name, part, begin, asked, false);
        return this.#taken(asked);
      }
      const found = await this.#run(name, part, begin, rows, unread ? ["logits"] : [], signal);
      this.#written = behind;
      if (!last) continue;
      const all = unread ? tokensOf(model, found, rows) : logitsOf(model, found, rows);
      if (speculation && guesses.length) {
        this.#ahead = { guesses, rows: all, used: 0 };
        speculation.done.drafted += guesses.length;
      }
      return all(0);
    }
  }

  /** A call whose token is chosen on the device: its own choice, or what is drawn there. */
  #submit(name: string, ids: Ids, begin: number, { drawing, signal }: Wanted, more: boolean): void {
    const model = this.#model;
    const behind = begin + ("output" in ids ? 1 : ids.length);
    const unread = ["logits", ...(drawing ? [factsOf(model).next as string] : [])];
    const call = this.#run(name, ids, begin, 1, unread, signal, more || drawing !== null);
    const text = drawing && !this.#calls.length ? drawing.seen() : null;
    const token = drawing
      ? runDraw(model, call, drawing.asked(behind), text, signal, more)
      : call.then((found) => tokenOf(model, found));
    token.catch(() => {});
    this.#calls.push({ behind, token, drawing });
  }

  /** A call with tokens that stand from `begin` on; outputs that are `unread` stay on the device. */
  #run(
    name: string,
    ids: Ids,
    begin: number,
    rows: number,
    unread: readonly string[],
    signal: Signal,
    more = false,
  ): Promise<Outputs> {
    const call = run(this.#model, name, ids, begin, rows, { unread, signal, more }, this.#given ?? {});
    this.#version = this.#model.stateVersion;
    // Of a call that fails nobody knows whether it was made: a recurrence would see its token twice.
    if (this.#recurs) this.#written = 0;
    return call;
  }

  /** What the first of the calls under way chose; null where none is of use. */
  async #underWay(asked: Wanted): Promise<Row | null> {
    const [first] = this.#calls;
    const wanted = (asked.chosen || asked.drawing) && !asked.speculation && first?.drawing === asked.drawing;
    if (!wanted || first?.behind !== this.#tokens.length) {
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
  async #taken(asked: Wanted): Promise<Row> {
    this.#follow(asked);
    const [{ behind, token, drawing }] = this.#calls as [Call, ...Call[]];
    try {
      const found = await token;
      this.#pace.token(behind);
      this.#calls.shift();
      // States of a recurrence are of that many tokens only while no other call follows.
      if (!this.#recurs || !this.#calls.length) this.#written = behind;
      drawing?.drawn(found);
      return drawing && found < 0 ? this.#left(asked) : found;
    } catch (cause) {
      this.#calls = [];
      throw cause;
    }
  }

  /** What the device is not sure of: logits, of a call that is made again, for those behind it have written theirs. */
  async #left(asked: Wanted): Promise<Row> {
    const reused = this.#reused;
    const row = await this.#write({ ...asked, drawing: null });
    this.#reused = reused;
    return row;
  }

  /** Calls with tokens that are on the device yet, as far as they are wanted and fit. */
  #follow(asked: Wanted): void {
    const { end, speculation } = asked;
    const { capacity, decode, next } = factsOf(this.#model);
    const { ahead, together } = this.#pace;
    if (speculation || this.#version !== this.#model.stateVersion) return;
    const at = this.#calls.at(-1)?.behind as number;
    const missing = ahead + 1 - this.#calls.length;
    // Fewer wait until there are as many, while there is work.
    if (missing < together && this.#calls.length > 1) return;
    const wanted = Math.min(missing, end - 1 - at, capacity - at);
    const output = asked.drawing ? "next" : (next as string);
    for (let i = 0; i < wanted; i++) {
      const more = (i + 1) % together !== 0 && i + 1 < wanted;
      this.#submit(decode, { output }, at + i, asked, more);
    }
  }
}

/** A call that is under way, the tokens that the states have then, and the one that it chooses. */
interface Call {
  readonly behind: number;
  readonly token: Promise<number>;
  readonly drawing: Drawing | null;
}

export interface Wanted {
  readonly signal: Signal;
  readonly speculation: Speculating | undefined;
  /** The model's own choice is what is asked for: no logits are read. */
  readonly chosen: boolean;
  /** How the device is to draw; null where logits are read. */
  readonly drawing: Drawing | null;
  /** Tokens of the text at most. */
  readonly end: number;
}
