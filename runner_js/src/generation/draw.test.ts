import { describe, expect, it } from "vitest";
import type { DecoderModel, Generated, GenerateOptions, Piece } from "./api";
import { generate, Writer } from "./index";

const WORDS = 40;

/** A model of which a device draws: what follows hangs on all tokens that its states hold. */
class Drawn implements DecoderModel {
  readonly name = "drawn";
  stateVersion = 0;
  read = 0;
  /** Calls of each function. */
  readonly calls: Record<string, number> = { prefill: 0, decode: 0, draw: 0 };
  /** Draws that it is not sure of, by their number. */
  unsure: (draw: number) => boolean = () => false;
  before: (name: string) => void = () => {};
  private held: number[] = [];
  private left: Record<string, Int32Array | Float32Array> = {};
  private last: Promise<unknown> = Promise.resolve();
  readonly generation;

  constructor(draw: string | null = "draw") {
    const all = { prefill: "prefill", decode: "decode", verify: null, next: "next", draw };
    this.generation = { ...all, chunk: 8, capacity: 64, vocabulary: WORDS, end: [], begin: null };
  }

  readonly functions = Object.fromEntries(
    ["prefill", "decode", "draw"].map((name) => {
      const run: DecoderModel["functions"][string]["run"] = (inputs, options) => {
        if (name !== "draw") this.stateVersion++;
        const made = this.last.then(() => {
          options?.signal?.throwIfAborted();
          this.calls[name] = (this.calls[name] as number) + 1;
          this.before(name);
          const given = (of: string) => {
            const found = inputs[of] as { data: Int32Array } | { output: string };
            return "data" in found ? found.data : (this.left[found.output] as Int32Array);
          };
          const found = name === "draw" ? this.drawn(given) : this.decoded(given);
          this.left = { ...this.left, ...found };
          const read = Object.entries(found).filter(([output]) => options?.outputs?.[output] !== "unread");
          for (const [, array] of read) this.read += array.byteLength;
          return Object.fromEntries(read);
        });
        this.last = made.catch(() => {});
        return made;
      };
      return [name, { run }];
    }),
  );

  private decoded(given: (of: string) => Int32Array): Record<string, Int32Array | Float32Array> {
    const [ids, positions] = [given("input_ids"), given("positions")];
    for (const [at, id] of ids.entries()) this.held[(positions[0] as number) + at] = id;
    this.held.length = (positions.at(-1) as number) + 1;
    let state = 1;
    for (const id of this.held) state = (Math.imul(state, 48271) + id) >>> 0;
    const logits = Float32Array.from(
      { length: WORDS },
      (_, id) => (Math.imul(state, id * 77 + 5) >> 24) / 32,
    );
    return { logits, next: Int32Array.of(logits.indexOf(Math.max(...logits))) };
  }

  /** As the kernel, in floating-point numbers. */
  private drawn(given: (of: string) => Int32Array): Record<string, Int32Array> {
    const [seen, asked] = [given("seen"), given("asked")];
    const logits = given("logits") as unknown as Float32Array;
    expect([seen.length, asked.length]).toEqual([2, 9]);
    const scales = new Float64Array(asked.slice(0, 6).buffer);
    const [best, share, random] = new Uint32Array(asked.slice(6).buffer) as unknown as [
      number,
      number,
      number,
    ];
    const weights = [...logits].map((logit, id) => {
      const inside = ((seen[id >> 5] as number) >> (id & 31)) & 1;
      return 2 ** (logit * (scales[inside ? (logit > 0 ? 1 : 2) : 0] as number));
    });
    const weight = (id: number) => weights[id] as number;
    const sum = (ids: number[]) => ids.reduce((total, id) => total + weight(id), 0);
    let ids = [...weights.keys()];
    if (best || share) ids.sort((a, b) => weight(b) - weight(a) || a - b);
    if (best) ids = ids.slice(0, best);
    const whole = best ? sum(ids) : sum([...weights.keys()]);
    const cut = ids.findIndex((_, at) => sum(ids.slice(0, at + 1)) >= (share / 2 ** 32) * whole);
    if (share) ids = ids.slice(0, cut + 1);
    const place = ids.findIndex((_, at) => sum(ids.slice(0, at + 1)) > (random / 2 ** 32) * sum(ids));
    const token = this.unsure(this.calls.draw as number) ? -1 : (ids[place] as number);
    const after = seen.slice();
    if (token >= 0) after[token >> 5] = (after[token >> 5] as number) | (1 << (token & 31));
    return { next: Int32Array.of(Math.max(token, 0)), drawn: Int32Array.of(token), seen: after };
  }

  async reset(): Promise<void> {
    this.stateVersion++;
    this.held = [];
    this.left = {};
  }

  reload = () => this.reset();
}

async function all(pieces: AsyncGenerator<Piece, Generated, undefined>): Promise<Generated> {
  for (;;) {
    const { value, done } = await pieces.next();
    if (done) return value;
  }
}

const PROMPT = { promptIds: [3, 1, 4, 1, 5, 9, 2, 6, 5, 35], tokens: 30 };
const WAYS: Record<string, GenerateOptions> = {
  "all tokens": { seed: 1 },
  "the best": { temperature: 0.7, topK: 5, seed: 2 ** 40 },
  "a nucleus": { topP: 0.8, seed: 3 },
  everything: { temperature: 1.5, topK: 12, topP: 0.9, repetitionPenalty: 1.4, seed: 4 },
  "a penalty": { repetitionPenalty: 1.3, seed: 5 },
  "greedily, with a penalty": { repetitionPenalty: 1.3, greedy: true },
};
const byPage = async (options: GenerateOptions) => all(generate(new Drawn(null), null, options));

describe.each(Object.entries(WAYS))("draws of %s on the device", (_, way) => {
  const options = { ...PROMPT, ...way };
  it("are the page's, and are read back 4 bytes a token", async () => {
    const model = new Drawn();
    const { ids } = await all(generate(model, null, options));
    expect(ids).toEqual((await byPage(options)).ids);
    expect(new Set(ids).size).toBeGreaterThan(3);
    // Behind the prompt's first chunk nobody draws.
    expect([model.calls.draw, model.read]).toEqual([30, 30 * 4 + 4]);
  });

  it("are the page's where it is left some, and all", async () => {
    for (const unsure of [(n: number) => n % 17 === 1, (n: number) => n > 12, () => true]) {
      const model = new Drawn();
      model.unsure = unsure;
      const found = await all(generate(model, null, options));
      expect(found).toMatchObject({ ids: (await byPage(options)).ids, reusedTokens: 0 });
    }
  });

  it("are left to the page for good where it was left too many", async () => {
    const model = new Drawn();
    model.unsure = () => true;
    await all(generate(model, null, options));
    // Five times, each with up to eight behind it that were for nothing.
    expect(model.calls.draw).toBeLessThanOrEqual(45);
  });
});

it("a text that was ended is gone on with in another way", async () => {
  const [device, page] = [new Drawn(), new Drawn(null)].map((model) => new Writer(model, null)) as [
    Writer,
    Writer,
  ];
  for (const writer of [device, page]) {
    await all(writer.generate({ ...PROMPT, tokens: 7, seed: 1 }));
    await all(writer.generate({ tokens: 7, repetitionPenalty: 1.2, seed: 2 }));
    await all(writer.generate({ tokens: 7, greedy: true }));
    await all(writer.generate({ tokens: 7, topK: 3, seed: 2 }));
  }
  expect(device.tokens).toEqual(page.tokens);
});

it("goes on after an abort and a lost device in the middle of a draw", async () => {
  const model = new Drawn();
  const writer = new Writer(model, null);
  const stop = new AbortController();
  const options = { seed: 8, repetitionPenalty: 1.2 };
  model.before = () => {
    if (model.calls.draw === 5) stop.abort();
  };
  const begun = await all(writer.generate({ ...PROMPT, ...options, signal: stop.signal }));
  expect(begun.reason).toBe("abort");
  model.before = (name) => {
    if (name !== "draw" || model.calls.draw !== 12) return;
    void model.reset();
    throw Object.assign(new Error("the device is lost"), { kind: "device-lost" });
  };
  await all(writer.generate({ ...options, tokens: 30 - begun.ids.length }));
  const whole = await byPage({ ...PROMPT, ...options });
  expect(writer.tokens.slice(10)).toEqual(whole.ids);
});
