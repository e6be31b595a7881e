import { describe, expect, it } from "vitest";
import type { DecoderModel, Generated, GenerateOptions, TextTokenizer } from "./api";
import { Batch, GenerationError, generate } from "./index";

const VOCABULARY = 300;
const [BEGIN, END] = [256, 257];
const [SIZE, CAPACITY] = [4, 32];

/** A token for each byte, besides those that begin and end a text. */
const BYTES: TextTokenizer = {
  size: 258,
  encode: (text) => ({ ids: [BEGIN, ...new TextEncoder().encode(text)] }),
  decode: (ids) => new TextDecoder().decode(Uint8Array.from([...ids].filter((id) => id < 256))),
  token: (id) => (id < 258 ? `token ${id}` : undefined),
};

interface Given {
  ids: number[];
  positions: number[];
  last: number[];
  table: number[][];
}

/** Says what follows tokens by what lies in the blocks of their text: one that is wrong anywhere says something else. */
class Blocks implements DecoderModel {
  readonly name = "blocks";
  readonly generation;
  stateVersion = 0;
  /** Tokens of each call, and whether they were on the device only. */
  readonly calls: { ids: number[]; chained: boolean }[] = [];
  before: () => unknown = () => {};
  lost = false;
  private held: (number | undefined)[] = [];
  private left: number[] = [];
  private running: Promise<unknown> = Promise.resolve();

  constructor(count: number, { chunk = 8, next = "next" as string | null } = {}) {
    const blocks = { input: "blocks", size: SIZE, count };
    const all = { prefill: "prefill", decode: "decode", next, blocks };
    this.generation = { ...all, chunk, capacity: CAPACITY, vocabulary: VOCABULARY, end: [END], begin: BEGIN };
  }

  private readonly call: DecoderModel["functions"][string]["run"] = (inputs) => {
    this.stateVersion++;
    const [given, positions, last, table] = ["input_ids", "positions", "last", "blocks"].map((name) => {
      const input = inputs[name];
      return input && "data" in input ? [...(input.data as Int32Array)] : null;
    }) as [number[] | null, number[], number[], number[]];
    const columns = CAPACITY / SIZE;
    const rows = positions.map((_, at) => table.slice(at * columns, (at + 1) * columns));
    const made = this.running.then(async () => {
      await this.before();
      if (this.lost) throw Object.assign(new Error("the device is lost"), { kind: "device-lost" });
      const ids = given ?? this.left;
      expect(ids.length).toBe(positions.length);
      this.calls.push({ ids, chained: !given });
      return this.made({ ids, positions, last, table: rows });
    });
    this.running = made.catch(() => {});
    return made;
  };

  readonly functions = { prefill: { run: this.call }, decode: { run: this.call } };

  private made({ ids, positions, last, table }: Given): Record<string, unknown> {
    const placeOf = (token: number, at: number) =>
      ((table[token] as number[])[Math.floor(at / SIZE)] as number) * SIZE + (at % SIZE);
    ids.forEach((id, token) => {
      this.held[placeOf(token, positions[token] as number)] = id;
    });
    const next = Int32Array.from(last, (token) => {
      const text = Array.from(
        { length: (positions[token] as number) + 1 },
        (_, at) => this.held[placeOf(token, at)],
      );
      return text.reduce<number>((sum, id, at) => (sum * 31 + (id ?? -1) * (at + 1)) % 251, 7);
    });
    this.left = [...next];
    const logits = new Float32Array(VOCABULARY * next.length);
    for (const [row, id] of next.entries()) logits[row * VOCABULARY + id] = 1;
    return { logits, ...(this.generation.next ? { next } : {}) };
  }

  async reset(): Promise<void> {
    this.stateVersion++;
    this.held = [];
  }

  async reload(): Promise<void> {
    await this.reset();
    this.lost = false;
  }
}

async function together(batch: Batch, texts: readonly GenerateOptions[]): Promise<Generated[]> {
  const pieces = batch.generate(texts);
  for (;;) {
    const { value, done } = await pieces.next();
    if (done) return value;
  }
}

async function alone(options: GenerateOptions): Promise<Generated> {
  const pieces = generate(new Blocks(CAPACITY / SIZE), BYTES, options);
  for (;;) {
    const { value, done } = await pieces.next();
    if (done) return value;
  }
}

const TEXTS: GenerateOptions[] = [
  { prompt: "a", tokens: 20 },
  { prompt: "what two texts begin with", tokens: 3 },
  { prompt: "what two texts begin with, too", tokens: 30 },
  { promptIds: [5, 6, 7], tokens: 11 },
].map((options) => ({ greedy: true, ...options }));

describe("texts of a batch", () => {
  it.each([
    ["with room for all", 40, "next"],
    ["with room for one that is as long as can be", CAPACITY / SIZE, "next"],
    ["by logits", 12, null],
  ] as const)("are those that are written alone: %s", async (_, count, next) => {
    const found = await together(new Batch(new Blocks(count, { next }), BYTES), TEXTS);
    const wanted = await Promise.all(TEXTS.map(alone));
    expect(found.map(({ ids }) => ids)).toEqual(wanted.map(({ ids }) => ids));
    expect(found.map(({ text }) => text)).toEqual(wanted.map(({ text }) => text));
    expect(found.map(({ reason }) => reason)).toEqual(wanted.map(({ reason }) => reason));
    expect(new Set(found.map(({ reason }) => reason)).size).toBeGreaterThan(1);
  });

  it("take a call for a token of each, given to the next one on the device", async () => {
    const model = new Blocks(40);
    await together(
      new Batch(model, BYTES),
      ["ab", "cd", "ef"].map((prompt) => ({ prompt, tokens: 9, greedy: true })),
    );
    expect(model.calls.map(({ ids }) => ids.length)).toEqual([8, 3, 3, 3, 3, 3, 3, 3, 3, 1]);
    expect(model.calls.filter(({ chained }) => chained).length).toBeGreaterThan(6);
  });

  it("compute what they begin with alike once, also later", async () => {
    const model = new Blocks(40, { chunk: 32 });
    const batch = new Batch(model, BYTES);
    const texts = ["once upon a time", "once upon a day"].map((prompt) => ({
      prompt,
      tokens: 1,
      greedy: true,
    }));
    const [first, second] = await together(batch, texts);
    expect(model.calls.map(({ ids }) => ids.length)).toEqual([17 + 4]);
    const before = model.calls.length;
    const again = await together(batch, texts);
    expect(again.map(({ ids }) => ids)).toEqual([first?.ids, second?.ids]);
    expect(model.calls.slice(before).map(({ ids }) => ids.length)).toEqual([1 + 4]);
  });

  it("are computed again where the device is lost, and where another took the states", async () => {
    const wanted = (await Promise.all(TEXTS.map(alone))).map(({ ids }) => ids);
    for (const disturb of [
      (model: Blocks) => {
        model.lost = true;
      },
      (model: Blocks) => model.reset(),
    ]) {
      const model = new Blocks(40);
      const pieces = new Batch(model, BYTES).generate(TEXTS);
      const found: number[][] = TEXTS.map(() => []);
      for (let count = 0; ; count++) {
        if (count === 7) await disturb(model);
        const { value, done } = await pieces.next();
        if (done) break;
        found[value[0]]?.push(value[1].id);
      }
      expect(found).toEqual(wanted);
    }
  });

  it("are computed again behind a call that failed, and behind options that are refused", async () => {
    const model = new Blocks(40);
    const batch = new Batch(model, BYTES);
    const wanted = (await Promise.all(TEXTS.map(alone))).map(({ ids }) => ids);
    model.before = () => {
      if (model.calls.length === 2) throw new Error("the driver says no");
    };
    await expect(together(batch, TEXTS)).rejects.toThrow("the driver says no");
    model.before = () => {};
    await expect(together(batch, [{ prompt: "a", greedy: true, topK: 3 }])).rejects.toThrow(GenerationError);
    await expect(
      together(batch, [{ prompt: "a", speculate: { draft: "ngram", tokens: 2 } }]),
    ).rejects.toThrow(GenerationError);
    expect((await together(batch, TEXTS)).map(({ ids }) => ids)).toEqual(wanted);
  });

  it("end by themselves, by a signal, and together", async () => {
    const model = new Blocks(40);
    const batch = new Batch(model, BYTES);
    const stopped = new AbortController();
    const [wanted] = await Promise.all(TEXTS.slice(0, 1).map(alone));
    const texts = [TEXTS[0] as GenerateOptions, { ...TEXTS[3], signal: stopped.signal }];
    const pieces = batch.generate(texts);
    const found: number[] = [];
    let ended: Generated[] = [];
    for (;;) {
      const { value, done } = await pieces.next();
      if (done) {
        ended = value;
        break;
      }
      if (value[0] === 0) found.push(value[1].id);
      if (found.length === 3) stopped.abort();
    }
    expect(found).toEqual(wanted?.ids);
    expect(ended.map(({ reason }) => reason)).toEqual([wanted?.reason, "abort"]);
    expect(ended[1]?.ids.length).toBeLessThan(5);
    const closed = batch.generate(texts);
    await closed.next();
    const busy = batch.generate(texts).next();
    await expect(busy).rejects.toThrow("the batch is being written: end that first, or make another batch");
    await closed.return([]);
    expect((await together(batch, TEXTS.slice(0, 1)))[0]?.ids).toEqual(wanted?.ids);
  });

  it("are refused where a call is of one", () => {
    const model = new Blocks(40);
    Object.assign(model.generation, { blocks: null });
    expect(() => new Batch(model, BYTES)).toThrow(GenerationError);
    expect(() => new Batch(model, BYTES)).toThrow(
      "a call of blocks is of one text: build it with --batch N, or write each text on a sequence of its own",
    );
  });
});
