import { describe, expect, it, vi } from "vitest";
import { ADD, COUNTER, modelOf, range, type TestModel } from "../testing/compiled";
import { Models } from "../testing/models";
import type { Model, RunResult } from "./index";

const models = new Models();

/** A model that was run, so that what follows is known to the GPU, and what counts its submissions and maps. */
async function known(
  text = COUNTER,
): Promise<{ model: Model; submitted: () => number; mapped: () => number }> {
  const model = await models.of(text);
  await model.run({ x: Float32Array.of(0) });
  const { device } = models.here.gpu;
  const submit = vi.spyOn(device.queue, "submit");
  const map = vi.spyOn(globalThis.GPUBuffer.prototype, "mapAsync");
  return { model, submitted: () => submit.mock.calls.length, mapped: () => map.mock.calls.length };
}

const count = (model: Pick<Model, "functions">, x: number, more = true, signal?: AbortSignal) =>
  (model.functions.main as Model["functions"][string]).run({ x: Float32Array.of(x) }, { more, signal });

const values = (found: readonly RunResult[]) => found.map(({ y }) => (y as Float32Array)[0]);

describe("calls that follow one another", () => {
  it("are one submission, with one map, each of its own inputs", async () => {
    const { model, submitted, mapped } = await known();
    const calls = [1, 10, 10, 100, 1000].map((x) => count(model, x));
    expect(values(await Promise.all(calls))).toEqual([1, 11, 21, 121, 1121]);
    expect([submitted(), mapped()]).toEqual([1, 1]);
    // What was written together is what the inputs are.
    expect(values([await count(model, 1000, false), await count(model, 1, false)])).toEqual([2121, 2122]);
  });

  it("are submitted where nothing follows, and eight at a time", async () => {
    const { model, submitted } = await known();
    expect(values([await count(model, 1)])).toEqual([1]);
    expect(values([await count(model, 1)])).toEqual([2]);
    expect(submitted()).toBe(2);
    const calls = [...range(20)].map((x) => count(model, x));
    expect(values(await Promise.all(calls)).at(-1)).toBe(2 + (19 * 20) / 2);
    expect(submitted()).toBe(2 + 3);
  });

  it("go by themselves where they are not wanted together, are large, or were never made", async () => {
    const { model, submitted } = await known();
    await Promise.all([1, 2, 3].map((x) => count(model, x, false)));
    expect(submitted()).toBe(3);
    const other = await models.of(ADD);
    const run = (n: number) => other.run({ x: range(n) }, { more: true });
    const before = submitted();
    const found = await Promise.all([run(5), run(5)]);
    expect([...found, ...(await Promise.all([run(5), run(5)]))].map(({ y }) => y)).toEqual(
      Array(4).fill(range(5, 3)),
    );
    expect(submitted() - before).toBe(3);
    await run(1000);
    const [large, small] = await Promise.all([run(1000), run(5)]);
    expect([large?.y, small?.y]).toEqual([range(1000, 3), range(5, 3)]);
    expect(submitted() - before).toBe(6);
  });

  it("are given what those before left, in order with profiles and captures", async () => {
    const model = await models.of(ADD);
    const from = { x: { output: "y" } };
    const options = { sizes: { n: 5 }, more: true };
    const run = () => model.run(from, options);
    await model.run({ x: range(5) });
    await run();
    const unread = model.run(from, { ...options, outputs: { y: "unread" } });
    const calls = [unread, run(), run(), model.profile(from, { sizes: { n: 5 } })] as const;
    const [, first, second, { outputs }] = await Promise.all(calls);
    // Each is twice the one before and as much as the place: 3, 7, 15, ...
    expect([first.y, second.y, outputs.y]).toEqual([31, 63, 127].map((scale) => range(5, scale)));
    const captured = model.capture();
    const [third, fourth] = await Promise.all([run(), run()]);
    expect([third.y, fourth.y]).toEqual([255, 511].map((scale) => range(5, scale)));
    expect((await captured).operators.map(({ kernel }) => kernel)).toEqual(["add", "double"]);
  });

  it("are aborted one by one", async () => {
    const { model } = await known();
    const stop = new AbortController();
    const calls = [1, 10, 100].map((x) => count(model, x, true, x === 10 ? stop.signal : undefined));
    const last = count(model, 1000, true, stop.signal);
    stop.abort("enough");
    const found = await Promise.allSettled([...calls, last]);
    expect(found.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "rejected"]);
    const [total] = values([await count(model, 0)]);
    // What was not encoded yet is not made, what was is.
    expect([101, 111, 1101, 1111]).toContain(total);
    expect(values([await count(model, 1), await count(model, 1)])).toEqual(
      [1, 2].map((x) => x + (total ?? 0)),
    );
  });

  it("come before what is done with the states behind them", async () => {
    const { model } = await known();
    const before = [count(model, 1), count(model, 10)];
    const reset = model.reset();
    const behind = [count(model, 100), count(model, 1000)];
    const forked = model.fork();
    expect(values(await Promise.all([...before, ...behind]))).toEqual([1, 11, 100, 1100]);
    await reset;
    const one = await forked;
    const mixed = [count(model, 1), count(one, 5), count(model, 1), count(one, 5)];
    expect(values(await Promise.all(mixed))).toEqual([1101, 1105, 1102, 1110]);
  });

  it("come before their memory goes to another model", async () => {
    const [first, second] = await Promise.all(["first", "second"].map((name) => modelOf({ ...ADD, name })));
    const one = await models.open(first as TestModel, { memory: 12_000 });
    const two = await models.open(second as TestModel, { memory: 12_000 });
    await one.run({ x: range(5) });
    const calls = [one, one, two, one, two, two].map((model) => model.run({ x: range(5) }, { more: true }));
    expect((await Promise.all(calls)).map(({ y }) => y)).toEqual(Array(6).fill(range(5, 3)));
    expect(one.memory.weights + two.memory.weights).toBe(4000);
    one.run({ x: range(5) }, { more: true }).catch(() => {});
    one.dispose();
  });

  it("fail together where the GPU takes none", async () => {
    const { model } = await known();
    vi.spyOn(models.here.gpu.device.queue, "submit").mockImplementationOnce(() => {
      throw new Error("no more");
    });
    const found = await Promise.allSettled([count(model, 1), count(model, 10)]);
    expect(found.map((one) => one.status === "rejected" && String(one.reason))).toEqual(
      Array(2).fill(expect.stringContaining("no more")),
    );
    expect(values([await count(model, 100)])).toEqual([100]);
  });
});
