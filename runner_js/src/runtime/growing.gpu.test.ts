import { describe, expect, it } from "vitest";
import { type DecoderModel, type GenerateOptions, Writer } from "../generation";
import { CAPACITY, FIRST, growing } from "../testing/growing";
import { Models } from "../testing/models";
import type { Inputs, Sequence, TensorInput } from "./index";

const models = new Models();

const given = (ids: readonly number[], first: number, positions?: TensorInput): Inputs => ({
  input_ids: { data: Int32Array.from(ids), shape: [1, ids.length] },
  positions: positions ?? Int32Array.from(ids, (_, at) => first + at),
  last: Int32Array.of(0),
});

/** What the rows of the cache sum up to, and how many places it has. */
async function called(
  { functions }: Pick<Sequence, "functions">,
  ids: readonly number[],
  first: number,
): Promise<number[]> {
  const found = await functions.main?.run(given(ids, first));
  return [...((found?.logits as Float32Array | undefined) ?? [])];
}

/** Of tokens up to a sum. */
const rows = (sum: number, tokens: number, places: number) => [
  ...[0, 100, 200].map((more) => sum + more * tokens),
  places,
];

describe("states that grow", () => {
  it("have room for few tokens at first, and for twice as many each time, with what was in them", async () => {
    const model = await models.open(await growing());
    expect(model.memory.states).toBe(12 * FIRST);
    let sum = 0;
    for (let at = 0; at < CAPACITY; at++) {
      sum += at + 1;
      const places = at < 4 ? 4 : at < 8 ? 8 : CAPACITY;
      expect(await called(model, [at + 1], at)).toEqual(rows(sum, at + 1, places));
      expect(model.memory.states).toBe(12 * places);
    }
    // A chunk over the edge, in a text that begins anew: there is room for it.
    expect(await called(model, [7, 7, 7], 0)).toEqual(rows(21, 3, CAPACITY));
    await model.reset();
    expect(model.memory.states).toBe(12 * FIRST);
    expect(await called(model, [1], 0)).toEqual(rows(1, 1, FIRST));
    expect(await called(model, [1, 1, 1], 3)).toEqual(rows(4, 4, 8).map((found, i) => (i < 3 ? found : 8)));
  });

  it("fork with the room that they have, and grow by themselves", async () => {
    const model = await models.open(await growing());
    await called(model, [1, 2, 3], 0);
    await called(model, [4, 5], 3);
    const fork = await model.fork();
    expect(fork.bytes).toBe(12 * 8);
    expect(await called(fork, [6, 7, 8], 5)).toEqual(rows(36, 8, 8));
    expect(await called(fork, [9], 8)).toEqual(rows(45, 9, CAPACITY));
    expect(await called(model, [1], 5)).toEqual(rows(16, 6, 8));
    expect((await model.sequence()).bytes).toBe(12 * FIRST);
  });

  it("have room for all where positions are on the GPU, in functions that do not generate, and in captures", async () => {
    const model = await models.open(await growing());
    const { device } = models.here.gpu;
    const one = await model.sequence();
    const data = device.createBuffer({ size: 4, usage: GPUBufferUsage.STORAGE });
    await one.functions.main?.run(given([5], 0, { data, shape: [1] }));
    data.destroy();
    expect(one.bytes).toBe(12 * CAPACITY);
    const two = await model.sequence();
    await two.functions.other?.run(given([5], 0));
    expect(two.bytes).toBe(12 * CAPACITY);
    const capture = model.capture({ function: "main" });
    expect(await called(model, [5], 0)).toEqual(rows(5, 1, CAPACITY));
    const { file, operators } = await capture;
    expect(operators).toHaveLength(2);
    // As the suite has it, of which the size of states is no symbol.
    const bytes = await file.arrayBuffer();
    const header = new Uint8Array(bytes, 8, Number(new DataView(bytes).getBigUint64(0, true)));
    const { tapml } = JSON.parse(new TextDecoder().decode(header)).__metadata__;
    const document = JSON.parse(tapml);
    expect(document.sizes).toEqual({ tokens: 1 });
    expect(document.calls.map(({ sizes }: { sizes: object }) => sizes)).toEqual([
      { tokens: 1 },
      { tokens: 1 },
    ]);
    expect(document.kernels[0].symbols.map(({ name }: { name: string }) => name)).toEqual(["tokens"]);
    expect(document.kernels[0].arguments[0].shape).toEqual([3, CAPACITY, 1]);
    expect(document.calls[0].outputs[0].shape).toEqual([3, CAPACITY, 1]);
  });

  it("take no size from a call, and grow no further than the tokens that fit", async () => {
    const model = await models.open(await growing());
    const sized = model.functions.main?.run(given([1], 0), { sizes: { places: 8 } });
    await expect(sized).rejects.toThrow("places is the room that states have: leave it out");
    expect(await called(model, [1], 500)).toEqual(rows(0, 0, CAPACITY));
  });

  it("make room by what others hold within a budget, and are as they were where there is none", async () => {
    // The model's own, and 10 places.
    const model = await models.open(await growing(), { memory: 12 * (FIRST + 10) });
    const [one, two] = [await model.sequence(), await model.sequence()];
    await called(one, [1], 0);
    await called(two, [1], 0);
    // Room for 8 is where the other was.
    expect(await called(two, [1], 4)).toEqual(rows(2, 2, 8).map((found, i) => (i < 3 ? found : 8)));
    expect([one.bytes, two.bytes]).toEqual([0, 12 * 8]);
    // What cannot be done takes no room of others.
    await expect(called(one, [1], 1)).rejects.toMatchObject({ kind: "state" });
    await expect(called(two, [1], 8)).rejects.toMatchObject({ kind: "memory" });
    expect(await called(two, [3], 1)).toEqual(rows(4, 2, 8));
    await one.reset();
    expect([one.bytes, two.bytes]).toEqual([12 * FIRST, 0]);
    await models.open(await growing(), { memory: Number.POSITIVE_INFINITY });
  });

  it("are computed again from the tokens of a text that lost them to another: all texts are as if alone", async () => {
    const written = async (decoder: DecoderModel, options: GenerateOptions) => {
      const writer = new Writer(decoder, null);
      // Of sums, so that what is chosen hangs on all that was written.
      const asked = { temperature: 400, tokens: 7, ...options };
      const ids: number[] = [];
      for await (const { id } of writer.generate(asked)) ids.push(id);
      return ids;
    };
    const texts = [1, 2, 3].map((seed) => ({ promptIds: [seed, 0, 1, 2, seed], seed }));
    const alone: number[][] = [];
    for (const text of texts) {
      const one = await models.open(await growing());
      alone.push(await written(one, text));
      one.dispose();
    }
    expect(new Set(alone.flat()).size).toBeGreaterThan(2);
    // Room for the model's own and for one of the texts.
    const model = await models.open(await growing(), { memory: 12 * (FIRST + CAPACITY) });
    const together = texts.map(async (text) => written(await model.sequence(), text));
    expect(await Promise.all(together)).toEqual(alone);
    expect(model.memory.states).toBeLessThanOrEqual(12 * (FIRST + CAPACITY));
    await models.open(await growing(), { memory: Number.POSITIVE_INFINITY });
  });
});
