import { describe, expect, it, vi } from "vitest";
import {
  ADD,
  branch,
  COUNTER,
  functionOf,
  type ModelText,
  modelOf,
  N,
  range,
  repeated,
  type TestModel,
  tensor,
} from "../testing/compiled";
import { Models } from "../testing/models";
import { load } from "./index";

const models = new Models();

describe("a model", () => {
  it("runs at the sizes of its inputs", async () => {
    const model = await models.of(ADD);
    for (const n of [5, 1000, 5, 70]) expect((await model.run({ x: range(n) })).y).toEqual(range(n, 3));
    expect((await model.run({ x: { data: range(6), shape: [6] } })).y).toEqual(range(6, 3));
    expect((await model.functions.main?.run({ x: range(6) }))?.y).toEqual(range(6, 3));
  });

  it("means its only function where nobody says which, and names those of several", async () => {
    const { main } = COUNTER.functions as { main: (typeof COUNTER.functions)[string] };
    const only = await models.of({ ...COUNTER, functions: { count: main } });
    expect((await only.run({ x: new Float32Array([1]) })).y).toEqual(new Float32Array([1]));
    expect(only.inputs.map(({ name }) => name)).toEqual(["x"]);
    const model = await models.of({ ...COUNTER, functions: { count: main, again: main } });
    const refused = /has no function main: it has count, again: call model\.functions\.count\.run/;
    await expect(model.run({ x: new Float32Array([1]) })).rejects.toThrow(refused);
    await expect(model.profile({ x: new Float32Array([1]) })).rejects.toThrow(refused);
    expect(model.inputs).toEqual([]);
  });

  it("keeps the states of all functions", async () => {
    const { main } = COUNTER.functions as { main: (typeof COUNTER.functions)[string] };
    const { functions } = await models.of({ ...COUNTER, functions: { count: main, again: main } });
    const x = new Float32Array([2]);
    const given = [await functions.count?.run({ x }), await functions.again?.run({ x })];
    expect(given.map((found) => found?.y)).toEqual([new Float32Array([2]), new Float32Array([4])]);
  });

  it("takes what the call before left on the GPU, which nobody reads", async () => {
    const model = await models.of(ADD);
    const outputs = { y: "unread" as const };
    expect(await model.run({ x: range(5) }, { outputs })).toEqual({});
    // Submitted before anyone knows what came of the one before.
    const calls = [1, 2, 3].map(() => model.run({ x: { output: "y" } }, { sizes: { n: 5 } }));
    expect((await Promise.all(calls)).map(({ y }) => y)).toEqual([range(5, 7), range(5, 15), range(5, 31)]);
    const wrong = model.run({ x: { output: "y" } }, { sizes: { n: 4 } });
    await expect(wrong).rejects.toThrow(
      "input x is float32[4], and the output y of the call before float32[5]",
    );
    await expect(model.run({ x: { output: "z" } }, { sizes: { n: 5 } })).rejects.toMatchObject({
      kind: "state",
      message: expect.stringContaining("no call left anything in z, which is to be the input x"),
    });
    const fresh = await models.of(ADD);
    await expect(fresh.run({ x: { output: "y" } }, { sizes: { n: 5 } })).rejects.toThrow(
      "no call left anything in y",
    );
    // What the page has in a buffer of its own is not left.
    const { y } = await fresh.run({ x: range(5) }, { outputs: { y: "buffer" } });
    await expect(fresh.run({ x: { output: "y" } }, { sizes: { n: 5 } })).rejects.toThrow(
      "no call left anything in y",
    );
    (y as GPUBuffer).destroy();
  });

  it("tells what it takes and gives, so that a worker can pass it on", async () => {
    const { inputs, outputs } = await models.of(ADD);
    expect(structuredClone(inputs)).toEqual([{ name: "x", dtype: "float32", shape: ["n"] }]);
    expect(String(outputs[0])).toBe("float32[n]");
  });

  it("tells how far loading is", async () => {
    const told: unknown[] = [];
    await models.of(ADD, { onProgress: (progress) => told.push(progress) });
    expect(told[0]).toEqual({ bytes: 0, totalBytes: 4000, kernels: 0, totalKernels: 2 });
    expect(told.at(-1)).toEqual({ bytes: 4000, totalBytes: 4000, kernels: 2, totalKernels: 2 });
  });

  it("has the numbers of weights that lie in 16 bits, and loads half of the bytes", async () => {
    const weights = [Float32Array.from({ length: 1000 }, (_, i) => (i % 128) - 64)];
    const told: { bytes: number; totalBytes: number }[] = [];
    const served = await modelOf({ ...ADD, weights, stored: "bfloat16" }, 1024);
    const model = await models.open(served, { onProgress: (progress) => told.push(progress) });
    const plain = await models.of({ ...ADD, weights });
    expect(told.at(-1)).toMatchObject({ bytes: 2000, totalBytes: 2000 });
    expect(model.memory.weights).toBe(plain.memory.weights);
    expect(await model.run({ x: range(1000) })).toEqual(await plain.run({ x: range(1000) }));
  });

  it("is loaded from one file, whether or not the server knows ranges", async () => {
    const served = await modelOf(ADD, 1024);
    const whole = served.single();
    for (const ranges of [true, false]) {
      const fetch = async (_: string, init: RequestInit = {}) => {
        const asked = /bytes=(\d+)-(\d+)/.exec(new Headers(init.headers).get("Range") ?? "");
        if (!ranges || !asked) return new Response(whole);
        return new Response(whole.slice(Number(asked[1]), Number(asked[2]) + 1), { status: 206 });
      };
      const options = { device: models.here.gpu, fetch, unvalidated: "ignore" } as const;
      const model = models.keep(await load("http://models.test/little.tapml", options));
      expect((await model.run({ x: range(9) })).y).toEqual(range(9, 3));
    }
  });

  it("takes and gives buffers of the GPU without a copy", async () => {
    const model = await models.of(ADD);
    const { device } = models.here.gpu;
    const copies = vi.spyOn(GPUCommandEncoder.prototype, "copyBufferToBuffer");
    const { y } = await model.run({ x: range(8) }, { outputs: { y: "buffer" } });
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const mine = device.createBuffer({ size: 64, usage });
    const again = { x: { data: y as GPUBuffer, shape: [8] } };
    expect((await model.run(again, { outputs: { y: mine } })).y).toBe(mine);
    expect(copies).not.toHaveBeenCalled();
    const twice = await model.run({ x: { data: mine, shape: [8] } });
    // Each time (x + i / 2) 2.
    expect(twice.y).toEqual(range(8, 15));
    expect((await model.run({ x: range(8) })).y).toEqual(range(8, 3));
    for (const buffer of [y as GPUBuffer, mine]) buffer.destroy();
  });

  it("records a call once, and replays it without making anything", async () => {
    const model = await models.of(ADD);
    await model.run({ x: range(30) });
    const { device } = models.here.gpu;
    const made = (["createBindGroup", "createBuffer", "pushErrorScope"] as const).map((name) =>
      vi.spyOn(device, name),
    );
    const submitted = vi.spyOn(device.queue, "submit");
    for (let i = 0; i < 3; i++) await model.run({ x: range(30) });
    for (const spy of made) expect(spy).not.toHaveBeenCalled();
    expect(submitted).toHaveBeenCalledTimes(3);
  });

  it("says where the time of a call went", async () => {
    const model = await models.of(ADD);
    const { outputs, dispatches, host } = await model.profile({ x: range(30) });
    expect(outputs.y).toEqual(range(30, 3));
    expect(dispatches.map(({ kernel }) => kernel)).toEqual(["add", "double"]);
    for (const { seconds } of dispatches) expect(seconds).toBeGreaterThanOrEqual(0);
    expect(host.total).toBeGreaterThanOrEqual(host.prepare + host.encode);
  });

  it("takes no more memory than weights, arenas and what goes in and out", async () => {
    const model = await models.of(ADD);
    await model.run({ x: range(1000) });
    const { weights, arenas, states, other, total } = model.memory;
    expect([weights, arenas, states]).toEqual([4000, 4000, 0]);
    // x, y, what is mapped of y, and one uniform for each dispatch.
    expect(other).toBeLessThanOrEqual(3 * 4000 + 2 * 256);
    expect(total).toBe(models.here.bytes());
  });
});

describe("states", () => {
  it("are kept from call to call, until they are reset", async () => {
    const model = await models.of(COUNTER);
    for (const total of [1, 2, 3])
      expect((await model.run({ x: Float32Array.of(1) })).y).toEqual(Float32Array.of(total));
    await model.reset();
    expect((await model.run({ x: Float32Array.of(5) })).y).toEqual(Float32Array.of(5));
  });

  it("begin with weights where the model says so", async () => {
    const initial: [number, number] = [0, 0];
    const states = [{ name: "total", dtype: "float32" as const, shape: [1], initial }];
    const model = await models.of({ ...COUNTER, states, weights: [Float32Array.of(40)] });
    expect((await model.run({ x: Float32Array.of(2) })).y).toEqual(Float32Array.of(42));
  });

  it("see calls made at once in their order", async () => {
    const model = await models.of(COUNTER);
    const calls = Array.from({ length: 10 }, (_, i) => model.run({ x: Float32Array.of(i + 1) }));
    const found = (await Promise.all(calls)).map(({ y }) => (y as Float32Array)[0]);
    expect(found).toEqual([1, 3, 6, 10, 15, 21, 28, 36, 45, 55]);
  });

  it("are as they were after a call that was aborted before it began", async () => {
    const model = await models.of(COUNTER);
    const stop = new AbortController();
    const one = { x: Float32Array.of(1) };
    const first = model.run(one);
    const second = model.run(one, { signal: stop.signal });
    stop.abort();
    await expect(second).rejects.toThrow("aborted");
    await first;
    expect((await model.run(one)).y).toEqual(Float32Array.of(2));
  });
});

describe("a program", () => {
  /** Adds x to itself as often as `count` says, read from the GPU; a host function gives `count` its value plus one. */
  const looped = (body: "loop" | "if"): ModelText => ({
    kernels: [
      { name: "add", inputs: 2, body: "p0[i] + p1[i]" },
      {
        name: "first",
        inputs: 2,
        body: "select(p0[i], p0[i] + p1[i], i < s.m)",
        symbols: [N, { name: "m", minimum: 0, maximum: 1000 }],
      },
    ],
    functions: {
      main: functionOf(
        [
          tensor("x", ["input", 0]),
          tensor("count", ["input", 1], [1], "int32"),
          tensor("more", ["arena", 2, 0], [1], "int32"),
          tensor("a", ["arena", 0, 0]),
          tensor("b", ["arena", 1, 0]),
          tensor("y", ["output", 0]),
        ],
        [
          { op: "call", module: "host", function: "plus", inputs: [1], outputs: [2] },
          { op: "read", name: "k", tensor: 2, index: 0, minimum: 0, maximum: 10 },
          { op: "fill", tensor: 3, value: 0 },
          body === "loop"
            ? {
                op: "loop",
                variable: "turn",
                count: "k",
                most: 10,
                body: [
                  { op: "let", name: "m", value: ["add", "turn", 1] },
                  { op: "dispatch", kernel: 1, operands: [3, 0, 4], temporaries: [], sizes: { m: "m" } },
                  { op: "copy", from: 4, to: 3 },
                ],
              }
            : branch(
                ["floormod", "k", 2],
                [{ op: "copy", from: 0, to: 3 }],
                [{ op: "fill", tensor: 3, value: 0x3f800000 }],
              ),
          { op: "copy", from: 3, to: 5 },
        ],
        [4000, 4000, 256],
      ),
    },
  });
  const plus = ([count]: unknown[]) => [Int32Array.of(((count as Int32Array)[0] as number) + 1)];
  const modules = { host: { plus } };

  it("loops as often as it reads from the GPU, at sizes of each turn", async () => {
    const model = await models.of(looped("loop"), { modules });
    for (const count of [2, 2, 0, 5]) {
      const { y } = await model.run({ x: Float32Array.of(1, 1, 1, 1), count: Int32Array.of(count) });
      expect(Array.from(y as Float32Array)).toEqual([0, 1, 2, 3].map((i) => Math.max(0, count + 1 - i)));
    }
    const call = model.run({ x: Float32Array.of(1), count: Int32Array.of(10) });
    await expect(call).rejects.toThrow("k, read from more, is 11, and must be from 0 to 10");
  });

  it("takes the branch of what it reads", async () => {
    const model = await models.of(looped("if"), { modules });
    const x = Float32Array.of(3, 4);
    expect((await model.run({ x, count: Int32Array.of(4) })).y).toEqual(x);
    expect((await model.run({ x, count: Int32Array.of(3) })).y).toEqual(Float32Array.of(1, 1));
  });

  it("asks for the functions of the page that it calls when it is loaded", async () => {
    await expect(models.of(looped("if"))).rejects.toThrow("the model calls the host function host.plus");
  });

  it("is recorded with loops and branches that sizes decide", async () => {
    const model = await models.of(repeated(["floordiv", "n", 2], 500));
    const submitted = vi.spyOn(models.here.gpu.device.queue, "submit");
    expect((await model.run({ x: range(6) })).y).toEqual(range(6, 4));
    expect(submitted).toHaveBeenCalledTimes(1);
  });
});

describe("several models on a device", () => {
  const named = (name: string) => modelOf({ ...ADD, name });

  it("page their weights out and in within a budget", async () => {
    const [first, second] = [await named("first"), await named("second")];
    const one = await models.open(first, { memory: 12_000 });
    const two = await models.open(second, { memory: 12_000 });
    expect([one.memory.weights, two.memory.weights]).toEqual([0, 4000]);
    const runs = [one, two, one, one].map((model, i) => model.run({ x: range(i + 5) }));
    const found = (await Promise.all(runs)).map(({ y }) => y);
    expect(found).toEqual([5, 6, 7, 8].map((n) => range(n, 3)));
    expect(one.memory.weights + two.memory.weights).toBe(4000);
    two.dispose();
    const three = models.open(second, { memory: 7999 });
    await expect(three).rejects.toThrow("second needs 8000 bytes of GPU memory, the budget is 7999 bytes");
    await models.open(second, { memory: Number.POSITIVE_INFINITY });
  });

  it("give room by least use, whatever the order in which they were loaded", async () => {
    const [first, second, third] = await Promise.all(["first", "second", "third"].map(named));
    const [one, two] = [await models.open(first as TestModel), await models.open(second as TestModel)];
    await one.run({ x: range(5) });
    const three = await models.open(third as TestModel, { memory: 20_000 });
    const present = () => [one, two, three].map(({ memory }) => memory.weights);
    expect(present()).toEqual([4000, 0, 4000]);
    await two.run({ x: range(5) });
    expect(present()).toEqual([0, 4000, 4000]);
    await Promise.all([three.run({ x: range(5) }), one.run({ x: range(6) })]);
    expect(present()).toEqual([4000, 0, 4000]);
    expect((await one.run({ x: range(7) })).y).toEqual(range(7, 3));
  });
});

it("leaves nothing behind, however often it is loaded", async () => {
  const { heapUsed } = await heap();
  const served = await modelOf(COUNTER);
  const load_ = () =>
    load(served.url, { device: models.here.gpu, fetch: served.fetch, unvalidated: "ignore" });
  let before = 0;
  for (let i = 0; i < 1000; i++) {
    if (i === 200) before = await heapUsed();
    const model = await load_();
    if (i % 10 === 0) await model.run({ x: Float32Array.of(1) });
    model.dispose();
    served.asked.length = 0;
    if (models.here.live.size) break;
  }
  // A document alone that a load left for good would be more.
  expect(((await heapUsed()) - before) / 800).toBeLessThan(2500);
  expect(models.here.live.size).toBe(0);
  expect(models.here.gpu.waiters).toBe(0);
});

/** Bytes of JavaScript's own objects that are still needed. */
async function heap(): Promise<{ heapUsed: () => Promise<number> }> {
  const { setFlagsFromString } = (await import(`node:${"v8"}`)) as {
    setFlagsFromString(flags: string): void;
  };
  const { runInNewContext } = (await import(`node:${"vm"}`)) as { runInNewContext(code: string): () => void };
  const { memoryUsage } = (await import(`node:${"process"}`)) as { memoryUsage(): { heapUsed: number } };
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  return {
    heapUsed: async () => {
      collect();
      // What is told when objects are gone runs in between.
      await new Promise((resolve) => setTimeout(resolve, 20));
      collect();
      return memoryUsage().heapUsed;
    },
  };
}
