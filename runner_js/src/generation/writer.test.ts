import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { DecoderModel, DecoderSequence, Generated, GenerateOptions, Piece, TextTokenizer } from "./api";
import { GenerationError, generate, Writer } from "./index";

const VOCABULARY = 300;
const [BEGIN, END] = [256, 257];

/** A token for each byte, besides those that begin and end a text. */
const BYTES: TextTokenizer = {
  size: 258,
  encode: (text) => ({ ids: [BEGIN, ...new TextEncoder().encode(text)] }),
  decode: (ids) => new TextDecoder().decode(Uint8Array.from([...ids].filter((id) => id < 256))),
  token: (id) => (id < 258 ? `token ${id}` : undefined),
};

/** Each look at the clock finds it so many ms later. */
const clock = (step: number) => {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => {
    now += step;
    return now;
  });
};
// Calls take so long that one is made ahead, on a machine of any speed.
beforeEach(() => clock(20));
afterEach(() => {
  vi.restoreAllMocks();
});

/** The output by which models of a test choose tokens themselves. */
let chooses: string | null = null;
const eitherWay = (name: string, tests: () => void) =>
  describe.each([
    [`${name}, by logits`, null],
    [`${name}, by tokens that the device chooses`, "next"],
  ])("%s", (_, next) => {
    beforeEach(() => {
      chooses = next;
    });
    afterAll(() => {
      chooses = null;
    });
    tests();
  });

/** Says what follows tokens, by what its states hold: a model whose cache was filled wrongly says something else. */
class Script implements DecoderSequence {
  readonly name = "script";
  readonly generation;
  stateVersion = 0;
  /** Tokens of each call. */
  readonly calls: number[][] = [];
  /** Is called before each call. */
  before: (signal: AbortSignal | undefined) => unknown = () => {};
  after: () => unknown = () => {};
  /** Bytes that were read back. */
  read = 0;
  private held: number[] = [];
  private lost = false;
  private last: Promise<unknown> = Promise.resolve();
  private left = -1;

  constructor(
    private readonly follows: (held: readonly number[]) => number,
    { capacity = 64, chunk = 8, next = chooses } = {},
  ) {
    const all = { prefill: "prefill", decode: "decode", verify: "verify", next };
    this.generation = { ...all, chunk, capacity, vocabulary: VOCABULARY, end: [END], begin: BEGIN };
  }

  /** As a GPU does: one call after the other, in the order in which they were made. */
  private readonly call: DecoderModel["functions"][string]["run"] = (inputs, options) => {
    this.stateVersion++;
    const made = this.last.then(() => this.made(inputs, options));
    this.last = made.catch(() => {});
    return made;
  };
  private async made(...[inputs, options]: Parameters<typeof this.call>): Promise<Record<string, unknown>> {
    const [given, positions, last] = ["input_ids", "positions", "last"].map((name) => {
      const input = inputs[name];
      return input && "data" in input ? [...(input.data as Int32Array)] : null;
    }) as [number[] | null, number[], number[]];
    const ids = given ?? [this.left];
    this.calls.push(ids);
    await this.before(options?.signal);
    options?.signal?.throwIfAborted();
    if (this.lost) throw Object.assign(new Error("the device is lost"), { kind: "device-lost" });
    const logits = new Float32Array(VOCABULARY * last.length);
    const next = Int32Array.from(this.next(ids, positions[0] as number, last));
    for (const [row, id] of next.entries()) logits[row * VOCABULARY + id] = 1;
    this.left = next.at(-1) as number;
    this.after();
    options?.signal?.throwIfAborted();
    const unread = options?.outputs?.logits === "unread";
    this.read += (unread ? 0 : logits.byteLength) + (this.generation.next ? next.byteLength : 0);
    return { ...(unread ? {} : { logits }), ...(this.generation.next ? { next } : {}) };
  }
  /** What follows each of the tokens of `last`, where tokens stand from `first` on. */
  protected next(ids: readonly number[], first: number, last: readonly number[]): number[] {
    for (const [at, id] of ids.entries()) this.held[first + at] = id;
    return last.map((at) => this.follows(this.held.slice(0, first + at + 1)));
  }

  readonly functions = {
    prefill: { run: this.call },
    verify: { run: this.call },
    decode: {
      run: ((inputs, options) => {
        const { input_ids: ids } = inputs;
        expect(ids && "shape" in ids ? ids.shape : [1, 1]).toEqual([1, 1]);
        return this.call(inputs, options);
      }) satisfies typeof this.call,
    },
  };

  async reset(): Promise<void> {
    this.stateVersion++;
    this.held = [];
  }

  async reload(): Promise<void> {
    await this.reset();
    this.lost = false;
  }

  async fork(): Promise<Script> {
    if (this.lost) throw Object.assign(new Error("the device is lost"), { kind: "device-lost" });
    const forked = new Script(this.follows, this.generation);
    forked.held = [...this.held];
    forked.stateVersion = 1;
    return forked;
  }

  disposed = false;
  dispose(): void {
    this.disposed = true;
  }

  lose(): void {
    this.held = [];
    this.lost = true;
  }
}

/** Goes on with a text that begins at position 0, and whose tokens are bytes. */
const writes = (text: string, options = {}) => {
  const ids = BYTES.encode(text).ids;
  return new Script((held) => {
    expect(held).toEqual(ids.slice(0, held.length));
    return ids[held.length] ?? END;
  }, options);
};

async function all(pieces: AsyncGenerator<Piece, Generated, undefined>) {
  const texts: string[] = [];
  for (;;) {
    const { value, done } = await pieces.next();
    if (done) return { ...value, texts };
    texts.push(value.text);
  }
}

const rejected = async (model: DecoderModel, options: GenerateOptions, sentence: string) => {
  const wrong = generate(model, BYTES, { greedy: true, prompt: "a", ...options }).next();
  await expect(wrong).rejects.toThrow(GenerationError);
  await expect(wrong).rejects.toThrow(sentence);
};

eitherWay("generate", () => {
  it("computes the prompt in chunks, then a token at a time, until the model ends it", async () => {
    const model = writes("Once upon a time there was");
    const found = await all(generate(model, BYTES, { prompt: "Once upon a time", greedy: true }));
    expect(found).toMatchObject({ text: " there was", reason: "end", promptTokens: 17, reusedTokens: 0 });
    expect(model.calls.slice(0, 5).map(({ length }) => length)).toEqual([8, 8, 1, 1, 1]);
    expect(found.texts).toEqual([..." there was", ""]);
    expect(found.ids.at(-1)).toBe(END);
  });

  it("gives whole characters only", async () => {
    const model = writes("a🙂é\u{fffd}!");
    const found = await all(generate(model, BYTES, { prompt: "a", greedy: true }));
    expect(found.text).toBe("🙂é\u{fffd}!");
    expect(found.texts).toEqual(["", "", "", "🙂", "", "é", "", "", "", "\u{fffd}!", ""]);
    const cut = await all(generate(writes("a🙂"), BYTES, { prompt: "a", greedy: true, tokens: 3 }));
    expect(cut).toMatchObject({ text: "", reason: "length" });
  });

  it("gives bytes that are no characters as the replacement character", async () => {
    const ids = [0x62, 0xff, 0xff, 0x63];
    const model = new Script((held) => ids[held.length - 2] ?? END);
    const found = await all(generate(model, BYTES, { prompt: "a", greedy: true }));
    expect(found.texts).toEqual(["b", "", "\u{fffd}", "\u{fffd}c", ""]);
  });

  it("gives no part of what may become a stop text", async () => {
    const given = { prompt: "a", greedy: true, stop: ["</end>", "<<"] };
    const stopped = await all(generate(writes("abc</e</end>d"), BYTES, given));
    expect(stopped).toMatchObject({ text: "bc</e", reason: "stop" });
    expect(stopped.texts.join("")).toBe(stopped.text);
    expect(stopped.texts.slice(0, 6)).toEqual(["b", "c", "", "", "", "</e"]);
    const others = await all(generate(writes("abc<<d"), BYTES, given));
    expect(others).toMatchObject({ text: "bc", reason: "stop" });
    // What was kept back comes when nothing follows it.
    const short = await all(generate(writes("abc</end>"), BYTES, { ...given, tokens: 5 }));
    expect(short).toMatchObject({ text: "bc</e", texts: ["b", "c", "", "", "</e"], reason: "length" });
  });

  it("stops on tokens, without their text", async () => {
    const model = writes("abcd");
    const found = await all(generate(model, BYTES, { prompt: "a", greedy: true, stopIds: [0x63] }));
    expect(found).toMatchObject({ text: "b", ids: [0x62, 0x63], reason: "stop" });
  });

  it("ends where the states are full", async () => {
    const model = writes("abcdefgh", { capacity: 4 });
    const found = await all(generate(model, BYTES, { prompt: "ab", greedy: true }));
    expect(found).toMatchObject({ text: "cd", reason: "capacity" });
    expect(Math.max(...model.calls.map(({ length }) => length))).toBeLessThanOrEqual(4);
    const full = await all(generate(model, BYTES, { prompt: "abc", greedy: true }));
    expect(full).toMatchObject({ text: "d", reason: "capacity" });
  });
});

eitherWay("a writer", () => {
  it("goes on after an abort in the middle of a token, and computes nothing twice", async () => {
    const model = writes("Once upon a time");
    const writer = new Writer(model, BYTES);
    const stop = new AbortController();
    model.before = () => model.calls.length === 4 && stop.abort();
    const first = await all(writer.generate({ prompt: "Once", greedy: true, signal: stop.signal }));
    expect(first).toMatchObject({ text: " up", reason: "abort" });
    model.before = () => {};
    const rest = await all(writer.generate({ greedy: true }));
    expect(first.text + rest.text).toBe(" upon a time");
    // The aborted token, which may not be in the states, is computed again.
    expect(model.calls.filter(({ length }) => length > 1)).toHaveLength(1);
    expect(model.calls[4]).toEqual(model.calls[3]);
  });

  it("gives nothing where the signal was aborted before", async () => {
    const found = await all(
      generate(writes("ab"), BYTES, { prompt: "a", greedy: true, signal: AbortSignal.abort() }),
    );
    expect(found).toMatchObject({ ids: [], text: "", reason: "abort" });
  });

  it("computes of a new prompt what differs", async () => {
    const follows = (held: readonly number[]) => (held.length < 12 ? 0x61 + (held.length % 20) : END);
    const model = new Script(follows);
    const writer = new Writer(model, BYTES);
    await all(writer.generate({ prompt: "Once u", greedy: true }));
    const before = writer.tokens;
    model.calls.length = 0;
    const more = [...before.slice(0, -1), 0x7a, 0x7b];
    const found = await all(writer.generate({ promptIds: more, greedy: true, tokens: 1 }));
    expect(found).toMatchObject({ promptTokens: 14, reusedTokens: 12 });
    expect(model.calls).toEqual([[0x7a, 0x7b]]);
    // The same prompt: its last token, for its logits.
    model.calls.length = 0;
    await all(writer.generate({ promptIds: more.slice(0, 9), greedy: true, tokens: 1 }));
    expect(model.calls).toEqual([more.slice(8, 9)]);
  });

  it("computes its tokens again where another writer took the states, and where they were reset", async () => {
    const model = new Script((held) => (held.reduce((sum, id) => sum + id, held.length) % 50) + 32);
    const alone = async (prompt: string) =>
      (await all(generate(model, BYTES, { prompt, greedy: true, tokens: 20 }))).text;
    const texts = ["The first", "Another one that is longer"];
    const wanted = [await alone(texts[0] as string), await alone(texts[1] as string)];
    const both = texts.map((prompt) =>
      all(new Writer(model, BYTES).generate({ prompt, greedy: true, tokens: 20 })),
    );
    expect((await Promise.all(both)).map(({ text }) => text)).toEqual(wanted);
    const writer = new Writer(model, BYTES);
    const first = await all(writer.generate({ prompt: texts[0] as string, greedy: true, tokens: 10 }));
    await model.reset();
    const rest = await all(writer.generate({ greedy: true, tokens: 10 }));
    expect(first.text + rest.text).toBe(wanted[0]);
  });

  it("makes the states of a lost device anew, from the tokens", async () => {
    const model = writes("Once upon a time");
    model.before = () => {
      if (model.calls.length === 4) model.lose();
    };
    const found = await all(generate(model, BYTES, { prompt: "Once", greedy: true }));
    expect(found).toMatchObject({ text: " upon a time", reason: "end" });
    expect(model.calls).toContainEqual(BYTES.encode("Once up").ids);
    // A device that is lost again and again is told.
    const hopeless = writes("Once");
    hopeless.before = () => hopeless.lose();
    await expect(all(generate(hopeless, BYTES, { prompt: "O", greedy: true }))).rejects.toThrow("is lost");
  });

  it("writes one text at a time", async () => {
    const writer = new Writer(writes("abc"), BYTES);
    const first = writer.generate({ prompt: "a", greedy: true });
    await first.next();
    await expect(writer.generate().next()).rejects.toThrow("the writer is writing");
    await first.return({} as Generated);
    expect((await all(writer.generate({ greedy: true }))).text).toBe("c");
  });

  it("draws by positions: a text that is gone on with is the one that was not interrupted", async () => {
    const even = () => new Script(() => 0);
    const options = { temperature: 5, seed: 7 };
    const whole = await all(generate(even(), BYTES, { prompt: "a", tokens: 20, ...options }));
    const writer = new Writer(even(), BYTES);
    const first = await all(writer.generate({ prompt: "a", tokens: 8, ...options }));
    const rest = await all(writer.generate({ tokens: 12, ...options }));
    expect([...first.ids, ...rest.ids]).toEqual(whole.ids);
    expect(new Set(whole.ids).size).toBeGreaterThan(10);
  });
});

describe("a model that chooses tokens itself", () => {
  const chooser = (text: string, options = {}) => writes(text, { ...options, next: "next" });
  it("is read back 4 bytes for a token, and computes at most one call for nothing where calls are slow", async () => {
    const model = chooser("Once upon a time there was");
    const found = await all(generate(model, BYTES, { prompt: "Once upon a time", greedy: true }));
    expect(found).toMatchObject({ text: " there was", reason: "end" });
    // The prompt's three calls give one token, and one call follows that which ended the text.
    expect(model.calls).toHaveLength(2 + found.ids.length + 1);
    // That one need not be over.
    expect(model.read).toBeLessThanOrEqual(4 * model.calls.length);
    const short = chooser("Once upon a time there was");
    await all(generate(short, BYTES, { prompt: "Once upon a time", greedy: true, tokens: 3 }));
    expect(short.calls).toHaveLength(2 + 3);
  });

  it("computes at most 32 calls for nothing where calls are fast", async () => {
    clock(0.01);
    const model = chooser("Once upon a time there was a king who had", { capacity: 128 });
    const found = await all(generate(model, BYTES, { prompt: "Once upon a time", greedy: true }));
    expect(found).toMatchObject({ text: " there was a king who had", reason: "end" });
    const unread = model.calls.length - 2 - found.ids.length;
    expect(unread).toBeGreaterThan(28);
    expect(unread).toBeLessThanOrEqual(32);
  });

  it.each([
    [20, 2],
    [2, 7],
    [0.01, 33],
  ])(
    "is called before the token of the call before is known, tokens %d ms apart: %d calls are under way",
    async (apart, most) => {
      clock(apart);
      const model = chooser("Once upon a time there was a king");
      const under = { now: 0, most: 0 };
      model.before = () => new Promise((resolve) => setTimeout(resolve, 1));
      const { run } = model.functions.decode;
      Object.assign(model.functions.decode, {
        run: (...given: Parameters<typeof run>) => {
          under.most = Math.max(under.most, ++under.now);
          return run(...given).finally(() => {
            under.now--;
          });
        },
      });
      await all(generate(model, BYTES, { prompt: "Once", greedy: true }));
      expect(under.most).toBe(most);
    },
  );

  it("is read logits where these are what is asked for", async () => {
    for (const options of [{ temperature: 1e-3 }, { greedy: true, repetitionPenalty: 1.01 }]) {
      const model = chooser("abcdefgh");
      const found = await all(generate(model, BYTES, { prompt: "ab", ...options, tokens: 4 }));
      expect(found.text).toBe("cdef");
      expect(model.read).toBe(4 * (4 * VOCABULARY + 4));
    }
  });

  it("goes on after it stopped with all that was under way", async () => {
    clock(0.01);
    const told = " was a king who had a garden of trees, and in it a tree that bore apples of gold";
    const model = chooser(`Once upon a time there${told}`, { capacity: 256 });
    const writer = new Writer(model, BYTES);
    const first = await all(writer.generate({ prompt: "Once", greedy: true, stop: ["there"] }));
    const rest = await all(writer.generate({ greedy: true }));
    expect(rest).toMatchObject({ text: told, reason: "end" });
    // None is made twice.
    expect(model.calls.length - first.ids.length - rest.ids.length).toBeLessThanOrEqual(32);
    const other = await all(writer.generate({ promptIds: BYTES.encode("Once upon").ids, temperature: 1e-3 }));
    expect(other.text).toBe(` a time there${told}`);
  });

  it("goes on after it stopped with what was under way, in any way", async () => {
    for (const more of [{ greedy: true }, { temperature: 1e-3 }]) {
      const model = chooser("Once upon a time");
      const writer = new Writer(model, BYTES);
      const given = { prompt: "Once", greedy: true, stop: ["pon"] };
      expect((await all(writer.generate(given))).text).toBe(" u");
      const before = model.calls.length;
      const rest = await all(writer.generate(more));
      expect(rest).toMatchObject({ text: " a time", reason: "end" });
      // What was under way was the call with the last token: it is made again for its logits only.
      expect(model.calls.length - before).toBe(rest.ids.length);
    }
  });

  it("is given at every call what its encoder left, and begins with its own token", async () => {
    const model = new Script((held) => 0x60 + held.length, { next: "next" });
    Object.assign(model.generation, { given: ["cross"] });
    const seen: unknown[] = [];
    const { run } = model.functions.decode;
    Object.assign(model.functions.decode, {
      run: (...[inputs, options]: Parameters<typeof run>) => {
        seen.push(inputs.cross);
        return run(inputs, options);
      },
    });
    const writer = new Writer(model, BYTES);
    const [first, other] = [{ cross: new Float32Array(1) }, { cross: new Float32Array(2) }];
    const found = await all(writer.generate({ given: first, greedy: true, tokens: 3 }));
    expect(found).toMatchObject({ text: "abc", promptTokens: 1 });
    await all(writer.generate({ greedy: true, tokens: 2 }));
    expect(seen.every((cross) => cross === first.cross)).toBe(true);
    // The states are of the other source.
    const again = await all(writer.generate({ given: other, promptIds: [BEGIN], greedy: true, tokens: 2 }));
    expect(again).toMatchObject({ text: "ab", reusedTokens: 0 });
    expect(seen.at(-1)).toBe(other.cross);
    await rejected(model, { promptIds: [1], prompt: undefined }, "script attends to what its encoder leaves");
    await rejected(
      model,
      { given: { x: new Float32Array(1) } },
      "given has no cross, to which script attends",
    );
    await rejected(writes("a"), { given: first }, "script takes nothing of an encoder");
  });

  it("names the draft whose logits are no numbers", async () => {
    const draft = new Script(() => -6, { next: "next" });
    const model = new Script(() => 0x20, { next: "next" });
    const options = { prompt: "a song and", greedy: true, speculate: { draft, tokens: 3 } };
    const said = "the draft script: the model's logits for position 12 are no numbers to choose by";
    await expect(all(generate(model, BYTES, options))).rejects.toThrow(said);
  });

  it("says of what token the logit is no number", async () => {
    const model = new Script((held) => (held.length < 4 ? 0x61 : -1 - 7), { next: "next" });
    const wrong = all(generate(model, BYTES, { prompt: "a", greedy: true }));
    await expect(wrong).rejects.toThrow(
      "logits for position 4 are no numbers to choose by, that of token 7 is infinite or NaN",
    );
  });

  it("says how many tokens were reused, and none of a device that was lost", async () => {
    const model = chooser("Once upon a time");
    const writer = new Writer(model, BYTES);
    await all(writer.generate({ prompt: "Once", greedy: true, tokens: 3 }));
    model.lose();
    const found = await all(writer.generate({ promptIds: [...writer.tokens], greedy: true, tokens: 2 }));
    expect(found).toMatchObject({ text: "on", reusedTokens: 0 });
  });
});

eitherWay("a recurrence, of which no token can be taken back", () => {
  /** What was given since position 0, whatever the positions behind it were. */
  class Recurrence extends Script {
    constructor() {
      super(() => 0, { chunk: 1 });
    }

    private seen: number[] = [];
    protected override next(ids: readonly number[], first: number): number[] {
      this.seen = first ? [...this.seen, ...ids] : [...ids];
      return [(this.seen.reduce((sum, id) => (sum * 31 + id) % 997, 7) % 90) + 32];
    }
  }
  const options = { prompt: "a song", greedy: true, tokens: 12 };

  it("is given each token once, or begins anew", async () => {
    const wanted = (await all(generate(new Recurrence(), BYTES, options))).text;
    const model = new Recurrence();
    const writer = new Writer(model, BYTES);
    const first = await all(writer.generate({ ...options, tokens: 5 }));
    const before = model.calls.length;
    const rest = await all(writer.generate({ greedy: true, tokens: 7 }));
    expect(first.text + rest.text).toBe(wanted);
    expect(model.calls.length).toBe(before + 7);
    // The same prompt again: its last token was seen.
    expect((await all(writer.generate(options))).text).toBe(wanted);
    const more = await all(writer.generate({ promptIds: [...writer.tokens], greedy: true, tokens: 1 }));
    expect(more.reusedTokens).toBe(writer.tokens.length - 2);
  });

  it("begins anew after a call that was aborted", async () => {
    const wanted = (await all(generate(new Recurrence(), BYTES, options))).text;
    const model = new Recurrence();
    const stop = new AbortController();
    // It is made all the same.
    model.after = () => model.calls.length === 10 && stop.abort();
    const writer = new Writer(model, BYTES);
    const first = await all(writer.generate({ ...options, signal: stop.signal }));
    expect(first.reason).toBe("abort");
    const rest = await all(writer.generate({ greedy: true, tokens: 12 - first.ids.length }));
    expect(first.text + rest.text).toBe(wanted);
  });
});

eitherWay("speculation", () => {
  /** Without expectations of what is held: drafts are. */
  const repeats = (text: string, options = {}) => {
    const ids = BYTES.encode(text).ids;
    return new Script(
      (held) => (held.every((id, at) => id === ids[at]) ? (ids[held.length] ?? END) : 0x7a),
      options,
    );
  };
  const TEXT = "a song and a song and a song and an end";
  /** The same by what it was given, in whatever order: nothing can be taken back. */
  class Recurs extends Script {
    readonly forks: Recurs[] = [];
    private seen: number[] = [];

    constructor(private readonly text: string) {
      super(() => 0, { chunk: 1 });
    }

    protected override next(ids: readonly number[], first: number): number[] {
      this.seen = first ? [...this.seen, ...ids] : [...ids];
      const wanted = BYTES.encode(this.text).ids;
      return [this.seen.every((id, at) => id === wanted[at]) ? (wanted[this.seen.length] ?? END) : 0x7a];
    }

    override async fork(): Promise<Recurs> {
      const forked = new Recurs(this.text);
      forked.seen = [...this.seen];
      forked.stateVersion = 1;
      this.forks.push(forked);
      return forked;
    }
  }
  const given = { prompt: "a song and", greedy: true };

  it("writes the same text in fewer calls, by what stood before", async () => {
    const alone = await all(generate(repeats(TEXT), BYTES, given));
    const model = repeats(TEXT);
    const found = await all(generate(model, BYTES, { ...given, speculate: { draft: "ngram", tokens: 4 } }));
    expect([found.ids, found.texts, found.reason]).toEqual([alone.ids, alone.texts, "end"]);
    const { steps, drafted, accepted } = found.speculated ?? { steps: 0, drafted: 0, accepted: 0 };
    expect(accepted).toBeGreaterThan(10);
    expect(drafted).toBeGreaterThanOrEqual(accepted);
    // Each call gives a token, and those that were guessed.
    expect(steps + accepted).toBe(found.ids.length - 1);
    expect(model.calls.length).toBe(2 + steps);
    expect(Math.max(...model.calls.slice(2).map(({ length }) => length))).toBe(5);
  });

  it("writes the same text by a smaller model, however wrong that is", async () => {
    for (const draft of [repeats(TEXT), repeats("a song and a bird"), repeats("other"), writesAlways(0x20)]) {
      const speculate = { draft, tokens: 3 };
      const found = await all(generate(repeats(TEXT), BYTES, { ...given, speculate }));
      expect(found.text).toBe(TEXT.slice(given.prompt.length));
    }
    const same = await all(
      generate(repeats(TEXT), BYTES, { ...given, speculate: { draft: repeats(TEXT), tokens: 3 } }),
    );
    expect(same.speculated?.accepted).toBe(same.speculated?.drafted);
  });

  it("computes of the text what the draft has not seen, once for all texts of a writer", async () => {
    const [model, draft] = [repeats(TEXT), repeats(TEXT)];
    const writer = new Writer(model, BYTES);
    const speculate = { draft, tokens: 3 };
    await all(writer.generate({ ...given, speculate, tokens: 9 }));
    const before = draft.calls.length;
    await all(writer.generate({ greedy: true, speculate, tokens: 4 }));
    expect(draft.calls.slice(before).flat().length).toBeLessThan(9);
  });

  it("guesses by a recurrence, from whose states nothing can be taken back", async () => {
    for (const text of [TEXT, "a song and a bird"]) {
      const draft = new Recurs(text);
      const found = await all(generate(repeats(TEXT), BYTES, { ...given, speculate: { draft, tokens: 3 } }));
      expect(found.text).toBe(TEXT.slice(given.prompt.length));
      // By its own states each token once, and guesses by copies of them, which are given back.
      expect(draft.calls.flat()).toEqual(BYTES.encode(TEXT).ids.slice(0, draft.calls.length));
      expect(draft.forks.length).toBeGreaterThan(1);
      expect(draft.forks.every(({ disposed }) => disposed)).toBe(true);
      if (text === TEXT) expect(found.speculated?.accepted).toBe(found.speculated?.drafted);
    }
  });

  it("draws the same text", async () => {
    const even = () => new Script((held) => held.length % 7);
    const options = { prompt: "a", tokens: 40, temperature: 0.3, seed: 3 };
    const alone = await all(generate(even(), BYTES, options));
    const found = await all(
      generate(even(), BYTES, { ...options, speculate: { draft: "ngram", tokens: 5 } }),
    );
    expect(found.ids).toEqual(alone.ids);
  });

  it("ends in the middle of guesses, goes on there, and fills the states to their end", async () => {
    const speculate = { draft: "ngram" as const, tokens: 7 };
    const writer = new Writer(repeats(TEXT, { capacity: 30 }), BYTES);
    const parts = [await all(writer.generate({ ...given, speculate, tokens: 13 }))];
    parts.push(await all(writer.generate({ greedy: true, tokens: 3 })));
    parts.push(await all(writer.generate({ greedy: true, speculate })));
    expect(parts.map(({ reason }) => reason)).toEqual(["length", "length", "capacity"]);
    expect(parts.map(({ text }) => text).join("")).toBe(TEXT.slice(given.prompt.length, 30));
    const stopped = await all(
      generate(repeats(TEXT), BYTES, { ...given, speculate, stop: ["and a song a"] }),
    );
    expect(stopped).toMatchObject({ text: " a song ", reason: "stop" });
  });

  it("needs a model that verifies, and a draft of the same vocabulary", async () => {
    const plain = repeats(TEXT);
    const cut = Object.assign(repeats(TEXT), { generation: { ...plain.generation, verify: null } });
    const by = (draft: "ngram" | DecoderModel, tokens = 4) => ({ prompt: "a", speculate: { draft, tokens } });
    await rejected(
      cut,
      by("ngram"),
      "script gives the logits of one token only, so no drafts can be verified",
    );
    await rejected(plain, by("ngram", 8), "speculate.tokens is 8: give a whole number from 1 to 7");
    await rejected(plain, by(plain), "the draft is the model itself");
    const other = Object.assign(repeats(TEXT), { generation: { ...plain.generation, vocabulary: 500 } });
    await rejected(plain, by(other), "the draft script has 500 tokens, and script 300");
    const attends = Object.assign(repeats(TEXT), {
      generation: { ...plain.generation, given: ["cross_keys0"] },
    });
    await rejected(plain, by(attends), "the draft script attends to what an encoder leaves");
  });
});

function writesAlways(id: number): Script {
  return new Script(() => id);
}

describe("a fork", () => {
  /** Says how many tokens there are, and how many of them are x. */
  const counting = () =>
    new Script((held) => held.filter((id) => id === 0x78).length * 16 + (held.length % 16), { capacity: 99 });
  const fresh = async (options: GenerateOptions) => (await all(generate(counting(), null, options))).ids;

  it("goes on from where the text is, computes no more than its last token, and takes nothing from the other", async () => {
    const model = counting();
    const writer = new Writer(model, null);
    const prompt = [1, 2, 3, 4, 5];
    const { ids } = await all(writer.generate({ promptIds: prompt, tokens: 3, greedy: true }));
    const forked = await writer.fork();
    const begun = model.calls.length;
    const more = [...prompt, ...ids, 0x78];
    const [own, other] = await Promise.all([
      all(writer.generate({ tokens: 4, greedy: true })),
      all(forked.generate({ promptIds: more, tokens: 4, greedy: true })),
    ]);
    expect(own.ids).toEqual(await fresh({ promptIds: [...prompt, ...ids], tokens: 4, greedy: true }));
    expect(other.ids).toEqual(await fresh({ promptIds: more, tokens: 4, greedy: true }));
    expect(other).toMatchObject({ promptTokens: 9, reusedTokens: 7 });
    expect(model.calls.slice(begun)).toHaveLength(4);
    expect(forked.tokens).toEqual([...more, ...other.ids]);
  });

  it("goes on with half a character, is made of a writer without a text, and of one that lost its device", async () => {
    const model = writes("a🙂é!");
    const writer = new Writer(model, BYTES);
    const empty = await writer.fork();
    await all(writer.generate({ prompt: "a", greedy: true, tokens: 2 }));
    const forked = await writer.fork();
    expect((await all(forked.generate({ greedy: true }))).text).toBe("🙂é!");
    expect((await all(empty.generate({ prompt: "a", greedy: true }))).text).toBe("🙂é!");
    model.lose();
    const later = await writer.fork();
    expect(await all(later.generate({ greedy: true }))).toMatchObject({ text: "🙂é!", reusedTokens: 0 });
  });

  it("gives back its own states only", async () => {
    const model = writes("abc");
    const writer = new Writer(model, BYTES);
    const fork = model.fork.bind(model);
    let made: Script | null = null;
    model.fork = async () => {
      made = await fork();
      return made;
    };
    const forked = await writer.fork();
    writer.dispose();
    expect([model.disposed, (made as Script | null)?.disposed]).toEqual([false, false]);
    forked.dispose();
    expect([model.disposed, (made as Script | null)?.disposed]).toEqual([false, true]);
  });

  it("is refused while the writer writes, and of a model that cannot", async () => {
    const writer = new Writer(writes("abc"), BYTES);
    const pieces = writer.generate({ prompt: "a", greedy: true });
    await pieces.next();
    await expect(writer.fork()).rejects.toThrow("the writer is writing: end that first, or fork it before");
    const plain = Object.assign(writes("abc"), { fork: undefined });
    await expect(new Writer(plain as DecoderModel, BYTES).fork()).rejects.toThrow("script cannot be forked");
  });
});

describe("what cannot be is refused in one sentence", () => {
  const model = writes("abc", { capacity: 4 });
  const cases: [GenerateOptions, string][] = [
    [{ prompt: "" }, "the prompt is empty: give text, or the token [256] to begin a text"],
    [{ promptIds: [] }, "prompt and promptIds are given"],
    [{ prompt: undefined, promptIds: [] }, "the prompt is empty"],
    [{ prompt: undefined }, "there is nothing to go on with"],
    [{ prompt: "abcdef" }, "the prompt has 7 tokens, and script has room for 4: leave 3 out"],
    [
      { prompt: undefined, promptIds: [1, 300] },
      "300 is no token of script: its vocabulary goes from 0 to 299",
    ],
    [{ prompt: undefined, promptIds: [-1] }, "-1 is no token"],
    [{ stopIds: [0.5] }, "0.5 is no token"],
    [{ tokens: 0 }, "tokens is 0: give a whole number from 1"],
    [{ stop: [""] }, "stop is no list of texts"],
    [{ temperature: 1 }, "greedy takes the most likely token, and temperature is for draws"],
    [{ greedy: false, temperature: 0 }, "temperature is 0: give a number above 0 (for the most likely"],
    [{ greedy: false, topK: 0 }, "topK is 0"],
    [{ greedy: false, topP: 1.5 }, "topP is 1.5: give a number above 0 and at most 1"],
    [{ greedy: false, seed: -1 }, "seed is -1"],
    [{ repetitionPenalty: Number.NaN }, "repetitionPenalty is NaN"],
    [
      { repetitionPenalty: 1e-320 },
      "repetitionPenalty is 1e-320: give a number above 0 (1 changes nothing), from",
    ],
    [{ greedy: false, temperature: 1e-300 }, "temperature is 1e-300"],
    [{ topk: 3 } as GenerateOptions, "generate has no option topk: there are greedy, temperature"],
  ];
  it.each(cases)("%j", (options, sentence) => rejected(model, options, sentence));

  it("logits that are no numbers", async () => {
    const broken = (value: number) => {
      const made = writes("abc");
      const run = async () => ({ logits: new Float32Array(VOCABULARY).fill(value) });
      return Object.assign(made, { functions: { prefill: { run }, decode: { run } } });
    };
    const sentence = "logits for position 2 are no numbers to choose by";
    await rejected(broken(Number.NaN), {}, `${sentence}, that of token 0 is NaN`);
    await rejected(broken(Number.NEGATIVE_INFINITY), {}, sentence);
    await rejected(broken(Number.NaN), { greedy: false }, sentence);
  });

  it("a model that does not generate, and another model's tokenizer", () => {
    const made = (changes: object) => () =>
      new Writer(Object.assign(writes("a"), changes) as DecoderModel, BYTES);
    expect(made({ generation: null })).toThrow("script is no language model that generates");
    const facts = writes("a").generation;
    const said = "the tokenizer does not belong to script: it has";
    expect(made({ generation: { ...facts, vocabulary: 200 } })).toThrow(`${said} 258 tokens, the model 200`);
    expect(made({ generation: { ...facts, vocabulary: 3000 } })).toThrow(
      `${said} 258 tokens, the model 3000`,
    );
    expect(made({ generation: { ...facts, end: [290] } })).toThrow(`${said} no token 290`);
  });
});
