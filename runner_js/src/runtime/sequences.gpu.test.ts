import { describe, expect, it } from "vitest";
import { ADD, COUNTER, range } from "../testing/compiled";
import { Models } from "../testing/models";
import type { Sequence } from "./index";

const models = new Models();

/** The sum of all that a sequence was given. */
async function counted({ functions }: Pick<Sequence, "functions">, x: number): Promise<number | undefined> {
  const found = await functions.main?.run({ x: Float32Array.of(x) });
  return (found?.y as Float32Array | undefined)?.[0];
}

describe("sequences", () => {
  it("have states of their own, and the model's weights and scratch memory", async () => {
    const model = await models.of(COUNTER);
    const before = model.memory;
    const [one, two] = [await model.sequence(), await model.sequence()];
    expect([await counted(model, 100), await counted(one, 1), await counted(two, 10)]).toEqual([100, 1, 10]);
    expect([await counted(two, 10), await counted(model, 100), await counted(one, 1)]).toEqual([20, 200, 2]);
    const { weights, arenas, states } = model.memory;
    expect([weights, arenas, states]).toEqual([before.weights, before.arenas, 3 * before.states]);
    expect(one.bytes).toBe(before.states);
    await one.reset();
    expect([await counted(one, 1), await counted(two, 10), await counted(model, 1)]).toEqual([1, 30, 201]);
    one.dispose();
    await expect(counted(one, 1)).rejects.toThrow("the sequence of little is disposed of: make another one");
    expect(await counted(two, 1)).toBe(31);
    expect(model.memory.states).toBe(2 * before.states);
  });

  it("fork with what their states hold, and go on by themselves", async () => {
    const model = await models.of(COUNTER);
    await counted(model, 5);
    const one = await model.fork();
    const version = one.stateVersion;
    expect(await counted(one, 1)).toBe(6);
    expect(one.stateVersion).not.toBe(version);
    const two = await one.fork();
    expect([await counted(two, 10), await counted(one, 1), await counted(model, 1)]).toEqual([16, 7, 6]);
    one.dispose();
    expect(await counted(two, 10)).toBe(26);
  });

  it("run their calls in the order in which they were made, and are given back behind them", async () => {
    const model = await models.of(COUNTER);
    const one = await model.sequence();
    const calls = [counted(one, 1), counted(model, 1), counted(one, 1)];
    const forked = one.fork();
    const later = counted(one, 1);
    one.dispose();
    await expect(counted(one, 1)).rejects.toThrow("disposed");
    expect(await Promise.all([...calls, later])).toEqual([1, 1, 2, 3]);
    expect(await counted(await forked, 1)).toBe(3);
    expect(one.bytes).toBe(0);
  });

  it("begin with weights where the model's states do", async () => {
    const initial: [number, number] = [0, 0];
    const states = [{ name: "total", dtype: "float32" as const, shape: [1], initial }];
    const model = await models.of({ ...COUNTER, states, weights: [Float32Array.of(40)] });
    await counted(model, 1);
    expect(await counted(await model.sequence(), 2)).toBe(42);
  });

  it("need no states", async () => {
    const model = await models.of(ADD);
    const sequence = await (await model.sequence()).fork();
    expect((await sequence.functions.main?.run({ x: range(9) }))?.y).toEqual(range(9, 3));
  });

  it("are as before the first call when the model was loaded again, and are gone with it", async () => {
    const model = await models.of(COUNTER);
    const one = await model.sequence();
    await counted(one, 5);
    const version = one.stateVersion;
    await model.reload();
    expect(one.stateVersion).not.toBe(version);
    expect(await counted(one, 1)).toBe(1);
    // The model is on a device: nothing of the others' is lost by it.
    await counted(model, 7);
    await one.reload();
    expect([await counted(one, 1), await counted(model, 1)]).toEqual([1, 8]);
    model.dispose();
    await expect(counted(one, 1)).rejects.toThrow("little is disposed of: load it again");
  });

  it("make room for each other within a budget, those that were used least recently first", async () => {
    const model = await models.of(COUNTER);
    const { states, weights, arenas } = model.memory;
    model.dispose();
    const other = await models.of(COUNTER, { memory: weights + arenas + 3 * states });
    const [one, two] = [await other.sequence(), await other.sequence()];
    const unused = await other.sequence();
    expect([one.bytes, two.bytes, unused.bytes]).toEqual([0, states, states]);
    // Nothing was in it that could be lost.
    expect([await counted(one, 1), await counted(unused, 1), await counted(other, 1)]).toEqual([1, 1, 1]);
    expect([one.bytes, two.bytes, unused.bytes]).toEqual([states, 0, states]);
    const version = one.stateVersion;
    expect(await counted(two, 10)).toBe(10);
    expect([one.bytes, one.stateVersion === version]).toEqual([0, false]);
    const said = "the states of little are undefined: they made room for others within the budget of memory";
    await expect(counted(one, 1)).rejects.toMatchObject({ kind: "state", sentence: said });
    await expect(one.fork()).rejects.toThrow(said);
    await one.reset();
    expect([await counted(one, 1), await counted(other, 1)]).toEqual([1, 2]);
    other.dispose();
    const small = await models.of(COUNTER, { memory: weights + arenas + 2 * states });
    const only = await small.sequence();
    await expect(only.fork()).rejects.toThrow(`little needs ${weights + arenas + 3 * states} bytes`);
    expect(await counted(only, 3)).toBe(3);
    await models.of(ADD, { memory: Number.POSITIVE_INFINITY });
  });
});
