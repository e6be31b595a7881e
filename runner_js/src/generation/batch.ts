/** Texts of one model that are written together: a call has a token of each, or some of a prompt. */
import type { DecoderModel, Generated, GenerateOptions, Piece, Reason, TextTokenizer } from "./api";
import { logitsOf, type Outputs, type Row, type Rows, runParts, tokensOf } from "./calls";
import { refused } from "./error";
import { checkGenerate, checkTokenizer, endsOf, factsOf, promptTokens } from "./options";
import { Pace } from "./pace";
import { canRestore, restored } from "./recovery";
import { type Choose, chooser, chosen, isPlainlyGreedy } from "./sampling";
import { Line, type Part, Schedule } from "./schedule";
import { StopText, TextStream } from "./stream";
import { type Growing, taken } from "./taken";
import { GATE, turnOf } from "./turns";

/** A text of a batch, and what became of it so far. */
interface Written extends Growing {
  readonly number: number;
  readonly line: Line;
  readonly options: GenerateOptions;
  readonly choose: Choose;
  readonly seen: Set<number>;
  readonly done: Generated;
  /** performance.now() of the first token. */
  first: number;
}

/** A call that is made, and those behind it that are under way. */
interface Made {
  readonly parts: readonly Part[];
  readonly rows: Rows;
  readonly ahead: readonly Call[];
}

/** A call that is under way. */
interface Call {
  readonly parts: readonly Part[];
  readonly rows: Promise<Rows>;
  /** The one before it has its tokens. */
  readonly chained: boolean;
}

/**
 * Writes several texts at once on a model that was built with `--batch`: weights are read once for a token of each. What texts
 * begin with alike is computed once, also for texts that come later, while nobody else has changed the model's states.
 */
export class Batch {
  readonly #model: DecoderModel;
  readonly #tokenizer: TextTokenizer | null;
  readonly #schedule: Schedule;
  readonly #pace = new Pace();
  #place = 0;
  #version = -1;
  #busy = false;

  /** Throws a GenerationError for a model whose calls are of one text, and for a tokenizer that is not its own. */
  constructor(model: DecoderModel, tokenizer: TextTokenizer | null) {
    checkTokenizer(model, tokenizer);
    const { blocks, chunk } = factsOf(model);
    if (!blocks)
      throw refused(
        `a call of ${model.name} is of one text`,
        "build it with --batch N, or write each text on a sequence of its own",
      );
    this.#model = model;
    this.#tokenizer = tokenizer;
    this.#schedule = new Schedule(blocks.count, blocks.size, chunk);
  }

  /** The pieces of all texts as they come, each with the number of its text. Rejects as `generate`. */
  async *generate(
    texts: readonly GenerateOptions[],
  ): AsyncGenerator<readonly [number, Piece], Generated[], undefined> {
    if (this.#busy) throw refused("the batch is being written", "end that first, or make another batch");
    const all = texts.map((options, number) => this.#begin(options, number));
    this.#busy = true;
    const open = new Set(all);
    for (const { line } of all) this.#schedule.add(line);
    const begun = performance.now();
    let ahead: readonly Call[] = [];
    const end = (text: Written, reason: Reason) => {
      text.done.reason = reason;
      text.done.prefillSeconds = ((text.first || performance.now()) - begun) / 1000;
      text.done.decodeSeconds = (performance.now() - begun) / 1000 - text.done.prefillSeconds;
      this.#schedule.end(text.line);
      open.delete(text);
    };
    try {
      while (open.size) {
        for (const text of open) {
          if (!text.options.signal?.aborted) continue;
          text.done.text += text.stops.rest();
          end(text, "abort");
        }
        if (!open.size) break;
        const call: Made = await this.#made(ahead, open);
        ahead = call.ahead;
        let row = 0;
        for (const { line, wanted } of call.parts) {
          if (!wanted) continue;
          const following: Row = call.rows(row++);
          const text = [...open].find((each) => each.line === line);
          if (!text) continue;
          const [piece, reason] = this.#take(text, following);
          if (reason) end(text, reason);
          yield [text.number, piece];
        }
      }
      return all.map(({ done }) => done);
    } finally {
      await Promise.allSettled(ahead.map(({ rows }) => rows));
      for (const text of open) end(text, "abort");
      this.#busy = false;
    }
  }

  #begin(options: GenerateOptions, number: number): Written {
    checkGenerate(this.#model, options);
    if (options.speculate || options.given) throw refused("a batch guesses no tokens", "leave speculate out");
    const ids = promptTokens(this.#model, this.#tokenizer, options);
    return {
      number,
      line: new Line([...ids]),
      options,
      choose: chooser(options),
      seen: new Set(ids),
      stream: new TextStream(this.#tokenizer, ids),
      stops: new StopText(options.stop ?? []),
      ends: endsOf(this.#model, options.stopIds),
      most: options.tokens ?? Number.POSITIVE_INFINITY,
      capacity: factsOf(this.#model).capacity,
      done: {
        ids: [],
        text: "",
        reason: "abort",
        promptTokens: ids.length,
        reusedTokens: 0,
        speculated: null,
        prefillSeconds: 0,
        decodeSeconds: 0,
      },
      first: 0,
    };
  }

  /** The token that a row says, as a piece of its text, and why that is over then. */
  #take(text: Written, row: Row): [Piece, Reason | null] {
    const { line, done, seen } = text;
    const position = line.tokens.length;
    const id = typeof row === "number" ? chosen(row, position) : text.choose(row, seen, position);
    if (!done.ids.length) text.first = performance.now();
    line.tokens.push(id);
    this.#schedule.known(line);
    seen.add(id);
    const found = taken(text, id, position);
    return [{ id, text: found.text, position, guessed: false }, found.reason];
  }

  /** A call that gives what follows some text: that which is under way, or another, with the states made anew if need be. */
  async #made(ahead: readonly Call[], open: ReadonlySet<Written>): Promise<Made> {
    const again = async (cause: unknown) => {
      await restored(this.#model, cause);
      return this.#next([], open);
    };
    try {
      return await GATE.beside(() => turnOf(this.#model, () => this.#next(ahead, open)));
    } catch (cause) {
      // Of a call that fails nobody knows what it left.
      this.#version = -1;
      if (!canRestore(cause)) throw cause;
      return GATE.alone(() => turnOf(this.#model, () => again(cause)));
    }
  }

  async #next(ahead: readonly Call[], open: ReadonlySet<Written>): Promise<Made> {
    let behind = ahead.slice(1);
    for (let call: Call | undefined = ahead[0]; ; call = undefined) {
      if (!call) {
        if (this.#version !== this.#model.stateVersion) this.#schedule.forget();
        call = this.#submit(this.#schedule.plan(), open, null);
      }
      behind = this.#follow(call, behind, open);
      const rows = await call.rows;
      this.#place += call.chained ? 1 : 2;
      this.#pace.token(this.#place);
      if (call.parts.some(({ wanted }) => wanted)) return { parts: call.parts, rows, ahead: behind };
    }
  }

  /** Calls behind one with a token of each text, on whose device these are yet, until texts come or go. */
  #follow(call: Call, behind: readonly Call[], open: ReadonlySet<Written>): Call[] {
    const { next, capacity } = factsOf(this.#model);
    const calls = [call, ...behind];
    const lines = new Set([...open].map(({ line }) => line));
    const { ahead } = this.#pace;
    while (calls.length <= ahead && typeof next === "string" && this.#version === this.#model.stateVersion) {
      const { parts } = calls.at(-1) as Call;
      const each =
        parts.length === lines.size &&
        parts.every(({ line, wanted, count }) => wanted && count === 1 && lines.has(line));
      const goOn = [...open].every(
        ({ options, line, done, most }) =>
          isPlainlyGreedy(options) && line.computed < capacity && done.ids.length + calls.length < most,
      );
      const following = each && goOn ? this.#schedule.following(parts) : null;
      if (!following) break;
      const made = this.#submit(following, open, next);
      made.rows.catch(() => {});
      calls.push(made);
    }
    return calls.slice(1);
  }

  /** `output`: that of the call before, which has the tokens. */
  #submit(parts: readonly Part[], open: ReadonlySet<Written>, output: string | null): Call {
    const model = this.#model;
    const { prefill, decode, next } = factsOf(model);
    const count = parts.reduce((sum, part) => sum + part.count, 0);
    const rows = Math.max(1, parts.filter(({ wanted }) => wanted).length);
    const greedy = [...open].every(({ options }) => isPlainlyGreedy(options)) && typeof next === "string";
    const unread = greedy || !parts.some(({ wanted }) => wanted) ? ["logits"] : [];
    const made: Promise<Outputs> = runParts(model, count === 1 ? decode : prefill, parts, output, unread);
    this.#version = model.stateVersion;
    return {
      parts,
      chained: output !== null,
      rows: made.then((found) => (greedy ? tokensOf : logitsOf)(model, found, rows)),
    };
  }
}
