import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { without } from "../profiles/adapters";
import { changed } from "../profiles/profiles";
import {
  ADD,
  COUNTER,
  functionOf,
  type ModelText,
  modelOf,
  range,
  type TestModel,
  tensor,
} from "../testing/compiled";
import { type CountedGpu, countedGpu } from "../testing/gpus";
import { type LoadOptions, load, type Model, TapmlError } from "./index";

let here: CountedGpu;

beforeAll(async () => {
  here = await countedGpu();
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  for (const model of models.splice(0)) model.dispose();
  expect(here.live.size).toBe(0);
});
afterAll(() => {
  here.gpu.device.destroy();
});

const models: Model[] = [];

async function open(served: TestModel, options: LoadOptions = {}) {
  const own = { device: here.gpu, fetch: served.fetch, unvalidated: "ignore" } as const;
  const model = await load(served.url, { ...own, ...options });
  models.push(model);
  return model;
}

/** "kind: sentence: fix" of what is thrown. */
async function fault(promise: Promise<unknown>): Promise<string> {
  const cause = await promise.then(
    () => new Error("nothing was thrown"),
    (thrown: unknown) => thrown,
  );
  if (!(cause instanceof TapmlError)) throw cause;
  return `${cause.kind}: ${cause.message}`;
}

describe("a call", () => {
  const short = range(3);
  const ints = Int32Array.of(1, 2);
  it.each([
    ["an unknown input", { x: short, z: short }, {}, "input: there is no input z: there is x"],
    ["a missing input", {}, {}, "input: input x is missing: give a Float32Array of float32[n]"],
    [
      "another dtype",
      { x: ints },
      {},
      "input: input x is of type Int32Array: give a Float32Array of float32[n]",
    ],
    [
      "plain numbers",
      { x: [1, 2] },
      {},
      "input: input x is no typed array: give a Float32Array of float32[n]",
    ],
    [
      "another rank",
      { x: { data: short, shape: [1, 3] } },
      {},
      "input: input x has the shape [1,3]: give a Float32Array of float32[n]",
    ],
    [
      "too few elements",
      { x: { data: short, shape: [4] } },
      {},
      "input: input x has 3 elements, and its shape [4] has 4: give a Float32Array of float32[n]",
    ],
    [
      "elements that are not those of a size",
      { x: short },
      { sizes: { n: 4 } },
      "input: input x has 3 elements, where float32[4] has 4: give a Float32Array of float32[n]",
    ],
    [
      "a size beyond the range",
      { x: range(1001) },
      {},
      "size: n is 1001, and must be from 1 to 1000: give sizes in the model's range",
    ],
    ["a size of zero", { x: range(0) }, {}, "size: n is 0, and must be from 1 to 1000"],
    [
      "two sizes",
      { x: { data: short, shape: [3] } },
      { sizes: { n: 4 } },
      "size: input x has the shape [3], where n is 3, and elsewhere it is 4",
    ],
    [
      "a size of nothing",
      { x: short },
      { sizes: { m: 4 } },
      "size: a size is given for m, and there is no symbol m here",
    ],
    [
      "an unknown output",
      { x: short },
      { outputs: { z: "buffer" } },
      "input: there is no output z: there are y",
    ],
  ] as const)("is refused for %s", async (_, inputs, options, expected) => {
    const model = await open(await modelOf(ADD));
    try {
      expect(await fault(model.run(inputs as never, options))).toContain(expected);
      expect((await model.run({ x: range(3) })).y).toEqual(range(3, 3));
    } finally {
      model.dispose();
    }
  });

  it("takes numbers of another width where they fit, and indices of what there is alone", async () => {
    const { main } = ADD.functions;
    const ids = tensor("ids", ["input", 1], ["n"], "int32");
    const code = main?.code ?? [];
    const served = await modelOf({
      ...ADD,
      functions: { main: functionOf([...(main?.tensors ?? []), ids], code, [4000]) },
    });
    const port = served.document.functions.main?.inputs[1];
    if (port) port.range = [-7, 6];
    const model = await open(served);
    const x = Float64Array.of(0, 1, 2);
    for (const given of [BigInt64Array.of(-7n, 0n, 6n), Int32Array.of(1, 2, 3), Uint8Array.of(0, 0, 6)])
      expect((await model.run({ x, ids: given })).y).toEqual(range(3, 3));
    expect(await fault(model.run({ x, ids: BigInt64Array.of(0n, 1n, 7n) }))).toBe(
      "input: input ids is 7 at element 2, and must be from -7 to 6: it is an index, and there is nothing at any other",
    );
    if (port)
      port.range = [
        ["sub", 0, "n"],
        ["sub", "n", 1],
      ];
    const other = await open(served);
    expect((await other.run({ x, ids: Int32Array.of(-3, 0, 2) })).y).toEqual(range(3, 3));
    expect(await fault(other.run({ x, ids: Int32Array.of(0, 3, 0) }))).toBe(
      "input: input ids is 3 at element 1, and must be from -3 (0 - n) to 2 (n - 1): it is an index, and there is nothing at any other",
    );
    expect(await fault(model.run({ x, ids: BigInt64Array.of(0n, 1n, 2n ** 40n) }))).toBe(
      "input: input ids has elements that no int32 is: give an Int32Array of int32[n]",
    );
    expect(await fault(model.run({ x, ids: Float32Array.of(0, 1, 2) }))).toContain("is of type Float32Array");
  });

  it("is refused for buffers that do not do", async () => {
    const model = await open(await modelOf(ADD));
    const { device } = here.gpu;
    const all = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const small = device.createBuffer({ size: 8, usage: all });
    const copied = device.createBuffer({ size: 64, usage: GPUBufferUsage.COPY_SRC });
    const data = (buffer: GPUBuffer) => ({ x: { data: buffer, shape: [3] } });
    const good = { x: range(2) };
    expect(await fault(model.run(data(small)))).toContain(
      "input: the buffer of input x has 8 bytes: float32[3] takes 12 bytes",
    );
    expect(await fault(model.run(data(copied)))).toContain(
      "input: the buffer of input x is not made to be read",
    );
    expect(await fault(model.run(good, { outputs: { y: copied } }))).toContain(
      "the buffer for output y cannot be written",
    );
    const both = model.run({ x: { data: small, shape: [2] } }, { outputs: { y: small } });
    expect(await fault(both)).toContain("the buffer for output y is an input of the call");
    small.destroy();
    expect(await fault(model.run({ x: { data: small, shape: [2] } }))).toMatch(/^gpu: GPU validation error/);
    expect((await model.run(good)).y).toEqual(range(2, 3));
    model.dispose();
    copied.destroy();
  });

  it("is right, or says that it is not, after the GPU had no memory for another one", async () => {
    const model = await open(await modelOf(ADD));
    expect((await model.run({ x: range(5) })).y).toEqual(range(5, 3));
    const { device } = here.gpu;
    const make = device.createBuffer.bind(device);
    vi.spyOn(device, "createBuffer").mockImplementationOnce((descriptor) => {
      const buffer = make(descriptor);
      buffer.destroy();
      return buffer;
    });
    expect(await fault(model.run({ x: range(1000) }))).toMatch(/^gpu: /);
    for (const n of [5, 1000]) expect((await model.run({ x: range(n) })).y).toEqual(range(n, 3));
  });

  it("is rejected where the model is disposed of", async () => {
    const model = await open(await modelOf(ADD));
    const running = [1, 2, 3].map(() => fault(model.run({ x: range(3) })));
    await Promise.resolve();
    model.dispose();
    for (const found of await Promise.all(running))
      expect(found).toBe("disposed: little is disposed of: load it again");
    expect(await fault(model.run({ x: range(3) }))).toBe("disposed: little is disposed of: load it again");
  });

  it("is aborted", async () => {
    const model = await open(await modelOf(COUNTER));
    const one = { x: Float32Array.of(1) };
    const stop = new AbortController();
    const { queue } = here.gpu.device;
    const submit = queue.submit.bind(queue);
    vi.spyOn(queue, "submit").mockImplementationOnce((buffers) => {
      submit(buffers);
      stop.abort(new Error("enough"));
    });
    await expect(model.run(one, { signal: stop.signal })).rejects.toThrow("enough");
    // What was submitted runs to its end.
    expect((await model.run(one)).y).toEqual(Float32Array.of(2));
    await expect(model.run(one, { signal: AbortSignal.abort(new Error("before")) })).rejects.toThrow(
      "before",
    );
    expect((await model.run(one)).y).toEqual(Float32Array.of(3));
    model.dispose();
  });

  it("leaves states undefined, and says so, where it ends in its middle", async () => {
    const text: ModelText = structuredClone(COUNTER);
    const { main } = text.functions;
    main?.tensors.push({ name: "limit", dtype: "int32", shape: [1], at: ["input", 1] });
    main?.inputs.push({ name: "limit", tensor: 4 });
    main?.code.splice(2, 0, { op: "read", name: "k", tensor: 4, index: 0, minimum: 0, maximum: 1 });
    const model = await open(await modelOf(text));
    const call = (limit: number) => model.run({ x: Float32Array.of(1), limit: Int32Array.of(limit) });
    expect((await call(1)).y).toEqual(Float32Array.of(1));
    expect(await fault(call(2))).toMatch(/^program: k, read from limit, is 2, and must be from 0 to 1/);
    expect(await fault(call(1))).toMatch(
      /^state: the states of little are undefined: a call of main ended in its middle/,
    );
    await model.reset();
    expect((await call(1)).y).toEqual(Float32Array.of(1));
    model.dispose();
  });
});

describe("loading", () => {
  it("fetches a damaged shard once more", async () => {
    const served = await modelOf(ADD, 1024);
    const [first] = [...served.files.keys()];
    let damaged = 0;
    served.change = (path, bytes) => (path === first && !damaged++ ? bytes.map((byte) => byte ^ 1) : bytes);
    const told: number[] = [];
    const model = await open(served, { onProgress: ({ bytes }) => told.push(bytes) });
    expect(served.asked.filter((path) => path === first)).toHaveLength(2);
    expect(told.at(-1)).toBe(4000);
    expect((await model.run({ x: range(1000) })).y).toEqual(range(1000, 3));
    model.dispose();
  });

  it("does not believe what the browser's cache has", async () => {
    const kept = new Map<string, Uint8Array<ArrayBuffer>>();
    const cache = {
      match: async (key: string) => (kept.has(key) ? new Response(kept.get(key)) : undefined),
      put: async (key: string, from: Response) =>
        void kept.set(key, new Uint8Array(await from.arrayBuffer())),
      delete: async (key: string) => kept.delete(key),
    };
    vi.stubGlobal("caches", { open: async () => cache });
    const served = await modelOf(ADD, 1024);
    (await open(served)).dispose();
    const right = new Map(kept);
    const [damaged = ""] = kept.keys();
    kept.set(
      damaged,
      (kept.get(damaged) ?? new Uint8Array()).map((byte) => byte ^ 1),
    );
    served.asked.length = 0;
    const model = await open(served);
    expect(served.asked).toEqual(["model.json", `weights/${damaged.slice(-64)}.bin`]);
    expect((await model.run({ x: range(1000) })).y).toEqual(range(1000, 3));
    expect(kept).toEqual(right);
    // Where the server has no other bytes either, the digest is named.
    kept.set(damaged, new Uint8Array(1024));
    served.change = (path, bytes) =>
      path.includes(damaged.slice(-64)) ? bytes.map((byte) => byte ^ 1) : bytes;
    expect(await fault(open(served))).toContain(`(sha256 ${damaged.slice(-64)}), fetched twice,`);
    expect(kept.has(damaged)).toBe(false);
  });

  it.each([
    [
      "damaged",
      (bytes: Uint8Array<ArrayBuffer>) => bytes.map((byte) => byte ^ 1),
      "has other bytes than its digest says",
    ],
    ["cut off", (bytes: Uint8Array<ArrayBuffer>) => bytes.slice(0, 100), "has 100 of 1024 bytes"],
    [
      "too long",
      (bytes: Uint8Array<ArrayBuffer>) => new Uint8Array([...bytes, 0]),
      "has more than 1024 bytes",
    ],
    ["not there", () => Promise.reject(new TypeError("no network")), "could not be fetched (no network)"],
  ])("names the digest of a shard that is %s", async (_, change, what) => {
    const served = await modelOf(ADD, 1024);
    const [first = ""] = [...served.files.keys()];
    served.change = (path, bytes) => (path === first ? change(bytes) : bytes);
    const found = await fault(open(served));
    expect(found).toContain(`download: ${first} (sha256 ${first.slice(8, -4)}), fetched twice,`);
    expect(found).toContain(what);
  });

  it.each([
    ["nothing", "", "is neither the JSON nor the single file of a model"],
    ["a page", "<!doctype html>", "is neither the JSON nor the single file of a model"],
    ["another document", '{"format": "tapml.suite/7"}', "model"],
    ["a list", "[]", "model"],
    ["a file that is cut off", "TAPMLM1\n\u0007\u0007\u0000\u0000\u0000\u0000\u0000\u0000{", "is cut off"],
  ])("says of %s that it is no model", async (_, body, what) => {
    const fetch = async () => new Response(body);
    const found = await fault(load("http://models.test/x.tapml", { device: here.gpu, fetch }));
    expect(found).toMatch(/^not-a-model: http:\/\/models.test\/x.tapml/);
    expect(found).toContain(what);
  });

  it("says what the server says where there is nothing", async () => {
    const fetch = async () => new Response("", { status: 404 });
    const found = await fault(load("http://models.test/x.tapml/", { device: here.gpu, fetch }));
    expect(found).toBe(
      "download: http://models.test/x.tapml/model.json gives HTTP 404: check the address of the model",
    );
  });

  it("does not wait for the cache, which the next one takes its weights from", async () => {
    const kept = new Map<string, ArrayBuffer>();
    let room = () => {};
    const whenRoom = new Promise<void>((resolve) => {
      room = resolve;
    });
    const cache = {
      match: async (key: string) => kept.has(key) && new Response(kept.get(key)),
      put: async (key: string, response: Response) => {
        await whenRoom;
        kept.set(key, await response.arrayBuffer());
      },
    };
    vi.stubGlobal("caches", { open: async () => cache });
    const served = await modelOf(ADD, 1024);
    await open(served);
    expect(kept.size).toBe(0);
    room();
    await vi.waitFor(() => expect(kept.size).toBe(4));
    served.asked.length = 0;
    const again = await open(served);
    expect(served.asked).toEqual(["model.json"]);
    expect((await again.run({ x: range(3) })).y).toEqual(range(3, 3));
  });

  it("is aborted in the middle of a download", async () => {
    const served = await modelOf(ADD, 1024);
    const stop = new AbortController();
    served.change = (path, bytes) => {
      if (path !== "model.json") stop.abort(new Error("enough"));
      return bytes;
    };
    await expect(open(served, { signal: stop.signal })).rejects.toThrow("enough");
  });

  it("is aborted in the middle of compiling", async () => {
    const stop = new AbortController();
    const compile = vi.spyOn(here.gpu.device, "createComputePipelineAsync");
    compile.mockImplementation(() => {
      stop.abort(new Error("enough"));
      return new Promise(() => {});
    });
    await expect(open(await modelOf(ADD), { signal: stop.signal })).rejects.toThrow("enough");
  });

  it("names the kernel that does not compile", async () => {
    const served = await modelOf(ADD);
    served.document.wgsl[1] = (served.document.wgsl[1] ?? "").replace("2.0", "nothing");
    expect(await fault(open(served))).toMatch(
      /^compile: kernel double: .*double.wgsl:\d+:\d+: unresolved value/s,
    );
  });

  it("names the bytes that the budget has not", async () => {
    const found = await fault(open(await modelOf(ADD), { memory: 5000 }));
    expect(found).toContain("memory: little needs 8 kB (8000 bytes) of GPU memory, the budget is 5 kB");
    // A model that was not loaded leaves the budget as it was.
    (await open(await modelOf(ADD))).dispose();
  });

  it("says where the GPU has no memory", async () => {
    vi.spyOn(here.gpu.device, "popErrorScope").mockResolvedValue(new GPUOutOfMemoryError("none left"));
    expect(await fault(open(await modelOf(ADD)))).toMatch(/^memory: the GPU has no memory/);
  });

  it("refuses or warns of kernels that are not validated here", async () => {
    const served = await modelOf(ADD);
    const mistaken = await fault(open(served, { unvalidated: "refused" as "refuse" }));
    expect(mistaken).toBe("input: unvalidated is refused: give refuse, warn or ignore");
    const expected = "2 of 2 kernels, add, double, are not validated on node";
    expect(await fault(open(served, { unvalidated: "refuse" }))).toContain(`unvalidated: ${expected}`);
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    (await open(served, { unvalidated: "warn" })).dispose();
    expect(warn).toHaveBeenCalledExactlyOnceWith(expect.stringContaining(expected));
    const adapter = { vendor: "", architecture: "", device: "", description: "" };
    const device = { name: "node-dawn 0.6.2", runtime: "node", user_agent: "", adapter };
    served.document.validation.push({ device, kernels: { add: "pass", double: "pass" } });
    (await open(served, { unvalidated: "refuse" })).dispose();
    served.document.validation.push({ device, kernels: { double: "fail" } });
    expect(await fault(open(served, { unvalidated: "refuse" }))).toContain(
      "1 of 2 kernels, double, failed when they were validated on node: what the model gives is not to be trusted",
    );
  });
});

describe("a device", () => {
  it("is asked for where none is given", async () => {
    const served = await modelOf(ADD);
    vi.stubGlobal("navigator", {
      userAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0",
    });
    const found = await fault(load(served.url, { fetch: served.fetch, unvalidated: "ignore" }));
    expect(found).toBe(
      "no-webgpu: This Firefox offers no WebGPU: set dom.webgpu.enabled to true in about:config and reload",
    );
  });

  it("is refused where it lacks a feature or a limit", async () => {
    const poor = await countedGpu({ maxComputeInvocationsPerWorkgroup: 256 }, (gpu) =>
      changed(gpu, without("shader-f16")),
    );
    const needing = (requires: { features: string[]; limits: Record<string, number> }) => {
      return modelOf({ ...ADD, kernels: (ADD.kernels ?? []).map((kernel) => ({ ...kernel, requires })) });
    };
    const feature = await needing({ features: ["shader-f16"], limits: {} });
    expect(await fault(open(feature, { device: poor.gpu }))).toContain(
      "unsupported: kernel add: needs the feature shader-f16, which this device lacks",
    );
    const limit = await needing({ features: [], limits: { maxComputeInvocationsPerWorkgroup: 1024 } });
    expect(await fault(open(limit, { device: poor.gpu }))).toContain(
      "unsupported: kernel add: needs maxComputeInvocationsPerWorkgroup 1024, this device allows 256",
    );
    poor.gpu.device.destroy();
  });

  it("that is lost ends a call, and the model comes back on another", async () => {
    const [first, second] = [await countedGpu(), await countedGpu()];
    const model = await open(await modelOf(COUNTER), { device: first.gpu });
    const one = { x: Float32Array.of(1) };
    await model.run(one);
    const running = fault(model.run(one));
    first.gpu.device.destroy();
    expect(await running).toMatch(/^device-lost: device lost: .*: call model.reload\(\)$/);
    expect(await fault(model.run(one))).toMatch(/^device-lost/);
    await model.reload({ device: second.gpu });
    expect((await model.run(one)).y).toEqual(Float32Array.of(1));
    model.dispose();
    expect([first.live.size, second.live.size]).toEqual([0, 0]);
    second.gpu.device.destroy();
  });
});
